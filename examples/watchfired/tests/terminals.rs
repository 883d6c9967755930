//! Terminals that clients hand over.

mod support;

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use prost::Message as _;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::dup;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, Termios, Winsize, tcgetattr, tcsetattr, tcsetwinsize};
use support::{PATIENCE, Running, World, id, start, until, until_task};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use watchfire_api::ApiError;
use watchfire_api::attach::{ATTACH, decode_error, put, send_terminal};
use watchfire_api::work_proto::{AttachEnd, AttachRequest};
use watchfire_client::{Attached, Daemon};
use watchfire_core::terminal::{Size, Terminal as _};
use watchfire_term::Emulator;

/// A terminal, and the person at it.
struct Person {
    keyboard: fs::File,
    terminal: OwnedFd,
    seen: Arc<Mutex<Vec<u8>>>,
    size: Size,
}

impl Person {
    fn new(rows: u16, cols: u16) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).and_then(|()| unlockpt(&ours)).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let terminal = open(ptsname(&ours, Vec::new()).unwrap(), flags, Mode::empty()).unwrap();
        tcsetwinsize(&ours, Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let mut modes = tcgetattr(&terminal).unwrap();
        Termios::make_raw(&mut modes);
        tcsetattr(&terminal, OptionalActions::Now, &modes).unwrap();
        let (seen, mut screen) = (Arc::<Mutex<Vec<u8>>>::default(), fs::File::from(dup(&ours).unwrap()));
        let shown = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // An error once the terminal has gone.
            while let Ok(read @ 1..) = screen.read(&mut bytes) {
                shown.lock().unwrap().extend_from_slice(&bytes[..read]);
            }
        });
        Self { keyboard: ours.into(), terminal, seen, size: Size::new(cols, rows) }
    }

    fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    async fn sees(&self, text: &str) {
        let seen = || async {
            let mut shown = Emulator::new(self.size);
            shown.process(&self.seen.lock().unwrap());
            shown.snapshot().text().contains(text)
        };
        until(text, seen).await;
    }
}

async fn shop(world: &World, script: &str) -> (Running, Daemon, AttachRequest) {
    let running = world.start(&[]);
    let daemon = world.connect().await;
    let project_id = world.project(&daemon, "shop").await.project_id;
    world.task(&daemon, &project_id, "Works", script).await;
    daemon.agents().start_agent(start(&project_id, "task", 1)).await.unwrap();
    let session_id = running_session(&daemon, &project_id).await;
    (running, daemon, AttachRequest { project_id, session_id, ..AttachRequest::default() })
}

/// Waits until an agent runs, and returns its session.
async fn running_session(daemon: &Daemon, project: &str) -> String {
    let status = || async { daemon.agents().get_agent_status(id(project)).await.unwrap().into_inner() };
    until("an agent runs", || async { status().await.is_running }).await;
    status().await.session_id
}

async fn lend(world: &World, request: &AttachRequest, person: &Person) -> Attached {
    Attached::new(&world.home, request, person.terminal.as_fd()).await.unwrap()
}

/// Returns the last event.
async fn end(attached: &mut Attached) -> AttachEnd {
    let end = async {
        loop {
            if let Some(end) = attached.next().await.unwrap().end {
                return end;
            }
        }
    };
    tokio::time::timeout(PATIENCE, end).await.expect("it ends")
}

fn error(end: AttachEnd) -> ApiError {
    decode_error(end.status).into()
}

#[tokio::test]
async fn keys_arrive_in_order_and_the_end_is_told() {
    let world = World::new();
    let script = "line\nrun stty size < /dev/tty > size\nline\ncommit size\ndone\nexit 0";
    let (_running, daemon, request) = shop(&world, script).await;
    let mut person = Person::new(11, 33);
    let mut attached =
        lend(&world, &AttachRequest { typed: b"fir".to_vec(), ..request.clone() }, &person).await;
    assert!(attached.next().await.unwrap().size_is_ours);
    person.types("st");
    person.sees("first").await;
    // One that leaves takes nothing with it.
    let other = Person::new(24, 80);
    lend(&world, &AttachRequest { read_only: true, ..request.clone() }, &other).await.leave().await;
    person.types("\r");
    person.types("sec");
    person.sees("sec").await;
    // Keys that the client has read itself.
    attached.typed(b"ond\r");
    assert_eq!(
        end(&mut attached).await,
        AttachEnd { outcome: "completed".to_owned(), ..AttachEnd::default() }
    );
    until_task(&daemon, &request.project_id, 1, "merged").await;
    assert_eq!(fs::read_to_string(world.path("shop/size")).unwrap(), "11 33\n");

    // The end of one that has ended is told, too; a name that means nothing is an error.
    let mut attached = lend(&world, &request, &person).await;
    assert_eq!(end(&mut attached).await.outcome, "completed");
    let nobody = AttachRequest { session_id: "nobody".to_owned(), ..request };
    let mut attached = lend(&world, &nobody, &person).await;
    assert_eq!(error(end(&mut attached).await).code, "target_off");
}

#[tokio::test]
async fn the_daemon_gives_the_terminal_back_before_it_ends() {
    let world = World::new();
    let (running, daemon, request) = shop(&world, "line").await;
    let mut person = Person::new(24, 80);
    let mut attached = lend(&world, &request, &person).await;
    assert!(attached.next().await.unwrap().end.is_none());
    daemon.service().shutdown(()).await.unwrap();
    let told = error(end(&mut attached).await);
    assert!(told.is_shutdown(), "{told:?}");
    // What is typed now is the client's.
    person.types("x");
    let read = || async { rustix::io::ioctl_fionread(&person.terminal).unwrap() == 1 };
    until("it waits for the client", read).await;
    drop(running);
}

/// Whatever of a person's keys an agent has not read: the person can leave, and a client that has gone holds nothing open.
#[tokio::test]
async fn an_agent_that_reads_nothing_holds_nobody() {
    let world = World::new();
    let (_running, daemon, request) =
        shop(&world, "run stty raw -echo < /dev/tty; echo deaf > /dev/tty; sleep 100").await;
    let mut person = Person::new(24, 80);
    let mut attached = lend(&world, &request, &person).await;
    person.sees("deaf").await;
    person.types(&"x".repeat(300_000));
    let began = Instant::now();
    person.types("\x1d");
    let left = end(&mut attached).await;
    assert_eq!(left, AttachEnd { typed: left.typed.clone(), ..AttachEnd::default() });
    assert!(!left.typed.is_empty(), "the agent has them all");
    // Its agent is given a part of them for ten seconds at a time.
    assert!(began.elapsed().as_secs() < 9, "{began:?}");
    let watches = || async { daemon.service().get_status(()).await.unwrap().into_inner().watchers.len() };
    until("it has gone", || async { watches().await == 0 }).await;
    let attached = lend(&world, &request, &person).await;
    until("another is there", || async { watches().await == 1 }).await;
    drop(attached);
    until("it has gone", || async { watches().await == 0 }).await;
    daemon.agents().stop_agent(id(&request.project_id)).await.unwrap();
}

/// Bytes that are none of ours end a connection, and only that.
#[tokio::test]
async fn a_client_that_says_nonsense_is_refused() {
    let world = World::new();
    let (_running, daemon, request) = shop(&world, "line").await;
    let socket = watchfire_api::daemon_socket(&world.home);
    let person = Person::new(24, 80);
    let null = fs::File::open("/dev/null").unwrap();
    let pts = open("/dev/ptmx", OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let frame = |bytes: &[u8]| {
        let mut out = tokio_util::bytes::BytesMut::from(&ATTACH[..]);
        put(bytes, &mut out);
        out.to_vec()
    };
    for (bytes, terminal, words) in [
        (b"W".to_vec(), Some(person.terminal.as_fd()), "no terminal"),
        (b"WFTERMINAL".to_vec(), Some(person.terminal.as_fd()), "no terminal"),
        (frame(&request.encode_to_vec()), None, "no terminal"),
        (frame(&request.encode_to_vec()), Some(null.as_fd()), "no terminal"),
        // One that would block.
        (frame(&request.encode_to_vec()), Some(pts.as_fd()), "no terminal"),
        (b"WFATTACH\xff\xff\xff\xff".to_vec(), Some(person.terminal.as_fd()), "too long"),
        (b"WFATTACH\0\0\0\x10half".to_vec(), Some(person.terminal.as_fd()), "half a request"),
        (frame(b"\xff\xff"), Some(person.terminal.as_fd()), "none"),
        // Without a project.
        (frame(b""), Some(person.terminal.as_fd()), "project"),
    ] {
        let mut connection = watchfire_api::connect(&socket).await.unwrap();
        match terminal {
            Some(terminal) => drop(send_terminal(&connection, &bytes, terminal).await.unwrap()),
            None => connection.write_all(&bytes).await.unwrap(),
        }
        connection.shutdown().await.unwrap();
        let mut answer = Vec::new();
        // Reset, where there was more.
        let _ = tokio::time::timeout(PATIENCE, connection.read_to_end(&mut answer)).await.expect("it ends");
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains(words), "{bytes:?}: {answer:?}");
    }
    daemon.service().ping(()).await.unwrap();
    daemon.agents().stop_agent(id(&request.project_id)).await.unwrap();
}

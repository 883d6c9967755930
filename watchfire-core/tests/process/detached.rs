//! Sessions that outlive the program that started them.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};
use watchfire_core::files::FileLock;
use watchfire_core::model::SessionId;
use watchfire_core::process::helper::{Helper, RoleArgs};
use watchfire_core::process::{SpawnOptions, spawn};
use watchfire_core::session::{
    Detached, Exit, HostChannel, HostRequest, Hosted, SessionHost as _, conformance,
};
use watchfire_core::terminal::Size;

use crate::support::{DEADLINE, Flavour, Mark, confined, helper, read_all, read_until, recordings, until};

const CHANNELS: [&str; 2] = ["terminal", "pipes"];
/// Times that the program is killed while its agent prints.
const KILLS: usize = 20;

pub(crate) fn trials(flavour: Flavour) -> Vec<Trial> {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED no_other_user_gets_its_terminal: not root");
    }
    let own = vec![
        flavour.trial("an_agent_outlives_kills_and_no_byte_of_it_is_lost", outlives_kills),
        flavour.trial("what_it_did_while_nobody_was_there_is_found", ended_alone),
        flavour.trial("its_input_and_its_words_on_stderr_are_taken_over", input_and_stderr),
        flavour.trial("its_terminal_is_taken_over", terminal),
        flavour.trial("queries_that_were_answered_are_known", queries),
        flavour.trial("a_program_may_leave_it_in_order", leaves),
        flavour.trial("a_program_may_take_long_to_die", dies_slowly),
        flavour.trial("it_ends_at_its_limit_and_after_its_time_alone", ends_alone),
        flavour.trial("an_agent_that_nobody_came_for_has_no_end_of_its_own", nobody_comes),
        flavour.trial("an_agent_that_was_being_ended_has_no_end_of_its_own", cut_off),
        flavour.trial("an_agent_that_ends_with_the_machine_has_no_end_of_its_own", the_machine_ends),
        flavour.trial("without_its_guardian_its_end_is_unknown", guardian_killed),
        flavour.trial("what_its_host_holds_stays_held", held),
        flavour.trial("an_agent_that_prints_to_nobody_is_not_held_up", prints_to_nobody),
        flavour.trial("the_next_program_can_end_it", ended_by_the_next),
        flavour.trial("its_folder_may_have_a_path_of_any_length", far_below),
        flavour.trial("no_other_user_gets_its_terminal", refuses_others).with_ignored_flag(!is_root),
    ];
    let conforming = conformance::CASES.iter().map(|case| {
        flavour.trial(&format!("detached::{}", case.name()), async |_| {
            let folder = tempfile::tempdir().unwrap();
            case.run(&host(folder.path())).await.unwrap();
            assert_eq!(left_in(folder.path()), 0, "folders are left");
        })
    });
    conforming.chain(own).collect()
}

fn host(folder: &Path) -> Detached {
    Detached::new(helper(), folder.join("hosts")).unwrap()
}

fn left_in(folder: &Path) -> usize {
    std::fs::read_dir(folder.join("hosts")).unwrap().count()
}

fn id(mark: &Mark) -> SessionId {
    format!("host-{}", mark.name()).parse().unwrap()
}

/// A program that launches or adopts the session of `mark`, reads what it prints, and waits to be killed.
struct Program(Child);

impl Program {
    fn start(folder: &Path, mark: &Mark, channel: &str, script: Option<&str>) -> Self {
        let folder = folder.to_str().unwrap();
        let args = [folder, mark.name(), channel].into_iter().chain(script);
        Self::with(args)
    }

    /// Launches a session and then does something special. `lingers`: drops the session and stays alive. `alone`: gives its
    /// host a short orphan limit. `ends`: begins to end the session.
    fn special(folder: &Path, mark: &Mark, script: &str, how: &str) -> Self {
        Self::with([folder.to_str().unwrap(), mark.name(), "terminal", script, how].into_iter())
    }

    fn with<'a>(args: impl Iterator<Item = &'a str>) -> Self {
        let helper = helper();
        let command = helper.direct_command("test-detached", args);
        let options = SpawnOptions::default().with_stdout(Stdio::piped()).with_stderr(std::io::stderr());
        let mut child = spawn(&command, options).unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().expect("a line").unwrap(), "attached");
        Self(child)
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

watchfire_core::register_helper_role!("test-detached", attach);

fn attach(args: RoleArgs) -> i32 {
    let text = |n: usize| args.args().get(n).map(|arg| arg.to_str().unwrap().to_owned());
    let (folder, mark, channel) = (text(0).unwrap(), Mark::named(&text(1).unwrap()), text(2).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let helper = Helper::at(std::env::current_exe().unwrap()).unwrap();
        let mut host = Detached::new(helper, Path::new(&folder).join("hosts")).unwrap();
        if text(4).as_deref() == Some("alone") {
            host = host.with_orphan_limit(Duration::from_millis(100));
        }
        let hosted = match text(3) {
            Some(script) => launch(&host, &mark, &channel, &script).await,
            None => host.adopt(&id(&mark)).await.unwrap().expect("it was kept"),
        };
        if text(4).as_deref() == Some("lingers") {
            // Its connection ends while it lives on.
            drop((host, hosted));
            println!("attached");
            return std::future::pending().await;
        }
        if text(4).as_deref() == Some("ends") {
            // Not before its traps are set.
            while !Path::new(&folder).join("up").exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let ending = hosted.process.terminate(DEADLINE);
            assert!(tokio::time::timeout(Duration::from_millis(100), ending).await.is_err());
        }
        println!("attached");
        let mut offset = 0;
        while let Ok(output) = hosted.process.read_from(offset).await {
            offset = output.next_offset();
            if output.ended {
                break;
            }
        }
        std::future::pending().await
    })
}

async fn launch(host: &Detached, mark: &Mark, channel: &str, script: &str) -> Hosted {
    host.launch(request(mark, channel, script)).await.unwrap()
}

fn request(mark: &Mark, channel: &str, script: &str) -> HostRequest {
    let channel = match channel {
        "pipes" => HostChannel::Pipes,
        _ => HostChannel::Terminal(Size::new(80, 24)),
    };
    let recording = recordings().join(SessionId::random().as_str());
    HostRequest::new(id(mark), confined(mark.sh(script)), channel, recording)
}

async fn adopt(folder: &Path, mark: &Mark) -> Hosted {
    host(folder).adopt(&id(mark)).await.unwrap().expect("it was kept")
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("it hangs")
}

async fn outlives_kills(mark: Mark) {
    let script = "n=0; while [ $n -lt 3000 ]; do n=$((n+1)); echo line $n; [ $((n % 10)) = 0 ] && sleep 0.005; done; exit 7";
    for channel in CHANNELS {
        let folder = tempfile::tempdir().unwrap();
        Program::start(folder.path(), &mark, channel, Some(script)).kill();
        for _ in 1..KILLS {
            Program::start(folder.path(), &mark, channel, None).kill();
        }
        let hosted = adopt(folder.path(), &mark).await;
        let lines: Vec<String> =
            within(read_all(&hosted.process)).await.lines().map(|it| it.trim_end().to_owned()).collect();
        let expected: Vec<String> = (1..=3000).map(|n| format!("line {n}")).collect();
        assert_eq!(lines, expected, "{channel}");
        assert_eq!(within(hosted.process.wait()).await, Exit::Code(7));
        mark.assert_gone().await;
        assert_eq!(left_in(folder.path()), 0);
    }
}

async fn ended_alone(mark: Mark) {
    for channel in CHANNELS {
        let folder = tempfile::tempdir().unwrap();
        let go = folder.path().join("go");
        let script =
            format!("echo begin; until [ -e '{}' ]; do sleep 0.01; done; echo end; exit 3", go.display());
        Program::start(folder.path(), &mark, channel, Some(&script)).kill();
        std::fs::write(&go, "").unwrap();
        mark.assert_gone().await;
        within(async {
            while !host(folder.path()).list().await.unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        let hosted = adopt(folder.path(), &mark).await;
        assert_eq!(within(hosted.process.wait()).await, Exit::Code(3));
        assert_eq!(read_all(&hosted.process).await.replace('\r', ""), "begin\nend\n");
        assert_eq!(hosted.process.write(b"x").await.unwrap_err().code(), "no_input_channel");
        hosted.guard.ended();
        assert!(host(folder.path()).adopt(&id(&mark)).await.unwrap().is_none(), "it was taken over");
    }
}

async fn input_and_stderr(mark: Mark) {
    let folder = tempfile::tempdir().unwrap();
    let script =
        "echo first >&2; echo up; while read line; do echo said $line; echo heard $line >&2; done; echo over";
    Program::start(folder.path(), &mark, "pipes", Some(script)).kill();
    for word in ["one", "two"] {
        let hosted = adopt(folder.path(), &mark).await;
        hosted.process.write(format!("{word}\n").as_bytes()).await.unwrap();
        read_until(&hosted.process, &mut 0, &format!("said {word}")).await;
        let complaints = || hosted.process.complaints();
        until(|| complaints().ends_with(&format!("heard {word}\n")), complaints).await;
        assert!(complaints().starts_with("first\n"), "{}", complaints());
        hosted.process.detach().await;
    }
    let hosted = adopt(folder.path(), &mark).await;
    hosted.process.close_input().await;
    assert_eq!(within(hosted.process.wait()).await, Exit::Code(0));
    assert_eq!(read_all(&hosted.process).await, "up\nsaid one\nsaid two\nover\n");
}

async fn terminal(mark: Mark) {
    let folder = tempfile::tempdir().unwrap();
    let script = "trap 'stty size' WINCH; trap 'echo interrupted' INT; echo up; while :; do read line && echo said $line; done";
    Program::start(folder.path(), &mark, "terminal", Some(script)).kill();
    let hosted = adopt(folder.path(), &mark).await;
    hosted.process.write(b"hello\n").await.unwrap();
    read_until(&hosted.process, &mut 0, "said hello").await;
    hosted.process.resize(Size::new(100, 30)).await.unwrap();
    read_until(&hosted.process, &mut 0, "30 100").await;
    hosted.process.interrupt().await.unwrap();
    read_until(&hosted.process, &mut 0, "interrupted").await;
    within(hosted.process.terminate(Duration::ZERO)).await.unwrap();
}

async fn queries(mark: Mark) {
    let folder = tempfile::tempdir().unwrap();
    let hosted = launch(&host(folder.path()), &mark, "terminal", "echo up; sleep 1000").await;
    assert_eq!(hosted.answered, 0);
    hosted.process.answered(3).await;
    hosted.process.answered(2).await;
    hosted.process.detach().await;
    let hosted = adopt(folder.path(), &mark).await;
    assert_eq!(hosted.answered, 3);
    within(hosted.process.terminate(Duration::ZERO)).await.unwrap();
}

async fn leaves(mark: Mark) {
    for channel in CHANNELS {
        let folder = tempfile::tempdir().unwrap();
        let first = host(folder.path());
        let hosted = launch(&first, &mark, channel, "echo up; sleep 1000").await;
        read_until(&hosted.process, &mut 0, "up").await;
        assert_eq!(first.adopt(&id(&mark)).await.unwrap_err().code(), "already_exists", "it runs here");
        hosted.process.detach().await;
        assert_eq!(
            hosted.process.resize(Size::new(1, 1)).await.unwrap_err().code(),
            match channel {
                "pipes" => "not_supported",
                _ => "target_off",
            }
        );
        drop((hosted, first));
        let second = host(folder.path());
        let [entry] = &second.list().await.unwrap()[..] else { panic!("one runs") };
        let hosted = second.adopt(&entry.session).await.unwrap().unwrap();
        assert_eq!((&hosted.agent, &hosted.guardian), (&entry.agent, &entry.guardian));
        within(second.end(&entry.session)).await.unwrap();
    }
}

async fn dies_slowly(mark: Mark) {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::special(folder.path(), &mark, "echo up; sleep 1000", "lingers");
    // Longer than any process takes from its connection's end to its own on an idle machine.
    tokio::time::sleep(Duration::from_secs(1)).await;
    program.kill();
    let hosted = adopt(folder.path(), &mark).await;
    read_until(&hosted.process, &mut 0, "up").await;
    within(hosted.process.terminate(Duration::ZERO)).await.unwrap();
}

async fn ends_alone(mark: Mark) {
    let folder = tempfile::tempdir().unwrap();
    let limited = launch(&host(folder.path()), &mark, "terminal", "sleep 1000").await;
    limited.process.end_in(Some(Duration::from_millis(100))).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!mark.alive().is_empty(), "somebody is attached");
    limited.process.detach().await;
    mark.assert_gone().await;
    assert!(!within(limited.process.wait()).await.success());

    let alone = host(folder.path()).with_orphan_limit(Duration::from_millis(100));
    let hosted = launch(&alone, &mark, "pipes", "sleep 1000").await;
    hosted.process.detach().await;
    mark.assert_gone().await;
    assert!(!within(hosted.process.wait()).await.success());
}

/// The exit of an agent that was being ended when its program was killed says nothing about its work either: the next program may
/// not know that it was being ended.
async fn cut_off(mark: Mark) {
    let folder = tempfile::tempdir().unwrap();
    let up = folder.path().join("up");
    let script =
        format!("trap 'sleep 1; exit 3' HUP; trap '' TERM; touch '{}'; sleep 1000 & wait", up.display());
    Program::special(folder.path(), &mark, &script, "ends").kill();
    let hosted = adopt(folder.path(), &mark).await;
    assert_eq!(within(hosted.process.wait()).await, Exit::Unknown);
    mark.assert_gone().await;
    hosted.guard.ended();
}

/// At the end of the machine everyone is asked to end, and the agent does.
async fn the_machine_ends(mark: Mark) {
    let folder = tempfile::tempdir().unwrap();
    let script = "trap 'exit 3' TERM; echo up; sleep 1000 & wait";
    Program::start(folder.path(), &mark, "terminal", Some(script)).kill();
    let [entry] = &host(folder.path()).list().await.unwrap()[..] else { panic!("one runs") };
    for process in [entry.guardian.as_ref().unwrap(), &entry.agent] {
        kill_process(Pid::from_raw(process.pid.cast_signed()).unwrap(), Signal::TERM).unwrap();
    }
    mark.assert_gone().await;
    let hosted = adopt(folder.path(), &mark).await;
    assert_eq!(within(hosted.process.wait()).await, Exit::Unknown);
    hosted.guard.ended();
}

/// The exit of an agent that was ended because no program came for it says nothing about its work.
async fn nobody_comes(mark: Mark) {
    let folder = tempfile::tempdir().unwrap();
    Program::special(folder.path(), &mark, "trap 'exit 3' HUP; sleep 1000 & wait", "alone").kill();
    mark.assert_gone().await;
    let hosted = adopt(folder.path(), &mark).await;
    assert_eq!(within(hosted.process.wait()).await, Exit::Unknown);
    hosted.guard.ended();
}

async fn guardian_killed(mark: Mark) {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo up; (setsid sleep 1000 &) ; sleep 1000";
    Program::start(folder.path(), &mark, "terminal", Some(script)).kill();
    let [entry] = &host(folder.path()).list().await.unwrap()[..] else { panic!("one runs") };
    let guardian = Pid::from_raw(entry.guardian.as_ref().unwrap().pid.cast_signed()).unwrap();
    kill_process(guardian, Signal::KILL).unwrap();
    let hosted = adopt(folder.path(), &mark).await;
    assert_eq!(within(hosted.process.wait()).await, Exit::Unknown);
    mark.assert_gone().await;
    hosted.guard.ended();
}

async fn held(mark: Mark) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lock");
    let lock = FileLock::try_acquire(&path).unwrap().unwrap();
    let host = host(folder.path());
    let request = request(&mark, "terminal", "sleep 1000").with_held([lock.copy().unwrap()]);
    let hosted = host.launch(request).await.unwrap();
    // As the kernel does it when this process is killed: our descriptor is closed, and nothing unlocks it.
    std::mem::forget(lock);
    assert!(FileLock::try_acquire(&path).unwrap().is_none());
    within(hosted.process.terminate(Duration::ZERO)).await.unwrap();
    // Our own copy is still open.
    assert!(FileLock::try_acquire(&path).unwrap().is_none());
}

async fn prints_to_nobody(mark: Mark) {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    // More than the lead over an orchestrator that reads, and more than a pipe holds on stderr.
    let script = format!(
        "until [ -e '{}' ]; do sleep 0.01; done; head -c 9000000 /dev/zero; head -c 300000 /dev/zero >&2; echo end",
        go.display()
    );
    Program::start(folder.path(), &mark, "pipes", Some(&script)).kill();
    std::fs::write(&go, "").unwrap();
    mark.assert_gone().await;
    let hosted = adopt(folder.path(), &mark).await;
    assert_eq!(within(hosted.process.wait()).await, Exit::Code(0));
    assert_eq!(within(read_all(&hosted.process)).await.len(), 9_000_004);
    hosted.guard.ended();
}

async fn ended_by_the_next(mark: Mark) {
    let folder = tempfile::tempdir().unwrap();
    let script = "trap '' HUP TERM; (setsid sleep 1000 &); sleep 1000";
    for channel in CHANNELS {
        Program::start(folder.path(), &mark, channel, Some(script)).kill();
        within(host(folder.path()).end(&id(&mark))).await.unwrap();
        assert_eq!(mark.alive(), [0; 0]);
        assert_eq!(left_in(folder.path()), 0);
    }
}

/// The path of a socket has at most 108 bytes in the kernel.
async fn far_below(mark: Mark) {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("a".repeat(200)).join("b".repeat(200));
    std::fs::create_dir_all(&folder).unwrap();
    Program::start(&folder, &mark, "pipes", Some("read line; echo said $line")).kill();
    let hosted = adopt(&folder, &mark).await;
    hosted.process.write(b"hello\n").await.unwrap();
    assert_eq!(read_all(&hosted.process).await, "said hello\n");
    assert_eq!(within(hosted.process.wait()).await, Exit::Code(0));
}

/// Every folder on the way is opened to all, as by mistake: the peer decides, not the mode.
async fn refuses_others(mark: Mark) {
    use std::os::unix::fs::PermissionsExt as _;
    let temp = tempfile::tempdir().unwrap();
    let mode = || std::fs::Permissions::from_mode(0o777);
    let open = |path: &Path| std::fs::set_permissions(path, mode()).unwrap();
    Program::start(temp.path(), &mark, "terminal", Some("echo up; sleep 1000")).kill();
    let socket = temp.path().join("hosts").join(id(&mark).as_str()).join("socket");
    socket.ancestors().take_while(|path| path.starts_with(temp.path())).for_each(open);
    let asked = spawn(
        &helper().direct_command("test-stranger", [socket.to_str().unwrap()]),
        SpawnOptions::default().with_stdout(Stdio::piped()).with_stderr(std::io::stderr()),
    );
    let said = asked.unwrap().wait_with_output().unwrap();
    assert_eq!(String::from_utf8(said.stdout).unwrap(), "0 bytes\n");
    let hosted = adopt(temp.path(), &mark).await;
    read_until(&hosted.process, &mut 0, "up").await;
    within(hosted.process.terminate(Duration::ZERO)).await.unwrap();
}

watchfire_core::register_helper_role!("test-stranger", knock);

/// Connects as another user, and counts the bytes that arrive before the connection is closed.
fn knock(args: RoleArgs) -> i32 {
    let nobody = rustix::process::Uid::from_raw(65534);
    rustix::thread::set_thread_uid(nobody).unwrap();
    let mut stream = std::os::unix::net::UnixStream::connect(&args.args()[0]).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut given = Vec::new();
    std::io::Read::read_to_end(&mut stream, &mut given).unwrap();
    println!("{} bytes", given.len());
    0
}

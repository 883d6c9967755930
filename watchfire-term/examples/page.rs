//! Runs a program on a pseudo-terminal and shows it live in a browser, by the binary form of its screens:
//! `cargo run -p watchfire-term --features wire --example page -- 'top -d 1'`.
//!
//! It listens on the loopback address only, and shows: nothing can be typed.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use watchfire_term::{Emulator, Size, Snapshot, Terminal, wire};

/// The terminal, and whether its program has ended.
type Shared = Arc<Mutex<(Emulator, bool)>>;

fn main() -> io::Result<()> {
    let program = std::env::args().nth(1).unwrap_or_else(|| "top -d 1".into());
    let shared: Shared = Arc::new(Mutex::new((Emulator::new(Size::new(100, 30)), false)));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("http://{}/", listener.local_addr()?);
    let readers = Arc::clone(&shared);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let shared = Arc::clone(&readers);
            thread::spawn(move || answer(&stream, &shared));
        }
    });

    // util-linux's `script` owns the pseudo-terminal, so that this example needs nothing else.
    let mut child = Command::new("script")
        .args(["-qfec", &format!("stty cols 100 rows 30; {program}"), "/dev/null"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut output = child.stdout.take().ok_or_else(|| io::Error::other("no output to read"))?;
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = output.read(&mut buffer) {
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.0.process(buffer.get(..count).unwrap_or(&[]));
    }
    child.wait()?;
    shared.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
    // Time for pages to show the last screen.
    thread::sleep(Duration::from_secs(1));
    Ok(())
}

/// Answers one request: the page, its modules, or the stream of screens.
fn answer(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    let mut host = false;
    for line in lines.by_ref() {
        let line = line?.to_ascii_lowercase();
        // A page of somebody else's could reach us by a name of its own that it lets resolve to this address.
        host |= line.strip_prefix("host:").is_some_and(|host| host.trim().starts_with("127.0.0.1:"));
        if line.is_empty() {
            break;
        }
    }
    let (kind, body) = match request.split(' ').nth(1).filter(|_| host) {
        Some("/") => ("text/html", include_str!("page.html")),
        Some("/draw.js") => ("text/javascript", include_str!("../web/draw.js")),
        Some("/wire.js") => ("text/javascript", include_str!("../web/wire.js")),
        Some("/screen") => return follow(stream, shared),
        _ => return write!(&mut &*stream, "HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n"),
    };
    write!(
        &mut &*stream,
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Sends a whole screen, then a change for each new picture, at most sixty times a second.
fn follow(mut stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nConnection: close\r\n\r\n")?;
    let mut last: Option<Arc<Snapshot>> = None;
    loop {
        let (now, ended) = {
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            (shared.0.snapshot(), shared.1)
        };
        let message = match &last {
            Some(last) if last.generation == now.generation => Vec::new(),
            Some(last) => wire::encode_change(last, &now),
            None => wire::encode(&now),
        };
        if !message.is_empty() {
            stream.write_all(&(message.len() as u32).to_le_bytes())?;
            stream.write_all(&message)?;
            last = Some(now);
        } else if ended {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(16));
    }
}

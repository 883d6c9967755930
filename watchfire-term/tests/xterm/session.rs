//! A running xterm, on a display of its own that nobody sees: bytes go to its terminal, and its answers come back.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Long, for a machine with much else to do.
const PATIENCE: Duration = Duration::from_secs(30);

/// The programs that it takes; the one that is missing, if one is.
pub(crate) fn missing() -> Option<&'static str> {
    ["xterm", "Xvfb", "mkfifo", "stty"].into_iter().find(|name| !is_program(name))
}

fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// An X server without a screen.
pub(crate) struct Display {
    server: Child,
    name: String,
}

impl Display {
    pub(crate) fn start() -> std::io::Result<Self> {
        let mut server = Command::new("Xvfb")
            .args(["-displayfd", "1", "-noreset", "-nolisten", "tcp", "-screen", "0", "1600x1200x24"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut number = String::new();
        if let Some(out) = server.stdout.take() {
            // The number comes when the server is ready, or the end of file when it failed.
            BufReader::new(out).read_line(&mut number)?;
        }
        if number.trim().is_empty() {
            return Err(std::io::Error::other("Xvfb gave no display"));
        }
        Ok(Self { server, name: format!(":{}", number.trim()) })
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        end(&mut self.server);
    }
}

/// One xterm, which lives as long as this.
pub(crate) struct Xterm {
    process: Child,
    input: File,
    output: Receiver<Vec<u8>>,
    folder: PathBuf,
}

impl Xterm {
    pub(crate) fn start(display: &Display, folder: &Path, cols: u16, rows: u16) -> std::io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let (input, output) = (folder.join("in"), folder.join("out"));
        if !Command::new("mkfifo").arg(&input).arg(&output).status()?.success() {
            return Err(std::io::Error::other("mkfifo failed"));
        }
        // Opened for both ways, so that neither waits for the other end.
        let open = |path: &Path| OpenOptions::new().read(true).write(true).open(path);
        let (to, mut from) = (open(&input)?, open(&output)?);
        let script = r#"stty raw -echo; cat "$0" & exec cat >"$1""#;
        let process = Command::new("xterm")
            .env("DISPLAY", &display.name)
            .env("LC_ALL", "C.UTF-8")
            .env_remove("XENVIRONMENT")
            .env("XAPPLRESDIR", folder)
            .env("HOME", folder)
            .args(["-u8", "-geometry", &format!("{cols}x{rows}+0+0"), "-fn", "fixed", "+sb"])
            .args(RESOURCES.iter().flat_map(|resource| ["-xrm", resource]))
            .args(["-e", "sh", "-c", script])
            .args([&input, &output])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let (send, receive) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(len @ 1..) = from.read(&mut buffer) {
                if send.send(buffer[..len].to_vec()).is_err() {
                    break;
                }
            }
        });
        Ok(Self { process, input: to, output: receive, folder: folder.to_owned() })
    }

    /// Sends `bytes`; what came back up to `end`, which is cut off.
    pub(crate) fn ask(&mut self, bytes: &[u8], end: &[u8]) -> std::io::Result<Vec<u8>> {
        let (mut written, mut answer, until) = (0, Vec::new(), Instant::now() + PATIENCE);
        loop {
            // Little at a time, so that neither side fills up while the other does not read.
            if let Some(rest @ [_, ..]) = bytes.get(written..) {
                let piece = &rest[..rest.len().min(1024)];
                self.input.write_all(piece)?;
                written += piece.len();
            }
            let wait = if written < bytes.len() { Duration::ZERO } else { until - Instant::now() };
            match self.output.recv_timeout(wait) {
                Ok(piece) => answer.extend(piece),
                Err(RecvTimeoutError::Timeout) if written < bytes.len() => {}
                Err(_) => {
                    let text = answer.escape_ascii();
                    return Err(std::io::Error::other(format!("xterm did not answer, only {text}")));
                }
            }
            if answer.ends_with(end) {
                answer.truncate(answer.len() - end.len());
                return Ok(answer);
            }
        }
    }
}

impl Drop for Xterm {
    fn drop(&mut self) {
        end(&mut self.process);
        // The reader wakes up and finds nobody who listens.
        if let Ok(mut output) = OpenOptions::new().write(true).open(self.folder.join("out")) {
            let _ = output.write_all(b"\n");
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn end(process: &mut Child) {
    let _ = process.kill();
    let _ = process.wait();
}

/// Everything is allowed, and nothing depends on the machine.
const RESOURCES: &[&str] = &[
    "XTerm*VT100.allowWindowOps: true",
    "XTerm*VT100.allowColorOps: true",
    "XTerm*VT100.allowFontOps: true",
    "XTerm*VT100.allowMouseOps: true",
    "XTerm*VT100.allowTcapOps: true",
    "XTerm*VT100.allowTitleOps: true",
    "XTerm*VT100.disallowedWindowOps: 20,21,SetXprop",
    "XTerm*VT100.decTerminalID: 420",
    "XTerm*VT100.checksumExtension: 0",
    "XTerm*VT100.saveLines: 100",
    "XTerm*VT100.cursorBlink: false",
    "XTerm*VT100.foreground: rgb:e5/e5/e5",
    "XTerm*VT100.background: rgb:00/00/00",
    "XTerm*VT100.utf8Title: true",
];

//! Their side: a pane of tmux, and clients in its control mode.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use watchfire_benches::proc::cpu;
use watchfire_benches::tmux::Tmux;

use crate::stamps::{Figures, PRINT, Stamps};

/// A client in control mode, with its input and its lines.
fn client(tmux: &Tmux, session: &str) -> Option<(Child, ChildStdin, BufReader<ChildStdout>)> {
    let mut command = tmux.command(&["-C", "attach", "-t", session]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    let (input, output) = (child.stdin.take()?, child.stdout.take()?);
    Some((child, input, BufReader::new(output)))
}

/// Returns the text of a line of output.
fn output(line: &str) -> Option<&str> {
    line.strip_prefix("%output ")?.split_once(' ').map(|(_, text)| text)
}

pub(crate) fn printed(lines: usize, pause: u64, readers: usize) -> Option<Figures> {
    let tmux = Tmux::start()?;
    let (program, temp) = (std::env::current_exe().ok()?, tempfile::tempdir().ok()?);
    let folder = temp.path();
    let script = format!(
        "cd '{}'; until [ -e go ]; do sleep 0.05; done; '{}' {PRINT} {lines} {pause}; touch over; exec sleep 1000",
        folder.display(),
        program.display()
    );
    tmux.run(&["new-session", "-d", "-s", "agent", "-x", "120", "-y", "40", &script])?;
    let server = tmux.pid()?;
    let (mut clients, mut reading) = (Vec::<(Child, ChildStdin)>::new(), Vec::<JoinHandle<_>>::new());
    for _ in 0..readers {
        let (child, input, mut from) = client(&tmux, "agent")?;
        clients.push((child, input));
        reading.push(std::thread::spawn(move || {
            let (mut stamps, mut line) = (Stamps::default(), Vec::new());
            while stamps.delays.len() < lines && from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0)
            {
                if let Some(text) = output(&String::from_utf8_lossy(&line)) {
                    stamps.read(text);
                }
                line.clear();
            }
            stamps.delays
        }));
    }
    std::thread::sleep(Duration::from_millis(500));
    let pids: Vec<u32> = clients.iter().map(|(child, _)| child.id()).chain([server]).collect();
    let used = || pids.iter().filter_map(|pid| cpu(*pid)).sum::<f64>();
    let before = used();
    std::fs::write(folder.join("go"), "").ok()?;
    let deadline = Instant::now() + Duration::from_secs(120);
    while !folder.join("over").exists() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(500));
    let used = used() - before;
    // Readers that wait for lines that tmux left out end with their clients, for which the server would wait.
    clients.iter_mut().for_each(|(child, _)| drop(child.kill()));
    let mut figures = Figures { cpu: used, ..Figures::default() };
    for read in reading {
        let delays = read.join().ok()?;
        figures.missing += lines - delays.len();
        figures.delays.extend(delays);
    }
    for (mut child, _) in clients {
        let _ = child.wait();
    }
    Some(figures)
}

pub(crate) fn echoed(times: usize) -> Option<Vec<f64>> {
    let tmux = Tmux::start()?;
    tmux.run(&["new-session", "-d", "-s", "agent", "-x", "120", "-y", "40", "stty -echo -icanon; exec cat"])?;
    let (mut child, mut input, mut from) = client(&tmux, "agent")?;
    std::thread::sleep(Duration::from_millis(500));
    let (mut delays, mut line) = (Vec::new(), Vec::new());
    for n in 0..times {
        let token = format!("token-{n}-end");
        std::thread::sleep(Duration::from_millis(5));
        let start = Instant::now();
        input
            .write_all(format!("send-keys -t agent -l {token}\nsend-keys -t agent Enter\n").as_bytes())
            .ok()?;
        loop {
            line.clear();
            if from.read_until(b'\n', &mut line).ok()? == 0 {
                return None;
            }
            if output(&String::from_utf8_lossy(&line)).is_some_and(|text| text.contains(&token)) {
                break;
            }
        }
        delays.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let _ = child.kill();
    let _ = child.wait();
    Some(delays)
}

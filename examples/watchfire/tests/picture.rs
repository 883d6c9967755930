//! The moving picture of the README: the terminal interface at work. `WATCHFIRE_BLESS=1 cargo test -p watchfire --test picture` records it
//! anew, as `docs/tui.svg` and `docs/tui.cast`; without that, the story is only played.

mod support;
mod svg;

use std::fs;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::termios::{Winsize, tcsetwinsize};
use support::on_terminal::OnTerminal;
use support::{PATIENCE, World, until};
use watchfire_core::terminal::{Size, Snapshot, Terminal as _};
use watchfire_term::Emulator;
use watchfire_term::asciicast::{Header, Recorder};

const SIZE: (u16, u16) = (100, 26);
/// The longest time for which nothing moves.
const STILL: Duration = Duration::from_millis(1_500);

/// Returns a script for an agent that works slowly enough to watch.
fn script(file: &str, ask: Option<&str>) -> String {
    let pace = if is_recorded() { 1.0 } else { 0.1 };
    let (reading, writing) = (0.8 * pace, 1.2 * pace);
    let ask = ask.map(|text| format!("question port {text}\nanswer port\n")).unwrap_or_default();
    format!(
        "say \"I read what is there.\"\nwork {reading} \"Reading\"\n{ask}say \"I write {file}.\"\nwork {writing} \"Writing\"\n\
         write {file} \"fn main() {{\\n    println!(\\\"hello\\\");\\n}}\\n\"\nwork {reading} \"Testing\"\ncommit \"Add {file}\"\nsay \"It is done.\"\ndone"
    )
}

fn is_recorded() -> bool {
    std::env::var_os("WATCHFIRE_BLESS").is_some()
}

#[test]
fn the_picture_of_the_readme() {
    let world = World::new();
    let home = world.empty("watchfire-home");
    let settings =
        "version: 1\ndefaults: {default_sandbox: none, default_agent: scripted, auto_start_tasks: false}\n";
    fs::write(home.join("settings.yaml"), settings).unwrap();
    let root = world.repo("shop");
    world.run(&root, ["init", "--yes", "--no-auto-start", "--max-parallel", "2"]).good();
    world.run(&root, ["settings", "color", "#f2762e"]).good();
    world.task(&root, "Sign-in page", &script("src/sign_in.rs", None));
    world.task(
        &root,
        "Search of the catalogue",
        &script("src/search.rs", Some("Which port does it listen on?")),
    );
    world.task(&root, "Export orders as CSV", &script("src/export.rs", None));

    let shown = OnTerminal::start(&world, &root, &["tui", "--no-chat"], &[]);
    let (cols, rows) = SIZE;
    tcsetwinsize(&shown.terminal, Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 })
        .unwrap();
    let pid = rustix::process::Pid::from_child(&shown.child);
    rustix::process::kill_process(pid, rustix::process::Signal::WINCH).unwrap();
    let recording = Recording::begin(&shown);
    let mut story = Story { shown, recording };
    story.wait("Ready (3)");
    story.pause(800);
    story.keys("S");
    story.wait("I read what is there");
    story.pause(900);
    story.keys("j");
    story.wait("asks (A answers): Which port");
    story.pause(900);
    story.keys("A");
    story.typed("8080");
    story.pause(400);
    story.keys("\r");
    story.wait("Done (3)");
    story.pause(900);
    story.keys("GD");
    story.wait("added src/");
    story.pause(1_800);
    story.keys("i");
    story.wait("Completed");
    story.pause(1_500);
    story.keys("q");
    let Story { shown, recording } = story;
    let events = recording.end();
    // The story is over when all three are merged.
    until("all are merged", || world.states(&root).iter().all(|(_, state)| state == "merged"));
    let mut keys = shown.keys.try_clone().unwrap();
    keys.write_all(b"\x11").unwrap();
    assert_eq!(shown.end().1, Some(0));
    let stop = world.command(&root, ["daemon", "stop", "--agents"]).output();
    drop(stop);
    if is_recorded() {
        save(&events);
    }
}

struct Story {
    shown: OnTerminal,
    recording: Recording,
}

impl Story {
    #[track_caller]
    fn wait(&self, words: &str) {
        let screen = || {
            let mut terminal = Emulator::new(Size::new(SIZE.0, SIZE.1));
            terminal.process(self.shown.painted().as_bytes());
            terminal.snapshot().text()
        };
        let deadline = Instant::now() + PATIENCE;
        while !screen().contains(words) {
            assert!(Instant::now() < deadline, "in vain: {words}; the screen:\n{}", screen());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn keys(&mut self, keys: &str) {
        self.shown.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn typed(&mut self, text: &str) {
        for c in text.chars() {
            self.keys(&c.to_string());
            self.pause(120);
        }
    }

    /// Lets the person look. Only a recording takes the time.
    fn pause(&self, millis: u64) {
        if is_recorded() {
            std::thread::sleep(Duration::from_millis(millis));
        }
    }
}

/// What was painted, and when.
type Events = Vec<(Duration, Vec<u8>)>;

/// A recording that goes on.
struct Recording {
    events: Arc<Mutex<Events>>,
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Recording {
    fn begin(shown: &OnTerminal) -> Self {
        let (painted, events) = (shown.tap(), Arc::new(Mutex::new(Vec::new())));
        let stop = Arc::new(AtomicBool::new(false));
        let (sink, stopped, began) = (Arc::clone(&events), Arc::clone(&stop), Instant::now());
        let thread = std::thread::spawn(move || {
            let mut known = 0;
            while !stopped.load(Ordering::SeqCst) {
                let new = painted.lock().unwrap()[known..].to_vec();
                known += new.len();
                if !new.is_empty() {
                    sink.lock().unwrap().push((began.elapsed(), new));
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        Self { events, stop, thread }
    }

    /// Returns the events, with no longer pauses than anybody wants to watch.
    fn end(self) -> Events {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().unwrap();
        let events = std::mem::take(&mut *self.events.lock().unwrap());
        let (mut cut, mut before) = (Duration::ZERO, Duration::ZERO);
        let shortened = events.into_iter().map(|(at, bytes)| {
            cut += at.saturating_sub(before).saturating_sub(STILL);
            before = at;
            (at - cut, bytes)
        });
        shortened.collect()
    }
}

fn save(events: &[(Duration, Vec<u8>)]) {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut terminal = Emulator::new(Size::new(SIZE.0, SIZE.1));
    let mut pictures: Vec<(Duration, Arc<Snapshot>)> = Vec::new();
    for (at, bytes) in events {
        terminal.process(bytes);
        let snapshot = terminal.snapshot();
        match pictures.last_mut() {
            // More than five pictures in a second are only large.
            Some((before, last)) if at.saturating_sub(*before) < Duration::from_millis(200) => {
                *last = snapshot
            }
            Some((_, last)) if last.lines == snapshot.lines => {}
            _ => pictures.push((*at, snapshot)),
        }
    }
    let first = pictures[0].0;
    pictures.iter_mut().for_each(|(at, _)| *at -= first);
    let end = pictures.last().unwrap().0 + Duration::from_secs(3);
    fs::write(docs.join("tui.svg"), svg::moving(&pictures, end)).unwrap();
    let mut recorder = Recorder::new(Vec::new(), &Header::new(Size::new(SIZE.0, SIZE.1))).unwrap();
    for (at, bytes) in events {
        recorder.output(at.saturating_sub(first), bytes).unwrap();
    }
    fs::write(docs.join("tui.cast"), recorder.finish().unwrap()).unwrap();
}

//! `attach` shows what our emulator shows when it is fed directly: cell by cell, at three sizes, at its end and on the way.

#[path = "../../watchfire-tui/tests/seen/mod.rs"]
mod seen;
mod support;

use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::termios::{Winsize, tcsetwinsize};
use support::on_terminal::OnTerminal;
use support::{World, until};
use watchfire_core::terminal::{LineSize, Size, Snapshot, Terminal as _};
use watchfire_term::Emulator;

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];
const VIM: &[u8] = include_bytes!("../../watchfire-tui/tests/streams/vim.raw");
const HTOP: &[u8] = include_bytes!("../../watchfire-tui/tests/streams/htop.raw");

struct Attached {
    world: World,
    root: PathBuf,
}

impl Attached {
    fn new() -> Self {
        let world = World::new();
        let home = world.empty("watchfire-home");
        let agent = world.path("paint");
        let settings = format!(
            "version: 1\ndefaults:\n  default_sandbox: none\n  auto_start_tasks: false\n\
             agents:\n  paint:\n    path: '{}'\n    prompt_mode: none\n",
            agent.display()
        );
        fs::write(home.join("settings.yaml"), settings).unwrap();
        fs::write(&agent, "").unwrap();
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
        let root = world.project("shop", "max_parallel: 100\n");
        Self { world, root }
    }

    /// Attaches a terminal of this size to an agent that prints by `print`, a command of shell, once it has the size.
    fn attach(&self, task: usize, (cols, rows): (u16, u16), print: &str) -> OnTerminal {
        let fits = format!("[ \"$(stty size)\" = '{rows} {cols}' ]");
        // Answers to what the stream asks must not be echoed into it.
        let script = format!(
            "#!/bin/sh\nstty raw -echo\nuntil {fits}; do sleep 0.01; done\n{print}\nexec sleep 1000\n"
        );
        fs::write(self.world.path("paint"), script).unwrap();
        let add = ["task", "add", "--title", "Paint", "--prompt", "Paint.", "--agent", "paint", "--ready"];
        self.world.run(&self.root, add).good();
        self.world.run(&self.root, ["agent", "start", &task.to_string()]).good();
        until("it runs", || {
            let status = self.world.run(&self.root, ["agent", "status", "--json"]).good().json();
            let agents = status["agents"].as_array().unwrap().clone();
            agents.iter().any(|agent| agent["task"] == task && agent["running"] == true)
        });
        let terminal = OnTerminal::start(&self.world, &self.root, &["attach", &task.to_string()], &[]);
        let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal.terminal, size).unwrap();
        terminal
    }

    /// Compares the end of a stream at a size.
    fn compare(&self, task: usize, name: &str, bytes: &[u8], size: (u16, u16)) {
        let file = self.world.path("stream");
        fs::write(&file, bytes).unwrap();
        let mut terminal = self.attach(task, size, &format!("cat '{}'", file.display()));
        let mut agent = Emulator::new(Size::new(size.0, size.1));
        agent.process(bytes);
        let want = agent.snapshot();
        let (mut person, tap, mut at) = (Emulator::new(want.size), terminal.tap(), 0);
        let mut last = None;
        let same = support::within(|| {
            let painted = tap.lock().unwrap()[at..].to_vec();
            at += painted.len();
            person.process(&painted);
            last = difference(&want, &person.snapshot());
            last.is_none()
        });
        assert!(
            same,
            "{name} at {size:?}: {last:?} in\n{}\nand not\n{}",
            person.snapshot().text(),
            want.text()
        );
        std::io::Write::write_all(&mut terminal.keys, b"\x1d").unwrap();
        assert_eq!(terminal.end().1, Some(0));
        self.world.run(&self.root, ["agent", "stop"]).good();
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.world.command(self.world.folder.path(), ["daemon", "stop", "--agents"]).output();
    }
}

/// Returns what a person sees otherwise, if anything.
fn difference(want: &Snapshot, got: &Snapshot) -> Option<String> {
    let width = want.size.cols();
    for line in 0..want.size.rows() {
        if want.lines[usize::from(line)].size() != LineSize::Single {
            continue;
        }
        let (wanted, seen) = (seen::row(want, line, 0, width), seen::row(got, line, 0, width));
        if let Some(col) = (0..wanted.len()).find(|col| wanted[*col] != seen[*col]) {
            let (wanted, seen) = (&wanted[col], &seen[col]);
            return Some(format!("row {line}, column {col}: {seen:?} and not {wanted:?}"));
        }
    }
    let cursor =
        |screen: &Snapshot| (!screen.cursor.hidden).then_some((screen.cursor.row, screen.cursor.col));
    (cursor(want) != cursor(got))
        .then(|| format!("the cursor is at {:?} and not at {:?}", cursor(got), cursor(want)))
}

/// Returns what is seen as a number.
fn look(screen: &Snapshot) -> u64 {
    let mut hasher = DefaultHasher::new();
    for line in 0..screen.size.rows() {
        for cell in seen::row(screen, line, 0, screen.size.cols()) {
            format!("{cell:?}").hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Returns a recording of each agent, or all with `WATCHFIRE_LONG`.
fn recordings() -> Option<Vec<PathBuf>> {
    let root = std::env::var_os("WATCHFIRE_FIXTURES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures"),
        PathBuf::from,
    );
    let folder = fs::read_dir(root.join("recordings")).ok()?;
    let mut files: Vec<_> = folder
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "raw"))
        .collect();
    files.sort();
    if std::env::var_os("WATCHFIRE_LONG").is_none() {
        files.dedup_by_key(|path| {
            path.file_name().unwrap().to_string_lossy().split('-').next().unwrap().to_owned()
        });
    }
    Some(files)
}

#[test]
fn vim_and_htop_are_seen_as_they_paint() {
    let attached = Attached::new();
    let mut task = 0;
    for (name, bytes) in [("vim", VIM), ("htop", HTOP)] {
        for size in SIZES {
            task += 1;
            attached.compare(task, name, bytes, size);
        }
    }
}

#[test]
fn agents_are_seen_as_they_paint() {
    let Some(files) = recordings() else { return println!("SKIPPED: no recordings of agents") };
    let attached = Attached::new();
    let all = files.iter().flat_map(|file| SIZES.map(|size| (file, size)));
    for (task, (file, size)) in all.enumerate() {
        attached.compare(task + 1, &file.display().to_string(), &fs::read(file).unwrap(), size);
    }
}

/// Each picture on the way is one that the agent's own screen has shown, in their order.
#[test]
fn what_is_seen_on_the_way_was_on_the_screen() {
    let attached = Attached::new();
    let wanted = if std::env::var_os("WATCHFIRE_LONG").is_some() { 1_000 } else { 100 };
    let file = attached.world.path("stream");
    // Small: its looks are taken after each byte.
    let size = (40, 12);
    let mut stream = Vec::new();
    for part in VIM.chunks(100).cycle().take(wanted * 2) {
        stream.extend_from_slice(part);
    }
    fs::write(&file, &stream).unwrap();
    let mut agent = Emulator::new(Size::new(size.0, size.1));
    // The places in the stream at which a picture is on the screen, by its look.
    let mut places: HashMap<u64, Vec<usize>> = HashMap::new();
    places.entry(look(&agent.snapshot())).or_default().push(0);
    for (at, byte) in stream.iter().enumerate() {
        agent.process(&[*byte]);
        places.entry(look(&agent.snapshot())).or_default().push(at + 1);
    }
    let pieces = stream.len().div_ceil(97);
    let print = format!(
        "at=0; while [ $at -lt {pieces} ]; do dd if='{}' bs=97 skip=$at count=1 2>/dev/null; at=$((at+1)); sleep 0.01; done",
        file.display()
    );
    let mut terminal = attached.attach(1, size, &print);
    let (mut person, tap, mut at) = (Emulator::new(Size::new(size.0, size.1)), terminal.tap(), 0);
    let (mut samples, mut reached, mut began) = (0, 0, false);
    // As slowly as the machine may be, one follows the other.
    while samples < wanted && reached < stream.len() {
        let before = samples;
        until("a further picture", || {
            let painted = tap.lock().unwrap()[at..].to_vec();
            const END: &[u8] = b"\x1b[?2026l";
            let mut rest = &painted[..];
            while let Some(end) = rest.windows(END.len()).position(|bytes| bytes == END) {
                let (picture, after) = rest.split_at(end + END.len());
                (rest, at) = (after, at + picture.len());
                person.process(picture);
                let shown = person.snapshot();
                let look = look(&shown);
                began |= places.contains_key(&look) && !shown.text().trim().is_empty();
                if !began {
                    continue;
                }
                let found =
                    places.get(&look).and_then(|places| places.iter().find(|place| **place >= reached));
                reached = *found
                    .unwrap_or_else(|| panic!("never on the screen after byte {reached}:\n{}", shown.text()));
                samples += 1;
            }
            samples > before || reached == stream.len()
        });
    }
    println!("{samples} pictures");
    assert!(samples >= wanted / 2, "{samples}");
    std::io::Write::write_all(&mut terminal.keys, b"\x1d").unwrap();
    assert_eq!(terminal.end().1, Some(0));
}

/// What has left the screen is shown on request, in its colours, and the screen again after that.
#[test]
fn what_has_left_the_screen_is_scrolled_to() {
    let attached = Attached::new();
    let go = attached.world.path("go");
    let print = format!(
        "at=1; while [ $at -le 200 ]; do printf '\\033[31mline %d\\033[m\\r\\n' $at; at=$((at+1)); done\n\
         until [ -e '{}' ]; do sleep 0.01; done\nprintf 'and on\\r\\n'\nhead -c 1 | od -An -tx1",
        go.display()
    );
    let mut terminal = attached.attach(1, (80, 24), &print);
    let (mut person, tap, mut at) = (Emulator::new(Size::new(80, 24)), terminal.tap(), 0);
    let mut shows = |what: &str, is: &dyn Fn(&[String]) -> bool| {
        let seen = support::within(|| {
            let painted = tap.lock().unwrap()[at..].to_vec();
            at += painted.len();
            person.process(&painted);
            let text = person.snapshot().text();
            is(&text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>())
        });
        assert!(seen, "{what}:\n{}", person.snapshot().text());
        person.snapshot()
    };
    let mut press = |keys: &[u8]| std::io::Write::write_all(&mut terminal.keys, keys).unwrap();
    let begins = |line: &'static str| move |rows: &[String]| rows.first().is_some_and(|row| row == line);
    shows("the end", &|rows| rows.iter().any(|row| row == "line 200"));
    press(b"\x1b[5~");
    let up = shows("a page up", &begins("line 155"));
    assert!(up.text().contains("line 155 of 177"), "{}", up.text());
    let mut red = Emulator::new(Size::new(80, 24));
    red.process(b"\x1b[31mline 155");
    assert_eq!(seen::row(&up, 0, 0, 80), seen::row(&red.snapshot(), 0, 0, 80));
    press(b"\x1b[A");
    shows("a line up", &begins("line 154"));
    press(b"\x1b[H");
    shows("the beginning", &begins("line 1"));
    // What the agent prints meanwhile is there afterwards.
    fs::write(&go, "").unwrap();
    press(b"\x1b[6~");
    shows("a page down", &begins("line 24"));
    press(b"q");
    shows("the screen", &|rows| rows.iter().any(|row| row == "and on"));
    // The end returns to the screen, too, and the next key is the agent's.
    press(b"\x1b[5~");
    shows("again", &|rows| rows.last().is_some_and(|row| row.contains("q returns")));
    press(b"\x1b[F");
    shows("the screen again", &|rows| rows.iter().any(|row| row == "and on"));
    press(b"q");
    shows("the key", &|rows| rows.iter().any(|row| row.trim() == "71"));
    press(b"\x1b[5~");
    shows("once more", &|rows| rows.last().is_some_and(|row| row.contains("q returns")));
    press(b"\x1d");
    assert_eq!(terminal.end().1, Some(0));
}

/// Its terminal takes no more at some point, and the person leaves all the same.
#[test]
fn an_agent_that_reads_nothing_does_not_hold_its_viewer() {
    let attached = Attached::new();
    let mut terminal = attached.attach(1, (80, 24), "echo begun");
    terminal.wait_for("begun");
    std::io::Write::write_all(&mut terminal.keys, &[b'x'; 300_000]).unwrap();
    std::io::Write::write_all(&mut terminal.keys, b"\x1d").unwrap();
    assert_eq!(terminal.end().1, Some(0));
}

//! A running xterm beside ours: what both answer to the same bytes, and what both then show.
//!
//! Takes Debian's `xterm` and `xvfb`; SKIPPED, as an ignored test, where they are not. xterm answers with the checksum
//! of each cell (DECRQCRA), which tells its character and its attributes.

mod cases;
mod generated;
mod picture;
mod session;

use std::sync::{Arc, Mutex};

use libtest_mimic::{Arguments, Failed, Trial};
use picture::{COLS, Picture, ROWS};
use session::{Display, Xterm};
use watchfire_term::{Emulator, Options, Size, Terminal};

fn main() {
    let arguments = Arguments::from_args();
    let trials = match Reference::start() {
        Ok(reference) => trials(&Arc::new(Mutex::new(reference))),
        Err(reason) => {
            eprintln!("xterm: SKIPPED: {reason}");
            vec![Trial::test(format!("xterm: SKIPPED: {reason}"), || Ok(())).with_ignored_flag(true)]
        }
    };
    libtest_mimic::run(&arguments, trials).exit();
}

fn trials(reference: &Arc<Mutex<Reference>>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for case in cases::all() {
        let reference = Arc::clone(reference);
        let run = move || lock(&reference).compare(case.input.as_bytes(), case.shown);
        let reason = case.reason.map_or(String::new(), |reason| format!(" (SKIPPED: {reason})"));
        trials.push(
            Trial::test(format!("xterm {}{reason}", case.name), run).with_ignored_flag(case.reason.is_some()),
        );
    }
    for seed in generated::seeds() {
        let reference = Arc::clone(reference);
        let run = move || {
            let input = generated::input(seed);
            let mut reference = lock(&reference);
            let Err(failed) = reference.compare(&input.concat(), true) else { return Ok(()) };
            let short = generated::shorter(input, |input| reference.compare(&input.concat(), true).is_err());
            match reference.compare(&short.concat(), true) {
                Err(failed) => Err(failed),
                Ok(()) => Err(failed),
            }
        };
        trials.push(Trial::test(format!("xterm generated {seed}"), run));
    }
    trials
}

fn lock(reference: &Mutex<Reference>) -> std::sync::MutexGuard<'_, Reference> {
    reference.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The xterm to compare with. After anything odd it is replaced by a new one.
struct Reference {
    xterm: Option<Xterm>,
    display: Display,
    folder: std::path::PathBuf,
    count: usize,
}

impl Reference {
    fn start() -> Result<Self, String> {
        if let Some(name) = session::missing() {
            return Err(format!("no {name}, to compare with xterm"));
        }
        let folder = std::env::temp_dir().join(format!("watchfire-xterm-{}", std::process::id()));
        let display =
            Display::start().map_err(|error| format!("no display, to compare with xterm: {error}"))?;
        let mut reference = Self { xterm: None, display, folder, count: 0 };
        reference
            .ask(b"", b"")
            .map_err(|error| format!("no xterm that answers, to compare with xterm: {error}"))?;
        Ok(reference)
    }

    /// What xterm answers, reset before.
    fn ask(&mut self, input: &[u8], probe: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut xterm = match self.xterm.take() {
            Some(xterm) => xterm,
            None => {
                self.count += 1;
                let folder = self.folder.join(self.count.to_string());
                Xterm::start(&self.display, &folder, COLS, ROWS)?
            }
        };
        let bytes = [picture::RESET, input, probe, picture::END].concat();
        let answer = xterm.ask(&bytes, picture::ENDED)?;
        // A reset does not undo another size, which VT52 mode has in xterm.
        let resizes = |pair: &[u8]| matches!(pair, [b'0'..=b'9', b't'] | [b'$' | b'*', b'|'] | [b'?', b'3']);
        let vt52 = input.windows(3).any(|part| part == b"?2l" || part == b"2;7");
        if !vt52 && !input.windows(2).any(resizes) {
            self.xterm = Some(xterm);
        }
        Ok(answer)
    }

    fn compare(&mut self, input: &[u8], shown: bool) -> Result<(), Failed> {
        let probe = if shown { picture::probe() } else { Vec::new() };
        let options =
            Options::default().with_child_resize(true).with_c1_controls(true).with_emoji_presentation(false);
        let mut ours = Emulator::with_options(Size::new(COLS, ROWS), options);
        ours.process(&[input, &probe].concat());
        let ours = Picture::new(&ours.take_replies());
        let mut differences = String::new();
        // What differs may have been left over from a case before: a new xterm tells.
        for _ in 0..2 {
            let theirs =
                self.ask(input, &probe).map_err(|error| format!("{}\n{error}", input.escape_ascii()))?;
            let theirs = Picture::new(&theirs);
            if ours == theirs {
                return Ok(());
            }
            self.xterm = None;
            differences = theirs.differences(&ours);
        }
        Err(format!("\n{}\n{differences}", input.escape_ascii()).into())
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        self.xterm = None;
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

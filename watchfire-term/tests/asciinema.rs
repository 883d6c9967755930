//! Recordings in the hands of asciinema: it plays and converts what the recorder writes, and the reader reads what it writes.
//!
//! Takes `asciinema` in `$PATH`, 2 or 3, and util-linux's `script`; SKIPPED where they are not. 2 knows no version 3.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use watchfire_term::asciicast::{Event, Header, Reader, Recorder, Version};
use watchfire_term::{Emulator, Size, Terminal};

const SIZE: Size = Size::new(80, 24);

/// Output, cut in the middle of characters; all of it ends on one screen.
const OUTPUT: &[&[u8]] = &[
    b"\x1b[1;32mhello\x1b[0m \"world\" \\ \t\xe6\xbc",
    b"\xa2\xe5\xad\x97 e\xcc\x81 \xf0\x9f\x98",
    b"\x80 \x1b[38;2;1;2;3mtrue\x1b[m\r\n",
    b"\x1b]0;a title\x07\x1b[?1049halternate\x1b[?1049l",
    b"\x1b[5;70Hto the edge and around\x1b[31m\x1b[K\x1b[m\x00\x07",
];

#[test]
fn asciinema_plays_what_is_recorded() -> Result<(), Box<dyn Error>> {
    each("plays", |asciinema, version, file| {
        // 3 says what it does, unless it must not.
        let quiet = if asciinema.contains(" 2.") { "" } else { "-q" };
        let command = format!("stty cols 80 rows 24; exec asciinema play {quiet} -s 50 {}", file.display());
        let output =
            Command::new("script").args(["-qefc", &command, "/dev/null"]).stdin(Stdio::null()).output()?;
        assert!(output.status.success(), "{asciinema} plays {version:?}: {output:?}");
        assert_eq!(screen(&output.stdout), screen(&OUTPUT.concat()), "{asciinema} plays {version:?}");
        Ok(())
    })
}

#[test]
fn asciinema_converts_what_is_recorded() -> Result<(), Box<dyn Error>> {
    each("converts", |asciinema, version, file| {
        if asciinema.contains(" 2.") {
            eprintln!("SKIPPED asciinema converts what is recorded: this is {asciinema}");
            return Ok(());
        }
        // It says the size first.
        let raw = [b"\x1b[8;24;80t", &OUTPUT.concat()[..]].concat();
        assert_eq!(convert("raw", file)?, raw, "{asciinema}, raw, of {version:?}");
        let text = String::from_utf8(convert("txt", file)?)?;
        let mut ours = Emulator::new(SIZE);
        ours.feed(&OUTPUT.concat());
        assert_eq!(text.trim_end(), ours.contents_joined(), "{asciinema}, text, of {version:?}");
        for (to, format) in [(Version::V2, "asciicast-v2"), (Version::V3, "asciicast-v3")] {
            let converted = convert(format, file)?;
            let reader = Reader::new(&converted[..])?;
            let (header, ours) = (reader.header().clone(), header(to));
            assert_eq!((header.version, header.size, &header.title), (to, SIZE, &ours.title));
            assert_eq!((header.timestamp, &header.command), (ours.timestamp, &ours.command));
            // It does not take the kind of terminal from 3 to 2.
            if (version, to) != (Version::V3, Version::V2) {
                assert_eq!(header.term, ours.term);
            }
            let theirs = reader.collect::<Result<Vec<Event>, _>>()?;
            let whole = Reader::new(&fs::read(file)?[..])?.collect::<Result<Vec<Event>, _>>()?;
            let kinds = |events: &[Event]| events.iter().map(|event| event.kind.clone()).collect::<Vec<_>>();
            assert_eq!(kinds(&theirs), kinds(&whole), "{asciinema}, {format}, of {version:?}");
            for (theirs, ours) in theirs.iter().zip(&whole) {
                // It rounds to milliseconds, which do not add up.
                let off = theirs.at.abs_diff(ours.at);
                assert!(off < Duration::from_millis(10), "{asciinema}, {format}: {theirs:?} for {ours:?}");
            }
        }
        Ok(())
    })
}

/// For each version that the installed asciinema knows: its name, the version and a recording.
fn each(
    what: &str,
    check: impl Fn(&str, Version, &Path) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let Ok(asciinema) = Command::new("asciinema").arg("--version").output() else {
        eprintln!("SKIPPED asciinema {what} what is recorded: no asciinema");
        return Ok(());
    };
    let asciinema = String::from_utf8_lossy(&asciinema.stdout).trim().to_owned();
    for version in [Version::V2, Version::V3] {
        if version == Version::V3 && asciinema.contains(" 2.") {
            eprintln!("SKIPPED asciinema {what} version 3: this is {asciinema}");
            continue;
        }
        let file = Recording::new(what, version)?;
        check(&asciinema, version, &file.0)?;
    }
    Ok(())
}

fn header(version: Version) -> Header {
    let header = Header::new(SIZE).with_version(version).with_timestamp(1_700_000_000);
    header.with_title("a \"title\"").with_command("a 'command'").with_term("xterm-256color")
}

/// A recording of all that there is to record.
struct Recording(PathBuf);

impl Recording {
    fn new(what: &str, version: Version) -> Result<Self, Box<dyn Error>> {
        let name = format!("watchfire-{}-{what}-{version:?}.cast", std::process::id());
        let recording = Self(std::env::temp_dir().join(name));
        let file = fs::File::create(&recording.0)?;
        let mut recorder = Recorder::new(file, &header(version))?.with_input(true);
        let mut at = Duration::ZERO;
        for (bytes, millis) in OUTPUT.iter().zip([0, 40, 1_000, 1, 333]) {
            at += Duration::from_millis(millis);
            recorder.output(at, bytes)?;
            recorder.input(at, "typed é\r".as_bytes())?;
        }
        recorder.marker(at, "a mark")?;
        recorder.resize(at, SIZE)?;
        recorder.exit(at, 0)?;
        recorder.finish()?;
        Ok(recording)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn convert(format: &str, file: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    let output = Command::new("asciinema").args(["convert", "-f", format]).arg(file).arg("-").output()?;
    assert!(output.status.success(), "{format}: {output:?}");
    Ok(output.stdout)
}

/// What is on the screen, and where the cursor is.
fn screen(bytes: &[u8]) -> (String, u16, u16) {
    let mut terminal = Emulator::new(SIZE);
    terminal.feed(bytes);
    let cursor = terminal.snapshot().cursor;
    (terminal.contents(), cursor.row, cursor.col)
}

//! What programs paint is seen as they paint it: their bytes go through the agent's terminal, the binary form, the picture and its
//! bytes, and a person's terminal then shows what our emulator shows when it is fed directly. Cell by cell, at three sizes.

mod seen;
mod support;

use std::path::Path;
use std::sync::Arc;

use seen::row;
use support::{SESSION, at_work, model};
use watchfire_core::terminal::{LineSize, Size, Snapshot, Terminal as _};
use watchfire_term::{Emulator, wire};
use watchfire_tui::message::Message;
use watchfire_tui::picture::Painter;
use watchfire_tui::update::update;

/// Feeds a stream to both ways, and compares what is seen after each piece of so many bytes.
fn compare(name: &str, bytes: &[u8], piece: usize) {
    for (cols, rows) in [(80, 24), (120, 40), (200, 60)] {
        let mut model = model(cols, rows);
        update(&mut model, Message::Status(Box::new(at_work(2, "task"))));
        let area = model.areas().terminal;
        let mut agent = Emulator::new(Size::new(area.width, area.height));
        let (mut person, mut painter) = (Emulator::new(Size::new(cols, rows)), Painter::default());
        let mut sent: Option<Snapshot> = None;
        for (at, bytes) in bytes.chunks(piece).enumerate() {
            agent.process(bytes);
            let now = agent.snapshot();
            // As it comes from the daemon.
            let received = match &sent {
                Some(before) => wire::decode_change(before, &wire::encode_change(before, &now)),
                None => wire::decode(&wire::encode(&now)),
            };
            let received = received.unwrap();
            let snapshot = Arc::new(received.clone());
            sent = Some(received);
            update(&mut model, Message::Screen { session: SESSION.to_owned(), snapshot });
            person.process(painter.paint(&model).as_bytes());
            let shown = person.snapshot();
            for line in
                (0..area.height).filter(|line| now.lines[usize::from(*line)].size() == LineSize::Single)
            {
                let (want, got) =
                    (row(&now, line, 0, area.width), row(&shown, area.y + line, area.x, area.width));
                if let Some(col) = (0..want.len()).find(|col| want[*col] != got[*col]) {
                    panic!(
                        "{name} at {cols}x{rows}, piece {at}, row {line}, column {col}: {:?} and not {:?}\n{}\n{}",
                        got[col],
                        want[col],
                        now.row_text(line),
                        shown.row_text(area.y + line)
                    );
                }
            }
        }
    }
}

#[test]
fn looks_of_every_kind_arrive() {
    let stream = "\x1b[4:3;58;5;9mcurly\x1b[m \x1b[4:2mdouble\x1b[m \x1b[53mover\x1b[m \x1b[1;2;3;5;7;8;9mall\x1b[m\r\n\
        \x1b]8;id=a;https://example.org/\x1b\\link\x1b]8;;\x1b\\ \x1b[38;2;1;2;3;48;5;200mcolours\x1b[m\r\n\
        漢字 e\u{301} 👩\u{200d}👩 ⚠️ 🇵🇹 |\r\n\x1b]4;1;#123456\x1b\\\x1b[31mred\x1b[m\
        \x1b[?5h\x1b[7mreversed twice\x1b[m";
    compare("looks", stream.as_bytes(), 50);
    compare("defaults", b"\x1b]10;#112233\x1b\\\x1b]11;#445566\x1b\\text", 50);
    compare("wide at the edge", "漢".repeat(300).as_bytes(), 100);
}

/// Streams of vim and htop, recorded at 100 by 30 with `script`.
#[test]
fn vim_and_htop_are_seen_as_they_paint() {
    compare("vim", include_bytes!("streams/vim.raw"), 700);
    compare("htop", include_bytes!("streams/htop.raw"), 700);
}

/// Every recording of an agent that is here, at the sizes of above.
#[test]
fn agents_are_seen_as_they_paint() {
    let root = std::env::var_os("WATCHFIRE_FIXTURES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures"),
        std::path::PathBuf::from,
    );
    let Ok(folder) = std::fs::read_dir(root.join("recordings")) else {
        return println!("SKIPPED: no recordings of agents");
    };
    let mut names: Vec<_> = folder
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "raw"))
        .collect();
    names.sort();
    assert!(!names.is_empty());
    // The short form takes one of each program.
    let program =
        |path: &Path| path.file_name().unwrap().to_string_lossy().split('-').next().unwrap().to_owned();
    let is_long = std::env::var_os("WATCHFIRE_LONG").is_some();
    if !is_long {
        names.dedup_by_key(|path| program(path));
    }
    for path in names {
        compare(
            &path.display().to_string(),
            &std::fs::read(&path).unwrap(),
            if is_long { 700 } else { 10_000 },
        );
    }
}

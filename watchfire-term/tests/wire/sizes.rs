//! How long messages are.

use std::path::Path;

use watchfire_term::{Emulator, Size, Terminal, wire};

const SIZE: Size = Size::new(120, 40);

/// A screen that is full of text in many colours, as those of agents and editors are.
fn full() -> Emulator {
    let mut terminal = Emulator::new(SIZE);
    for row in 0..40 {
        terminal.process(format!("\x1b[{};1H\x1b[38;5;130m{row:4} \x1b[m│ ", row + 1).as_bytes());
        for word in 0..11 {
            let look = (row * 7 + word * 5) % 13;
            terminal.process(format!("\x1b[38;2;{look};200;{}mword{word:03}\x1b[m, ", 255 - look).as_bytes());
        }
    }
    terminal
}

#[test]
fn a_full_screen_takes_less_than_8_kib_and_a_typed_character_less_than_200_bytes() {
    let mut terminal = full();
    let first = terminal.snapshot();
    let whole = wire::encode(&first).len();
    terminal.process(b"\x1b[20;60Hx");
    let typed = wire::encode_change(&first, &terminal.snapshot()).len();
    println!("full screen {whole} bytes, typed character {typed} bytes");
    assert!(whole < 8 << 10, "{whole}");
    assert!(typed < 60, "{typed}");
    // A line that scrolls in costs that line.
    let before = terminal.snapshot();
    terminal.process(b"\x1b[40;1H\r\none more line of a log");
    let scrolled = wire::encode_change(&before, &terminal.snapshot()).len();
    assert!(scrolled < 80, "{scrolled}");
}

/// Every cell in a style of its own, which nothing makes small, is still not much more than what it says.
#[test]
fn the_worst_screen_is_bounded() {
    let mut terminal = Emulator::new(SIZE);
    for cell in 0..SIZE.cols() * SIZE.rows() {
        let [high, low] = cell.to_be_bytes();
        terminal.process(format!("\x1b[38;2;{high};{low};7;48;2;{low};{high};9mx").as_bytes());
    }
    let whole = wire::encode(&terminal.snapshot()).len();
    println!("every cell in a style of its own: {whole} bytes");
    assert!(whole < 4_800 * 12, "{whole}");
}

/// Every screen of every recorded agent, if the recordings are here.
#[test]
fn recorded_agents_are_small() {
    let root = std::env::var_os("WATCHFIRE_FIXTURES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures"),
        std::path::PathBuf::from,
    );
    let Ok(folder) = std::fs::read_dir(root.join("recordings")) else {
        return println!("SKIPPED: no recordings of agents");
    };
    let (mut screens, mut changes, mut json) = (Vec::new(), Vec::new(), 0);
    for path in folder.flatten().map(|entry| entry.path()) {
        if !path.to_string_lossy().ends_with("-120x40.raw") {
            continue;
        }
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let mut terminal = Emulator::new(SIZE);
        let mut last = terminal.snapshot();
        let mut seen = wire::decode(&wire::encode(&last)).unwrap();
        // Each frame of 4 KiB, and 40 places in the recording as whole screens.
        let pieces = bytes.len().div_ceil(4 << 10);
        for (index, piece) in bytes.chunks(4 << 10).enumerate() {
            terminal.process(piece);
            let now = terminal.snapshot();
            let change = wire::encode_change(&last, &now);
            changes.push(change.len());
            seen = wire::decode_change(&seen, &change).unwrap();
            assert_eq!(seen, *now, "{}", path.display());
            if index % pieces.div_ceil(40) == 0 {
                let whole = wire::encode(&now);
                assert_eq!(wire::decode(&whole).unwrap(), *now);
                json = json.max(serde_json::to_vec(&*now).map_or(0, |json| json.len()));
                screens.push(whole.len());
            }
            last = now;
        }
    }
    let (Some(screen), Some(change)) = (screens.iter().max(), changes.iter().max()) else {
        return println!("SKIPPED: no recordings of agents");
    };
    let mean = |all: &[usize]| all.iter().sum::<usize>() / all.len();
    println!(
        "{} screens: {} bytes in the mean, {screen} at most; JSON {json} at most",
        screens.len(),
        mean(&screens)
    );
    println!("{} changes: {} bytes in the mean, {change} at most", changes.len(), mean(&changes));
    assert!(*screen < 8 << 10, "{screen}");
}

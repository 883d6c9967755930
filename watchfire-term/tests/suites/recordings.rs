//! Recorded agents: any chunking ends in the same state, a redraw shows the same, and their text is tame.

use std::path::Path;

use libtest_mimic::{Failed, Trial};
use watchfire_term::asciicast::rechunk;
use watchfire_term::plain::PlainText;
use watchfire_term::{Emulator, Size, Snapshot, Terminal};

pub(crate) fn trials(folder: &Path) -> Vec<Trial> {
    let raws =
        super::entries(folder).into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "raw"));
    raws.map(|path| Trial::test(format!("recording {}", super::name_of(&path)), move || check(&path)))
        .collect()
}

fn check(path: &Path) -> Result<(), Failed> {
    let bytes = std::fs::read(path)?;
    let size = if super::name_of(path).ends_with("80x24") { Size::new(80, 24) } else { Size::new(120, 40) };
    let mut whole = Emulator::new(size);
    whole.process(&bytes);
    let want = picture(&mut whole);
    let replies = whole.take_replies();
    for seed in 1..4 {
        let mut split = Emulator::new(size);
        rechunk(&bytes, seed).for_each(|chunk| split.process(chunk));
        if picture(&mut split) != want || split.take_replies() != replies {
            return Err(format!("chunks of seed {seed} differ").into());
        }
        let mut plain = PlainText::new();
        let mut text: String = rechunk(&bytes, seed).map(|chunk| plain.feed(chunk)).collect();
        text += &plain.finish();
        if let Some(c) = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
            return Err(format!("{c:?} in the text").into());
        }
    }
    let mut redrawn = Emulator::new(size);
    redrawn.process(&whole.redraw());
    let (have, want) = (redrawn.snapshot(), whole.snapshot());
    if have.lines != want.lines || have.cursor != want.cursor {
        return Err(format!("redrawn:\n{}\ninstead of:\n{}", have.text(), want.text()).into());
    }
    Ok(())
}

/// The screen, without the generation, and the scrollback.
fn picture(terminal: &mut Emulator) -> (Vec<String>, Snapshot) {
    let mut snapshot = Snapshot::clone(&terminal.snapshot());
    snapshot.generation = Default::default();
    (terminal.scrollback_rows(0..usize::MAX).iter().map(|line| line.text().to_owned()).collect(), snapshot)
}

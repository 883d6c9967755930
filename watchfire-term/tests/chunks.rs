//! Whether all comes at once or in pieces, and who looks on meanwhile, makes no difference.

mod pieces;

use pieces::piece;
use proptest::prelude::*;
use watchfire_term::{Damage, Emulator, Size, Terminal};

fn cases() -> u32 {
    if std::env::var_os("WATCHFIRE_LONG").is_some() { 50_000 } else { 400 }
}

/// Feeds one terminal at once and one piece by piece, looking at it after each; what is not damaged is as it was.
#[track_caller]
fn check(size: Size, pieces: &[impl AsRef<str>]) {
    let all: String = pieces.iter().map(AsRef::as_ref).collect();
    let (mut whole, mut parts) = (Emulator::new(size), Emulator::new(size));
    whole.process(all.as_bytes());
    let mut before = parts.snapshot();
    for piece in pieces {
        parts.process(piece.as_ref().as_bytes());
        let now = parts.snapshot();
        if let Damage::Rows(rows) = parts.damage_since(before.generation) {
            let kept = (0..size.rows()).filter(|row| !rows.contains(row)).map(usize::from);
            for row in kept {
                assert_eq!(
                    before.lines[row],
                    now.lines[row],
                    "row {row} after {:?} of {all:?}",
                    piece.as_ref()
                );
            }
        }
        before = now;
    }
    let whole = whole.snapshot();
    assert_eq!((&whole.lines, whole.cursor), (&before.lines, before.cursor), "{size:?} {all:?}");
}

#[test]
fn a_row_that_goes_on_no_more_has_changed() {
    for sequence in ["\x1b[M", "\x1b[L", "\x1b[T", "\x1b[2^"] {
        check(Size::new(2, 3), &["abc", sequence]);
    }
}

/// Many links, one after the other in the same place.
#[test]
fn links_do_not_run_out() {
    let many: String = (0..70_000).map(|n| format!("\x1b]8;;http://example.com/{n}\x07x\r")).collect();
    let input = many + "\x1b]8;;http://last\x07y";
    let mut terminal = Emulator::new(Size::new(10, 1));
    terminal.process(input.as_bytes());
    assert_eq!(terminal.hyperlink(0, 0).map(|link| link.uri.as_str()), Some("http://last"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pieces_make_the_whole(
        cols in 1_u16..16, rows in 1_u16..8, pieces in prop::collection::vec(piece(), 1..25)
    ) {
        check(Size::new(cols, rows), &pieces);
    }
}

//! The binary form of snapshots: without loss, small, and safe to decode.

#[path = "../pieces/mod.rs"]
mod pieces;
mod sizes;
mod vectors;

use std::sync::Arc;

use pieces::piece;
use proptest::prelude::*;
use watchfire_term::{
    Attributes, Color, Emulator, Event, Hyperlink, Line, LineSize, Run, RunKind, Scrolled, Size, Snapshot,
    Style, Terminal, Underline, wire,
};

fn cases() -> u32 {
    if std::env::var_os("WATCHFIRE_LONG").is_some() { 50_000 } else { 400 }
}

fn color() -> impl Strategy<Value = Color> {
    prop_oneof![
        Just(Color::Default),
        any::<u8>().prop_map(Color::Indexed),
        any::<[u8; 3]>().prop_map(|[red, green, blue]| Color::Rgb(red, green, blue)),
    ]
}

fn style() -> impl Strategy<Value = Style> {
    let underline = prop::sample::select(vec![
        Underline::None,
        Underline::Single,
        Underline::Double,
        Underline::Curly,
        Underline::Dotted,
        Underline::Dashed,
    ]);
    (color(), color(), color(), any::<u16>(), underline).prop_map(
        |(foreground, background, underline_color, bits, underline)| Style {
            foreground,
            background,
            underline_color,
            attributes: Attributes::from_bits(bits),
            underline,
        },
    )
}

/// Lines that no emulator makes, too: runs that could be one, columns that are wrong, links that do not exist.
fn line() -> impl Strategy<Value = Arc<Line>> {
    let kind = prop::sample::select(vec![RunKind::Narrow, RunKind::Wide, RunKind::Cluster]);
    let text = prop_oneof!["[ ab]{0,40}", "[aé漢😀─ ]{0,9}", " {0,30}─{0,30}"];
    let run = (text, style(), any::<u16>(), 0_u16..4, kind).prop_map(|(text, style, columns, link, kind)| {
        (Run { style, bytes: text.len() as u32, columns, link, kind }, text)
    });
    let link = ("[a-z]{0,3}", "[a-z:/é]{0,9}").prop_map(|(id, uri)| Arc::new(Hyperlink::new(id, uri)));
    let size = prop::sample::select(vec![
        LineSize::Single,
        LineSize::DoubleWidth,
        LineSize::DoubleTop,
        LineSize::DoubleBottom,
    ]);
    let runs = prop::collection::vec(run, 0..6);
    (runs, prop::collection::vec(link, 0..3), any::<bool>(), size).prop_map(|(runs, links, wrapped, size)| {
        let text: String = runs.iter().map(|(_, text)| text.as_str()).collect();
        let runs: Vec<_> = runs.into_iter().map(|(run, _)| run).collect();
        Arc::new(Line::new(text, runs, wrapped).with_links(links).with_size(size))
    })
}

/// A screen of such lines, with everything that an emulator puts around them.
fn screen() -> impl Strategy<Value = Snapshot> {
    let lines = prop::collection::vec(line(), 4);
    (lines, prop::collection::vec(piece(), 0..6), any::<u64>(), any::<u64>()).prop_map(
        |(lines, pieces, generation, end)| {
            let mut terminal = Emulator::new(Size::new(13, 4));
            terminal.process(pieces.concat().as_bytes());
            let mut snapshot = Snapshot::clone(&terminal.snapshot());
            snapshot.lines = lines.into();
            snapshot.generation.0 = generation;
            snapshot.scrollback.end = end;
            snapshot
        },
    )
}

/// Decodes bytes as every kind of message. What can be decoded can be encoded and decoded again.
fn survive(bytes: &[u8], from: &Snapshot) {
    if let Ok(screen) = wire::decode(bytes) {
        assert_eq!(wire::decode(&wire::encode(&screen)).unwrap(), screen);
    }
    if let Ok(screen) = wire::decode_change(from, bytes) {
        assert_eq!(wire::decode_change(from, &wire::encode_change(from, &screen)).unwrap(), screen);
    }
    if let Ok(lines) = wire::decode_lines(bytes) {
        assert_eq!(wire::decode_lines(&wire::encode_lines(&lines)).unwrap(), lines);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_screen_comes_back(a in screen(), b in screen()) {
        prop_assert_eq!(&wire::decode(&wire::encode(&a)).unwrap(), &a);
        prop_assert_eq!(&wire::decode_change(&a, &wire::encode_change(&a, &b)).unwrap(), &b);
        let json = serde_json::to_string(&a).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Snapshot>(&json).unwrap(), &a);
        let mut lines = Scrolled::default();
        (lines.gone, lines.next) = (a.generation.0, b.generation.0);
        lines.lines = b.lines.iter().map(|line| Line::clone(line)).collect();
        prop_assert_eq!(wire::decode_lines(&wire::encode_lines(&lines)).unwrap(), lines);
    }

    #[test]
    fn a_receiver_that_applies_changes_sees_every_screen(pieces in prop::collection::vec(piece(), 1..20)) {
        let mut terminal = Emulator::new(Size::new(13, 6));
        let mut last = terminal.snapshot();
        let mut seen = wire::decode(&wire::encode(&last)).unwrap();
        for piece in pieces {
            terminal.process(piece.as_bytes());
            let now = terminal.snapshot();
            seen = wire::decode_change(&seen, &wire::encode_change(&last, &now)).unwrap();
            prop_assert_eq!(&seen, &*now, "{:?}", piece);
            last = now;
        }
        let scrolled = terminal.scrollback_since(0);
        prop_assert_eq!(wire::decode_lines(&wire::encode_lines(&scrolled)).unwrap(), scrolled);
    }

    #[test]
    fn any_bytes_are_survived(
        a in screen(), b in screen(), noise in prop::collection::vec(any::<u8>(), 0..64),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        survive(&noise, &a);
        let mut begun = vec![wire::VERSION, noise.first().map_or(0, |byte| byte % 3)];
        begun.extend_from_slice(&noise);
        survive(&begun, &a);
        // Most messages with a few wrong bytes are wrong deep inside, where noise hardly gets.
        for mut bytes in [wire::encode(&a), wire::encode_change(&a, &b)] {
            for (at, byte) in &flips {
                *at.get_mut(&mut bytes) = *byte;
            }
            survive(&bytes, &a);
        }
    }

    #[test]
    fn a_message_that_is_cut_or_too_long_is_refused(a in screen(), b in screen(), at in any::<prop::sample::Index>()) {
        for mut bytes in [wire::encode(&a), wire::encode_change(&a, &b)] {
            prop_assert!(wire::decode_change(&a, &bytes[..at.index(bytes.len())]).is_err());
            bytes.push(0);
            prop_assert!(wire::decode_change(&a, &bytes).is_err());
        }
    }
}

#[test]
fn errors_say_what_a_receiver_can_do() {
    let mut terminal = Emulator::new(Size::new(9, 2));
    let first = terminal.snapshot();
    terminal.process(b"a");
    let second = terminal.snapshot();
    let mut change = wire::encode_change(&first, &second);
    let code = |result: watchfire_core::Result<Snapshot>| result.unwrap_err().code();
    assert_eq!(code(wire::decode_change(&second, &change)), "conflict");
    assert_eq!(code(wire::decode(&change)), "invalid_input");
    change[0] = wire::VERSION + 1;
    assert_eq!(code(wire::decode_change(&first, &change)), "not_supported");
}

/// Repeats make short messages of large screens. A message that asks for more than can be is refused.
#[test]
fn repeats_are_bounded() {
    let run = |bytes| Run { style: Style::default(), bytes, columns: 9, link: 0, kind: RunKind::Narrow };
    let long = Line::new(" ".repeat(9 << 20), vec![run(9 << 20)], false);
    let mut lines = Scrolled::default();
    lines.lines = vec![long; 3];
    // One line goes as a repeat, two as they are: the message pays for what its receiver allocates.
    let bytes = wire::encode_lines(&lines);
    assert!(((18 << 20)..(19 << 20)).contains(&bytes.len()), "{}", bytes.len());
    assert_eq!(wire::decode_lines(&bytes).unwrap(), lines);
    // A head that claims 4 GiB of one blank.
    let claim = [
        &[1, 2, 0, 0, 0, 0, 1, 0x10, 8, 9, 0xff, 0xff, 0xff, 0xff, 0xf, 0xff, 0xff, 0xff, 0xff, 0x1f][..],
        b" ",
    ]
    .concat();
    assert_eq!(wire::decode_lines(&claim).unwrap_err().message(), "a piece of text is empty or too long");
}

/// What serde accepts keeps the promises of the types.
#[test]
fn serde_refuses_what_the_types_do_not_allow() {
    let mut terminal = Emulator::new(Size::new(9, 2));
    terminal.process("\x1b[1mé\x07".as_bytes());
    let json = serde_json::to_value(&*terminal.snapshot()).unwrap();
    let refused = |path: &str, value: serde_json::Value| {
        let mut json = json.clone();
        *json.pointer_mut(path).unwrap() = value;
        serde_json::from_value::<Snapshot>(json).unwrap_err().to_string()
    };
    let divide = "the runs of a line do not divide its text";
    assert_eq!(refused("/lines/0/runs/0/bytes", 1.into()), divide);
    assert_eq!(refused("/lines/0/text", "éa".into()), divide);
    assert_eq!(refused("/size/rows", 3.into()), "a snapshot does not have a line for each row");
    let events = terminal.take_events();
    let json = serde_json::to_string(&events).unwrap();
    assert_eq!(json, r#"["bell"]"#);
    assert_eq!(serde_json::from_str::<Vec<Event>>(&json).unwrap(), events);
}

//! Messages with the screens that they stand for, which decoders in other languages are tested with as well:
//! `tests/wire/vectors.json`. `WATCHFIRE_BLESS=1` writes the file anew.

use std::path::Path;

use serde_json::{Value, json};
use watchfire_term::{Emulator, Options, Scrolled, Size, Snapshot, Terminal, wire};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// Steps of one terminal: each is a change from the one before.
const STEPS: [(&str, &str); 12] = [
    ("text", "$ cargo test\r\n"),
    ("looks", "\x1b[1;31mred\x1b[0;4:3;58:2::1:2:3m curly\x1b[0;38;5;200;48;2;9;8;7m colours\x1b[m\r\n"),
    ("wide characters and graphemes", "漢字 e\u{301} \x1b[?2027h❤\u{fe0f}🇩🇪\x1b[?2027l ─────────────\r\n"),
    (
        "links",
        "\x1b]8;id=a;https://a.example/é\x07one\x1b]8;;\x07 \x1b]8;;https://b.example\x07two\x1b]8;;\x07",
    ),
    ("a typed character", "x"),
    ("a character in the middle of a row", "\x1b[1;5HX"),
    ("title, modes and cursor", "\x1b]2;a title\x07\x1b[?2004h\x1b[?1h\x1b[?25l\x1b[6 q"),
    ("colours", "\x1b]4;1;#123456;200;#ffffff\x07\x1b]11;#040506\x07"),
    ("a line that wraps", "\x1b[6;1Hthis line is longer than the screen is wide, so it wraps"),
    ("scrolling", "\r\nnext\r\nlast"),
    (
        "lines of double size, and blanks in colour",
        "\x1b[2;1H\x1b#6\x1b[3;1H\x1b#3\x1b[44m\x1b[5;1H\x1b[2K\x1b[m",
    ),
    ("a cleared screen", "\x1b[H\x1b[2J\x1b]2;\x07"),
];

fn vectors() -> Value {
    let options = Options::default().with_graphemes(false);
    let mut terminal = Emulator::with_options(Size::new(30, 6), options);
    let mut last = terminal.snapshot();
    let mut vectors =
        vec![json!({"name": "a blank screen", "message": hex(&wire::encode(&last)), "screen": &*last})];
    for (name, bytes) in STEPS {
        terminal.process(bytes.as_bytes());
        let now = terminal.snapshot();
        let change = hex(&wire::encode_change(&last, &now));
        vectors.push(json!({"name": name, "from": &*last, "message": change, "screen": &*now}));
        vectors.push(
            json!({"name": format!("{name}, whole"), "message": hex(&wire::encode(&now)), "screen": &*now}),
        );
        last = now;
    }
    let lines = terminal.scrollback_since(0);
    vectors.push(json!({"name": "scrollback", "message": hex(&wire::encode_lines(&lines)), "lines": lines}));
    let whole = wire::encode(&last);
    // What must be refused, by whoever decodes it.
    for (name, bytes) in [
        ("nothing", vec![]),
        ("a version that is not known", vec![9, 0, 1]),
        ("a message that is cut", whole[..whole.len() - 1].to_vec()),
        ("a byte too much", [&whole[..], &[0]].concat()),
        ("a screen without rows", vec![1, 0, 9, 0]),
        ("a number without an end", [&[1, 0][..], &[0xff; 12]].concat()),
        ("a count beyond the message", vec![1, 2, 0, 0, 0xff, 0xff, 3]),
        (
            "four gigabytes of blanks",
            unhex("010200000000011008 09ffffffff0fffffffff1f20".replace(' ', "").as_str()),
        ),
        ("half of a character", unhex("0102000000000110000102c3")),
    ] {
        vectors.push(json!({"name": name, "message": hex(&bytes), "error": true}));
    }
    Value::Array(vectors)
}

#[test]
fn the_vectors_decode_to_their_screens() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/vectors.json");
    let now = vectors();
    if std::env::var_os("WATCHFIRE_BLESS").is_some() {
        let rows: Vec<_> = now.as_array().unwrap().iter().map(Value::to_string).collect();
        std::fs::write(&path, format!("[\n{}\n]\n", rows.join(",\n"))).unwrap();
    }
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    // Messages of this version that others have kept must stay what they are.
    assert_eq!(kept, now);
    for vector in kept.as_array().unwrap() {
        let (name, message) = (&vector["name"], unhex(vector["message"].as_str().unwrap()));
        let from = serde_json::from_value::<Snapshot>(vector["from"].clone());
        if vector["error"] == true {
            assert!(wire::decode(&message).is_err() && wire::decode_lines(&message).is_err(), "{name}");
        } else if let Ok(lines) = serde_json::from_value::<Scrolled>(vector["lines"].clone()) {
            assert_eq!(wire::decode_lines(&message).unwrap(), lines, "{name}");
        } else {
            let screen: Snapshot = serde_json::from_value(vector["screen"].clone()).unwrap();
            let decoded =
                from.map_or_else(|_| wire::decode(&message), |from| wire::decode_change(&from, &message));
            assert_eq!(decoded.unwrap(), screen, "{name}");
        }
    }
}

//! How each agent is typed to: the bytes that were measured with the real programs (`.ci/agents`).

use watchfire_backends as _;
use watchfire_core::backend::Backends;

/// Name; bytes of a short line, of two lines, of 3,000 characters; milliseconds before the submit key, for one line and for
/// several; the key; the keys that interrupt and that end it.
type Row = (&'static str, [&'static str; 3], [u128; 2], &'static [u8], &'static [u8], &'static [u8]);

/// A text as a paste, and as it is. `3000` stands for the long text.
const PASTE: [&str; 3] = ["\x1b[200~/go\x1b[201~", "\x1b[200~a\nb[201~\x1b[201~", "\x1b[200~3000\x1b[201~"];
const AS_IT_IS: [&str; 3] = ["/go", "a\nb[201~", "3000"];
const LONG_ONES_PASTED: [&str; 3] = ["/go", "\x1b[200~a\nb[201~\x1b[201~", "\x1b[200~3000\x1b[201~"];

const ROWS: &[Row] = &[
    // Lines are sent one by one, so texts of several go by file.
    ("aider", AS_IT_IS, [300, 300], b"\r", b"\x03", b"\x04"),
    ("claude-code", LONG_ONES_PASTED, [300, 800], b"\r", b"\x1b", b"\x03\x03"),
    ("codex", PASTE, [300, 800], b"\r", b"\x1b", b"\x04"),
    ("continue", AS_IT_IS, [500, 1000], b"\r", b"\x1b", b"\x04"),
    ("copilot", PASTE, [300, 800], b"\r", b"\x1b[27u\x1b[27u", b"\x04"),
    ("gemini", PASTE, [750, 1500], b"\r", b"\x1b", b"\x03\x03"),
    ("opencode", PASTE, [300, 800], b"\r", b"\x1b[27u\x1b[27u", b"\x03\x03"),
];

#[test]
fn each_agent_is_typed_to_as_measured() {
    let backends = Backends::linked().unwrap();
    let long = "x".repeat(3000);
    for (name, frames, settle, submit, interrupt, quit) in ROWS {
        let delivery = backends.get(name).unwrap().delivery();
        // Whatever the framing: a text cannot end its own paste, press a key, or submit by its last line end.
        let texts = ["/go\r\n", "a\r\nb\x1b[201~\x03\n", &long];
        for (text, frame) in texts.iter().zip(frames) {
            let expected = frame.replace("3000", &long);
            let framed = String::from_utf8(delivery.frame(text)).unwrap();
            assert_eq!(framed, expected, "{name}: {text:?}");
        }
        let pauses = ["a", "a\nb"].map(|text| delivery.settle_for(text).as_millis());
        assert_eq!((&pauses, delivery.submit.bytes()), (settle, *submit), "{name}");
        assert_eq!((&*delivery.interrupt, &*delivery.quit), (*interrupt, *quit), "{name}");
    }
}

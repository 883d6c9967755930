//! The sanitiser, case by case, at every chunking.

use watchfire_term::plain::{CarriageReturn, PlainText, strip};

fn chunked(bytes: &[u8], size: usize, policy: CarriageReturn) -> String {
    let mut plain = PlainText::new().with_carriage_return(policy);
    let mut text: String = bytes.chunks(size).map(|chunk| plain.feed(chunk)).collect();
    text += &plain.finish();
    text
}

#[track_caller]
fn check(bytes: impl AsRef<[u8]>, want: &str) {
    let bytes = bytes.as_ref();
    for size in 1..=bytes.len().max(1) {
        let have = chunked(bytes, size, CarriageReturn::Overwrite);
        assert_eq!(have, want, "chunks of {size}: {}", bytes.escape_ascii());
    }
}

#[test]
fn sequences_leave_no_trace() {
    check("\x1b[31mred\x1b[0m", "red");
    check("\x1b[2J\x1b[Hanswer\x1b[K", "answer");
    check("\x1b]0;Wardian\x07ready", "ready");
    check("\x1b]2;t\x1b\\ready", "ready");
    check("\x1bPq#0;2;0\x1b\\after", "after");
    check("\x1b_Gf=100;AAAA\x1b\\after\x1b^pm\x1b\\!\x1bXsos\x1b\\.", "after!.");
    check("\u{9b}31mred\u{9d}0;title\u{9c}!\u{90}q#0\u{9c}.", "red!.");
    check("\x1b]8;;https://x.example\x1b\\link\x1b]8;;\x1b\\", "link");
    check("\x1b[38;2;1;2;3mtrue\x1b[m\x1b[?2004hhi\x1b[?2004l", "truehi");
    check("\x1b(Bok\x1b=\x1b>\x1b7save\x1b8", "oksave");
    check("\x1b#8ok\x1b%Gok\x1b Fok", "okokok");
}

#[test]
fn lines_read_as_they_look() {
    check("line1\n", "line1\n");
    check("a\r\nb\r\n\r\nc", "a\nb\n\nc");
    check("loading 10%\rloading 100%\r\n", "loading 100%\n");
    check("abc\x08\x08de", "ade");
    check("x\x07y\0z", "xyz");
    check("a\x1b[2Cb", "a  b");
    check("N\x08NA\x08A_\x08b", "NAb");
    check("a\tb", "a\tb");
    check("a\x1b[31\nmrest", "a\nrest");
    check("\x1bP\n漢字\nhello", "\n漢字\nhello");
    check("\x1bP1;2\nnext\nmore", "\nnext\nmore");
    check("\x1b[漢字漢字\n漢字 hello", "漢字漢字\n漢字 hello");
    check("e\u{301}bc\x08\x08\x1b[P!\u{302}", "e\u{301}!\u{302}");
    check("one\x0btwo\x0cthree", "one\ntwo\nthree");
    check("first\n\n\nlast\n", "first\n\n\nlast\n");
    check("same\nsame\nsame\n", "same\nsame\nsame\n");
}

#[test]
fn carriage_returns_can_be_new_lines() {
    for size in 1..8 {
        assert_eq!(chunked(b"a\r\nb\rc", size, CarriageReturn::NewLine), "a\nb\nc");
    }
}

#[test]
fn what_is_cut_off_waits_or_goes() {
    check("end\x1b", "end");
    check("end\x1b[", "end");
    check("end\x1b[1;31", "end");
    check("end\x1b]0;title", "end");
    check("▐", "▐");
    check(b"x\xe2\x96", "x\u{fffd}");
    check(b"a\xff\xc3(\xe2\x82b", "a\u{fffd}\u{fffd}(\u{fffd}b");
    check(b"\x9b31m", "\u{fffd}31m");
}

#[test]
fn unterminated_strings_give_text_back() {
    check("\x1b]0;never ended\nmuch text\n", "\nmuch text\n");
    check("\x1b]0;never ended\x1b[31mtext", "text");
    check("\x1b]0;cancelled\x18text", "text");
    check("\x1b_Gnever\ntext", "\ntext");
    let long = [b"\x1bPq".to_vec(), vec![b'~'; 3 << 20], b"\ntext".to_vec()].concat();
    assert!(strip(&long).ends_with("\ntext"));
}

#[test]
fn nothing_hides_or_reorders_text() {
    check("pass\u{202e}drow\u{202c}\u{200b}\u{2066}!\u{feff}", "passdrow!");
    check(
        "e\u{301}\u{1f468}\u{200d}\u{1f469}\u{2764}\u{fe0f}",
        "e\u{301}\u{1f468}\u{200d}\u{1f469}\u{2764}\u{fe0f}",
    );
    check("ab\u{200d}c\u{e0041}", "abc");
}

#[test]
fn repaints_come_once() {
    let spinner = "\r\x1b[2K⠋ working\x1b[1A\r\x1b[2Ktitle\x1b[1B";
    check(format!("title\n⠋ working{}", spinner.repeat(5)), "title\n⠋ working\n");
    let frame = "\x1b[2J\x1b[1;1Hhead\x1b[2;1Hbody\x1b[3;1Hfoot";
    assert_eq!(strip(frame.repeat(50).as_bytes()), "head\nbody\nfoot\n");
    check("foo\x1b[1Abar\x1b[2Kbaz", "foo\n      baz\n");
}

#[test]
fn output_is_always_tame() {
    let mut seed = 7_u64;
    for _ in 0..2_000 {
        let bytes: Vec<u8> = (0..60)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let pick = (seed >> 40) as usize;
                if pick.is_multiple_of(3) {
                    (seed >> 56) as u8
                } else {
                    b"\x1b[]P;?0123AHJKm\\\x07\n\r\x08\xc2\x9b\xe2"[pick % 23]
                }
            })
            .collect();
        let whole = strip(&bytes);
        assert!(!whole.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "{whole:?}");
        for size in [1, 2, 5] {
            assert_eq!(chunked(&bytes, size, CarriageReturn::Overwrite), whole, "{}", bytes.escape_ascii());
        }
    }
}

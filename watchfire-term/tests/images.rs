//! Images are kept as they came, bounded, where they belong.

mod pieces;

use pieces::piece;
use proptest::prelude::*;
use watchfire_term::{Emulator, Event, ImageProtocol, Options, Size, Terminal};

const SIXEL: &str = "\x1bP0;1q\"1;1;8;8#0;2;0;0;0#0~~~-\x1b\\";
const KITTY: &str = "\x1b_Ga=T,f=100,i=7;AAAA\x1b\\";
const ITERM: &str = "\x1b]1337;File=name=YQ==;inline=1:AAAA\x07";

fn placed(terminal: &Emulator) -> Vec<(ImageProtocol, u64, u16)> {
    terminal.images().map(|image| (image.protocol, image.line, image.col)).collect()
}

#[test]
fn images_are_kept_as_they_came_with_their_place() {
    let mut terminal = Emulator::new(Size::new(20, 4));
    for (bytes, protocol, sequence) in [
        (SIXEL, ImageProtocol::Sixel, SIXEL),
        (KITTY, ImageProtocol::Kitty, KITTY),
        (ITERM, ImageProtocol::Iterm2, "\x1b]1337;File=name=YQ==;inline=1:AAAA\x1b\\"),
        // In parts, with text between, and byte by byte.
        (
            "\x1b_Ga=T,f=100,m=1;AA\x1b\\text\x1b_Gm=1;BB\x1b\\\x1b_Gm=0;CC\x1b\\",
            ImageProtocol::Kitty,
            "\x1b_Ga=T,f=100,m=1;AA\x1b\\\x1b_Gm=1;BB\x1b\\\x1b_Gm=0;CC\x1b\\",
        ),
        (
            "\x1b]1337;MultipartFile=inline=1\x07\x1b]1337;FilePart=AA\x07\x1b]1337;FileEnd\x07",
            ImageProtocol::Iterm2,
            "\x1b]1337;MultipartFile=inline=1\x1b\\\x1b]1337;FilePart=AA\x1b\\\x1b]1337;FileEnd\x1b\\",
        ),
        // Sent first, shown later: both are needed.
        ("\x1b_Ga=p,i=7\x1b\\", ImageProtocol::Kitty, "\x1b_Ga=p,i=7\x1b\\"),
    ] {
        terminal.process(b"\r\n\n\n\n\n12345\x1b[2;6H");
        let before = (terminal.contents(), terminal.cursor());
        for byte in bytes.as_bytes() {
            terminal.process(&[*byte]);
        }
        let image = terminal.images().last().unwrap().clone();
        let top = terminal.snapshot().scrollback.end;
        assert_eq!((image.protocol, image.line, image.alternate), (protocol, top + 1, false));
        assert_eq!(str::from_utf8(&image.sequence), Ok(sequence));
        assert_eq!(terminal.take_events(), [Event::Image(image.id)], "{bytes:?}");
        if !bytes.contains("text") {
            assert_eq!((image.col, &before), (5, &(terminal.contents(), terminal.cursor())));
        }
    }
    assert_eq!(terminal.images().map(|image| image.id).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
}

/// Their lines are numbered like all others, and take them along.
#[test]
fn images_go_where_their_lines_go() {
    let options = || Options::default().with_scrollback(3, 1 << 20);
    let mut terminal = Emulator::with_options(Size::new(10, 2), options());
    terminal.process(format!("\x1b[2;3H{SIXEL}").as_bytes());
    assert_eq!(placed(&terminal), [(ImageProtocol::Sixel, 1, 2)]);
    terminal.process(b"\n\n\n");
    assert_eq!(placed(&terminal), [(ImageProtocol::Sixel, 1, 2)]);
    terminal.process(b"\n\n\n");
    assert!(placed(&terminal).is_empty(), "the line is gone from the scrollback");

    for (bytes, kept) in [
        ("\x1b[2J", 0),
        ("\x1b[2;1H\x1b[J", 1),
        ("\x1b[?2J", 1),
        ("\x1bc", 0),
        ("\x1b[?1049h\x1b[2J\x1b[?1049l", 1),
        ("\x1b[?1049h", 1),
        ("\x1b_Ga=d\x1b\\", 1),
    ] {
        let mut terminal = Emulator::with_options(Size::new(10, 2), options());
        terminal.process(format!("{SIXEL}{bytes}").as_bytes());
        assert_eq!(placed(&terminal).len(), kept, "{bytes:?}");
    }
    let mut terminal = Emulator::with_options(Size::new(10, 2), options());
    terminal.process(format!("{SIXEL}\x1b[?1049h{SIXEL}").as_bytes());
    assert_eq!(terminal.images().map(|image| image.alternate).collect::<Vec<_>>(), [false, true]);
    terminal.process(b"\x1b[?1049l");
    assert_eq!(terminal.images().map(|image| image.alternate).collect::<Vec<_>>(), [false]);
    terminal.resize(Size::new(9, 2));
    assert_eq!(terminal.images().count(), 0);
    // Kitty's can be deleted by their identifier, and all that are seen at once.
    terminal.process(format!("{KITTY}{KITTY}\x1b_Ga=T,i=8;AAAA\x1b\\\x1b_Ga=d,d=i,i=7\x1b\\").as_bytes());
    assert_eq!(terminal.images().count(), 1);
    terminal.process(format!("{SIXEL}\x1b_Ga=d\x1b\\").as_bytes());
    assert_eq!(
        placed(&terminal).iter().map(|(protocol, ..)| *protocol).collect::<Vec<_>>(),
        [ImageProtocol::Sixel]
    );
}

/// What a viewer passes on must not read or write its files, and what shows nothing is no image.
#[test]
fn only_images_that_carry_themselves_are_kept() {
    let mut terminal = Emulator::new(Size::new(10, 2));
    for bytes in [
        "\x1b_Ga=T,t=f;L2V0Yy9wYXNzd2Q=\x1b\\",
        "\x1b_Ga=T,t=t;L3RtcC94\x1b\\",
        "\x1b_Gt=s,a=T,m=1;AAAA\x1b\\\x1b_Gm=0;AAAA\x1b\\",
        "\x1b_Ga=q,i=1;AAAA\x1b\\",
        "\x1b_Xa=T;AAAA\x1b\\",
        "\x1b]1337;File=name=YQ==:AAAA\x07",
        "\x1b]1337;File=inline=0:AAAA\x07",
        "\x1b]1337;MultipartFile=\x07\x1b]1337;FilePart=AA\x07\x1b]1337;FileEnd\x07",
        "\x1b]1337;FilePart=AA\x07\x1b]1337;FileEnd\x07",
        "\x1bPq~~~\x18",
        "\x1b_Ga=T;AAAA\x18",
        "\x1b^Ga=T;AAAA\x1b\\\x1bXGa=T;AAAA\x1b\\",
    ] {
        terminal.process(bytes.as_bytes());
        assert_eq!((terminal.images().count(), terminal.take_events()), (0, vec![]), "{bytes:?}");
        assert_eq!(terminal.take_replies(), b"");
    }
    terminal.process(KITTY.as_bytes());
    assert_eq!(terminal.images().count(), 1, "what was refused leaves nothing behind");
    let mut terminal = Emulator::with_options(Size::new(10, 2), Options::default().with_images(0));
    terminal.process([SIXEL, KITTY, ITERM].concat().as_bytes());
    assert_eq!((terminal.images().count(), terminal.take_events()), (0, vec![]));
}

#[test]
fn images_are_bounded() {
    let options = Options::default().with_images(100 << 10);
    let mut terminal = Emulator::with_options(Size::new(10, 2), options);
    let data = "A".repeat(30 << 10);
    let flood = |terminal: &mut Emulator, image: &str| {
        for _ in 0..50 {
            image.as_bytes().chunks(4096).for_each(|chunk| terminal.process(chunk));
        }
        let kept: usize = terminal.images().map(|image| image.sequence.len()).sum();
        assert!(kept <= 100 << 10, "{kept}");
        assert!(terminal.memory() < 1 << 20, "{}", terminal.memory());
    };
    flood(&mut terminal, &format!("\x1bPq{data}\x1b\\"));
    assert_eq!(terminal.images().count(), 3);
    flood(&mut terminal, &format!("\x1b]1337;File=inline=1:{data}\x07"));
    flood(&mut terminal, &format!("\x1b_Ga=T,m=1;{data}\x1b\\\x1b_Gm=0;{data}\x1b\\"));
    let last = terminal.images().last().map(|image| image.id);
    // Too large, whole or in parts, and never ended.
    flood(&mut terminal, &format!("\x1bPq{}\x1b\\", data.repeat(4)));
    flood(&mut terminal, &format!("\x1b]1337;File=inline=1:{}\x07", data.repeat(4)));
    flood(
        &mut terminal,
        &format!("\x1b_Ga=T,m=1;{data}\x1b\\{}\x1b_Gm=0;\x1b\\", format!("\x1b_Gm=1;{data}\x1b\\").repeat(5)),
    );
    assert_eq!(terminal.images().last().map(|image| image.id), last);
    flood(&mut terminal, &format!("\x1b_Gm=1;{data}\x1b\\"));
    flood(&mut terminal, "\x1bc\x1b_G\x1b\\");
    // A title as long as an image is none.
    terminal.process(format!("\x1b]2;{}\x07", data.repeat(3)).as_bytes());
    assert_eq!(terminal.title(), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Images change nothing else, and come out the same in any pieces.
    #[test]
    fn images_do_not_disturb(pieces in prop::collection::vec(piece(), 1..12), at in any::<prop::sample::Index>(), chunk in 1_usize..9) {
        // A VT52 has no strings: all of them is text there.
        prop_assume!(!pieces.concat().contains("\x1b[?2l"));
        let image = [SIXEL, KITTY, ITERM][at.index(3)];
        let at = at.index(pieces.len());
        let mut bytes = pieces.clone();
        // What is unfinished must not swallow it, and what is repeated must not be cut off.
        bytes.insert(at, "\x1b\\".to_owned());
        let mut without = Emulator::with_options(Size::new(13, 6), Options::default().with_images(0));
        let mut with = [(); 2].map(|()| Emulator::new(Size::new(13, 6)));
        without.process(bytes.concat().as_bytes());
        bytes.insert(at + 1, image.to_owned());
        let bytes = bytes.concat();
        with[0].process(bytes.as_bytes());
        bytes.as_bytes().chunks(chunk).for_each(|chunk| with[1].process(chunk));
        let [a, b] = with.each_ref().map(|terminal| terminal.images().cloned().collect::<Vec<_>>());
        prop_assert_eq!(a, b);
        let (a, b) = (with[0].snapshot(), without.snapshot());
        prop_assert_eq!((&a.lines, a.cursor), (&b.lines, b.cursor), "{:?}", bytes);
    }
}

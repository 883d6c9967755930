//! The table: each control by its definition in xterm's ctlseqs.

pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) input: String,
    /// The screen is compared too.
    pub(crate) shown: bool,
    /// Why ours differs on purpose.
    pub(crate) reason: Option<&'static str>,
}

pub(crate) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for (shown, table) in [(true, SCREEN), (false, ANSWERS)] {
        for (name, input) in table {
            let reason = DIFFERENT.iter().find(|(known, _)| known == name).map(|(_, reason)| *reason);
            cases.push(Case { name: (*name).to_owned(), input: (*input).to_owned(), shown, reason });
        }
    }
    cases
}

/// Where ours differs, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("tab stops all eight", "xterm 379 does not know DECST8C"),
    ("marks", "its checksum counts the last mark in place of its character"),
    ("status of the locator", "Debian's has one, ours says that it has none"),
    ("attributes", "ours has no locator"),
    ("attributes, secondary", "ours has a version of its own"),
    ("version", "ours has a name of its own"),
    ("settings", "xterm tells no fewer than 24 lines and 80 columns"),
    ("setting of looks", "the order differs"),
    ("settings of a status line", "Debian's is built without one; with one it answers as ours"),
    ("DEC mode of horizontal coupling", "xterm 379 does not know DECHCCM, which a VT420 has"),
    ("C1 of two bytes", "libvterm's suite and ours take them for controls, xterm for nothing"),
    ("colours set", "its 104;1 resets colour 2 as well"),
    ("modes never kept", "xterm resets what was never saved, ours leaves it"),
    ("special colours", "it cannot reset them"),
    ("terminal parameters", "it answers only as a VT100"),
];

/// What is seen afterwards.
const SCREEN: &[(&str, &str)] = &[
    ("nothing", ""),
    ("text", "hello\r\nworld"),
    ("wrap", "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"),
    ("wrap at the right margin", "\x1b[?69h\x1b[3;8s\x1b[1;5Habcdefghij"),
    ("wrap right of the right margin", "\x1b[?69h\x1b[3;8s\x1b[1;36Habcdefghij"),
    ("wrap at the bottom margin", "\x1b[2;3r\x1b[3;35Habcdefghijkl"),
    ("wrap below the bottom margin", "\x1b[2;3r\x1b[10;35Habcdefghijkl"),
    ("no wrap", "\x1b[?7l\x1b[1;35Habcdefghij"),
    (
        "pending wrap and each motion",
        "\x1b[1;40Ha\x1b[Ab\x1b[3;40Hc\x1b[Dd\x1b[5;40He\x08f\x1b[7;40Hg\x1b[Kh\x1b[9;40Hi\rj",
    ),
    ("pending wrap and tabs", "\x1b[1;40Ha\tb\x1b[3;40Hc\x1b[Zd\x1b[5;40He\x1b[If"),
    (
        "pending wrap and erasing",
        "\x1b[1;40Ha\x1b[Jb\x1b[3;40Hc\x1b[Xd\x1b[5;40He\x1b[1Kf\x1b[7;40Hg\x1b[2Kh",
    ),
    ("pending wrap and editing", "\x1b[1;40Ha\x1b[@b\x1b[3;40Hc\x1b[Pd\x1b[5;40He\x1b[Lf\x1b[7;40Hg\x1b[Mh"),
    ("pending wrap and saving", "\x1b[1;40Ha\x1b7b\x1b8c"),
    ("pending wrap and scrolling", "\x1b[1;40Ha\x1b[Sb\x1b[5;40Hc\x1b[Td\x1b[7;40He\x1b[ @f"),
    ("pending wrap and modes", "\x1b[1;40Ha\x1b[?7lb\x1b[?7hc\x1b[3;40Hd\x1b[?5he\x1b[5;40Hf\x1b[4hg"),
    ("line feeds", "a\nb\x0bc\x0cd\x1bDe\x1bEf"),
    ("new line mode", "\x1b[20habc\ndef\x0bghi"),
    ("line feed outside of the margins", "\x1b[3;5r\x1b[10;1Ha\n\nb\x1b[2;1Hc\nd\ne\nf\ng"),
    ("line feed beside the margins", "\x1b[?69h\x1b[5;9s\x1b[2;4r\x1b[4;1Ha\nb\x1b[4;20Hc\nd\x1b[4;6He\nf"),
    ("reverse index", "a\x1b[3;1Hb\x1bMc\x1bMd\x1bMe\x1bMf"),
    (
        "reverse index beside the margins",
        "\x1b[?69h\x1b[5;9s\x1b[2;4rx\x1b[2;1Ha\x1bMb\x1b[2;20Hc\x1bMd\x1b[2;6He\x1bMf",
    ),
    (
        "motions stop at margins",
        "\x1b[3;6r\x1b[?69h\x1b[5;20s\x1b[4;7H\x1b[99Aa\x1b[99Bb\x1b[99Cc\x1b[99Dd\x1b[99Ee\x1b[99Ff",
    ),
    (
        "motions from outside of the margins",
        "\x1b[3;6r\x1b[?69h\x1b[5;20s\x1b[1;1H\x1b[99Aa\x1b[10;40H\x1b[99Bb\x1b[1;30H\x1b[99Cc\x1b[1;3H\x1b[99Dd",
    ),
    ("relative motions do not stop", "\x1b[3;6r\x1b[?69h\x1b[5;20s\x1b[4;7H\x1b[99aa\x1b[4;7H\x1b[99eb"),
    (
        "absolute motions",
        "\x1b[5Ga\x1b[3db\x1b[7`c\x1b[99Gd\x1b[99de\x1b[0Gf\x1b[0dg\x1b[2;3fh\x1b[;5Hi\x1b[6Hj",
    ),
    (
        "origin mode",
        "\x1b[3;6r\x1b[?69h\x1b[5;20s\x1b[?6ha\x1b[2;2Hb\x1b[99;99Hc\x1b[1;99fd\x1b[2de\x1b[3Gf\x1b[1ag\x1b[1eh",
    ),
    ("origin mode and carriage return", "\x1b[?69h\x1b[5;20s\x1b[2;2Ha\rb\x1b[?6h\x1b[2;2Hc\rd"),
    ("margins that are none", "\x1b[5;5rA\x1b[7;3rB\x1b[0;0rC\x1b[3;99rD\x1b[99;100rE\x1b[rF\x1b[5rG"),
    ("columns that are none", "\x1b[?69h\x1b[5;5sA\x1b[7;3sB\x1b[0;0sC\x1b[3;99sD\x1b[sE\x1b[5sF"),
    ("margins home", "abc\x1b[3;5rX\x1b[5;5H\x1b[?69hY\x1b[3;20sZ"),
    ("columns go with the mode", "\x1b[?69h\x1b[5;20s\x1b[?69l\x1b[3;7Ha\x1b[su"),
    ("tabs", "\ta\tb\x1b[2Ic\x1b[3Zd\x1b[1;13H\x1bH\x1b[1G\t\te\x1b[1;13H\x1b[gx\x1b[3gy\tz"),
    (
        "tabs and margins",
        "\x1b[?69h\x1b[5;20s\x1b[1;6H\t\t\t\ta\x1b[2;6H\x1b[5Ib\x1b[3;18H\x1b[5Zc\x1b[4;2H\x1b[5Zd",
    ),
    ("tabs in origin mode", "\x1b[?69h\x1b[5;20s\x1b[?6h\x1b[2;10H\x1b[9Za\x1b[3;10H\x1b[9Ib"),
    ("tab stops all eight", "\x1b[3g\x1b[?5W\ta"),
    ("back tabs", "\x1b[1;30H\x1b[Za\x1b[2;30H\x1b[2Zb\x1b[3;30H\x1b[99Zc\x1b[4;30H\x1b[0Zd"),
    (
        "insert characters",
        "abcdefgh\x1b[1;3H\x1b[2@X\x1b[2;1Habcdefgh\x1b[2;3H\x1b[99@Y\x1b[3;1Habc\x1b[3;1H\x1b[0@",
    ),
    (
        "insert characters inside margins",
        "abcdefghijkl\x1b[?69h\x1b[3;8s\x1b[1;5H\x1b[2@\x1b[2;1Habcdefghijkl\x1b[2;1H\x1b[2@\x1b[3;1Habcdefghij\x1b[3;9H\x1b[@",
    ),
    (
        "delete characters",
        "abcdefgh\x1b[1;3H\x1b[2P\x1b[2;1Habcdefgh\x1b[2;3H\x1b[99P\x1b[3;1Habc\x1b[3;1H\x1b[0P",
    ),
    (
        "delete characters inside margins",
        "abcdefghijkl\x1b[?69h\x1b[3;8s\x1b[1;5H\x1b[2P\x1b[2;10H\x1b[2P\x1b[1;1H\x1b[P",
    ),
    ("insert lines", "a\r\nb\r\nc\r\nd\x1b[2;3H\x1b[2LX\x1b[9;1Hy\x1b[9;1H\x1b[99L"),
    (
        "insert lines inside margins",
        "abcdef\r\nghijkl\r\nmnopqr\x1b[?69h\x1b[2;4s\x1b[1;3r\x1b[2;3H\x1b[LX\x1b[1;6H\x1b[LY",
    ),
    ("delete lines", "a\r\nb\r\nc\r\nd\x1b[2;3H\x1b[MX\x1b[1;1H\x1b[2M"),
    (
        "delete lines inside margins",
        "abcdef\r\nghijkl\r\nmnopqr\x1b[?69h\x1b[2;4s\x1b[1;3r\x1b[2;3H\x1b[MX\x1b[1;6H\x1b[MY",
    ),
    ("scroll up and down", "a\r\nb\r\nc\r\nd\x1b[2;3r\x1b[S\x1b[r\x1b[2S\x1b[T\x1b[99T"),
    ("scroll inside margins", "abcdef\r\nghijkl\r\nmnopqr\x1b[?69h\x1b[2;4s\x1b[1;3r\x1b[S\x1b[9;9H\x1b[T"),
    (
        "shift left and right",
        "abcdef\r\nghijkl\x1b[2 @\x1b[3 A\x1b[?69h\x1b[2;6s\x1b[1;3H\x1b[ @\x1b[9;9H\x1b[ A",
    ),
    (
        "insert and delete columns",
        "abcdef\r\nghijkl\x1b[1;3H\x1b[2'}\x1b[1;1H\x1b['~\x1b[?69h\x1b[2;6s\x1b[1;3H\x1b['}\x1b[1;9H\x1b['}\x1b['~",
    ),
    ("back and forward index", "abcdef\r\nghijkl\x1b[1;1H\x1b6\x1b6X\x1b[1;40H\x1b9\x1b9Y\x1b[1;5H\x1b6Z"),
    (
        "back and forward index inside margins",
        "abcdefghij\x1b[?69h\x1b[3;8s\x1b[1;3H\x1b6\x1b[1;8H\x1b9\x1b[1;1H\x1b6\x1b[1;40H\x1b9\x1b[2;2H\x1b6\x1b[2;9H\x1b9x",
    ),
    ("back index outside of rows", "abc\x1b[?69h\x1b[3;8s\x1b[3;5r\x1b[1;3H\x1b6\x1b[1;8H\x1b9"),
    ("erase display", "abc\r\ndef\r\nghi\x1b[2;2H\x1b[J"),
    ("erase display above", "abc\r\ndef\r\nghi\x1b[2;2H\x1b[1J"),
    ("erase display whole", "abc\r\ndef\x1b[2JX"),
    ("erase line", "abcdef\x1b[1;3H\x1b[K\x1b[2;1Habcdef\x1b[2;3H\x1b[1K\x1b[3;1Habcdef\x1b[3;3H\x1b[2Kx"),
    ("erase unknown", "abcdef\x1b[1;3H\x1b[5K\x1b[7J\x1b[9X"),
    (
        "erase ignores margins",
        "abcdefghij\x1b[?69h\x1b[3;6s\x1b[1;4H\x1b[K\x1b[2;1Habcdefghij\x1b[2;4H\x1b[5X",
    ),
    ("protected", "a\x1b[1\"qb\x1b[0\"qc\x1b[?2Kd\x1b[1;2H\x1b[2\"qe"),
    ("protected whole", "a\x1b[1\"qb\x1b[2\"qc\x1b[?2J"),
    ("protected and plain erase", "a\x1b[1\"qb\x1b[0\"qc\x1b[2K"),
    ("guarded", "a\x1bVb\x1bWc\x1b[2K"),
    ("guarded whole", "a\x1bVb\x1bWc\x1b[2J"),
    ("guarded characters", "a\x1bVb\x1bWc\x1b[1G\x1b[9X"),
    ("guarded and selective erase", "a\x1bVb\x1bWc\x1b[?2J"),
    ("guarded area", "a\x1bVb\x1bWc\x1b[1;1;1;9$z"),
    ("guarded area and selective erase", "a\x1bVb\x1bWc\x1b[1;1;1;9${"),
    ("protected area", "a\x1b[1\"qb\x1b[0\"qc\x1b[1;1;1;9${"),
    ("protected area and plain erase", "a\x1b[1\"qb\x1b[0\"qc\x1b[1;1;1;9$z"),
    ("fill", "abcdef\r\nghijkl\x1b[88;1;2;2;4$x\x1b[31;3;1;4;2$x\x1b[127;3;1;4;2$x\x1b[256;3;1;4;2$x"),
    ("fill with looks", "\x1b[1;4mabcdef\x1b[7m\x1b[88;1;2;2;4$x"),
    ("fill without area", "\x1b[88$x"),
    ("fill beyond", "\x1b[88;9;38;99;99$x\x1b[89;5;5;4;4$x\x1b[90;0;0;0;3$x"),
    ("fill in origin mode", "\x1b[3;6r\x1b[?69h\x1b[5;20s\x1b[?6h\x1b[88;1;1;2;3$x\x1b[89;4;10;99;99$x"),
    ("fill in graphics", "\x1b(0\x1b[113;1;1;1;3$x"),
    ("fill latin", "\x1b[233;1;1;1;3$x"),
    ("copy", "abcdef\r\nghijkl\x1b[1;2;2;4;1;4;6;1$v"),
    ("copy over itself", "abcdef\r\nghijkl\r\nmnopqr\x1b[1;1;3;4;1;2;2;1$v"),
    ("copy over itself backwards", "abcdef\r\nghijkl\r\nmnopqr\x1b[2;2;3;5;1;1;1;1$v"),
    ("copy beyond", "abcdef\r\nghijkl\x1b[1;1;2;6;1;10;38;1$v"),
    ("copy by default", "abcdef\r\nghijkl\x1b[;;2;2;;3;3$v"),
    (
        "copy in origin mode",
        "abcdefghijklmnop\x1b[2;6r\x1b[?69h\x1b[3;12s\x1b[?6h\x1b[1;1Hqrs\x1b[1;1;1;3;1;2;9;1$v",
    ),
    ("copy with looks", "\x1b[1mab\x1b[4mcd\x1b[m\x1b[1;1;1;4;1;2;1;1$v"),
    ("change attributes of a stream", "abcdef\r\nghijkl\x1b[1;3;2;2;1;4$r"),
    (
        "change attributes of an area",
        "abcdef\r\nghijkl\x1b[2*x\x1b[1;3;2;2;1;4$r\x1b[1;2;2;4;7$r\x1b[1;3;2;3;0$r",
    ),
    (
        "reverse attributes of an area",
        "\x1b[1mabcdef\x1b[m\r\nghijkl\x1b[2*x\x1b[1;2;2;4;1;4;5;7$t\x1b[1;1;1;2;4$t",
    ),
    ("erase area", "abcdef\r\nghijkl\x1b[1;2;2;4$z"),
    ("erase area whole", "abcdef\r\nghijkl\x1b[$z"),
    ("erase area in origin mode", "abcdef\r\nghijkl\r\nmnopqr\x1b[2;6r\x1b[?6h\x1b[1;2;2;4$z"),
    ("repeat", "a\x1b[3bb\x1b[b\x1b[bc\x1b[md\x1b[2b"),
    ("repeat and wrap", "\x1b[1;38Hx\x1b[5b\x1b[5;9r\x1b[?69h\x1b[3;6s\x1b[6;4Hy\x1b[9b"),
    ("alignment", "\x1b[3;5r\x1b[?6h\x1b[1mx\x1b#8y"),
    ("insert mode", "abcdef\x1b[1;3H\x1b[4hXY\x1b[4lZ"),
    ("insert mode inside margins", "abcdefghij\x1b[?69h\x1b[3;6s\x1b[1;4H\x1b[4hX\x1b[4l"),
    ("reverse wrap", "\x1b[?45habc\r\n\x08\x08X\x1b[1;1H\x08Y\x1b[5;1H\x1b[45DZ"),
    (
        "reverse wrap inside margins",
        "\x1b[?45h\x1b[?69h\x1b[5;20s\x1b[3;6r\x1b[4;5H\x08X\x1b[3;5H\x08Y\x1b[5;3H\x1b[5DZ",
    ),
    ("reverse wrap without wrap", "\x1b[?45h\x1b[?7l\x1b[3;1H\x08X\x1b[?7h"),
    ("reverse wrap from a pending wrap", "\x1b[?45h\x1b[1;40HA\x08B\x1b[3;40HC\x1b[2DD"),
    ("backspace", "abc\x08X\x1b[?69h\x1b[5;20s\x1b[2;5H\x08Y\x1b[3;3H\x08Z\x1b[4;1H\x08W"),
    ("save and restore", "\x1b[2;3H\x1b[1;4m\x1b(0\x1b7\x1b[5;5H\x1b[m\x1b(Bx\x1b8q"),
    ("save and restore origin", "\x1b[3;6r\x1b[?6h\x1b[2;2H\x1b7\x1b[?6l\x1b[1;1Ha\x1b8b\x1b[1;1Hc"),
    ("restore without save", "\x1b[3;3H\x1b[1m\x1b[?6h\x1b8x"),
    ("save wrap mode", "\x1b[?7l\x1b7\x1b[?7h\x1b8\x1b[1;39Habcdef\x1b[?7h"),
    ("save insert mode", "\x1b[4h\x1b7\x1b[4l\x1b8ab\x1b[1GX\x1b[4l"),
    ("save reverse wrap", "\x1b[?45h\x1b7\x1b[?45l\x1b8"),
    ("save and margins", "\x1b[5;5H\x1b7\x1b[2;3r\x1b[?69h\x1b[2;3s\x1b8x"),
    ("save by CSI s", "\x1b[2;3H\x1b[1m\x1b[s\x1b[m\x1b[5;5H\x1b[ux"),
    ("save by 1048", "\x1b[2;3H\x1b[?1048h\x1b[5;5H\x1b[?1048lx"),
    (
        "screens and saved cursors",
        "\x1b[2;3H\x1b7\x1b[?47h\x1b[4;5H\x1b7\x1b[?47l\x1b8a\x1b[?47h\x1b8b\x1b[?47l",
    ),
    ("screen 47", "abc\x1b[?47hdef\x1b[?47lghi\x1b[?47hjkl"),
    ("screen 1047", "abc\x1b[?1047hdef\x1b[?1047lghi\x1b[?1047hjkl"),
    ("screen 1049", "abc\x1b[1m\x1b[?1049hdef\x1b[?1049lghi\x1b[?1049hjkl"),
    ("screens kept under one number", "abc\x1b[?1049h\x1b[?1049sdef\x1b[?1049lghi\x1b[?47rjkl\x1b[?1047rmno"),
    (
        "screens kept from one to the other",
        "abc\x1b[?47s\x1b[?1049hdef\x1b[?1049rghi\x1b[?47h\x1b[?1047s\x1b[?47l\x1b[?1049rjkl",
    ),
    ("modes never kept", "abc\x1b[?6;7;25;1049r\x1b[?7$p\x1b[?25$p\x1b[1;39Hdefghi"),
    (
        "screens and a pending wrap",
        "\x1b[1;40Ha\x1b[?1049hb\x1b[3;40Hc\x1b[?1047ld\x1b[5;40He\x1b[?47hf\x1b[7;40Hg\x1b[?47lh",
    ),
    ("screen 1049 twice", "abc\x1b[?1049hdef\x1b[?1049hghi\x1b[?1049ljkl\x1b[?1049lmno"),
    ("screens and 3J", "abc\x1b[?1049hdef\x1b[3J\x1b[?1049lghi"),
    ("no alternate screen", "abc\x1b[?1046l\x1b[?1049hdef\x1b[?1046h"),
    (
        "soft reset",
        "abc\x1b[3;5r\x1b[?6h\x1b[4h\x1b[1;4m\x1b[?25l\x1b[?7l\x1b[?1h\x1b=\x1b[1\"q\x1b(0\x1b[3;3H\x1b[!pq",
    ),
    ("soft reset forgets the saved cursor", "\x1b[3;3H\x1b7\x1b[5;5H\x1b[!p\x1b8x"),
    ("soft reset and margins", "\x1b[?69h\x1b[5;20s\x1b[!px"),
    (
        "soft reset and more",
        "\x1b[?45h\x1b[?66h\x1b[?67h\x1b[?9h\x1b[?1004h\x1b[?2004h\x1b[12l\x1b[20h\x1b[2h\x1b[!p\x1b[2l",
    ),
    (
        "reset",
        "abc\x1b[3;5r\x1b[?6h\x1b[4h\x1b[1;4m\x1b[?25l\x1b[?7l\x1b[?1h\x1b[?1000h\x1b[?2004h\x1b[20h\x1b(0\x1b[3g\x1bcx",
    ),
    ("reset of the alternate screen", "abc\x1b[?1049hdef\x1bcx"),
    ("level", "abc\x1b[3;5r\x1b[4h\x1b[1m\x1b[62;1\"px\x1b[64;1\"py"),
    ("132 columns not allowed", "abc\x1b[?3hdef"),
    ("graphics", "\x1b(0`abcdefghijklmnopqrstuvwxyz{|}~\x1b(B"),
    ("shifts", "\x1b)0\x0eqx\x0fqx\x1b*0\x1bnqx\x1b+0\x1boqx\x0fq\x1bNq\x1bOxq"),
    (
        "technical",
        "\x1b(>!\"#$%&'()*/0123456789:;<=>?@ABCDEFGHIJ\r\nKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklm\r\nnopqrstuvwxyz{|}~\x1b(B",
    ),
    ("alternate character sets", "\x1b(1abc\x1b(2abc\x1b(B"),
    (
        "line attributes and a pending wrap",
        "\x1b[2;40Hx\x1b#5y\x1b[5;1H\x1b#6\x1b[5;20Hx\x1b#6y\x1b[7;1H\x1b#6\x1b[7;20Hx\x1b#5y",
    ),
    ("latin", "\x1b-A\x0eAai\x0f"),
    ("looks", "\x1b[1ma\x1b[4mb\x1b[5mc\x1b[7md\x1b[22me\x1b[24mf\x1b[25mg\x1b[27mh"),
    ("strings are silent", "a\x1bXsos\x1b\\b\x1b^pm\x1b\\c\x1b_apc\x1b\\d\x1bPdcs\x1b\\e"),
    ("controls within sequences", "a\x1b[2\x08Cb\x1b[1\r;5Hc\x1b[3\nCd"),
    ("cancelled sequences", "a\x1b[2\x18Cb\x1b[2\x1aCc\x1b]2;x\x18d"),
    ("intermediates that mean nothing", "a\x1b[2 Cb\x1b[2!Dc\x1b[?3Cd\x1b[>2De\x1b#zf\x1b$zg"),
    ("too large", "a\x1b[99999Bb\x1b[99999999999Cc\x1b[65536Ad"),
    ("wide", "a漢字b\r\n\x1b[2;39H漢字"),
    ("wide at a margin", "\x1b[?69h\x1b[3;6s\x1b[1;4H漢字"),
    ("marks", "x\u{301}y\u{302}z"),
    ("memory lock", "a\x1blb\x1bmc"),
    ("VT52 motions", "\x1b[?2l\x1bY\"#a\x1bAb\x1bBc\x1bDd\x1bCe\x1bHf\x1bIg\x1b<"),
    ("VT52 motions to the edges", "\x1b[?2l\x1bY~ a\x1bHb\x1bD\x1bD\x1bAc\x1bY+ d\x1bB\x1bBe\x1b<"),
    ("VT52 erasing", "abc\r\ndef\r\nghi\x1b[?2l\x1bY!!\x1bK\x1bY\"!\x1bJ\x1bHx\x1b<"),
    ("VT52 erasing with looks", "\x1b[1;4mabc\x1b[?2ld\x1bHe\x1bJ\x1b<f"),
    (
        "VT52 inside margins",
        "\x1b[3;6r\x1b[?6h\x1b[?2l\x1bHa\x1bY\"\"b\x1bY%%c\x1bBd\x1bBe\x1bHf\x1bIg\x1b<h",
    ),
    ("VT52 character sets", "\x1b(0q\x1b)0\x1b[?2lq\x1bFq\x1bGq\x0eq\x0fq\x1bF\x1b<q\x0eq"),
    ("VT52 shifts kept", "\x1b)0\x0eq\x1b[?2lq\x1b<q\x0fq"),
    (
        "VT52 and what it does not know",
        "\x1b[?2la\x1b[31mb\x1bVc\x1bcd\x1b7e\x1b(0f\x1b]2;x\x07g\x1b#8h\x1bP\x1b\\\x1b<i",
    ),
    ("VT52 controls within", "\x1b[?2la\x1b\nAb\x1bY\x18#c\x1b\x18Ad\x1bY!\x1bHe\x1b<"),
    ("VT52 with other modes", "ab\x1b[?6;2;7lcd\x1bHe\x1b<\x1b[?7$p"),
    ("VT52 left in ANSI", "\x1b(0q\x1b[?2hq\x1b<q"),
];

/// What comes back.
const ANSWERS: &[(&str, &str)] = &[
    ("status", "\x1b[5n\x1b[6n\x1b[?6n\x1b[?5n\x1b[7n"),
    ("status of the printer", "\x1b[?15n"),
    ("status of keys", "\x1b[?25n\x1b[?26n"),
    ("status of the locator", "\x1b[?53n\x1b[?55n"),
    ("type of locator", "\x1b[?56n"),
    ("macros and memory", "\x1b[?62n\x1b[?63n\x1b[?63;7n\x1b[?75n\x1b[?85n"),
    (
        "status at level 1",
        "\x1b[61;1\"p\x1b[?6n\x1b[?15n\x1b[?25n\x1b[?26n\x1b[?56n\x1b[?62n\x1b[?75n\x1b[?85n",
    ),
    (
        "status at level 2",
        "\x1b[62;1\"p\x1b[?6n\x1b[?15n\x1b[?25n\x1b[?26n\x1b[?56n\x1b[?62n\x1b[?75n\x1b[?85n",
    ),
    (
        "status at level 3",
        "\x1b[63;1\"p\x1b[?6n\x1b[?15n\x1b[?25n\x1b[?26n\x1b[?56n\x1b[?62n\x1b[?75n\x1b[?85n",
    ),
    ("cursor in origin mode", "\x1b[3;6r\x1b[?69h\x1b[5;20s\x1b[?6h\x1b[2;3H\x1b[6n\x1b[?6n"),
    ("attributes", "\x1b[c\x1b[0c\x1b[1c\x1bZ"),
    (
        "keys by XTGETTCAP",
        "\x1bP+q6b75;6b64;6b6c;6b72;6b31;6b4e;6b50;6b68;4037;6b49;6b44\x1b\\\x1b[?1h\x1bP+q6b75;6b63756431;6b663132\x1b\\",
    ),
    ("graphics attributes", "\x1b[?1;1;0S\x1b[?2;1;0S\x1b[?3;1;0S\x1b[?4;1;0S"),
    (
        "colours that are none",
        "\x1b]4;300;red;1;?\x07\x1b]4;1;nosuch;2;?\x07\x1b]5;0;nosuch;0;?\x07\x1b]10;nosuch;?;?\x07\x1b]17;?;?;?\x07",
    ),
    ("VT52 attributes", "\x1b[?2l\x1bZ\x1b[c\x1b<\x1b[?2$p\x1b[6n"),
    ("VT52 and levels", "\x1b[62;1\"p\x1b[?2l\x1b<\x1bP$q\"p\x1b\\\x1b[61\"p\x1b[?2l\x1b<\x1b[?6n"),
    ("attributes, secondary", "\x1b[>c\x1b[>1c"),
    ("attributes, tertiary", "\x1b[=c\x1b[=1c\x1b[63;1\"p\x1b[=c"),
    ("version", "\x1b[>q"),
    (
        "ANSI modes",
        "\x1b[1$p\x1b[2$p\x1b[3$p\x1b[4$p\x1b[5$p\x1b[7$p\x1b[10$p\x1b[11$p\x1b[12$p\x1b[13$p\x1b[16$p\x1b[19$p\x1b[20$p\x1b[21$p\x1b[99$p",
    ),
    ("ANSI modes set", "\x1b[2;4;20h\x1b[12l\x1b[2$p\x1b[4$p\x1b[12$p\x1b[20$p"),
    (
        "DEC modes",
        "\x1b[?1$p\x1b[?2$p\x1b[?3$p\x1b[?4$p\x1b[?5$p\x1b[?6$p\x1b[?7$p\x1b[?8$p\x1b[?9$p\x1b[?12$p\x1b[?13$p\x1b[?14$p\x1b[?18$p\x1b[?19$p\x1b[?25$p\x1b[?30$p\x1b[?35$p\x1b[?38$p\x1b[?40$p\x1b[?41$p\x1b[?42$p\x1b[?44$p\x1b[?45$p\x1b[?46$p\x1b[?47$p",
    ),
    ("DEC mode of horizontal coupling", "\x1b[?60$p"),
    (
        "DEC modes, more",
        "\x1b[?61$p\x1b[?64$p\x1b[?66$p\x1b[?67$p\x1b[?68$p\x1b[?69$p\x1b[?73$p\x1b[?80$p\x1b[?81$p\x1b[?95$p\x1b[?99$p",
    ),
    (
        "xterm's modes",
        "\x1b[?1000$p\x1b[?1001$p\x1b[?1002$p\x1b[?1003$p\x1b[?1004$p\x1b[?1005$p\x1b[?1006$p\x1b[?1011$p\x1b[?1015$p\x1b[?1016$p\x1b[?1035$p\x1b[?1037$p\x1b[?1039$p\x1b[?1040$p\x1b[?1041$p\x1b[?1042$p\x1b[?1043$p\x1b[?1044$p\x1b[?1046$p\x1b[?1047$p\x1b[?1048$p\x1b[?1049$p\x1b[?1050$p\x1b[?1051$p\x1b[?1060$p\x1b[?1061$p\x1b[?1070$p\x1b[?2001$p\x1b[?2002$p\x1b[?2003$p\x1b[?2004$p\x1b[?2005$p\x1b[?2006$p",
    ),
    (
        "DEC modes set",
        "\x1b[?1;3;4;5;6;9;18;25;40;41;42;44;45;66;67;69;80h\x1b[?1$p\x1b[?4$p\x1b[?5$p\x1b[?6$p\x1b[?9$p\x1b[?18$p\x1b[?25$p\x1b[?40$p\x1b[?41$p\x1b[?42$p\x1b[?44$p\x1b[?45$p\x1b[?66$p\x1b[?67$p\x1b[?69$p\x1b[?80$p",
    ),
    ("modes at level 3", "\x1b[63;1\"p\x1b[4$p\x1b[?69h\x1b[?69$p\x1b[?25$p"),
    ("modes at level 2", "\x1b[62;1\"p\x1b[4$p\x1b[?25$p"),
    ("modes at level 1", "\x1b[61;1\"p\x1b[4$p\x1b[?25$p\x1b[?42$p"),
    (
        "mouse modes end together",
        "\x1b[?1000h\x1b[?1002h\x1b[?1000$p\x1b[?1002$p\x1b[?1000l\x1b[?1002$p\x1b[?1003h\x1b[?9l\x1b[?1003$p",
    ),
    (
        "mouse encodings",
        "\x1b[?1006h\x1b[?1005h\x1b[?1006$p\x1b[?1005$p\x1b[?1006l\x1b[?1005$p\x1b[?1005l\x1b[?1005$p",
    ),
    ("screens as modes", "\x1b[?47h\x1b[?47$p\x1b[?1047$p\x1b[?1049$p\x1b[?1049l\x1b[?47$p"),
    (
        "settings",
        "\x1bP$qm\x1b\\\x1bP$qr\x1b\\\x1bP$qs\x1b\\\x1bP$qt\x1b\\\x1bP$q\"q\x1b\\\x1bP$q\"p\x1b\\\x1bP$q q\x1b\\\x1bP$q$|\x1b\\\x1bP$q*|\x1b\\",
    ),
    ("settings of a status line", "\x1bP$q$}\x1b\\\x1bP$q$~\x1b\\"),
    ("settings unknown", "\x1bP$qz\x1b\\\x1bP$q\x1b\\\x1bP$q*}\x1b\\"),
    (
        "setting of looks",
        "\x1b[1;2;3;4;5;7;8;9m\x1bP$qm\x1b\\\x1b[22;24m\x1bP$qm\x1b\\\x1b[0;21m\x1bP$qm\x1b\\",
    ),
    (
        "setting of colours",
        "\x1b[31;42m\x1bP$qm\x1b\\\x1b[91;102m\x1bP$qm\x1b\\\x1b[38;5;200;48;5;17m\x1bP$qm\x1b\\\x1b[39;49m\x1bP$qm\x1b\\\x1b[38;5;3m\x1bP$qm\x1b\\",
    ),
    ("setting of protection", "\x1b[1\"q\x1bP$q\"q\x1b\\\x1b[2\"q\x1bP$q\"q\x1b\\\x1bV\x1bP$q\"q\x1b\\\x1bW"),
    ("setting of margins", "\x1b[3;7r\x1bP$qr\x1b\\\x1b[?69h\x1b[5;20s\x1bP$qs\x1b\\"),
    (
        "setting of the cursor",
        "\x1b[1 q\x1bP$q q\x1b\\\x1b[2 q\x1bP$q q\x1b\\\x1b[3 q\x1bP$q q\x1b\\\x1b[4 q\x1bP$q q\x1b\\\x1b[5 q\x1bP$q q\x1b\\\x1b[6 q\x1bP$q q\x1b\\\x1b[?12h\x1bP$q q\x1b\\\x1b[0 q\x1bP$q q\x1b\\\x1b[2 q",
    ),
    (
        "setting of the level",
        "\x1b[63;1\"p\x1bP$q\"p\x1b\\\x1b[62;0\"p\x1bP$q\"p\x1b\\\x1b[61;1\"p\x1bP$q\"p\x1b\\",
    ),
    ("eight bits", "\x1b G\x1b[5n\x1b[6n\x1bP$qr\x1b\\\x1b]4;1;?\x1b\\\x1b F\x1b[5n"),
    (
        "eight bits by level",
        "\x1b[64;0\"p\x1b[5n\x1b[64;2\"p\x1b[5n\x1b[64;1\"p\x1b[5n\x1b[62\"p\x1b[5n\x1b[61;0\"p\x1b[5n\x1b G\x1b[5n",
    ),
    ("C1 of two bytes", "a\u{9b}5n\u{85}\u{9b}6n\u{8d}\u{9b}6n\u{84}\u{9b}6n\u{90}$qr\u{9c}\u{9a}"),
    ("colours", "\x1b]4;1;?\x1b\\\x1b]4;9;?\x07\x1b]4;16;?;231;?\x1b\\\x1b]4;244;?\x1b\\"),
    (
        "colours of sixteen",
        "\x1b]4;0;?;1;?;2;?;3;?;4;?;5;?;6;?;7;?;8;?;9;?;10;?;11;?;12;?;13;?;14;?;15;?\x1b\\",
    ),
    (
        "colours set",
        "\x1b]4;1;#123456\x1b\\\x1b]4;1;?\x1b\\\x1b]4;1;rgb:1/2/3;2;rgb:1234/5678/9abc\x1b\\\x1b]4;1;?;2;?\x1b\\\x1b]104;1\x1b\\\x1b]4;1;?;2;?\x1b\\\x1b]104\x1b\\\x1b]4;2;?\x1b\\",
    ),
    (
        "colours spelled",
        "\x1b]10;#fff\x1b\\\x1b]10;?\x1b\\\x1b]10;#abcdef\x1b\\\x1b]10;?\x1b\\\x1b]10;#123456789\x1b\\\x1b]10;?\x1b\\\x1b]10;#123456789abc\x1b\\\x1b]10;?\x1b\\\x1b]10;rgb:f/ff/fff\x1b\\\x1b]10;?\x1b\\",
    ),
    (
        "colours by intensity",
        "\x1b]10;rgbi:1/1/1\x1b\\\x1b]10;?\x1b\\\x1b]10;rgbi:0.5/0.25/0\x1b\\\x1b]10;?\x1b\\",
    ),
    (
        "colours of the CIE",
        "\x1b]10;CIEXYZ:0.3580/0.6554/0.2103\x1b\\\x1b]10;?\x1b\\\x1b]10;CIEuvY:0.1700/0.4709/0.5000\x1b\\\x1b]10;?\x1b\\\x1b]10;CIExyY:0.3127/0.3291/0.5\x1b\\\x1b]10;?\x1b\\\x1b]10;CIELab:50/0/0\x1b\\\x1b]10;?\x1b\\\x1b]10;CIELuv:50/0.1/0.1\x1b\\\x1b]10;?\x1b\\\x1b]10;TekHVC:29.6/50/20\x1b\\\x1b]10;?\x1b\\",
    ),
    (
        "colours named",
        "\x1b]10;red\x1b\\\x1b]10;?\x1b\\\x1b]10;RebeccaPurple\x1b\\\x1b]10;?\x1b\\\x1b]10;dark slate gray\x1b\\\x1b]10;?\x1b\\\x1b]10;grey50\x1b\\\x1b]10;?\x1b\\\x1b]10;DeepSkyBlue4\x1b\\\x1b]10;?\x1b\\",
    ),
    (
        "colours that are none",
        "\x1b]10;#123456\x1b\\\x1b]10;#12345\x1b\\\x1b]10;nocolour\x1b\\\x1b]10;rgb:1/2\x1b\\\x1b]10;?\x1b\\",
    ),
    (
        "dynamic colours",
        "\x1b]10;#111111;#222222;#333333\x1b\\\x1b]10;?;?;?\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\\x1b]10;?\x1b\\\x1b]11;?\x1b\\",
    ),
    (
        "dynamic colours, all",
        "\x1b]13;#111111\x1b\\\x1b]14;#222222\x1b\\\x1b]15;#333333\x1b\\\x1b]16;#444444\x1b\\\x1b]17;#555555\x1b\\\x1b]18;#666666\x1b\\\x1b]19;#777777\x1b\\\x1b]13;?\x1b\\\x1b]14;?\x1b\\\x1b]15;?\x1b\\\x1b]16;?\x1b\\\x1b]17;?\x1b\\\x1b]18;?\x1b\\\x1b]19;?\x1b\\",
    ),
    (
        "special colours",
        "\x1b]5;0;#111111\x1b\\\x1b]5;0;?\x1b\\\x1b]4;257;#222222\x1b\\\x1b]5;1;?\x1b\\\x1b]4;257;?\x1b\\\x1b]5;2;#333333;3;#444444;4;#555555\x1b\\\x1b]5;2;?;3;?;4;?\x1b\\\x1b]105;0\x1b\\\x1b]5;0;?\x1b\\\x1b]105\x1b\\\x1b]5;1;?;2;?\x1b\\",
    ),
    ("sizes in characters", "\x1b[18t"),
    ("132 columns", "\x1b[?40habc\x1b[?3h\x1b[6n\x1b[?3$p\x1b[18t\x1b[1;1;1;1;1;1*y\x1b[?3l\x1b[18t"),
    (
        "132 columns and margins",
        "\x1b[?40h\x1b[3;5r\x1b[?69h\x1b[4;9s\x1b[?6h\x1b[?3h\x1b[6n\x1b[?6$p\x1b[?69$p\x1bP$qr\x1b\\",
    ),
    ("132 columns again", "\x1b[?40h\x1b[?3habc\x1b[?3h\x1b[6n\x1b[1;1;1;1;1;1*y"),
    ("sizes asked for", "\x1b[8;12;30t\x1b[18t\x1b[8;14t\x1b[18t\x1b[8;;35t\x1b[18t\x1b[26t\x1b[18t"),
    ("sizes by DEC", "\x1b[132$|\x1b[18t\x1b[80$|\x1b[18t\x1b[30*|\x1b[18t"),
    (
        "what a size does to the screen",
        "a\r\nb\r\nc\x1b[2;5r\x1b[8;6;20t\x1b[6n\x1bP$qr\x1b\\\x1b[1;1;1;1;1;1*y",
    ),
    ("state of the window", "\x1b[11t"),
    ("titles on a stack", "\x1b]2;a\x1b\\\x1b[22t\x1b]2;b\x1b\\\x1b[23t"),
    ("keys", "\x1b[?4m\x1b[>4;2m\x1b[?4m\x1b[>4m\x1b[?4m\x1b[?1m\x1b[?2m\x1b[?0m"),
    ("tab stops", "\x1b[3g\x1b[1;5H\x1bH\x1b[1;9H\x1bH\x1b[2$w"),
    ("tab stops again", "\x1bP2$t3/7/11\x1b\\\x1b[2$w"),
    ("cursor again", "\x1bP1$t3;7;1;A;@;@;0;2;@;BBBB\x1b\\\x1b[6n\x1bP$qm\x1b\\"),
    ("checksum of nothing", "\x1b[1;1;5;5;4;4*y"),
    (
        "checksum",
        "abc\x1b[1mdef\x1b[m\r\nghi\x1b[7;1;1;1;1;3*y\x1b[8;1;1;1;2;9*y\x1b[9;1;2;2;2;2*y\x1b[10;0;1;1*y\x1b[1;1;3;3;5;5*y",
    ),
    (
        "checksum of others",
        "\x1b[3#yab\x1b[1;1;1;1;1;4*y\x1b[7#y\x1b[1;1;1;1;1;4*y\x1b[15#y\x1b[1;1;1;1;1;4*y\x1b[0#y",
    ),
    ("checksum in origin mode", "\x1b[3;5r\x1b[?6habc\x1b[1;1;1;1;1;1*y"),
    ("capability", "\x1bP+q436f\x1b\\"),
    ("terminal parameters", "\x1b[x\x1b[1x"),
    ("rectangles know no level 3", "abc\x1b[63;1\"p\x1b[1;1;1;3$z\x1b[64;1\"p\x1b[1;1;1;1;1;1*y"),
    ("presentation at level 2", "\x1b[62;1\"p\x1b[2$w"),
    (
        "looks on a stack",
        "\x1b[3;31m\x1b[#{\x1b[m\x1b[4m\x1b[#}\x1bP$qm\x1b\\\x1b[#p\x1b[0m\x1b[#q\x1bP$qm\x1b\\",
    ),
    ("some looks on a stack", "\x1b[3;4;31m\x1b[3;30#{\x1b[0;9m\x1b[#}\x1bP$qm\x1b\\"),
    ("looks of an area", "\x1b[1;4ma\x1b[24mb\x1b[m\x1b[1;1;1;1#|\x1b[1;1;1;2#|\x1b[1;1;2;2#|"),
    (
        "palettes on a stack",
        "\x1b[#R\x1b]4;1;#111111\x1b\\\x1b[#P\x1b[#R\x1b]4;1;#222222\x1b\\\x1b[#Q\x1b]4;1;?\x1b\\\x1b[#R",
    ),
];

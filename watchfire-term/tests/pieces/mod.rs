//! Output by chance, for more than one test.

use proptest::prelude::*;

/// Sequences of all kinds on a small screen, so that they meet.
pub(crate) fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[ -~]{1,16}",
        3 => "[a-z漢字e\u{301}é😀▐\u{1f468}\u{200d}]{1,9}",
        1 => "(🇩🇪|🇩|🇪|⚠\u{fe0f}|❤\u{fe0f}\u{301}|👍🏽|\u{fe0f}|ह\u{93f}|x\u{fe0f}|ᄀ\u{1161}|1\u{fe0f}\u{20e3}){1,3}",
        2 => Just("\r\n".to_owned()),
        1 => "[\t\x08\r\x0b\x0e\x0f]",
        3 => "[0-9]{1,2};[0-9]{1,2}".prop_map(|place| format!("\x1b[{place}H")),
        4 => "(0|1|3|4|4:3|7|9|31|42|38;5;200|48;2;1;2;3|58:5:9|53)(;(2|5|8|21|97))?".prop_map(|sgr| format!("\x1b[{sgr}m")),
        3 => "[0-9]?[ABCDEFGIJKLMPSTXZ@`ab]".prop_map(|rest| format!("\x1b[{rest}")),
        1 => "(1;4|2;5|3;6|)r".prop_map(|rest| format!("\x1b[{rest}")),
        1 => "\\?(6|7|69|47|1047|1048|1049|1045|2027|2027|27027|25|5|12|1|2004|1006|1003|45)[hl]".prop_map(|rest| format!("\x1b[{rest}")),
        1 => "(2;9|3;11|1;5)s".prop_map(|rest| format!("\x1b[{rest}")),
        1 => "(4h|4l|20h|20l|0g|3g|1\"q|0\"q|2\"q|\\?J|\\?K|!p|3 q|5 q|>5u|<u|2'}|2'~|2 @|2 A|1\\*x|2\\*x|63;1\"p|65;1\"p|1#\\{|#\\})".prop_map(|rest| format!("\x1b[{rest}")),
        1 => "(7|8|D|E|H|M|V|W|#3|#6|#5|#8|\\(0|\\(B|\\)0|-A|n|o|N|O|%@|%G|\\}|6|9|=|>)".prop_map(|rest| format!("\x1b{rest}")),
        1 => "(\\[\\?2l|<|<|Y\"\\$|F|G)".prop_map(|rest| format!("\x1b{rest}")),
        1 => "(1;1;3;5;2;2;1|2;2;4;6)\\$[vzrt{]".prop_map(|rest| format!("\x1b[{rest}")),
        1 => "(2;title|8;;http://x|8;id=1;http://y|8;;|4;1;#123456|11;red)".prop_map(|rest| format!("\x1b]{rest}\x07")),
    ]
}

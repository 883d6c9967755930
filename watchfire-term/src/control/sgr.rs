//! SGR: how what follows looks.

use watchfire_core::terminal::Attributes;

use crate::cells::style::{Look, Paint};
use crate::parser::Params;

/// Changes a look as SGR says.
#[inline]
pub(crate) fn apply(params: &Params, look: &mut Look) {
    if params.is_flat() { apply_flat(params.values(), look) } else { apply_grouped(params, look) }
}

/// Applies parameters some of which have subparameters.
fn apply_grouped(params: &Params, look: &mut Look) {
    let mut index = 0;
    while index < params.len() {
        let group = params.group(index);
        let mut used = group.len().max(1);
        match params.value(index) {
            4 => look.set_underline(group.get(1).copied().unwrap_or(1)),
            // Semicolons were in use for colours before the colons of ISO 8613-6 were. Programs send both, also in
            // one sequence.
            code @ (38 | 48 | 58) => {
                let (paint, taken) = color(params, index);
                used = taken;
                set_color(code, paint, look);
            }
            _ => apply_flat(params.values().get(index..=index).unwrap_or(&[]), look),
        }
        index += used;
    }
}

/// Applies parameters without colons, as nearly all are.
fn apply_flat(mut values: &[u16], look: &mut Look) {
    while let [code, rest @ ..] = values {
        values = rest;
        if !matches!(code, 38 | 48 | 58) {
            set(*code, look);
            continue;
        }
        let byte = |value: u16| value.min(255) as u8;
        let (paint, rest) = match rest {
            [5, n, rest @ ..] => (Some(Paint::indexed(byte(*n))), rest),
            [2, r, g, b, rest @ ..] => (Some(Paint::rgb(byte(*r), byte(*g), byte(*b))), rest),
            // Cut off: what is left are parts of a colour. Read as codes they would blink or conceal.
            [2 | 5, ..] => (None, &[][..]),
            [_, rest @ ..] => (None, rest),
            [] => (None, &[][..]),
        };
        set_color(*code, paint, look);
        values = rest;
    }
}

fn set_color(code: u16, paint: Option<Paint>, look: &mut Look) {
    match (paint, code) {
        (None, _) => {}
        (Some(paint), 38) => look.set_foreground(paint),
        (Some(paint), 48) => look.set_background(paint),
        (Some(paint), _) => look.set_underline_color(paint),
    }
}

/// Applies a code that stands by itself.
#[inline(always)]
fn set(code: u16, look: &mut Look) {
    match code {
        // OSC 8 alone ends a link.
        0 => *look = Look::default().with_link(look.link()),
        1 => look.set(Attributes::BOLD, true),
        2 => look.set(Attributes::DIM, true),
        3 => look.set(Attributes::ITALIC, true),
        4 => look.set_underline(1),
        // Slow and rapid blinking are drawn the same everywhere.
        5 | 6 => look.set(Attributes::BLINK, true),
        7 => look.set(Attributes::INVERSE, true),
        8 => look.set(Attributes::CONCEAL, true),
        9 => look.set(Attributes::STRIKE, true),
        // ECMA-48 and xterm: doubly underlined. Linux's console ended bold here until 4.17, and some programs still
        // expect that.
        21 => look.set_underline(2),
        // ECMA-48 takes both for intensities, which one code sets back to normal.
        22 => {
            look.set(Attributes::BOLD, false);
            look.set(Attributes::DIM, false);
        }
        23 => look.set(Attributes::ITALIC, false),
        24 => look.set_underline(0),
        25 => look.set(Attributes::BLINK, false),
        27 => look.set(Attributes::INVERSE, false),
        28 => look.set(Attributes::CONCEAL, false),
        29 => look.set(Attributes::STRIKE, false),
        30..=37 => look.set_foreground(Paint::indexed((code - 30) as u8)),
        39 => look.set_foreground(Paint::DEFAULT),
        40..=47 => look.set_background(Paint::indexed((code - 40) as u8)),
        49 => look.set_background(Paint::DEFAULT),
        53 => look.set(Attributes::OVERLINE, true),
        55 => look.set(Attributes::OVERLINE, false),
        59 => look.set_underline_color(Paint::DEFAULT),
        // aixterm's bright colours are the entries 8 to 15 of the palette.
        90..=97 => look.set_foreground(Paint::indexed((code - 82) as u8)),
        100..=107 => look.set_background(Paint::indexed((code - 92) as u8)),
        _ => {}
    }
}

/// Reads the colour that 38, 48 or 58 introduce, with colons or semicolons. Returns it and the number of values read.
fn color(params: &Params, index: usize) -> (Option<Paint>, usize) {
    let group = params.group(index);
    let byte = |value: u16| value.min(255) as u8;
    let rgb = |[r, g, b]: [u16; 3]| Paint::rgb(byte(r), byte(g), byte(b));
    match *group {
        [_, 5, n, ..] => (Some(Paint::indexed(byte(n))), group.len()),
        // With the colour space that hardly anyone knows of, or without.
        [_, 2, _, r, g, b, ..] | [_, 2, r, g, b] => (Some(rgb([r, g, b])), group.len()),
        [_] => match params.values().get(index + 1..) {
            Some([5, n, ..]) => (Some(Paint::indexed(byte(*n))), 3),
            Some([2, r, g, b, ..]) => (Some(rgb([*r, *g, *b])), 5),
            Some([5, ..]) => (None, 3),
            Some([2, ..]) => (None, 5),
            _ => (None, 2),
        },
        _ => (None, group.len()),
    }
}

#[cfg(test)]
mod tests {
    use watchfire_core::terminal::{Color, Underline};

    use super::*;
    use crate::draw::spell::describe;
    use crate::parser::{Handler, Parser, Sequence};

    struct Apply(Look);

    impl Handler for Apply {
        fn csi(&mut self, params: &Params, _: Sequence) {
            apply(params, &mut self.0);
        }
    }

    fn look(parameters: &str) -> Look {
        let mut handler = Apply(Look::default());
        Parser::new().feed(format!("\x1b[{parameters}m").as_bytes(), &mut handler);
        handler.0
    }

    #[test]
    fn colours_come_in_many_spellings() {
        for spelling in ["38;2;1;2;3", "38:2:1:2:3", "38:2::1:2:3", "38:2:7:1:2:3:0:0"] {
            assert_eq!(look(spelling).style().foreground, Color::Rgb(1, 2, 3), "{spelling}");
        }
        assert_eq!(look("48;5;200;1").style().background, Color::Indexed(200));
        assert!(look("48;5;200;1").attributes().contains(Attributes::BOLD));
        assert_eq!(look("58:5:9").style().underline_color, Color::Indexed(9));
        assert_eq!(look("97;102").style().foreground, Color::Indexed(15));
        assert_eq!(look("1;31;"), Look::default());
    }

    #[test]
    fn a_description_makes_the_look_again() {
        for spelling in [
            "",
            "1;2;3;4;5;7;8;9;53",
            "4:3;58:2::9:8:7",
            "21;31;102",
            "38;5;100;48;2;255;0;1",
            "4:5;58;5;1",
            "4:4",
        ] {
            assert_eq!(look(&describe(look(spelling))), look(spelling), "{spelling}");
        }
        assert_eq!(look("4:0").underline(), Underline::None);
    }
}

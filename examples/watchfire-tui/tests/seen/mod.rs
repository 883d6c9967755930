//! What a person sees of a screen.

use watchfire_core::terminal::{Attributes, Color, Hyperlink, Modes, Palette, Snapshot, Style};

/// A cell as it is seen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    text: String,
    style: Style,
    link: Option<Hyperlink>,
}

/// Returns the cells of a row, up to a width. A column that a wide character covers has none.
pub(crate) fn row(screen: &Snapshot, at: u16, from: u16, width: u16) -> Vec<Option<Seen>> {
    let blank = Seen { text: " ".to_owned(), style: seen(Style::default(), screen), link: None };
    let mut cells = vec![Some(blank); usize::from(width)];
    let mut col = 0;
    for cell in screen.lines[usize::from(at)].cells() {
        let (begin, end) = (col, col + cell.width);
        col = end;
        if begin < from || end > from + width {
            continue;
        }
        let text = if cell.text.is_empty() { " " } else { cell.text };
        let found = Seen { text: text.to_owned(), style: seen(cell.style, screen), link: cell.link.cloned() };
        for covered in begin..end {
            cells[usize::from(covered - from)] = (covered == begin).then(|| found.clone());
        }
    }
    cells
}

/// Returns a style as it looks: with the colours that the program has set, and the reversal of its screen.
fn seen(style: Style, screen: &Snapshot) -> Style {
    let Palette { indexed, foreground, background, .. } = &*screen.palette;
    let rgb = |[r, g, b]: [u8; 3]| Color::Rgb(r, g, b);
    let color = |color: Color, default: Option<[u8; 3]>| match color {
        Color::Default => default.map_or(Color::Default, rgb),
        Color::Indexed(n) => indexed.get(&n).map_or(Color::Indexed(n), |color| rgb(*color)),
        other @ Color::Rgb(..) => other,
    };
    let is_reversed =
        style.attributes.contains(Attributes::INVERSE) != screen.modes.contains(Modes::REVERSE_SCREEN);
    Style {
        foreground: color(style.foreground, *foreground),
        background: color(style.background, *background),
        underline_color: color(style.underline_color, None),
        attributes: style.attributes.with(Attributes::INVERSE, is_reversed),
        ..style
    }
}

//! Looks of cells as inline CSS.

use crate::terminal::{Attributes, Color, Modes, Palette, Style, Underline};

type Rgb = [u8; 3];

const FOREGROUND: Rgb = [0xe5, 0xe5, 0xe5];
const BACKGROUND: Rgb = [0, 0, 0];

/// Colours of a document.
#[derive(Debug)]
pub(super) struct Css<'a> {
    palette: &'a Palette,
    pub(super) foreground: Rgb,
    pub(super) background: Rgb,
}

impl<'a> Css<'a> {
    pub(super) fn new(palette: &'a Palette, modes: Modes) -> Self {
        let foreground = palette.foreground.unwrap_or(FOREGROUND);
        let background = palette.background.unwrap_or(BACKGROUND);
        if modes.contains(Modes::REVERSE_SCREEN) {
            Self { palette, foreground: background, background: foreground }
        } else {
            Self { palette, foreground, background }
        }
    }

    /// Returns the declarations for cells in the default style.
    pub(super) fn base(&self) -> String {
        format!("color:{};background-color:{}", hex(self.foreground), hex(self.background))
    }

    /// Returns the declarations of a style where they differ from [`base`](Self::base).
    pub(super) fn style(&self, style: Style) -> String {
        let (look, has) = (Look::new(style, self), |attribute| style.attributes.contains(attribute));
        let mut css = Vec::new();
        if has(Attributes::CONCEAL) {
            css.push("color:transparent".to_owned());
        } else if look.foreground != self.foreground {
            css.push(format!("color:{}", hex(look.foreground)));
        }
        if look.background != self.background {
            css.push(format!("background-color:{}", hex(look.background)));
        }
        if has(Attributes::BOLD) {
            css.push("font-weight:bold".to_owned());
        }
        if has(Attributes::ITALIC) {
            css.push("font-style:italic".to_owned());
        }
        css.extend(self.decoration(style));
        css.join(";")
    }

    fn decoration(&self, style: Style) -> Option<String> {
        let kind = match style.underline {
            Underline::None => None,
            Underline::Single => Some("solid"),
            Underline::Double => Some("double"),
            Underline::Curly => Some("wavy"),
            Underline::Dotted => Some("dotted"),
            Underline::Dashed => Some("dashed"),
        };
        let lines = [
            kind.map(|_| "underline"),
            style.attributes.contains(Attributes::STRIKE).then_some("line-through"),
            style.attributes.contains(Attributes::OVERLINE).then_some("overline"),
        ];
        let lines: Vec<_> = lines.into_iter().flatten().collect();
        let color = match style.underline_color {
            Color::Default => String::new(),
            color => format!(" {}", hex(self.rgb(color, self.foreground))),
        };
        (!lines.is_empty())
            .then(|| format!("text-decoration:{} {}{color}", lines.join(" "), kind.unwrap_or("solid")))
    }

    fn rgb(&self, color: Color, default: Rgb) -> Rgb {
        match color {
            Color::Default => default,
            Color::Rgb(red, green, blue) => [red, green, blue],
            Color::Indexed(index) => {
                self.palette.indexed.get(&index).copied().unwrap_or_else(|| indexed(index))
            }
        }
    }
}

/// Colours that a cell is shown in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) foreground: Rgb,
    pub(super) background: Rgb,
}

impl Look {
    pub(super) fn new(style: Style, css: &Css<'_>) -> Self {
        let mut foreground = css.rgb(style.foreground, css.foreground);
        let mut background = css.rgb(style.background, css.background);
        if style.attributes.contains(Attributes::INVERSE) {
            (foreground, background) = (background, foreground);
        }
        if style.attributes.contains(Attributes::DIM) {
            let [r, g, b] = [0, 1, 2].map(|part: usize| {
                let [text, behind] =
                    [foreground, background].map(|color| u16::from(*color.get(part).unwrap_or(&0)));
                ((2 * text + behind) / 3) as u8
            });
            foreground = [r, g, b];
        }
        Self { foreground, background }
    }
}

fn hex([red, green, blue]: Rgb) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Returns the value of a colour of xterm's palette.
fn indexed(index: u8) -> Rgb {
    const NAMED: [Rgb; 16] = [
        [0, 0, 0],
        [205, 0, 0],
        [0, 205, 0],
        [205, 205, 0],
        [0, 0, 238],
        [205, 0, 205],
        [0, 205, 205],
        [229, 229, 229],
        [127, 127, 127],
        [255, 0, 0],
        [0, 255, 0],
        [255, 255, 0],
        [92, 92, 255],
        [255, 0, 255],
        [0, 255, 255],
        [255, 255, 255],
    ];
    let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
    match index {
        0..16 => NAMED.get(usize::from(index)).copied().unwrap_or_default(),
        16..232 => [(index - 16) / 36, (index - 16) / 6 % 6, (index - 16) % 6].map(level),
        232.. => [8 + 10 * (index - 232); 3],
    }
}

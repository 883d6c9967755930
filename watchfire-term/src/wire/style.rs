//! Styles and links of a message, each once.

use std::collections::HashMap;
use std::sync::Arc;

use watchfire_core::Result;
use watchfire_core::terminal::{Attributes, Color, Hyperlink, Style, Underline};

use super::read::Reader;
use super::write::Writer;

const ATTRIBUTES: u8 = 64;
const UNDERLINE: u8 = 128;

/// Numbers of styles and links while a message is written. Style 0 is the default one, which is not in the table.
#[derive(Debug, Default)]
pub(super) struct Numbers<'a> {
    styles: HashMap<Style, u64>,
    links: HashMap<&'a Hyperlink, u64>,
}

impl<'a> Numbers<'a> {
    /// Writes the tables for these styles and links.
    pub(super) fn write(
        styles: impl Iterator<Item = Style>,
        links: impl Iterator<Item = &'a Hyperlink>,
        out: &mut Writer,
    ) -> Self {
        let mut counts: HashMap<Style, (usize, usize)> = HashMap::new();
        // The default style has a number without being in the table: most runs are in it.
        for (at, style) in styles.enumerate().filter(|(_, style)| *style != Style::default()) {
            counts.entry(style).or_insert((0, at)).0 += 1;
        }
        let mut order: Vec<_> = counts.into_iter().collect();
        // The most frequent first: their numbers are the shortest. Then by place, so that equal screens are equal messages.
        order.sort_unstable_by_key(|(_, (count, first))| (std::cmp::Reverse(*count), *first));
        out.count(order.len());
        for (style, _) in &order {
            write(*style, out);
        }
        let mut numbers = Self {
            styles: order.into_iter().map(|(style, _)| style).zip(1..).collect(),
            links: HashMap::new(),
        };
        let mut order = Vec::new();
        for link in links {
            let next = numbers.links.len() as u64;
            numbers.links.entry(link).or_insert_with(|| {
                order.push(link);
                next
            });
        }
        out.count(order.len());
        for link in order {
            out.text(&link.id);
            out.text(&link.uri);
        }
        numbers
    }

    pub(super) fn style(&self, style: Style) -> u64 {
        self.styles.get(&style).copied().unwrap_or_default()
    }

    pub(super) fn link(&self, link: &Hyperlink) -> u64 {
        self.links.get(link).copied().unwrap_or_default()
    }
}

fn write(style: Style, out: &mut Writer) {
    let colors = [style.foreground, style.background, style.underline_color];
    // Two bits for each of three colours, in the order in which their values follow.
    let kind = |color| match color {
        Color::Default => 0,
        Color::Indexed(_) => 1,
        Color::Rgb(..) => 2,
    };
    let [foreground, background, underline] = colors.map(kind);
    let mut head = foreground | background << 2 | underline << 4;
    if style.attributes != Attributes::default() {
        head |= ATTRIBUTES;
    }
    if style.underline != Underline::None {
        head |= UNDERLINE;
    }
    out.byte(head);
    for color in colors {
        match color {
            Color::Default => {}
            Color::Indexed(index) => out.byte(index),
            Color::Rgb(red, green, blue) => out.rgb([red, green, blue]),
        }
    }
    if head & ATTRIBUTES != 0 {
        out.number(style.attributes.bits().into());
    }
    if head & UNDERLINE != 0 {
        out.byte(match style.underline {
            Underline::Double => 2,
            Underline::Curly => 3,
            Underline::Dotted => 4,
            Underline::Dashed => 5,
            _ => 1,
        });
    }
}

/// Styles and links of a message that is read.
#[derive(Debug)]
pub(super) struct Tables {
    styles: Vec<Style>,
    links: Vec<Arc<Hyperlink>>,
}

impl Tables {
    pub(super) fn read(bytes: &mut Reader<'_>) -> Result<Self> {
        let mut styles = vec![Style::default()];
        for _ in 0..bytes.count()? {
            styles.push(read(bytes)?);
        }
        let mut links = Vec::new();
        for _ in 0..bytes.count()? {
            links.push(Arc::new(Hyperlink::new(bytes.text()?, bytes.text()?)));
        }
        Ok(Self { styles, links })
    }

    pub(super) fn style(&self, number: u64, bytes: &Reader<'_>) -> Result<Style> {
        let style = usize::try_from(number).ok().and_then(|number| self.styles.get(number));
        style.copied().ok_or_else(|| bytes.error("a style that is not in the table"))
    }

    pub(super) fn link(&self, bytes: &mut Reader<'_>) -> Result<Arc<Hyperlink>> {
        let number = bytes.fit::<usize>()?;
        self.links.get(number).cloned().ok_or_else(|| bytes.error("a link that is not in the table"))
    }
}

fn read(bytes: &mut Reader<'_>) -> Result<Style> {
    let head = bytes.byte()?;
    let mut color = |kind: u8| {
        Ok(match kind & 3 {
            0 => Color::Default,
            1 => Color::Indexed(bytes.byte()?),
            2 => {
                let [red, green, blue] = bytes.rgb()?;
                Color::Rgb(red, green, blue)
            }
            _ => return Err(bytes.error("a kind of colour that is not known")),
        })
    };
    let mut style = Style {
        foreground: color(head)?,
        background: color(head >> 2)?,
        underline_color: color(head >> 4)?,
        ..Style::default()
    };
    if head & ATTRIBUTES != 0 {
        let bits = bytes.fit()?;
        style.attributes = Attributes::from_bits(bits);
        // An attribute of a later version would be lost without a word.
        if style.attributes.bits() != bits {
            return Err(bytes.error("an attribute that is not known"));
        }
    }
    if head & UNDERLINE != 0 {
        style.underline = match bytes.byte()? {
            1 => Underline::Single,
            2 => Underline::Double,
            3 => Underline::Curly,
            4 => Underline::Dotted,
            5 => Underline::Dashed,
            _ => return Err(bytes.error("a kind of underline that is not known")),
        };
    }
    Ok(style)
}

//! Export as HTML.

use super::css::{Css, Look};
use super::selection::Selected;
use super::{Rows, Selection};
use crate::terminal::{Cell, Hyperlink, Style};

/// Schemes of the links that are kept. Others, such as `javascript`, could act in the reader's name.
const SCHEMES: [&str; 3] = ["http://", "https://", "file://"];

impl Rows {
    /// Returns the selected cells as a `<pre>` with styles and links. It needs no style sheet.
    ///
    /// Without its tags it is [`text`](Self::text): all text is escaped, and what is coloured behind the end of a line is
    /// padding. Links have the schemes `http`, `https` and `file`; others are left out. Colours that the child did not set
    /// are those of xterm, light on dark.
    #[must_use]
    pub fn html(&self, selection: impl Into<Selection>) -> String {
        let mut html = Html { css: Css::new(&self.palette, self.modes), out: String::new(), open: None };
        let base = html.css.base();
        // A line feed directly after `<pre>` would be dropped.
        html.out.push_str(&format!("<pre style=\"{base}\"><span>"));
        self.for_each_selected(&selection.into(), |row| html.row(&row));
        html.switch(None);
        html.out.push_str("</span></pre>");
        html.out
    }
}

struct Html<'a> {
    css: Css<'a>,
    out: String,
    /// Style and link of the tags that are open.
    open: Option<(Style, Option<&'a Hyperlink>)>,
}

impl<'a> Html<'a> {
    fn row(&mut self, row: &Selected<'a, '_>) {
        if row.breaks {
            self.switch(None);
            self.out.push('\n');
        }
        for cell in row.cells {
            let link = cell.link.filter(|link| is_safe(&link.uri));
            let look = (cell.style, link);
            self.switch((look != (Style::default(), None)).then_some(look));
            escape(cell.text, &mut self.out);
        }
        self.tail(row.tail);
    }

    /// Closes the open tags and opens the tags for `look`. Does nothing if the look stays the same.
    fn switch(&mut self, look: Option<(Style, Option<&'a Hyperlink>)>) {
        if look == self.open {
            return;
        }
        if let Some((_, link)) = self.open {
            self.out.push_str(if link.is_some() { "</a>" } else { "</span>" });
        }
        if let Some((style, link)) = look {
            let css = self.css.style(style);
            if let Some(link) = link {
                self.out.push_str("<a rel=\"noreferrer\" href=\"");
                escape(&link.uri, &mut self.out);
                self.out.push_str(&format!("\" style=\"color:inherit;{css}\">"));
            } else {
                self.out.push_str(&format!("<span style=\"{css}\">"));
            }
        }
        self.open = look;
    }

    /// Shows the backgrounds of blanks that are no part of the text.
    fn tail(&mut self, cells: &[Cell<'a>]) {
        let background = |cell: &Cell<'_>| Look::new(cell.style, &self.css).background;
        let base = self.css.background;
        let shown = cells.iter().rposition(|cell| background(cell) != base).map_or(0, |last| last + 1);
        let tail: Vec<_> = cells.iter().take(shown).map(|cell| (background(cell), cell.width)).collect();
        if !tail.is_empty() {
            self.switch(None);
        }
        for run in tail.chunk_by(|a, b| a.0 == b.0) {
            let [red, green, blue] = run.first().map_or(base, |(color, _)| *color);
            let columns: u32 = run.iter().map(|(_, width)| u32::from(*width)).sum();
            self.out.push_str(&format!(
                "<span style=\"background-color:#{red:02x}{green:02x}{blue:02x};padding-left:{columns}ch\"></span>"
            ));
        }
    }
}

/// Returns true if a link may be followed from a document that others wrote.
fn is_safe(uri: &str) -> bool {
    let begins =
        |scheme: &&str| uri.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    SCHEMES.iter().any(begins) && !uri.chars().any(char::is_control)
}

fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
}

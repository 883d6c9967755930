//! Text of a screen and its scrollback: search, selection, and export as plain text and as HTML.
//!
//! Everything here is a pure function of [`Rows`], which hold a snapshot and the scrollback above it. Rows that were
//! wrapped are one line, so that a match, a word or a copied line is the same at any width.
//!
//! ```
//! use watchfire_core::terminal::text::{Place, Rows};
//! use watchfire_core::terminal::{PlainTerminal, Size, Terminal};
//!
//! let mut terminal = PlainTerminal::new(Size::new(8, 2));
//! terminal.feed(b"a wrapped line\r\nand <this>");
//! let rows = Rows::of(&mut terminal);
//! assert_eq!(rows.text(rows.all()), "a wrapped line\nand <this>");
//! assert_eq!(rows.text(rows.word_at(Place::new(0, 3), "")), "wrapped");
//! assert!(rows.html(rows.all()).contains("and &lt;this&gt;"));
//! ```

mod css;
mod html;
mod joined;
mod place;
mod rows;
#[cfg(feature = "search")]
mod search;
mod selection;
#[cfg(test)]
mod tests;
mod word;

pub use place::Place;
pub use rows::Rows;
#[cfg(feature = "search")]
pub use search::{Case, Found, Pattern};
pub use selection::Selection;

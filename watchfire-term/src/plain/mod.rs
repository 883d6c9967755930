//! From raw terminal bytes to text that a person can read, as a stream.
//!
//! ```
//! use watchfire_term::plain::PlainText;
//!
//! let mut plain = PlainText::new();
//! let mut text = plain.feed(b"\x1b[32mloading 10%\rloading 100%\x1b[0m\r\ndo");
//! text += &plain.feed(b"ne\x1b]0;ti");
//! text += &plain.finish();
//! assert_eq!(text, "loading 100%\ndone");
//! ```

mod row;
mod stream;

pub use stream::{CarriageReturn, PlainText, strip};

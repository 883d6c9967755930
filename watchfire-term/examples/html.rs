//! Turns what a program printed into a page, with its colours and links.
//!
//! ```text
//! ls --color=always --hyperlink=always | cargo run -p watchfire-term --example html > listing.html
//! ```

use std::io::{self, Read, Write};

use watchfire_term::text::Rows;
use watchfire_term::{Emulator, Size};

fn main() -> io::Result<()> {
    let mut terminal = Emulator::new(Size::new(120, 40));
    let mut output = Vec::new();
    io::stdin().read_to_end(&mut output)?;
    for line in output.split_inclusive(|byte| *byte == b'\n') {
        terminal.process(line);
        // What a pseudo-terminal would add: a pipe has line feeds alone.
        if line.ends_with(b"\n") {
            terminal.process(b"\r");
        }
    }
    let rows = Rows::of(&mut terminal);
    writeln!(io::stdout(), "<!doctype html><meta charset=\"utf-8\">{}", rows.html(rows.all()))
}

//! The emulator against the suite of the seam.

use watchfire_core::conformance::Suites;
use watchfire_core::terminal::conformance::{CASES, Make};
use watchfire_term::{Emulator, Options};

fn main() {
    let usual = || -> Box<Make> { Box::new(|size| Box::new(Emulator::new(size))) };
    let options = Options::default()
        .with_c1_controls(true)
        .with_clipboard(true)
        .with_child_resize(true)
        .with_graphemes(true)
        .with_scrollback(500, 1 << 20);
    let everything = move || -> Box<Make> {
        let options = options.clone();
        Box::new(move |size| Box::new(Emulator::with_options(size, options.clone())))
    };
    Suites::new().with("usual", CASES, usual).with("everything_allowed", CASES, everything).run()
}

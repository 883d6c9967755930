//! The emulator against the suite of the seam.

use watchfire_core::conformance::check;
use watchfire_core::terminal::conformance::{CASES, Make};
use watchfire_term::{Emulator, Options};

#[test]
fn the_emulator_conforms() {
    let make = || -> Box<Make> { Box::new(|size| Box::new(Emulator::new(size))) };
    check(CASES, make).unwrap();
}

#[test]
fn it_conforms_with_everything_allowed() {
    let options = Options::default()
        .with_c1_controls(true)
        .with_clipboard(true)
        .with_child_resize(true)
        .with_graphemes(true)
        .with_scrollback(500, 1 << 20);
    check(CASES, || {
        let options = options.clone();
        Box::new(move |size| Box::new(Emulator::with_options(size, options.clone())))
    })
    .unwrap();
}

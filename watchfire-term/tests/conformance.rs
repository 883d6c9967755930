//! The emulator against the suite of the seam.

use watchfire_core::terminal::conformance;
use watchfire_term::{Emulator, Options};

#[test]
fn the_emulator_conforms() {
    conformance::run(|size| Box::new(Emulator::new(size)));
}

#[test]
fn it_conforms_with_everything_allowed() {
    let options = Options::default()
        .with_c1_controls(true)
        .with_clipboard(true)
        .with_child_resize(true)
        .with_graphemes(true)
        .with_scrollback(500, 1 << 20);
    conformance::run(|size| Box::new(Emulator::with_options(size, options.clone())));
}

//! A person who attaches to agents, detaches, and closes the terminal.

use std::io::Write as _;
use std::path::Path;

use rustix::process::Signal;

use crate::random::Random;
use crate::service::Service;
use crate::support::World;
use crate::support::on_terminal::OnTerminal;

#[derive(Default)]
pub(crate) struct Attached(Option<OnTerminal>);

impl Attached {
    /// Attaches if nothing is attached, and leaves otherwise, in one way or another.
    pub(crate) fn turn(&mut self, world: &World, root: &Path, service: &Service<'_>, random: &mut Random) {
        let Some(mut terminal) = self.0.take() else {
            let variables = service.clock().variables();
            self.0 = Some(OnTerminal::start(world, root, &["attach"], &variables));
            return;
        };
        match random.below(3) {
            0 => {
                terminal.signal(Signal::KILL);
                drop(terminal.child.wait());
            }
            1 => {
                terminal.signal(Signal::HUP);
                left(terminal);
            }
            _ => {
                // It may have ended with its agent.
                let _ = terminal.keys.write_all(b"\x1d");
                left(terminal);
            }
        }
    }

    /// Detaches.
    pub(crate) fn leave(&mut self) {
        if let Some(terminal) = self.0.take() {
            terminal.signal(Signal::TERM);
            left(terminal);
        }
    }
}

/// Detached or ended well; or there was nothing to attach to; or a signal came before it had begun.
fn left(terminal: OnTerminal) {
    let (painted, code) = terminal.end();
    let is_early = code.is_none() && painted.is_empty();
    assert!(is_early || matches!(code, Some(0 | 255)), "{code:?}: {painted}");
}

//! Controls where birdcage makes the view.

use watchfire_core::sandbox::{Control, ControlState};

use super::facts::{ATTRIBUTES, DEVICES, Facts, PROCESSES, SCOPES, SOCKETS, SURVIVORS, TMP, listed, shown};
use crate::linux::sandbox::Means;

impl Facts {
    pub(super) fn with_birdcage(&self) -> Vec<Control> {
        let name = Means::Birdcage.name();
        let held = |control: &str| Control::new(control, ControlState::Enforced).by(name);
        let both =
            |control: &str| if self.abi > 0 { held(control).by(self.landlock()) } else { held(control) };
        let partial =
            |control: &str, why: &str| Control::new(control, ControlState::Partial).by(name).because(why);
        let mut controls = vec![held(Control::HIDDEN), both(Control::WRITES), self.names(name)];
        controls.push(match self.creatable.is_empty() {
            true => held(Control::READ_ONLY),
            false => {
                let why = format!("not there yet, so it can be made: {}", listed(shown(&self.creatable)));
                partial(Control::READ_ONLY, &why)
            }
        });
        if self.private_tmp {
            let why = "a folder of its own in TMPDIR; the shared one is hidden, and there is no /dev/shm";
            controls.push(partial(TMP, why));
        }
        if self.binds > 0 {
            let open = Control::new(Control::BINDS, ControlState::Open);
            controls.push(open.because("birdcage shows things at their own places only"));
        }
        if self.replaced > 0 {
            controls.push(partial(
                Control::LAYERS,
                "the home cannot be written, toolchains and caches can only be read",
            ));
        }
        controls
            .push(partial(DEVICES, "other terminals of the same user can be opened, new ones not be made"));
        controls.push(held(ATTRIBUTES));
        controls.push(held(PROCESSES));
        controls.push(partial(
            SURVIVORS,
            "what runs when birdcage's own process is killed is left to the guardian",
        ));
        controls.push(match self.abi < SCOPES {
            true => partial(SOCKETS, "those in hidden folders are; abstract ones are not"),
            false => {
                partial(SOCKETS, "those in hidden folders and abstract ones are; others can be connected to")
            }
        });
        controls
    }
}

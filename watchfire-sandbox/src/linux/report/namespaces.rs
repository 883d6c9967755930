//! Controls where there are namespaces: our own, or those that `bwrap` makes.

use watchfire_core::sandbox::{Control, ControlState};

use crate::linux::config::Instead;
use crate::linux::others::bwrap_layers::Overlays;

use super::facts::{ATTRIBUTES, DEVICES, Facts, PROCESSES, SCOPES, SOCKETS, SURVIVORS, TMP, listed, shown};

impl Facts {
    pub(super) fn with_namespaces(&self, instead: &Instead) -> Vec<Control> {
        let namespace = if self.bwrap() { "bwrap" } else { "mount namespace" };
        let by = |name: &str, what: &str| Control::new(name, ControlState::Enforced).by(what);
        let view = |name: &str| by(name, namespace);
        let both = |name: &str| if self.abi > 0 { view(name).by(self.landlock()) } else { view(name) };
        let mut controls = vec![view(Control::HIDDEN), both(Control::WRITES), self.names(namespace)];
        controls.push(match self.creatable.is_empty() {
            true => view(Control::READ_ONLY),
            false => {
                let fate = if self.bwrap() {
                    "so it can be made"
                } else {
                    "hidden or removed moments after it is made"
                };
                let why = format!("not there yet, {fate}: {}", listed(shown(&self.creatable)));
                Control::new(Control::READ_ONLY, ControlState::Partial).by(namespace).because(why)
            }
        });
        if self.private_tmp {
            controls.push(view(TMP));
        }
        if self.binds > 0 {
            controls.push(view(Control::BINDS));
        }
        if self.replaced > 0 {
            let partial =
                |why| Control::new(Control::LAYERS, ControlState::Partial).by(namespace).because(why);
            controls.push(match self.overlays {
                Overlays::None => partial(
                    "this bwrap makes no overlays (it does from version 0.11 on): caches are copies or empty at first, \
                     toolchains that are no copies can only be read",
                ),
                _ if !instead.flat.is_empty() => partial("some toolchains can only be read"),
                _ => view(Control::LAYERS),
            });
        }
        controls.push(view(DEVICES));
        controls.push(view(ATTRIBUTES));
        controls.push(by(PROCESSES, if self.bwrap() { namespace } else { "process and ipc namespaces" }));
        controls.push(by(SURVIVORS, if self.bwrap() { namespace } else { "process namespace" }));
        let sockets = Control::new(SOCKETS, ControlState::Partial).by(namespace);
        let covered = "those in hidden folders are, and those that were there at the start, by the path that they were bound to";
        controls.push(match self.abi < SCOPES {
            true => sockets.because(format!("{covered}; others can be connected to, abstract ones too")),
            false => sockets
                .by(self.landlock())
                .because(format!("{covered}, and abstract ones; others can be connected to")),
        });
        controls
    }
}

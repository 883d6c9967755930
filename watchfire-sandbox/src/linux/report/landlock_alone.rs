//! Controls where Landlock and seccomp stand alone.

use watchfire_core::sandbox::{Control, ControlState};

use super::facts::{
    ATTRIBUTES, DEVICES, Facts, PROCESSES, SCOPES, SOCKETS, SURVIVORS, TMP, TRUNCATE, listed, shown,
};

impl Facts {
    pub(super) fn with_landlock_alone(&self) -> Vec<Control> {
        let enforced = |name: &str| Control::new(name, ControlState::Enforced).by(self.landlock());
        let partial = |name: &str, why: &str| {
            Control::new(name, ControlState::Partial).by(self.landlock()).because(why)
        };
        let open = |name: &str, why: &str| Control::new(name, ControlState::Open).because(why);
        let mut controls = vec![enforced(Control::HIDDEN)];
        controls.push(match self.abi < TRUNCATE {
            true => partial(Control::WRITES, "files can be truncated"),
            false => enforced(Control::WRITES),
        });
        controls.push(self.names(&self.landlock()));
        let writable: Vec<_> = self.open_writes.iter().chain(&self.creatable).cloned().collect();
        if !writable.is_empty() {
            controls.push(open(Control::READ_ONLY, &format!("writable: {}", listed(shown(&writable)))));
        }
        if self.private_tmp {
            let why = "a folder of its own in TMPDIR; the shared one is hidden, /dev/shm is read-only";
            controls.push(partial(TMP, why));
        }
        if self.binds > 0 {
            controls.push(open(Control::BINDS, "only a mount namespace can show them there"));
        }
        if self.replaced > 0 {
            controls.push(partial(
                Control::LAYERS,
                "the home cannot be written, toolchains and caches can only be read",
            ));
        }
        controls.push(enforced(DEVICES));
        controls.push(open(ATTRIBUTES, "only a mount namespace holds chmod, utime and setxattr"));
        controls.push(partial(
            PROCESSES,
            match self.abi < SCOPES {
                true => "no tracing; but signals, their arguments and priorities",
                false => "no signals, no tracing; their arguments can be read, priorities changed",
            },
        ));
        controls
            .push(open(SURVIVORS, "only a process namespace ends them all; the guardian does what it can"));
        controls.push(match &self.seccomp {
            None => Control::new(SOCKETS, ControlState::Enforced).by("seccomp"),
            Some(_) if self.abi < SCOPES => {
                open(SOCKETS, "landlock is too old, and there is no system call filter")
            }
            Some(_) => partial(SOCKETS, "abstract ones are; those with a path can be connected to"),
        });
        controls
    }
}

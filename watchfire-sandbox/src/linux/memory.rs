//! What worked here, remembered for as long as the machine runs.
//!
//! Only what worked is: what did not is tried again each time, for a setting may have changed. Nothing is believed about
//! another boot, user, helper or place in the machine (a container, another sandbox). And a memory that is wrong lets
//! nothing start: the helper does what it is told or ends, and then the memory goes.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use watchfire_core::process::helper::Helper;

use crate::linux::others::birdcage;
use crate::linux::others::bwrap;
use crate::linux::sandbox::Means;
use crate::linux::trial::Trial;

/// The file in which the result of a trial is remembered, and the system that the result is valid for.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    file: PathBuf,
    about: String,
}

#[derive(Serialize, Deserialize)]
struct Remembered {
    about: String,
    landlock: i32,
    seccomp: String,
    namespaces: Option<String>,
}

impl Memory {
    /// Returns the memory in `folder`, which no agent can write, or `None` if this system cannot be identified.
    pub(super) fn new(folder: &Path, helper: &Helper, means: Means) -> Option<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let mut about =
            vec![boot.trim().to_owned(), geteuid().as_raw().to_string(), identity(helper.path())?];
        about.push(match means {
            Means::Own | Means::Neither => String::new(),
            Means::Bwrap => identity(&bwrap::find().ok()?)?,
            Means::Birdcage => identity(&birdcage::find().ok()?)?,
        });
        for space in ["user", "mnt", "pid"] {
            about.push(fs::read_link(format!("/proc/self/ns/{space}")).ok()?.display().to_string());
        }
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let held = ["CapEff", "CapBnd", "NoNewPrivs", "Seccomp"];
        let held = status.lines().filter(|line| held.iter().any(|name| line.starts_with(name)));
        about.extend(held.map(str::to_owned));
        let name = format!("{means:?}.json").to_lowercase();
        Some(Self { file: folder.join(name), about: about.join(" ") })
    }

    /// Returns the result of an earlier trial on this system.
    pub(super) fn recall(&self) -> Option<Trial> {
        let known: Remembered = serde_json::from_slice(&fs::read(&self.file).ok()?).ok()?;
        let namespaces = known.namespaces.ok_or_else(|| Trial::LEFT_OUT.to_owned());
        let trial = Trial { landlock: Ok(known.landlock), seccomp: Ok(known.seccomp), namespaces };
        (known.about == self.about).then_some(trial)
    }

    /// Remembers a trial in which every mechanism worked. A failed write costs another trial next time.
    pub(super) fn keep(&self, trial: &Trial) {
        let (Ok(landlock), Ok(seccomp)) = (&trial.landlock, &trial.seccomp) else { return };
        let namespaces = match &trial.namespaces {
            Ok(how) => Some(how.clone()),
            Err(why) if why == Trial::LEFT_OUT => None,
            Err(_) => return,
        };
        let about = self.about.clone();
        let known = Remembered { about, landlock: *landlock, seccomp: seccomp.clone(), namespaces };
        let write = || -> std::io::Result<()> {
            let folder = self.file.parent().unwrap_or(Path::new("/"));
            if !folder.is_dir() {
                fs::create_dir(folder)?;
            }
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(&serde_json::to_vec(&known)?)?;
            file.persist(&self.file)?;
            Ok(())
        };
        if let Err(error) = write() {
            tracing::debug!(%error, "what works here is not remembered");
        }
    }

    /// It was wrong, or may have been.
    pub(super) fn forget(&self) {
        // Gone already, or it is tried again when that is noticed elsewhere.
        let _ = fs::remove_file(&self.file);
    }
}

/// The same file is the same program.
fn identity(path: &Path) -> Option<String> {
    let found = fs::metadata(path).ok()?;
    Some(format!("{}:{}:{}:{}.{}", found.dev(), found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
}

//! What becomes of toolchains and caches on each file system: the table of `docs/sandbox.md`.
//!
//! Root makes the file systems; each row runs as root and as an ordinary user. A row that cannot be made on a machine is skipped.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use watchfire_core::conformance::{NotPassed, Outcome};
use watchfire_core::process::helper::{Helper, RoleArgs};
use watchfire_core::sandbox::{Control, ControlState, Sandbox};

use crate::closed_home::Home;
use crate::places::{USER, is_root};
use crate::{Bench, VARIANTS};

use Caches::{Cold, Copies, InMemory, Layers};

/// The sandboxes that show something in place.
pub(crate) const IN_PLACE: &[&str] = &["landlock", "bwrap"];

/// A file system with a home on it.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    label: &'static str,
    /// Makes it at `$1/fs`. `$1` is an empty folder.
    make: &'static str,
    /// The kernel knows no `userxattr`, as before Linux 5.11.
    is_old: bool,
    /// As root and as a user, where the sandbox makes layers.
    expected: [Caches; 2],
    /// The same, with a `bwrap` that makes none. There it is the same for both.
    without: Caches,
    /// Why it could not be tried, where it never was.
    untried: &'static str,
}

/// Stand-in for toolchains and caches.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Caches {
    /// Layers on the disk.
    Layers,
    /// Layers in memory.
    InMemory,
    /// Copies, however large they are.
    Copies,
    /// Copies of what is small. Else an empty folder for a cache, and the toolchain itself, to be read only.
    Cold,
}

impl Caches {
    fn as_str(self) -> &'static str {
        match self {
            Self::Layers => "works",
            Self::InMemory => "works, in memory",
            Self::Copies => "copies",
            Self::Cold => "cold",
        }
    }
}

const fn row(name: &'static str, label: &'static str, make: &'static str, expected: [Caches; 2]) -> Row {
    Row { name, label, make, is_old: false, expected, without: Cold, untried: "" }
}

const EXT4: &str = "truncate -s 64M $1/image; mkfs.ext4 -q $1/image; mount -o loop $1/image $1/fs";
const XFS: &str =
    "truncate -s 320M $1/image; mkfs.xfs -q -m reflink=1 $1/image; mount -o loop $1/image $1/fs";
const BTRFS: &str = "truncate -s 256M $1/image; mkfs.btrfs -q $1/image; mount -o loop $1/image $1/fs";

/// The table.
pub(crate) const ROWS: &[Row] = &[
    row("ext4", "ext4", EXT4, [Layers; 2]),
    Row { without: Copies, ..row("xfs", "xfs with reflinks", XFS, [Layers; 2]) },
    Row { without: Copies, ..row("btrfs", "btrfs", BTRFS, [Layers; 2]) },
    row("tmpfs", "tmpfs", "mount -t tmpfs none $1/fs", [Layers; 2]),
    row(
        "overlay",
        "an overlay, as docker's",
        "mount -t tmpfs none $1/fs; cd $1/fs; mkdir l u w; mount -t overlay none -o lowerdir=l,upperdir=u,workdir=w $1/fs",
        [InMemory; 2],
    ),
    row(
        "two_overlays",
        "an overlay over an overlay, as docker's in docker",
        "mount -t tmpfs none $1/fs; cd $1/fs; mkdir l u w one v x; mount -t overlay none -o lowerdir=l,upperdir=u,workdir=w one; \
         mount -t overlay none -o lowerdir=one,upperdir=v,workdir=x $1/fs",
        [Cold; 2],
    ),
    row(
        "ramfs",
        "ramfs, whose files have no attributes",
        "mount -t ramfs none $1/fs && chmod 755 $1/fs",
        [InMemory; 2],
    ),
    row(
        "fuse",
        "FUSE (`bindfs`; sshfs and the like)",
        "mkdir $1/real; bindfs -o allow_other $1/real $1/fs",
        [InMemory; 2],
    ),
    Row {
        untried: "the kernel had no NFS",
        ..row(
            "nfs",
            "NFS",
            "mkdir -p $1/real; mount -t nfs -o vers=4 localhost:/ $1/fs; test -w $1/fs",
            [InMemory; 2],
        )
    },
    Row {
        is_old: true,
        ..row("ext4_without_userxattr", "ext4, a kernel without `userxattr`", EXT4, [Layers, Cold])
    },
    Row {
        is_old: true,
        without: Copies,
        ..row(
            "xfs_without_userxattr",
            "xfs with reflinks, a kernel without `userxattr`",
            XFS,
            [Layers, Copies],
        )
    },
];

fn failed(error: impl std::fmt::Display) -> NotPassed {
    NotPassed::Failed(error.to_string())
}

fn skipped(why: impl std::fmt::Display) -> NotPassed {
    NotPassed::Skipped(format!("not available here: {why}"))
}

/// The file system of a row, until it is dropped.
struct Made(PathBuf);

impl Made {
    fn new(row: &Row, folder: &Path) -> Result<Self, NotPassed> {
        let fs = folder.join("fs");
        fs::create_dir(&fs).map_err(failed)?;
        let made = Self(fs);
        let mut command = Command::new("sh");
        let ran = command.args(["-ec", row.make, "sh"]).arg(folder).output().map_err(failed)?;
        match ran.status.success() {
            true => Ok(made),
            false => Err(skipped(format!(
                "no {}: {}",
                row.label,
                String::from_utf8_lossy(&ran.stderr).lines().next().unwrap_or_default()
            ))),
        }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // As many as are mounted there.
        let unmount = "while umount -R -l \"$1\" 2> /dev/null; do :; done";
        let _ = Command::new("sh").args(["-c", unmount, "sh"]).arg(&self.0).status();
    }
}

pub(crate) fn ask(row: &Row, variant: &str, bench: Bench<'_>, helper: &Helper) -> Outcome {
    if !is_root() {
        return Err(NotPassed::Skipped(
            "not root, who alone makes file systems; root's test runs as a user too".into(),
        ));
    }
    let made = Made::new(row, bench.scratch)?;
    let home = Home::new(bench.scratch.join("home"))?;
    let report = bench.sandbox.explain(&home.policy()?).map_err(|error| failed(error.report()))?;
    let has_layers = report.state(Control::LAYERS) == Some(ControlState::Enforced);
    if row.is_old && variant == "bwrap" && has_layers {
        return Err(skipped("a bwrap that can be kept from `userxattr`"));
    }
    for (index, (uid, who)) in [(0, "root"), (USER, "user")].into_iter().enumerate() {
        let expected = if has_layers { row.expected[index] } else { row.without };
        let home = made.0.join(who);
        fs::create_dir(&home).map_err(failed)?;
        std::os::unix::fs::chown(&home, Some(uid), Some(uid)).map_err(failed)?;
        let old = if row.is_old { "old" } else { "new" };
        let role = helper.command(ROLE, [OsString::from(variant), home.clone().into(), old.into()]);
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        let ran = command.args(role.args()).env("HOME", &home).current_dir("/").uid(uid).gid(uid).output();
        let ran = ran.map_err(failed)?;
        let (said, why) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        if !ran.status.success() || said.trim() != expected.as_str() {
            return Err(failed(format!(
                "as {who}: {:?} and not {:?}: {why}",
                said.trim(),
                expected.as_str()
            )));
        }
    }
    Ok(())
}

const ROLE: &str = "test-file-system";

watchfire_core::register_helper_role!(ROLE, |args: RoleArgs| match session(args.args()) {
    Ok(found) => {
        println!("{}", found.as_str());
        0
    }
    Err(why) => {
        eprintln!("{why:?}");
        1
    }
});

/// More than is copied without reflinks.
const LARGE: u64 = 70 << 20;

const SMALL_CACHE: &str = ".cargo/registry";
const LARGE_CACHE: &str = ".cache/pip";
const LARGE_TOOLS: &str = ".rustup/toolchains";

/// Runs a session in a home, and finds out what it sees of toolchains and caches.
fn session(args: &[OsString]) -> Result<Caches, NotPassed> {
    let [variant, path, old] = args else { return Err(failed("wrong arguments")) };
    if old == "old" {
        refuse_userxattr().map_err(failed)?;
    }
    let mut home = Home::new(path.into())?;
    home.plant(&format!("{SMALL_CACHE}/lib/build.rs"), "fn main() {}")?;
    for large in [LARGE_CACHE, LARGE_TOOLS] {
        home.plant(&format!("{large}/old/file"), "old")?;
        let file = File::create(home.at(large).join("large")).map_err(failed)?;
        // It takes no room, and would when it is copied.
        file.set_len(LARGE).map_err(failed)?;
    }
    let caches = home.at(".watchfire/state/caches");
    fs::create_dir_all(&caches).map_err(failed)?;
    home.inputs.own_caches = Some(caches.clone());
    let helper = Helper::at(std::env::current_exe().map_err(failed)?).map_err(failed)?;
    let variant =
        VARIANTS.iter().find(|known| known.name == variant).ok_or_else(|| failed("no such sandbox"))?;
    let sandbox: Box<dyn Sandbox> = (variant.make)(helper);

    // Folders in place of others are what an overlay without attributes cannot do.
    let changed = |cache: &str| {
        format!(
            "cd ~/{cache} && mkdir made && echo x > made/x && mv made moved && cat moved/x && echo x > extra && rm -rf old lib && \
             mkdir old lib && echo evil > old/file && echo evil > lib/build.rs && ls -a old lib"
        )
    };
    let script = format!(
        "set -e; test \"$(cat ~/{SMALL_CACHE}/lib/build.rs)\" = 'fn main() {{}}'; test \"$(cat ~/{LARGE_TOOLS}/old/file)\" = old; \
         test -e ~/{LARGE_CACHE}/large && echo warm; ({}) > /dev/null; ({}) > /dev/null; ({}) > /dev/null 2>&1 && echo writable; true",
        changed(SMALL_CACHE),
        changed(LARGE_CACHE),
        changed(LARGE_TOOLS),
    );
    let ran = home.run(&*sandbox, home.command(&script))?;
    let report = ran.report.to_string();
    let unchanged = [(SMALL_CACHE, "lib/build.rs"), (LARGE_CACHE, "old/file"), (LARGE_TOOLS, "old/file")];
    let unchanged = unchanged.into_iter().all(|(cache, file)| {
        let folder = home.at(cache);
        let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
        matches!(text.as_str(), "fn main() {}" | "old") && !folder.join("moved").exists()
    });
    let left = fs::read_dir(caches.join("layers")).map_err(failed)?.count();
    if ran.code != 0 || !unchanged || left != 0 {
        return Err(failed(format!("unchanged: {unchanged}; {left} layers left; {ran:?}\n{report}")));
    }
    let says = |text: &str, cache: &str| {
        report.lines().any(|line| line.contains(text) && line.contains(&*home.at(cache).to_string_lossy()))
    };
    let copied =
        [SMALL_CACHE, LARGE_CACHE, LARGE_TOOLS].map(|cache| says("copies, which it can write", cache));
    let cold =
        says("empty, since no layer", LARGE_CACHE) && says("can be read only, since no layer", LARGE_TOOLS);
    let in_memory = report.contains("lies in memory, since the disk cannot hold layers");
    match (ran.stdout.as_str(), copied, cold, in_memory) {
        ("warm\nwritable\n", [false, false, false], false, false) => Ok(Layers),
        ("warm\nwritable\n", [false, false, false], false, true) => Ok(InMemory),
        ("warm\nwritable\n", [true, true, true], false, false) => Ok(Copies),
        // Those of root's other home may be layers in memory.
        ("", [true, false, false], true, _) => Ok(Cold),
        _ => Err(failed(format!(
            "copied {copied:?}, cold {cold}, in memory {in_memory}: {}\n{report}",
            ran.stdout
        ))),
    }
}

/// As a kernel that does not know the flag.
fn refuse_userxattr() -> Result<(), seccompiler::Error> {
    use seccompiler::{
        SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    };
    const FSCONFIG_SET_FLAG: u64 = 0;
    // Nothing else is set by a flag.
    let flag = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, FSCONFIG_SET_FLAG)?;
    let rules = [(libc::SYS_fsconfig, vec![SeccompRule::new(vec![flag])?])];
    let (refuse, arch) =
        (SeccompAction::Errno(libc::EINVAL.unsigned_abs()), std::env::consts::ARCH.try_into()?);
    let filter = SeccompFilter::new(rules.into(), SeccompAction::Allow, refuse, arch)?;
    let program: seccompiler::BpfProgram = filter.try_into()?;
    seccompiler::apply_filter(&program)
}

/// The table, as the document has it.
pub(crate) fn table() -> String {
    let mut text = "| home on | `landlock`, and `bwrap` from 0.11 on, as root | the same, as a user | `bwrap` before 0.11 |\n|---|---|---|---|\n".to_owned();
    for row in ROWS {
        let [root, user] = row.expected.map(Caches::as_str);
        let note =
            if row.untried.is_empty() { String::new() } else { format!(" (not tried: {})", row.untried) };
        // Writing to a string does not fail.
        let _ = writeln!(text, "| {}{note} | {root} | {user} | {} |", row.label, row.without.as_str());
    }
    text
}

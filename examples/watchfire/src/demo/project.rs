//! Creates the demo's project: a small real repository in a scratch folder, with a Watchfire home of its own.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use watchfire_core::store::{NewProject, NewTask, ProjectPatch, TaskStore as _};
use watchfire_core::{Error, Result};
use watchfire_git::GitOptions;

use super::tasks;
use crate::context::open_home;
use crate::git::git;

const GREET: &str = "#!/bin/sh\necho \"Hello, ${1:-world}!\"\n";
const CHECK: &str = r#"#!/bin/sh
# What merged work must pass: every script is sound, and the greeting has a name in it.
for script in *.sh; do
    sh -n "$script" || { echo "$script is not sound"; exit 1; }
done
sh greet.sh Ada | grep -q ", Ada!" || { echo "greet.sh does not greet by name"; exit 1; }
"#;
const README: &str = "# Greeter\n\nSays hello. `sh check.sh` tells whether it does.\n";

/// The scratch folder with the demo's project.
#[derive(Debug)]
pub(super) struct Scratch {
    folder: TempDir,
    pub(super) root: PathBuf,
    pub(super) home: PathBuf,
    /// The demo's own `~`, with bait in it.
    pub(super) user: PathBuf,
}

impl Scratch {
    /// Creates the folder, the repository, the project and its tasks.
    pub(super) async fn make() -> Result<Self> {
        let folder = scratch_folder()?;
        let path = folder.path().canonicalize().map_err(|e| Error::io("opening the scratch folder", e))?;
        let (root, home, user) = (path.join("greeter"), path.join("watchfire-home"), path.join("user"));
        let made = Self { folder, root, home, user };
        made.write_bait()?;
        made.write_repository()?;
        made.write_project().await?;
        Ok(made)
    }

    /// Returns the environment of the demo: ours, with the demo's own `~`.
    pub(super) fn environment(&self) -> Vec<(OsString, OsString)> {
        let drop = |name: &OsString| {
            let name = name.to_string_lossy();
            // These would lead back to the person's own folders and configuration.
            name == "HOME" || name.starts_with("XDG_") || name.starts_with("GIT_")
        };
        let mut environment: Vec<_> = std::env::vars_os().filter(|(name, _)| !drop(name)).collect();
        environment.push(("HOME".into(), self.user.clone().into()));
        environment
    }

    /// Keeps the folder and returns its path.
    pub(super) fn keep(self) -> PathBuf {
        self.folder.keep()
    }

    fn write_bait(&self) -> Result<()> {
        write(&self.user.join(".ssh/id_demo"), "This is no key. It stands where one would be.\n")
    }

    fn write_repository(&self) -> Result<()> {
        for (name, text) in [("greet.sh", GREET), ("check.sh", CHECK), ("README.md", README)] {
            write(&self.root.join(name), text)?;
        }
        for args in [
            // Branch and name are given, because git does not read the person's configuration here.
            &["init", "-q", "-b", "main"][..],
            &["config", "user.name", "Demo"],
            &["config", "user.email", "demo@watchfire.invalid"],
            &["add", "."],
            &["commit", "-q", "-m", "A small greeter"],
        ] {
            git(&self.root, args)?;
        }
        Ok(())
    }

    async fn write_project(&self) -> Result<()> {
        watchfire_git::init::init(&self.root, true, &GitOptions::default())?;
        let home = open_home(self.home.clone()).await?;
        let new =
            NewProject::new().with_name("Greeter".to_owned()).with_verify(vec!["sh check.sh".to_owned()]);
        home.init_project(&self.root, new).await?;
        let store = home.open_store(&self.root, None).await?;
        // Two at a time, so that two tasks compete for the same line.
        store.update_project(ProjectPatch::new().with_max_parallel(2), None, None).await?;
        let tasks: Vec<NewTask> = tasks::tasks(&self.root.display().to_string()).collect();
        for task in tasks {
            store.create(task, None).await?;
        }
        Ok(())
    }
}

/// Creates a scratch folder below the person's cache. It is not in `/tmp`, which sandboxes replace, so that a sandbox
/// really has to keep agents out.
fn scratch_folder() -> Result<TempDir> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    let make = |parent: &Path| {
        fs::create_dir_all(parent)?;
        tempfile::Builder::new().prefix("demo-").tempdir_in(parent)
    };
    let below_cache = cache.map(|cache| make(&cache.join("watchfire")));
    match below_cache {
        Some(Ok(folder)) => Ok(folder),
        // Without a home, or with one that cannot be written.
        _ => make(&std::env::temp_dir()).map_err(|e| Error::io("making the scratch folder", e)),
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    let failed = |e| Error::io("writing the demo", e).with_path(path);
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
    fs::write(path, text).map_err(failed)
}

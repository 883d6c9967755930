//! The aliases of a home's sessions: a file for each, so that no two programs give the same one at a time.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind::{AlreadyExists, NotFound};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::files::{Replace, make_private, unique_name};
use crate::model::{Alias, ProjectId};
use crate::schedule::LifeId;
use crate::{Error, Result};

/// Number of names to try before one gets a number.
const TRIES: usize = 64;

/// A folder with a file for each alias that is taken. It holds the life whose sessions have it: a life keeps its alias from
/// its first session until it ends.
#[derive(Debug)]
pub(crate) struct Aliases {
    folder: PathBuf,
    /// The aliases given here, by life. A life itself learns its alias only when a session of it begins.
    found: Mutex<HashMap<Bearer, Alias>>,
}

/// The life that has an alias.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Bearer(String);

impl Bearer {
    pub(crate) fn new(project: &ProjectId, life: LifeId) -> Self {
        Self(format!("{project} {life}"))
    }
}

impl Aliases {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, found: Mutex::default() }
    }

    /// Takes an alias that no other life has: the one that it had, if it can be had. Blocks.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn take(&self, before: Option<&Alias>, bearer: &Bearer) -> Result<Alias> {
        let before = before.cloned().or_else(|| self.found().get(bearer).cloned());
        let random = (0..TRIES).map(|_| Alias::random());
        // With nearly all names taken.
        let numbered = (2..).filter_map(|n| format!("{}-{n}", Alias::random()).parse().ok());
        for alias in before.into_iter().chain(random).chain(numbered) {
            if self.give(&alias, bearer)? {
                self.found().insert(bearer.clone(), alias.clone());
                return Ok(alias);
            }
        }
        Err(Error::new(crate::ErrorKind::Internal, "no alias is left"))
    }

    /// Gives an alias to a life, and returns false if another has it. Blocks.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn give(&self, alias: &Alias, bearer: &Bearer) -> Result<bool> {
        make_private(&self.folder)?;
        let (path, made) = (self.folder.join(alias.as_str()), self.folder.join(unique_name("alias")));
        Replace::new().with_mode(0o600).without_sync().write(&made, bearer.0.as_bytes())?;
        // With its content from the first moment: a name without a bearer would be anybody's.
        let linked = fs::hard_link(&made, &path);
        let _ = fs::remove_file(&made);
        match linked {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == AlreadyExists => Ok(self.bearer(&path).as_ref() == Some(bearer)),
            Err(error) => Err(Error::io("taking an alias", error).with_path(path)),
        }
    }

    /// Frees the alias of a life that has ended: the one that it knows of, and one that was found for a session that did not
    /// begin. Blocks.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn free(&self, known: Option<&Alias>, bearer: &Bearer) -> Result<()> {
        let found = self.found().remove(bearer);
        known.into_iter().chain(&found).try_for_each(|alias| self.remove(alias, bearer))
    }

    fn remove(&self, alias: &Alias, bearer: &Bearer) -> Result<()> {
        let path = self.folder.join(alias.as_str());
        if self.bearer(&path).as_ref() != Some(bearer) {
            return Ok(());
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != NotFound => {
                Err(Error::io("freeing an alias", error).with_path(path))
            }
            _ => Ok(()),
        }
    }

    /// Frees the aliases of a project's lives but those that `are_open`: an earlier program was killed before it did. Only
    /// for who has the project's lock. Blocks.
    pub(crate) fn sweep(&self, project: &ProjectId, are_open: impl Fn(LifeId) -> bool) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let Some(Bearer(text)) = self.bearer(&entry.path()) else { continue };
            let life = text.split_once(' ').filter(|(of, _)| *of == project.as_str());
            let life = life.and_then(|(_, life)| life.parse().ok().map(LifeId));
            if life.is_some_and(|life| !are_open(life)) {
                // It is tried again at the next start.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn found(&self) -> MutexGuard<'_, HashMap<Bearer, Alias>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bearer(&self, path: &std::path::Path) -> Option<Bearer> {
        fs::read_to_string(path).ok().map(Bearer)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_name_has_one_bearer_until_it_is_freed() {
        let temp = tempfile::tempdir().unwrap();
        let of = |project: &str, life| (project.parse::<ProjectId>().unwrap(), LifeId(life));
        let bearer = |(project, life): &(ProjectId, LifeId)| Bearer::new(project, *life);
        let (first, second) = (of("p", 1), of("q", 1));
        // As two programs of a home.
        let (one, other) = (Aliases::new(temp.path().join("a")), Aliases::new(temp.path().join("a")));
        let alias = one.take(None, &bearer(&first)).unwrap();
        assert_eq!(one.take(Some(&alias), &bearer(&first)).unwrap(), alias, "its next session");
        assert_ne!(other.take(Some(&alias), &bearer(&second)).unwrap(), alias);
        other.free(Some(&alias), &bearer(&second)).unwrap();
        assert_ne!(other.take(Some(&alias), &bearer(&second)).unwrap(), alias);
        one.free(Some(&alias), &bearer(&first)).unwrap();
        assert_eq!(other.take(Some(&alias), &bearer(&second)).unwrap(), alias);
        other.sweep(&first.0, |_| false);
        other.sweep(&second.0, |life| life == LifeId(1));
        assert_ne!(one.take(Some(&alias), &bearer(&first)).unwrap(), alias);
        other.sweep(&second.0, |_| false);
        assert_eq!(one.take(Some(&alias), &bearer(&first)).unwrap(), alias);
    }

    #[test]
    fn a_life_whose_sessions_do_not_begin_takes_one_name() {
        let temp = tempfile::tempdir().unwrap();
        let (aliases, bearer) =
            (Aliases::new(temp.path().to_owned()), Bearer::new(&"p".parse().unwrap(), LifeId(1)));
        let alias = aliases.take(None, &bearer).unwrap();
        assert_eq!(aliases.take(None, &bearer).unwrap(), alias);
        aliases.free(None, &bearer).unwrap();
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
    }

    #[test]
    fn names_do_not_run_out() {
        let temp = tempfile::tempdir().unwrap();
        let aliases = Aliases::new(temp.path().to_owned());
        let bearer = |n| Bearer::new(&"p".parse().unwrap(), LifeId(n));
        let taken: BTreeSet<_> = (0..1100).map(|n| aliases.take(None, &bearer(n)).unwrap()).collect();
        assert_eq!(taken.len(), 1100);
    }
}

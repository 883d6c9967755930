//! Makes the commits that go to a target, signed where the repository signs.

use std::time::Duration;

use git2::{Oid, Repository, Signature, Tree};
use watchfire_core::workspace::{Obstacle, ObstacleKind};
use watchfire_core::{Error, ErrorKind, Result};

use crate::command;
use crate::error::During;

/// Time limit for signing: long enough for a person to touch a security key.
const LIMIT: Duration = Duration::from_secs(60);
const UNSIGNED: &str = "the repository signs its commits, and signing failed";

/// Makes a commit that no reference points to.
pub(crate) fn make(
    repo: &Repository,
    author: &Signature<'_>,
    committer: &Signature<'_>,
    message: &str,
    tree: &Tree<'_>,
    parents: &[&git2::Commit<'_>],
) -> Result<Oid> {
    if !signs(repo) {
        return repo.commit(None, author, committer, message, tree, parents).during("committing");
    }
    // libgit2 cannot sign. git does it with the program and the key that the person configured.
    let tree = tree.id().to_string();
    let parents: Vec<_> = parents.iter().map(|parent| parent.id().to_string()).collect();
    let mut args = vec!["commit-tree", "-S"];
    for parent in &parents {
        args.extend(["-p", parent]);
    }
    args.extend(["-F", "-", &tree]);
    let date = |who: &Signature<'_>| format!("{} {}", who.when().seconds(), offset(who));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let env = [
        ("GIT_AUTHOR_NAME", text(author.name_bytes())),
        ("GIT_AUTHOR_EMAIL", text(author.email_bytes())),
        ("GIT_COMMITTER_NAME", text(committer.name_bytes())),
        ("GIT_COMMITTER_EMAIL", text(committer.email_bytes())),
        ("GIT_AUTHOR_DATE", date(author)),
        ("GIT_COMMITTER_DATE", date(committer)),
    ];
    let env = env.map(|(name, value)| (name.to_owned(), value.into()));
    let printed = command::run(repo.path(), &args, &env, message.as_bytes(), LIMIT)
        .map_err(|e| Error::new(e.kind(), UNSIGNED).with_source(e))?;
    Oid::from_str(printed.trim())
        .map_err(|e| Error::new(ErrorKind::Internal, "git printed no object id").with_source(e))
}

/// Returns the obstacle of a commit that could not be signed, in one line of what git said, if that is what failed.
pub(crate) fn unsigned(error: &Error) -> Option<Obstacle> {
    if error.message() != UNSIGNED {
        return None;
    }
    let said = error.report();
    // Lines for programs say it a second time.
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("[GNUPG:]"));
    Some(Obstacle::new(ObstacleKind::SigningFailed, lines.collect::<Vec<_>>().join("; ")))
}

/// Returns true if commits are signed, by the repository's or the person's configuration.
pub(crate) fn signs(repo: &Repository) -> bool {
    repo.config().and_then(|config| config.get_bool("commit.gpgSign")).unwrap_or(false)
}

fn offset(who: &Signature<'_>) -> String {
    let minutes = who.when().offset_minutes();
    let sign = if minutes < 0 { '-' } else { '+' };
    format!("{sign}{:02}{:02}", minutes.abs() / 60, minutes.abs() % 60)
}

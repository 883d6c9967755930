//! The authors and committers of the commits that Watchfire makes.

use git2::{Repository, Signature};
use watchfire_core::Result;

use crate::error::During;
use crate::options::Identity;

/// Returns the person of the repository's configuration, or `fallback` if it names none.
pub(crate) fn person(repo: &Repository, fallback: &Identity) -> Result<Signature<'static>> {
    repo.signature().or_else(|_| now(fallback)).during("making a signature")
}

/// Returns a signature of `identity` with the current time.
pub(crate) fn agent(identity: &Identity) -> Result<Signature<'static>> {
    now(identity).during("making a signature")
}

/// Returns true if the configuration names a person.
pub(crate) fn is_configured(repo: &Repository) -> bool {
    repo.signature().is_ok()
}

fn now(identity: &Identity) -> Result<Signature<'static>, git2::Error> {
    Signature::now(&identity.name, &identity.email)
}

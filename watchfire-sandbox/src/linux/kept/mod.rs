//! What commands add to caches, for the next commands of the same project.
//!
//! The folder holds one *generation* at a time that new commands see below the real caches, numbered, and older ones while
//! commands still see those. A generation changes only while no command sees it. When a command has ended, what it added is
//! moved to a folder of the [`Left`]; that is cleaned, then merged into the generation, or into a copy of it made of hard
//! links. Nothing is ever shown that the real cache has, so no command changes what the real cache says.

mod clean;
mod generation;
mod left;
mod merge;

use watchfire_core::sandbox::{Kept, RuleAccess, SandboxPolicy};

use crate::resolve::Resolver;

pub(super) use generation::Generation;
pub(super) use left::Left;

/// Returns what a policy keeps, with the real paths of the caches that it opens.
pub(super) fn of(policy: &SandboxPolicy) -> Option<Kept> {
    let mut kept = policy.kept.clone()?;
    let mut resolver = Resolver::default();
    kept.places.retain(|place| {
        let rule = policy.rules.binary_search_by(|rule| rule.path.cmp(place)).ok();
        rule.and_then(|at| policy.rules.get(at)).is_some_and(|rule| rule.access != RuleAccess::Deny)
    });
    for place in &mut kept.places {
        *place = resolver.resolve(place).0;
    }
    Some(kept)
}

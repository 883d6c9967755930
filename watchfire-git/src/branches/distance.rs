//! Counts how far branches are from their target: many branches in one walk that reads each commit once.

use std::collections::{BinaryHeap, HashMap};

use git2::{Oid, Repository};
use watchfire_core::Result;

use crate::error::During;

/// Number of commits that only one side has, and the newest commit of both. If histories cross, that is one
/// of several.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Distance {
    pub(crate) ahead: usize,
    pub(crate) behind: usize,
    pub(crate) base: Option<Oid>,
}

/// The target's bit in a colour. The other bits belong to branches.
const TARGET: u64 = 1;
/// Upper bound for branches in one walk: with the target's, a colour has 64 bits.
const AT_ONCE: usize = 63;

/// Returns the distance of each of `tips` from `target`, in their order.
pub(crate) fn distances(repo: &Repository, target: Oid, tips: &[Oid]) -> Result<Vec<Distance>> {
    let mut commits = HashMap::new();
    let mut all = Vec::with_capacity(tips.len());
    for tips in tips.chunks(AT_ONCE) {
        let mut walk = Walk::new(repo, &mut commits, u64::MAX >> (AT_ONCE - tips.len()));
        walk.reach(target, TARGET)?;
        for (n, tip) in tips.iter().enumerate() {
            walk.reach(*tip, TARGET << 1 << n)?;
        }
        walk.run()?;
        all.extend(walk.count(tips.len()));
    }
    Ok(all)
}

/// The time and the parents of each commit that was read.
type Known = HashMap<Oid, (i64, Vec<Oid>)>;

/// A walk from young to old that colours each commit with the sides that reach it.
struct Walk<'a> {
    repo: &'a Repository,
    commits: &'a mut Known,
    /// The colour of commits that all sides reach.
    full: u64,
    seen: HashMap<Oid, Seen>,
    queue: BinaryHeap<(i64, Oid)>,
    /// Number of queued commits that are not reached from every side yet.
    open: usize,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    colour: u64,
    queued: bool,
}

impl<'a> Walk<'a> {
    fn new(repo: &'a Repository, commits: &'a mut Known, full: u64) -> Self {
        Self { repo, commits, full, seen: HashMap::new(), queue: BinaryHeap::new(), open: 0 }
    }

    /// Adds `colour` to a commit. A commit that gets a new colour is queued again, even if its children claim
    /// to be older.
    fn reach(&mut self, id: Oid, colour: u64) -> Result<()> {
        let time = self.read(id)?.0;
        let seen = self.seen.entry(id).or_default();
        if seen.colour | colour == seen.colour {
            return Ok(());
        }
        seen.colour |= colour;
        let is_full = seen.colour == self.full;
        if !seen.queued {
            seen.queued = true;
            self.queue.push((time, id));
            self.open += usize::from(!is_full);
        } else if is_full {
            self.open -= 1;
        }
        Ok(())
    }

    fn read(&mut self, id: Oid) -> Result<&(i64, Vec<Oid>)> {
        use std::collections::hash_map::Entry;
        Ok(match self.commits.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let commit = self.repo.find_commit(id).during("walking the history")?;
                new.insert((commit.time().seconds(), commit.parent_ids().collect()))
            }
        })
    }

    fn next(&mut self) -> Option<(Oid, u64)> {
        let (_, id) = self.queue.pop()?;
        let seen = self.seen.get_mut(&id)?;
        seen.queued = false;
        self.open -= usize::from(seen.colour != self.full);
        Some((id, seen.colour))
    }

    fn run(&mut self) -> Result<()> {
        // Below commits that all sides reach there is nothing to count.
        while self.open > 0
            && let Some((id, colour)) = self.next()
        {
            for parent in self.read(id)?.1.clone() {
                self.reach(parent, colour)?;
            }
        }
        // A commit that was met before on another way may still lack colours.
        while let Some((id, colour)) = self.next() {
            for parent in self.read(id)?.1.clone() {
                if self.seen.contains_key(&parent) {
                    self.reach(parent, colour)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the commits of the walk, children before their parents, otherwise the youngest first.
    fn in_order(&self) -> Vec<Oid> {
        let parents = |id: &Oid| {
            let parents = self.commits.get(id).map_or(&[][..], |commit| &commit.1);
            parents.iter().filter(|parent| self.seen.contains_key(parent))
        };
        // The id decides between commits of one second, so that the order is always the same.
        let aged = |id: &Oid| (self.commits.get(id).map_or(0, |commit| commit.0), *id);
        let mut children: HashMap<Oid, usize> = HashMap::new();
        for parent in self.seen.keys().flat_map(parents) {
            *children.entry(*parent).or_default() += 1;
        }
        let mut ready: BinaryHeap<_> =
            self.seen.keys().filter(|id| !children.contains_key(id)).map(aged).collect();
        let mut order = Vec::with_capacity(self.seen.len());
        while let Some((_, id)) = ready.pop() {
            order.push(id);
            for parent in parents(&id) {
                let Some(left) = children.get_mut(parent) else { continue };
                *left -= 1;
                if *left == 0 {
                    ready.push(aged(parent));
                }
            }
        }
        order
    }

    fn count(&self, tips: usize) -> Vec<Distance> {
        let mut distances = vec![Distance::default(); tips];
        for id in self.in_order() {
            let colour = self.seen.get(&id).map_or(0, |seen| seen.colour);
            for (n, distance) in distances.iter_mut().enumerate() {
                match (colour & TARGET != 0, colour & (TARGET << 1 << n) != 0) {
                    // The first one in this order is the newest.
                    (true, true) => distance.base = distance.base.or(Some(id)),
                    (true, false) => distance.behind += 1,
                    (false, true) => distance.ahead += 1,
                    (false, false) => {}
                }
            }
        }
        distances
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use git2::{Commit, Signature, Time};

    use super::*;

    fn ancestors(repo: &Repository, tip: Oid) -> HashSet<Oid> {
        let mut walk = repo.revwalk().unwrap();
        walk.push(tip).unwrap();
        walk.map(Result::unwrap).collect()
    }

    #[test]
    fn distances_are_those_of_the_sets_of_ancestors() {
        let dir = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(dir.path()).unwrap();
        let tree = repo.find_tree(repo.treebuilder(None).unwrap().write().unwrap()).unwrap();
        let mut made: Vec<Commit<'_>> = Vec::new();
        // Any history will do: of 200 commits, some with two parents, some with none, many of one second.
        let mut random = 1_u64;
        for n in 0..200_usize {
            let mut pick = |from: usize| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                usize::try_from(random >> 33).unwrap() % from.max(1)
            };
            let parents = [1, 1, 1, 1, 2, 2, 0][pick(7)];
            let parents: Vec<_> = (0..parents.min(n)).map(|_| &made[n - 1 - pick(n.min(30))]).collect();
            let time = Time::new(i64::try_from(n / 3).unwrap(), 0);
            let who = Signature::new("x", "x@y", &time).unwrap();
            let id = repo.commit(None, &who, &who, &n.to_string(), &tree, &parents).unwrap();
            made.push(repo.find_commit(id).unwrap());
        }
        let tips: Vec<_> = made.iter().map(Commit::id).collect();
        for target in [tips[0], tips[100], tips[199]] {
            let reached = ancestors(&repo, target);
            let found = distances(&repo, target, &tips).unwrap();
            assert_eq!(found.len(), tips.len());
            for (tip, distance) in tips.iter().zip(found) {
                let own = ancestors(&repo, *tip);
                let ahead = own.difference(&reached).count();
                let behind = reached.difference(&own).count();
                assert_eq!((distance.ahead, distance.behind), (ahead, behind), "{tip} from {target}");
                let bases =
                    repo.merge_bases(target, *tip).map_or_else(|_| Vec::new(), |bases| bases.to_vec());
                assert_eq!(distance.base.is_some(), !bases.is_empty());
                assert!(distance.base.is_none_or(|base| bases.contains(&base)), "{tip} from {target}");
            }
        }
    }
}

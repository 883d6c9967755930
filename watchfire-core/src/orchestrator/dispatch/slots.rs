//! The slots that all projects share: `max_parallel` in `settings.yaml`.

use std::collections::BTreeMap;

use super::project::OpenProject;
use crate::model::ProjectId;
use crate::schedule::Fact;

/// Decides which project gets the next slot.
#[derive(Default)]
pub(super) struct Slots {
    /// Projects that wait for a slot of another one, in the order in which they get the next ones.
    waiting: Vec<ProjectId>,
    /// Number of slots that each project had got by the last time.
    starts: BTreeMap<ProjectId, u64>,
}

impl Slots {
    /// Tells each project how many slots are not for it, until nothing changes any more.
    pub(super) fn share(&mut self, projects: &mut BTreeMap<ProjectId, OpenProject>) {
        // Also without a limit: the first one comes with a board whose tasks may start at once.
        loop {
            self.look(projects);
            let taken: usize = projects.values().map(|project| project.schedule().busy()).sum();
            let changed = projects.iter_mut().find_map(|(id, project)| {
                let before = self.waiting.iter().position(|it| it == id).unwrap_or(self.waiting.len());
                let elsewhere = taken - project.schedule().busy() + before;
                (project.schedule().elsewhere() != elsewhere).then_some((project, elsewhere))
            });
            let Some((project, elsewhere)) = changed else { return };
            // It may start work with that, which the next round passes on.
            project.fact(Fact::Elsewhere(elsewhere), None);
        }
    }

    /// Takes in who waits. A project that has got a slot goes to the end.
    fn look(&mut self, projects: &BTreeMap<ProjectId, OpenProject>) {
        let before = std::mem::take(&mut self.starts);
        for (id, project) in projects {
            let (starts, is_short) = (project.schedule().starts(), project.schedule().is_short());
            if !is_short || before.get(id) != Some(&starts) {
                self.waiting.retain(|it| it != id);
            }
            if is_short && !self.waiting.contains(id) {
                self.waiting.push(id.clone());
            }
            self.starts.insert(id.clone(), starts);
        }
        self.waiting.retain(|id| projects.contains_key(id));
    }
}

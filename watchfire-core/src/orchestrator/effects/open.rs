//! Entering a project: its locks, its store, its journal. Changes nothing else.

use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::files::DirLock;
use crate::files::make_private;
use crate::journal::{self, Journal, JournalHandle};
use crate::model::{Project, ProjectId};
use crate::orchestrator::shared::{OpenStore, Parts, ProjectShared, Site, blocking, hosts};
use crate::schedule::NoticeCode;
use crate::store::take_place;
use crate::{Error, Result};

/// A project that was entered.
pub(crate) struct Entered {
    pub(crate) shared: Arc<ProjectShared>,
    pub(crate) opened: OpenedJournal,
    pub(crate) reserved: Reserved,
}

/// Content of the journal at the start.
pub(crate) struct OpenedJournal {
    pub(crate) id: String,
    pub(crate) state: journal::State,
    pub(crate) recent: Vec<journal::Entry>,
    pub(crate) warnings: Vec<journal::Warning>,
}

/// Takes the locks of a project and reads its journal.
///
/// There are two locks: one in the home, and one in the repository's common git dir, which agents cannot reach and a
/// second home finds. Without the second, two homes would run two agents in one worktree.
pub(crate) async fn enter(inner: &Arc<Parts>, root: &Path) -> Result<Entered> {
    let (make, path) = (Arc::clone(inner), root.to_path_buf());
    let (workspace, root) = blocking("opening a project", move || {
        // The real path: the same project through a link must take the same locks.
        let root =
            path.canonicalize().map_err(|e| Error::io("opening the project folder", e).with_path(path))?;
        let workspace = (make.workspaces)(&root)?;
        Ok((workspace, root))
    })
    .await?;
    let opening = OpenStore {
        root: root.clone(),
        home: Arc::clone(&inner.store_home),
        shared_dir: workspace.shared_dir(),
    };
    let store = (inner.stores)(opening).await?;
    let Project { project_id: id, repositories, .. } = store.project().await?.value;
    // Before the locks, whose errors would name our own pid as the other orchestrator.
    let reserved = Reserved::new(inner, &id)?;
    let shared_dir = workspace.shared_dir();
    let (state_dir, logs_dir) = (inner.store_home.state_dir(&id), inner.store_home.logs_dir(&id));
    let journal_dir = state_dir.join("journal");
    let (made, home) = ([state_dir.clone(), logs_dir.clone()], inner.home.clone());
    let (state, place, owner) = (state_dir.clone(), root.clone(), id.clone());
    let (lock, journal, opened) = blocking("opening the journal", move || {
        let lock = match shared_dir {
            Some(dir) => {
                let lock = DirLock::acquire(&dir.join("orchestrator.lock"))?;
                hosts::check(&dir, &home)?;
                Some(lock)
            }
            None => None,
        };
        made.iter().try_for_each(|folder| make_private(folder))?;
        // Before the journal: the first start after a kill settles what it finds there.
        take_place(&state, &place, &owner)?;
        let journal::Opened { journal, id, state, recent, warnings, .. } = Journal::open(&journal_dir)?;
        Ok((lock, JournalHandle::new(journal)?, OpenedJournal { id, state, recent, warnings }))
    })
    .await?;
    let lock = Mutex::new(lock);
    let site = Site { id, root, state_dir, logs_dir, store, workspace, repositories, journal, lock };
    let shared = Arc::new(ProjectShared::new(Arc::clone(inner), site));
    Ok(Entered { shared, opened, reserved })
}

impl OpenedJournal {
    /// Reports the damage that was found in the journal.
    pub(crate) fn report_damage(warnings: &[journal::Warning], shared: &ProjectShared) {
        for warning in warnings {
            shared.notice(NoticeCode::Store, None, warning.to_string());
        }
    }
}

/// Mark of a project as open here. Removed on drop.
pub(crate) struct Reserved(Option<(Arc<Parts>, ProjectId)>);

impl Reserved {
    fn new(inner: &Arc<Parts>, id: &ProjectId) -> Result<Self> {
        inner.reserve(id)?;
        Ok(Self(Some((Arc::clone(inner), id.clone()))))
    }

    /// Passes the mark on to the dispatcher, which removes it when the project is closed.
    pub(crate) fn hand_over(mut self) {
        self.0 = None;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some((inner, id)) = self.0.take() {
            inner.unreserve(&id);
        }
    }
}

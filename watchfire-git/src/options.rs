//! Options of a workspace.

/// The author or committer of a commit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity {
    /// The name.
    pub name: String,
    /// The address.
    pub email: String,
}

impl Identity {
    /// Makes an identity of a name and an address.
    pub fn new(name: impl Into<String>, email: impl Into<String>) -> Self {
        Self { name: name.into(), email: email.into() }
    }
}

/// Options of a [`GitWorkspace`](crate::GitWorkspace).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GitOptions {
    /// The branch to start from and merge into if a request names none. `None`: the branch that is checked
    /// out in the root.
    pub default_branch: Option<String>,
    /// The committer of work that an agent left uncommitted.
    pub agent: Identity,
    /// The committer of merges in repositories without `user.name` and `user.email`.
    pub fallback: Identity,
    /// Upper bound for the conflict marks that are kept of one path, in bytes.
    pub conflict_bytes: usize,
    /// The person's own filter drivers (`filter.<name>` in their configuration, such as `lfs`) that may run
    /// when a merge is brought to their checkout. Their input is what agents wrote.
    pub filters: Vec<String>,
}

impl Default for GitOptions {
    /// The branch of the root; the identities "Watchfire agent" and "Watchfire"; 16 KiB of each conflict
    /// (enough for an agent to see what collided, small enough for a prompt); no filter (not every filter is
    /// made for hostile input).
    fn default() -> Self {
        Self {
            default_branch: None,
            agent: Identity::new("Watchfire agent", "agent@watchfire.invalid"),
            fallback: Identity::new("Watchfire", "watchfire@watchfire.invalid"),
            conflict_bytes: 16 * 1024,
            filters: Vec::new(),
        }
    }
}

impl GitOptions {
    /// Names the branch to start from and merge into. An empty name means the branch that is checked out in
    /// the root.
    #[must_use]
    pub fn with_default_branch(mut self, branch: &str) -> Self {
        self.default_branch = Some(branch.to_owned()).filter(|branch| !branch.is_empty());
        self
    }

    /// Names the author of captures.
    #[must_use]
    pub fn with_agent(mut self, agent: Identity) -> Self {
        self.agent = agent;
        self
    }

    /// Names the committer of merges in repositories that name none.
    #[must_use]
    pub fn with_fallback(mut self, fallback: Identity) -> Self {
        self.fallback = fallback;
        self
    }

    /// Allows these filter drivers of the person.
    #[must_use]
    pub fn with_filters<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.filters = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the upper bound for the conflict marks that are kept of one path.
    #[must_use]
    pub fn with_conflict_bytes(mut self, bytes: usize) -> Self {
        self.conflict_bytes = bytes;
        self
    }
}

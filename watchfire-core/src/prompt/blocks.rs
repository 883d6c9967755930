//! Texts shared by prompts. Each becomes one section.

pub(super) const EXPLORE: &str = "\
Ground everything in this code base; general advice is of no use here.
1. Read the project's own documents (README, contributing and agent guides, architecture notes).
2. Look at the layout, the build, the tests, and at how similar things are already done.
3. Check what is there before you ask for something new: name the files, types and functions you mean.
4. Search in parallel where your tools allow it.";

pub(super) const TESTS: &str = "\
- A test shows that the behaviour is right; it never restates the code it tests.
- Never weaken, skip, delete or special-case a test or a check to make it pass. If a test is wrong, say why in the \
commit that changes it.
- Tests do not depend on each other, on their order, or on luck with time.
- Run the whole suite before you finish, not only the tests near your change.";

pub(super) const DEVIATIONS: &str = "\
Nobody answers questions while you work. When reality differs from the task:
- a typo or an obvious slip: fix it and go on;
- a small bug (some ten lines) in a file that you touch anyway: fix it in a commit of its own;
- something missing that the task takes for granted: see whether another task brings it; if none does and it is \
small, add it, else stop;
- a contradiction in the task, or a design that cannot hold: stop. Do not build something else instead.
To stop means: commit what is sound, then finish as failed, with the real error text and two or three ways out.";

pub(super) const GIT_WORKTREE: &str = "\
- Work only on the branch that is checked out in your folder. Never switch branches, never rewrite commits that were \
there before you, never touch the main checkout or another worktree.
- Look at `git status` first. Stage files by name, never with `git add .` or `git add -A`.
- Commit as you go, each commit one step that stands on its own, with a message that says what and why.
- Never push, never fetch, never merge your branch into another: it is verified and merged for you. You have no credentials for a remote.
- Commit everything that belongs to the task before you finish. What you leave uncommitted is not work you can rely on.";

pub(super) const GIT_READ_ONLY: &str = "\
Git is for reading here (`git log`, `git diff`, `git grep`). Commit nothing, and change nothing in the project: only \
the files named in <input_files> as yours to write.";

pub(super) const GIT_CHAT: &str = "\
This is the person's own checkout. Commit only when asked, stage files by name, and never push, reset, stash or \
switch branches on your own account.";

pub(super) const FIELDS: &str = "\
`version` (always 1), `task_id` (never change it), `task_number`, `title` (one line), `prompt` (the instruction, \
a block of text), `acceptance_criteria` (what must hold in the end, a list that can be checked), `status` \
(`draft`, `ready` or `done`), `position` (order of work). Keep every field and comment that you have no reason to change.";

pub(super) const TASK_QUALITY: &str = "\
A good task can be done by an agent that knows nothing but the task and the code:
- one outcome, small enough for one sitting and one review;
- the prompt says what should be different and why, where in the code it belongs (files, types, functions), and what \
to leave alone;
- the acceptance criteria can be checked by a command or by looking at one place;
- it does not overlap with another task; if it builds on one, it says so in `depends_on` (a list of task numbers).";

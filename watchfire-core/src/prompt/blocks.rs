//! Texts shared by prompts. Each becomes one section.

use crate::model::PromptSection;

impl PromptSection {
    /// Returns the built-in text.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::AntiPatterns => ANTI_PATTERNS,
            Self::CodebaseExploration => EXPLORE,
            Self::ContextManagement => CONTEXT,
            Self::DeviationRules => DEVIATIONS,
            Self::ExecutionProtocol => PROTOCOL,
            Self::GitWorkflow => GIT_WORKTREE,
            Self::ScopeRules => SCOPE,
            Self::TaskQuality => TASK_QUALITY,
            Self::TestIntegrity => TESTS,
        }
    }
}

const EXPLORE: &str = "\
Ground everything in this code base; general advice is of no use here.
1. Read the project's own documents (README, contributing and agent guides, architecture notes).
2. Look at the layout, the build, the tests, and at how similar things are already done.
3. Check what is there before you ask for something new: name the files, types and functions you mean.
4. Search in parallel where your tools allow it.";

const PROTOCOL: &str = "\
1. Read the task, its criteria, the code that they are about, and how similar things are done here.
2. Before you change anything, settle how you will see that each criterion holds: a test, a command, an output. Where the \
project has tests, write the one that fails now first.
3. Make the smallest change that does it, in the manner of the code around it.
4. Look: run that test, then the whole suite, and what the project uses to format and lint. Read the output.
5. Commit, bring your notes up to date, and go on with the next step.
6. At the end go through the criteria one by one and look at each again, on what is committed.
When the same thing fails for the third time, do not try a fourth variation. Find out why it fails: read the code that \
fails, print what it sees, take away half.";

const SCOPE: &str = "\
- The scope is what the prompt and the criteria ask for, and what these cannot do without. Its tests and its documents \
belong to it.
- Leave everything else as you found it: nothing is reformatted, renamed, moved, upgraded or tidied on the way.
- Interfaces, file formats, dependencies and what users see change only where the task says so.
- A person is told of every change of what tools run by themselves (hooks, CI, build and package scripts). Make one only if the \
task cannot do without it.
- What you notice beside the task is worth a line in `memory.md`, not a change.";

const ANTI_PATTERNS: &str = "\
- \"It should work.\" Nothing is done that you have not seen work.
- Hiding a failure: an error that is caught and dropped, a default for a value that must be there, a sleep or a retry \
around a race, `|| true`.
- Code for the test: a branch for its input, a mock of the very thing it is about.
- Code for later: options, layers and parameters that nobody asked for, code that is commented out, a TODO in place of work.
- Writing anew what the project has, because looking for it takes longer.
- Rewriting a file to change three lines of it.

<examples>
<example label=\"good\">
Criterion: a name that is taken is refused. The test adds the same name twice through the public function, and failed before \
the change. The change is one check, four lines, in the function that adds names. The suite passes. One commit: \"Refuse \
names that are taken\".
</example>
<example label=\"bad\">
The same criterion. The test calls a new private helper and asserts what the helper returns. The commit also renames two \
files and adds a setting that turns the check off. \"All tests should pass now.\"
</example>
</examples>";

const CONTEXT: &str = "\
- Read several files at once where your tools allow it, and of a large file the part that you need.
- Send long output to a file in `$TMPDIR`, and look at its end or search in it.
- Your context may be compacted at any time. What you wrote down stays: after it, read that, and go on from there.";

const TESTS: &str = "\
- A test shows that the behaviour is right; it never restates the code it tests.
- Never weaken, skip, delete or special-case a test or a check to make it pass. If a test is wrong, say why in the \
commit that changes it.
- Tests do not depend on each other, on their order, or on luck with time.
- Run the whole suite before you finish, not only the tests near your change.";

const DEVIATIONS: &str = "\
Nobody watches you work, and a question stops everything until a person comes. When reality differs from the task:
- a typo or an obvious slip: fix it and go on;
- a small bug (some ten lines) in a file that you touch anyway: fix it in a commit of its own;
- something missing that the task takes for granted: see whether another task brings it; if none does and it is \
small, add it, else stop;
- a contradiction in the task, or a design that cannot hold: stop. Do not build something else instead.
To stop means: commit what is sound, then finish as failed, with the real error text and two or three ways out.";

const GIT_WORKTREE: &str = "\
- Work only on the branch that is checked out in your folder. Never switch branches, never rewrite commits that were \
there before you, never touch the main checkout or another worktree.
- Look at `git status` first. Stage files by name, never with `git add .` or `git add -A`.
- Commit as you go, each commit one step that stands on its own, with a message that says what and why.
- Never push, never fetch, never merge your branch into another: that is left to Watchfire and the person.
- Commit everything that belongs to the task before you finish. What you leave uncommitted is not work you can rely on.";

pub(super) const GIT_READ_ONLY: &str = "\
Git is for reading here (`git log`, `git diff`, `git grep`). Commit nothing, and change nothing in the project: only \
the files named in <input_files> as yours to write.";

pub(super) const GIT_CHAT: &str = "\
This is the person's own checkout. Commit only when asked, stage files by name, and never push, reset, stash or \
switch branches on your own account.";

pub(super) const GIT_CHAT_APART: &str = "\
This folder and the branch that is checked out in it are yours, and the person works elsewhere. Commit as you go, stage files \
by name, and never push, switch branches or touch the main checkout. The person takes your branch when they want it.";

pub(super) const FIELDS: &str = "\
`version` (always 1), `task_id` (never change it), `task_number`, `title` (one line), `prompt` (the instruction, \
a block of text), `acceptance_criteria` (what must hold in the end, a list that can be checked), `status` \
(`draft`, `ready` or `done`), `position` (order of work). Keep every field and comment that you have no reason to change.";

const TASK_QUALITY: &str = "\
A good task can be done by an agent that knows nothing but the task and the code:
- one outcome, small enough for one sitting and one review;
- the prompt says what should be different and why, where in the code it belongs (files, types, functions), and what \
to leave alone;
- the acceptance criteria can be checked by a command or by looking at one place;
- it does not overlap with another task; if it builds on one, it says so in `depends_on` (a list of task numbers).

<examples>
<example label=\"good\">
title: Refuse a move to a taken square
prompt: `Board::place` in src/board.rs overwrites a square that is taken. Let it return `Err(Taken)` and leave the board as it \
is; src/ui.rs shows \"taken\" and lets the player move again. Leave the rules for winning alone.
acceptance_criteria: a test in src/board.rs places twice on one square and sees `Err(Taken)`; `cargo test` passes.
</example>
<example label=\"bad\">
title: Improve the board
prompt: Make the board more robust and clean up the code.
acceptance_criteria: the code is better.
</example>
</examples>";

pub(super) const IDS: &str = "\
You make no ids. Leave `task_id` out: it is given when your tasks are taken over. A task is called by its number: take the next \
one that no file has, and count on from there. Never use the number of another task again.";

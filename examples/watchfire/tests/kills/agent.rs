//! An agent whose task's prompt is a shell script; in a chat it repeats lines.

use std::path::Path;

use watchfire_core::Result;
use watchfire_core::backend::{
    Backend, Capabilities, Delivery, Fact, Issue, IssueKind, Launch, LocatedProgram, Observation,
    ProgramSearch, SessionContext,
};

#[derive(Debug)]
pub(super) struct Shell;

impl Backend for Shell {
    fn name(&self) -> &str {
        "shell"
    }

    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::default();
        can.chat = true;
        can
    }

    fn locate(&self, _: &ProgramSearch) -> Result<LocatedProgram> {
        Ok(LocatedProgram::new("/bin/sh"))
    }

    fn prepare(&self, context: &SessionContext) -> Result<Launch> {
        let script = context
            .task
            .as_ref()
            .map_or("while read line; do echo \"said $line\"; done", |task| &task.prompt);
        Ok(Launch::new(&context.program).with_args(["-c", script]))
    }

    fn delivery(&self) -> Delivery {
        Delivery::line()
    }

    /// A last line `limited` is an issue.
    fn interpret(&self, observation: &Observation<'_>) -> Vec<Fact> {
        let Observation::Screen(screen) = observation else { return Vec::new() };
        match screen.trim_end().lines().last() {
            Some("limited") => vec![Fact::Issue(Issue::new(IssueKind::RateLimited, "slow down"))],
            _ => Vec::new(),
        }
    }
}

/// Functions for all scripts. A note of work is made only after the work, so that whatever is noted must never be lost.
pub(super) fn prelude(world: &Path) -> String {
    format!(
        r#"W='{}'
echo $$ >> "$W/pids"
work() {{ line="$1 $$ $(date +%s%N)"; echo "$line" >> "$1.txt" && echo "$line" >> "$W/written"; }}
commit() {{ git add -A && git commit -qm "$1" && git rev-parse HEAD >> "$W/commits"; }}
finish() {{ sed -i 's/^status: .*/status: done/' "$WATCHFIRE_TASK_FILE"; }}
until_there() {{ until [ -e "$1" ]; do sleep 0.02; done; }}
"#,
        world.display()
    )
}

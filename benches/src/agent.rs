//! Agents that are shell scripts: their task's prompt.

use watchfire_core::Result;
use watchfire_core::backend::{Backend, Launch, LocatedProgram, ProgramSearch, SessionContext};

/// Prints what fills the given number of rows of 120 columns, then sleeps.
#[must_use]
pub fn prints(rows: usize) -> String {
    format!("yes '{}' | head -n {rows}; exec sleep 1000000", "x".repeat(118))
}

/// Makes a file of its own and claims success.
pub const FINISHES: &str =
    r#"echo x > "made-$$"; sed -i 's/^status: .*/status: done/' "$WATCHFIRE_TASK_FILE""#;

/// An agent whose program is the shell.
#[derive(Debug)]
pub struct Agent;

impl Backend for Agent {
    fn name(&self) -> &str {
        "bench"
    }

    fn locate(&self, _: &ProgramSearch) -> Result<LocatedProgram> {
        Ok(LocatedProgram::new("/bin/sh"))
    }

    fn prepare(&self, context: &SessionContext) -> Result<Launch> {
        let script = context.task.as_ref().map_or("", |task| &task.prompt);
        Ok(Launch::new(&context.program).with_args(["-c", script]))
    }
}

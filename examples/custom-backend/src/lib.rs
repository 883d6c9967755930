//! A backend in its own crate: `tinker`, an agent that takes two files, its instructions and its job.
//!
//! A program that links this crate (`use custom_backend as _;`) can run tasks with `agent: tinker`.

#![forbid(unsafe_code)]

use watchfire_core::Result;
use watchfire_core::backend::{
    Backend, Capabilities, Fact, Launch, LocatedProgram, Observation, ProgramSearch, SessionContext, Status,
    Transport,
};

watchfire_core::register_backend!(Tinker);

/// The agent `tinker`.
#[derive(Debug)]
pub struct Tinker;

impl Backend for Tinker {
    fn name(&self) -> &str {
        "tinker"
    }

    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::default();
        can.system_prompt = true;
        can
    }

    fn install_hint(&self) -> Option<String> {
        Some("cargo install tinker".into())
    }

    fn locate(&self, search: &ProgramSearch) -> Result<LocatedProgram> {
        search.find("tinker", &["~/.cargo/bin"]).map(LocatedProgram::new)
    }

    fn prepare(&self, context: &SessionContext) -> Result<Launch> {
        // Nothing is written here: the files come below the session's home before the start.
        Ok(Launch::new(&context.program)
            .with_transport(Transport::pty(context.size))
            .with_env("TINKER_HOME", &context.home)
            .with_file("instructions.md", context.system_prompt.as_str())
            .with_file("job.md", context.first_prompt.as_deref().unwrap_or_default())
            .with_arg(context.home.join("instructions.md"))
            .with_arg(context.home.join("job.md")))
    }

    fn interpret(&self, observation: &Observation<'_>) -> Vec<Fact> {
        match observation {
            Observation::Title(title) if title.ends_with("ready") => vec![Fact::Status(Status::Idle)],
            Observation::Title(title) if title.ends_with("busy") => vec![Fact::Status(Status::Processing)],
            _ => Vec::new(),
        }
    }
}

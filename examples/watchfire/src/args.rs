//! Defines the command line: its commands, the options that all of them share, and the text of `--help`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    agent, attach, branches, chat, costs, daemon, definition, diff, doctor, generate, history, init, login,
    logs, observe, program, prompts, run, sandbox, settings, task, tui, update,
};
use crate::demo;

/// Runs coding agents on task files: each in a sandbox and a git worktree of its own, its work verified and merged.
#[derive(Debug, Parser)]
#[command(name = "watchfire", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    /// Work in this folder instead of the current one
    #[arg(short = 'C', long = "directory", value_name = "DIR", global = true)]
    pub(crate) directory: Option<PathBuf>,
    /// Print the version
    #[arg(short = 'v', action = clap::ArgAction::Version, hide = true)]
    short_version: Option<bool>,
    /// Report as JSON; errors too, on stderr
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

const EXAMPLES: &str = "\
Examples:
  watchfire                            open the terminal interface
  watchfire demo                       see it work, in a scratch folder, without an account
  watchfire init --yes                 make the repository in this folder a project
  watchfire task add --title 'Add a login' --prompt 'Follow docs/ui.md.' --ready
  watchfire run all                    run all ready tasks, then exit

Exit codes: 0 all is well, 1 an error, 2 wrong usage, 3 tasks need a person, 130 interrupted.

State, settings and logs are in $WATCHFIRE_HOME (default ~/.watchfire).";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Open the terminal interface, as without a command
    Tui(tui::TuiArgs),
    /// Show everything working, in a scratch project, in a few seconds
    Demo(demo::DemoArgs),
    /// Make a folder a project
    Init(init::InitArgs),
    /// Add, list, change and run tasks
    #[command(subcommand)]
    Task(task::TaskCommand),
    /// Run one task, or all ready tasks
    Run(run::RunArgs),
    /// Run a task again, and tell its agent what is wrong or missing
    SendBack(run::SendBackArgs),
    /// Take back what a task has merged
    Undo(branches::UndoArgs),
    /// Answer the agent of a task, and go on with it; or a question between agents
    Answer(task::AnswerArgs),
    /// Go on with a task that waits for you, once its limit is over or its obstacle is gone
    Resume(task::ResumeArgs),
    /// Run tasks, refine drafts and generate further tasks, until nothing is left to do
    Wildfire(run::WildfireArgs),
    /// Let an agent propose the definition of the project, or tasks
    #[command(visible_alias = "gen")]
    Generate(generate::GenerateArgs),
    /// Talk to an agent in the project's root
    Chat(chat::ChatArgs),
    /// Sign in to an agent, by its own program
    Login(login::LoginArgs),
    /// Start and stop agents that the daemon runs
    #[command(subcommand)]
    Agent(agent::AgentCommand),
    /// Show the terminal of an agent that the daemon runs, and type into it
    Attach(attach::AttachArgs),
    /// Start, show and end the daemon, which runs agents for all terminals
    #[command(subcommand)]
    Daemon(daemon::DaemonCommand),
    /// List the agents that run now, started from any terminal
    #[command(visible_alias = "ps")]
    Sessions(observe::SessionsArgs),
    /// Show what an agent does, at once or when something happens
    Watch(observe::WatchArgs),
    /// Wait until an agent is idle, or has another status
    Wait(observe::WaitArgs),
    /// Show what agents do as they do it
    Follow(observe::FollowArgs),
    /// Send a text to agents that run
    Send(observe::SendArgs),
    /// Ask an agent that runs, and show its answer
    Ask(observe::AskArgs),
    /// Show the oldest question that waits for you, or wait for one
    Listen(observe::ListenArgs),
    /// List session logs, or show one
    Logs(logs::LogsArgs),
    /// List the sections of the prompts that a project can replace, or show one
    Prompts(prompts::PromptsArgs),
    /// Show the work that has ended, and how
    History(history::HistoryArgs),
    /// Show the work that was started and has not ended: what is at work, and what waits for what
    #[command(after_help = "Examples:\n  watchfire queue\n  watchfire queue --json")]
    Queue,
    /// Show what sessions cost
    Costs(costs::CostsArgs),
    /// Show what a task changes
    Diff(diff::DiffArgs),
    /// List, merge, delete and clean up the branches of tasks, and restore rescued work
    #[command(visible_alias = "branch")]
    Branches(branches::BranchesArgs),
    /// Save settings and tasks in the repository, under refs/watchfire/backup; it is also done once a day
    #[command(after_help = "Examples:\n  watchfire backup")]
    Backup,
    /// Bring back settings and tasks that are missing, for example after git clean -fdx
    #[command(after_help = "Examples:\n  watchfire restore")]
    Restore,
    /// Show and try what agents may do
    #[command(subcommand)]
    Sandbox(sandbox::SandboxCommand),
    /// Edit or print the definition of the project, which every agent is told
    #[command(visible_alias = "def")]
    Definition(definition::DefinitionArgs),
    /// Show and change the settings of the project, or your own
    Settings(settings::SettingsArgs),
    /// Print the JSON Schema of a file, with which editors complete it
    Schema(program::SchemaArgs),
    /// Report what this machine has: git, agents, sandboxes, disk, settings
    Doctor(doctor::DoctorArgs),
    /// Print the script with which a shell completes commands, tasks and agents
    Completions(program::CompletionsArgs),
    /// Write manual pages
    Manual(program::ManualArgs),
    /// Look for a newer release, and install it
    Update(update::UpdateArgs),
    /// Print the version
    #[command(visible_alias = "v", after_help = "Examples:\n  watchfire version --json")]
    Version,
}

/// Overrides for every session of a run.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SessionArgs {
    /// Use this agent instead of the one in task, project or settings
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Use this sandbox: auto, none, or one that watchfire sandbox probe lists
    #[arg(long, value_name = "NAME", conflicts_with = "no_sandbox")]
    pub(crate) sandbox: Option<String>,
    /// Run without a sandbox; the same as --sandbox none
    #[arg(long)]
    pub(crate) no_sandbox: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        fn look(command: &clap::Command, path: &str, without: &mut Vec<String>) {
            let path = format!("{path} {}", command.get_name());
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            if !help.contains("Examples:") && !command.is_hide_set() {
                without.push(path.clone());
            }
            for under in command.get_subcommands() {
                look(under, &path, without);
            }
        }
        use clap::CommandFactory as _;
        let mut without = Vec::new();
        look(&Cli::command(), "", &mut without);
        assert_eq!(without, [] as [&str; 0]);
    }
}

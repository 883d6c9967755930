//! The commands, one file each.

pub(crate) mod agent;
pub(crate) mod attach;
pub(crate) mod backup;
pub(crate) mod branches;
pub(crate) mod chat;
pub(crate) mod costs;
pub(crate) mod daemon;
pub(crate) mod definition;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod generate;
pub(crate) mod history;
pub(crate) mod init;
pub(crate) mod login;
pub(crate) mod logs;
pub(crate) mod observe;
pub(crate) mod program;
pub(crate) mod prompts;
pub(crate) mod run;
pub(crate) mod sandbox;
pub(crate) mod settings;
pub(crate) mod task;
pub(crate) mod tui;
pub(crate) mod update;
mod waiting;

use crate::args::{Cli, Command};
use crate::context::Context;
use crate::demo;
use crate::failure::{Exit, Result};

pub(crate) async fn dispatch(cli: Cli) -> Result<Exit> {
    let context = Context::new(cli.directory, cli.json);
    let reminds = update::reminds(&context, cli.command.as_ref());
    let tries_alone = matches!(cli.command, Some(Command::Sandbox(_)));
    let ended = carry_out(&context, cli.command).await;
    let ended = ended.map_err(|failure| daemon::explain_lock(failure, tries_alone));
    if reminds {
        update::remind().await;
    }
    ended
}

async fn carry_out(context: &Context, command: Option<Command>) -> Result<Exit> {
    // Without a command: the terminal interface.
    let Some(command) = command else { return tui::run(context, tui::TuiArgs::default()).await };
    match command {
        Command::Tui(args) => tui::run(context, args).await,
        Command::Demo(args) => demo::run(context, args).await,
        Command::Init(args) => init::run(context, args).await,
        Command::Task(command) => task::run(context, command).await,
        Command::Run(args) => run::run(context, args).await,
        Command::Wildfire(args) => run::wildfire(context, args).await,
        Command::Generate(args) => generate::run(context, args).await,
        Command::Chat(args) => chat::run(context, args).await,
        Command::SendBack(args) => run::send_back(context, args).await,
        Command::Undo(args) => branches::undo(context, args).await,
        Command::Answer(args) => task::answer(context, args).await,
        Command::Resume(args) => task::resume(context, args).await,
        Command::Sessions(args) => observe::sessions(context, args).await,
        Command::Watch(args) => observe::watch(context, args).await,
        Command::Wait(args) => observe::wait(context, args).await,
        Command::Follow(args) => observe::follow(context, args).await,
        Command::Ask(args) => observe::ask(context, args).await,
        Command::Listen(args) => observe::listen(context, args).await,
        Command::Send(args) => observe::send(context, args).await,
        Command::History(args) => history::run(context, args).await,
        Command::Queue => history::queue(context).await,
        Command::Costs(args) => costs::run(context, args).await,
        Command::Prompts(args) => prompts::run(context, args).await,
        Command::Logs(args) => logs::run(context, args).await,
        Command::Branches(args) => branches::run(context, args).await,
        Command::Attach(args) => attach::run(context, args).await,
        Command::Login(args) => login::run(context, args).await,
        Command::Agent(command) => agent::run(context, command).await,
        Command::Daemon(command) => daemon::run(context, command).await,
        Command::Definition(args) => definition::run(context, args).await,
        Command::Settings(args) => settings::run(context, args).await,
        Command::Schema(args) => program::schema(context, &args),
        Command::Backup => backup::save(context).await,
        Command::Restore => backup::restore(context).await,
        Command::Diff(args) => diff::run(context, args).await,
        Command::Doctor(args) => doctor::run(context, args).await,
        Command::Sandbox(command) => sandbox::run(context, command).await,
        Command::Completions(args) => program::completions(context, &args),
        Command::Manual(args) => program::manual(context, &args),
        Command::Update(args) => update::run(context, args).await,
        Command::Version => Ok(program::version(context).await),
    }
}

//! The keys of the files that people write: one table for warnings, `doctor`, `watchfire schema` and the pages
//! `docs/settings.md`, `docs/project.md` and `docs/task-file.md`.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::form::THEMES;

/// One of the files that people write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum KeyFile {
    /// `settings.yaml` in the Watchfire home: the person's own.
    Settings,
    /// `.watchfire/project.yaml`: the project's.
    Project,
    /// `.watchfire/tasks/NNNN.yaml`: a task's.
    Task,
}

impl fmt::Display for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Settings => "settings.yaml",
            Self::Project => "project.yaml",
            Self::Task => "the task file",
        })
    }
}

/// Form of a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum KeyKind {
    /// Text.
    Text,
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Number,
    /// A whole number from 1 on.
    Count,
    /// An amount of US dollars, such as `5.00`.
    Amount,
    /// A colour, as `#rrggbb`.
    Color,
    /// A time span, such as `45m` or `2h`.
    Duration,
    /// A point in time.
    Time,
    /// A list of texts.
    List,
    /// A list of numbers.
    Numbers,
    /// Texts by names of the person's choice.
    Map,
    /// Keys of its own, which are in the table.
    Section,
    /// One of these words.
    OneOf(&'static [&'static str]),
}

impl KeyKind {
    /// Checks the form of a value, as far as it can be told from the kind alone. Nothing counts as missing.
    pub(super) fn check(&self, value: &Value) -> Result<(), String> {
        let is_good = match (self, value) {
            (_, Value::Null) => true,
            (Self::Flag, value) => value.is_boolean(),
            (Self::Number, value) => value.is_u64(),
            (Self::Count, value) => value.as_u64().is_some_and(|number| number > 0),
            (Self::Amount, value) => value.is_number(),
            (Self::List, Value::Array(items)) => items.iter().all(Value::is_string),
            (Self::Numbers, Value::Array(items)) => items.iter().all(Value::is_u64),
            (Self::Map, Value::Object(items)) => items.values().all(Value::is_string),
            (Self::Section, value) => value.is_object(),
            (Self::OneOf(words), Value::String(word)) => words.contains(&word.as_str()),
            (Self::Text | Self::Color | Self::Duration | Self::Time, value) => value.is_string(),
            _ => false,
        };
        if is_good {
            return Ok(());
        }
        let expected = match self {
            Self::OneOf(words) => format!("one of {}", words.join(", ")),
            Self::Flag => "true or false".to_owned(),
            Self::Text => "a text".to_owned(),
            Self::Number => "a whole number from 0 on".to_owned(),
            Self::Section => "keys with values".to_owned(),
            kind => kind.to_string(),
        };
        Err(format!("expected {expected}, found {value}"))
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("text"),
            Self::Flag => f.write_str("`true` or `false`"),
            Self::Number => f.write_str("number"),
            Self::Count => f.write_str("number from 1 on"),
            Self::Amount => f.write_str("US dollars"),
            Self::Color => f.write_str("colour"),
            Self::Duration => f.write_str("time span"),
            Self::Time => f.write_str("time"),
            Self::List => f.write_str("list of texts"),
            Self::Numbers => f.write_str("list of numbers"),
            Self::Map => f.write_str("texts by name"),
            Self::Section => f.write_str("section"),
            Self::OneOf(words) => write!(f, "`{}`", words.join("`, `")),
        }
    }
}

/// A key that is valid in one of the files.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Key {
    /// The file.
    pub file: KeyFile,
    /// Its place: names from the outside to the inside, joined by dots. `*` stands for any name.
    pub path: &'static str,
    /// The form of its value.
    pub kind: KeyKind,
    /// The value that holds when the key is missing, in words.
    pub default: &'static str,
    /// The parts that read it, in words. Empty for sections.
    pub readers: &'static str,
    /// A value, as YAML on one line, which is not the default. Empty for sections.
    pub example: &'static str,
    /// The effect of the key, in one sentence.
    pub meaning: &'static str,
}

impl Key {
    /// Declares an option of one agent, for a backend that is not in the table. `path` is `agents.*.` and its name.
    #[must_use]
    pub const fn of_agent(
        path: &'static str,
        kind: KeyKind,
        default: &'static str,
        meaning: &'static str,
    ) -> Self {
        key(Settings, path, kind, default, "sessions of that agent", "", meaning)
    }

    /// Returns the listed option of agents with this name.
    #[must_use]
    pub fn listed_for_agents(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.agent_option() == Some(name))
    }

    /// Returns the name of an option of agents. Returns `None` for all other keys.
    pub(super) fn agent_option(&self) -> Option<&'static str> {
        let name = self.path.strip_prefix("agents.*.")?;
        (self.file == Settings && !name.is_empty()).then_some(name)
    }
}

use KeyFile::{Project, Settings, Task};
use KeyKind::{Amount, Color, Count, Duration, Flag, List, Map, Number, Numbers, OneOf, Section, Text, Time};

const fn key(
    file: KeyFile,
    path: &'static str,
    kind: KeyKind,
    default: &'static str,
    readers: &'static str,
    example: &'static str,
    meaning: &'static str,
) -> Key {
    Key { file, path, kind, default, readers, example, meaning }
}

const NETWORK: KeyKind = OneOf(&["open", "internet", "closed"]);
const SHARING: KeyKind = OneOf(&["shared", "private"]);
const ON_LIMIT: KeyKind = OneOf(&["ask", "wait", "stop"]);
const STATUSES: KeyKind = OneOf(&["draft", "ready", "done"]);
const STRATEGIES: KeyKind = OneOf(&["merge", "squash", "rebase", "fast-forward-only"]);

/// All keys. The types of this module hold exactly these, which a test checks; no other key is read.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    key(Settings, "version", Number, "1", "every program", "1", "The version of the format."),
    key(Settings, "agents", Section, "none", "sessions", "", "Settings of agents, by name."),
    key(Settings, "agents.*", Section, "", "sessions of that agent", "", "Settings of one agent."),
    key(Settings, "agents.*.path", Text, "found in `PATH` and the usual places", "sessions of that agent, `doctor`", "my-agent", "The program."),
    key(Settings, "agents.*.args", List, "none", "sessions of that agent", "[\"--yes\", \"{prompt}\"]", "All arguments of a configured program, or more of them for a known agent."),
    key(Settings, "agents.*.model", Text, "the agent's own", "sessions of that agent", "opus", "The model, for agents that can choose."),
    key(Settings, "agents.*.env", Map, "none", "sessions of that agent", "{\"MY_AGENT_MODE\": \"quiet\"}", "Environment variables that only this agent gets."),
    key(Settings, "agents.*.pass_env", List, "none", "sessions of that agent", "[\"MY_AGENT_KEY\"]", "Names of environment variables that this agent gets from ours."),
    key(Settings, "agents.*.transport", Text, "the agent's usual one", "sessions of that agent", "pty", "The channel to the agent: `pty`, `stream` or `acp`, where it has them; `pty`, `lines` or `acp` for a configured program."),
    key(Settings, "agents.*.carry", List, "none", "sessions of that agent", "[\"mcp:github\", \"hooks\"]", "Parts of your own configuration that go along only if you name them here, as `watchfire doctor` lists them: `mcp:github`, `hooks`."),
    key(Settings, "agents.*.script", Text, "a small job", "sessions of that agent", "/home/me/job.script", "`scripted` alone: the file of its script."),
    key(Settings, "agents.*.config", Text, "the agent's own", "sessions of that agent", "/home/me/.continue/config.yaml", "`continue` alone: the absolute path of its configuration."),
    key(Settings, "agents.*.provider", Text, "the agent's own", "sessions of that agent", "anthropic", "`cline` alone: its provider."),
    key(Settings, "agents.*.prompt_mode", OneOf(&["arg", "file", "none", "stdin", "typed"]), "`typed`", "sessions of that agent", "arg", "A configured program alone: the way in which the first prompt is given."),
    key(Settings, "agents.*.acp_mode", Text, "none", "sessions of that agent", "code", "A configured program alone: the mode to set in the Agent Client Protocol."),
    key(Settings, "agents.*.chat_args", List, "`args` without the prompt", "sessions of that agent", "[\"--yes\"]", "A configured program alone: the arguments when there is no first prompt."),
    key(Settings, "agents.*.resume_args", List, "it cannot resume", "sessions of that agent", "[\"--resume\", \"{session_id}\"]", "A configured program alone: arguments that are added to resume a session."),
    key(Settings, "agents.*.session_id_key", Text, "not read", "sessions of that agent", "session_id", "A configured program alone: the key of the session id in its output lines."),
    key(Settings, "agents.*.ready", List, "ready at once", "sessions of that agent", "[\"> \"]", "A configured program alone: texts of which one is on the screen when it is ready for input."),
    key(Settings, "agents.*.busy", List, "none", "sessions of that agent", "[\"esc to interrupt\"]", "A configured program alone: texts of which none is on the screen once the agent is ready."),
    key(Settings, "agents.*.ready_within", Number, "60", "sessions of that agent", "30", "A configured program alone: seconds to wait until it is ready."),
    key(Settings, "agents.*.framing", OneOf(&["paste", "literal"]), "`paste`", "sessions of that agent", "literal", "A configured program alone: the way in which text is typed."),
    key(Settings, "agents.*.paste_limit", Number, "1000", "sessions of that agent", "4000", "A configured program alone: the longest text, in bytes, to type; longer text goes by file."),
    key(Settings, "agents.*.settle_ms", Number, "300; 800 for several lines", "sessions of that agent", "500", "A configured program alone: milliseconds between text and submit key."),
    key(Settings, "agents.*.submit", OneOf(&["enter", "kitty"]), "`enter`", "sessions of that agent", "kitty", "A configured program alone: the key that submits text."),
    key(Settings, "agents.*.interrupt", Text, "Ctrl-C", "sessions of that agent", "\"\\u001b\"", "A configured program alone: the keys that interrupt it."),
    key(Settings, "agents.*.quit", Text, "none", "sessions of that agent", "/quit", "A configured program alone: the keys that end it."),
    key(Settings, "agents.*.transcript", Text, "none", "sessions of that agent", "~/.my-agent/{session_id}.jsonl", "A configured program alone: the path of its transcript."),
    key(Settings, "max_parallel", Number, "no limit", "the daemon, `run`", "4", "Maximum number of tasks that run at once in all projects of one program: of the daemon, or of a `run` without it. Projects that wait get free places in turn."),
    key(Settings, "defaults", Section, "", "", "", "Values for what projects leave open."),
    key(Settings, "defaults.auto_merge", Flag, "true", "runs", "false", "Merges a task once it is done and verified."),
    key(Settings, "defaults.auto_delete_branch", Flag, "true", "merges", "false", "Removes worktree and branch after a merge."),
    key(Settings, "defaults.auto_start_tasks", Flag, "true", "the daemon", "false", "Starts a task when it becomes ready, while the daemon runs and nothing was stopped."),
    key(Settings, "defaults.default_branch", Text, "the one that is checked out", "`init`", "develop", "The merge target that `init` offers where it asks."),
    key(Settings, "defaults.default_sandbox", Text, "`auto`", "sessions", "landlock", "The sandbox, by name."),
    key(Settings, "defaults.default_agent", Text, "the program's own", "sessions", "codex", "The agent, by name."),
    key(Settings, "defaults.stop_on_merge_failure", Flag, "false", "runs", "true", "Ends a run when a merge fails."),
    key(Settings, "defaults.on_limit", ON_LIMIT, "`ask`", "runs", "wait", "The reaction to a used-up limit of an agent's plan: `ask` keeps the work until a person resumes it, `wait` goes on when the limit is over, `stop` ends the work and keeps its branch."),
    key(Settings, "defaults.prune_every", Text, "`24h`", "the clean-up", "12h", "Interval of the automatic clean-up, or `never`."),
    key(Settings, "defaults.stop_without_clients", Text, "`never`", "the daemon", "10s", "Time after which the daemon stops a project's agents when its last client has left, such as `10s`, or `never`. A client is what follows the project: the terminal interface, `run`, `attach`. Until the first such client comes, every command counts as one."),
    key(Settings, "defaults.ready_worktrees", Number, "0", "runs", "2", "Number of worktrees that are prepared in advance."),
    key(Settings, "sandbox", Section, "", "", "", "Changes of the sandbox's base policy."),
    key(Settings, "sandbox.read", List, "none", "sandboxes", "[\"~/.npmrc\"]", "Paths that agents may read although the base policy hides them."),
    key(Settings, "sandbox.write", List, "none", "sandboxes", "[\"/srv/data\"]", "Paths that agents may write."),
    key(Settings, "sandbox.deny", List, "none", "sandboxes", "[\"~/notes/private\"]", "Paths that agents may neither read nor write."),
    key(Settings, "sandbox.pass_env", List, "none", "sessions", "[\"MY_REGISTRY_TOKEN\", \"MYTOOL_*\"]", "Environment variables that agents get from ours: names, or prefixes that end in `*`."),
    key(Settings, "sandbox.env", Map, "none", "sessions", "{\"MYTOOL_MODE\": \"quiet\"}", "Environment variables that all agents get. Not for secrets."),
    key(Settings, "sandbox.network", NETWORK, "`open`", "sandboxes", "closed", "The network of agents. `internet` keeps them from what listens on this machine, by slirp4netns."),
    key(Settings, "sandbox.deny_ports", Numbers, "none", "sandboxes", "[5432]", "TCP ports that agents cannot connect to, on any host."),
    key(Settings, "sandbox.tmp", SHARING, "`private`", "sandboxes", "shared", "The `/tmp` of sessions."),
    key(Settings, "sandbox.caches", SHARING, "yours; what a session writes is kept apart", "sandboxes", "private", "The caches of package managers."),
    key(Settings, "sandbox.caches_max_mb", Number, "2048", "sandboxes", "500", "Maximum size of what a project's sessions add to these caches and keep for the next ones, in MiB. `0` keeps nothing."),
    key(Settings, "sandbox.step_down", OneOf(&["refuse", "allow"]), "`refuse`", "sandboxes", "allow", "Accepts a weaker sandbox on machines without namespaces."),
    key(Settings, "sandbox.limits", Section, "", "", "", "Limits of one session."),
    key(Settings, "sandbox.limits.processes", Number, "the machine's", "sandboxes", "512", "Maximum number of processes and threads."),
    key(Settings, "sandbox.limits.open_files", Number, "the machine's", "sandboxes", "4096", "Maximum number of open files of each process."),
    key(Settings, "sandbox.limits.file_size_mb", Number, "the machine's", "sandboxes", "10240", "Maximum size of a file, in MiB."),
    key(Settings, "git", Section, "", "", "", "Options of git."),
    key(Settings, "git.filters", List, "none", "merges", "[\"lfs\"]", "Filter drivers, such as `lfs`, that may run when merged files are written to a checkout."),
    key(Settings, "git.allow_git_wiring", Flag, "false", "merges", "true", "Merges changes of hooks, of attributes that name drivers and of `.gitmodules` without asking."),
    key(Settings, "git.repositories", List, "none", "the opening of a project", "[\"~/work/lib\"]", "Repositories, or folders that hold some, which projects may name in `repositories`. A project's file may come from someone else, so it cannot allow that by itself."),
    key(Settings, "notify", Section, "", "", "", "How you are told when work needs you."),
    key(Settings, "notify.command", Text, "none", "the daemon, `run`", "curl -sd @- https://ntfy.example.org/me", "A command of the shell that gets each event as JSON on its standard input."),
    key(Settings, "notify.desktop", Flag, "`false`", "the daemon, `run`", "true", "Show notifications on the desktop."),
    key(Settings, "notify.events", List, "all", "the daemon, `run`", "[\"asks\", \"failed\"]", "Which: `asks`, `limited`, `held`, `failed`, `over` (a run is over)."),
    key(Settings, "tui", Section, "", "", "", "Options of the terminal interface."),
    key(Settings, "tui.theme", OneOf(THEMES), "that of the terminal", "the terminal interface", "light", "Colours for a dark or a light background."),
    key(Settings, "tui.bell", Flag, "true", "the terminal interface", "false", "A bell, and a notification of the terminal, when work needs you."),
    key(Settings, "tui.chat", Flag, "true", "the terminal interface", "false", "A chat that starts by itself: with the interface where nothing runs, and when `run all` or wildfire is over."),
    key(Settings, "tui.keys", Map, "none", "the terminal interface", "{\"start\": \"ctrl+s\"}", "Your own keys by the names of actions, which docs/tui.md lists: `start: ctrl+s`."),
    key(Settings, "updates", Section, "", "", "", "Where new releases of Watchfire are looked for."),
    key(Settings, "updates.source", Text, "none", "the command line", "https://github.com/watchfire-io/watchfire-rs", "A git repository whose tags such as `v1.2.3` are the releases. Without one, nothing is looked up."),
    key(Settings, "updates.check_on_startup", Flag, "true", "the command line", "false", "Looks for a new release in the background, and tells of one on a terminal."),
    key(Settings, "updates.check_frequency", OneOf(&["every_launch", "daily", "weekly"]), "`daily`", "the command line", "weekly", "How often it looks."),
    key(Settings, "budget", Section, "", "", "", "Upper bounds for what sessions cost, by the prices of their providers. At 80 % there is a warning; at the bound the agent is asked to finish, and stopped."),
    key(Settings, "budget.task", Amount, "no limit", "runs", "2.50", "For all sessions of one task."),
    key(Settings, "budget.day", Amount, "no limit", "runs", "20", "For all sessions of one day, of all projects."),
    key(Settings, "budget.unknown", OneOf(&["allow", "refuse"]), "`allow`", "runs", "refuse", "The reaction to an agent that does not tell what it spends: it starts with a warning, or does not start."),
    key(Settings, "logs", Section, "", "", "", "Limits of the logs of a project's sessions. The clean-up removes what exceeds them, oldest first."),
    key(Settings, "logs.keep_days", Number, "30", "the clean-up", "90", "Days for which a log is kept after its last change; 0 for no limit."),
    key(Settings, "logs.max_mb", Number, "1024", "the clean-up", "4096", "Size of all logs of a project, in MiB; 0 for no limit."),

    key(Project, "version", Number, "", "every program", "1", "The version of the format: 1."),
    key(Project, "project_id", Text, "", "every program", "01890a5d-ac96-774b-bcce-b302099a8057", "The id, which stays when the folder moves."),
    key(Project, "name", Text, "", "clients, prompts", "shop", "The name shown to people."),
    key(Project, "status", OneOf(&["active", "archived"]), "`active`", "clients, the daemon", "archived", "Archived projects are hidden by clients, and closed by the program that has them open."),
    key(Project, "color", Color, "none", "graphical clients", "\"#1f6feb\"", "A colour for graphical clients, in quotes: `#` begins a comment."),
    key(Project, "default_branch", Text, "the one that is checked out when an attempt begins", "merges", "develop", "The merge target."),
    key(Project, "repositories", List, "none", "the opening of the project", "[\"../lib\"]", "Further repositories in which its tasks work, by paths relative to the project. The settings must allow them (`git.repositories`)."),
    key(Project, "default_agent", Text, "that of the settings", "sessions", "codex", "The agent of its sessions, by name."),
    key(Project, "sandbox", Text, "that of the settings", "sessions", "landlock", "The sandbox, by name."),
    key(Project, "sandbox_rules", Section, "", "", "", "Restrictions on top of the person's settings. They can only tighten."),
    key(Project, "sandbox_rules.deny", List, "none", "sandboxes", "[\"~/clients/other\"]", "Paths that its agents may neither read nor write."),
    key(Project, "sandbox_rules.network", NETWORK, "that of the settings", "sandboxes", "closed", "`internet` keeps agents from what listens on this machine, `closed` closes the network; `open` changes nothing."),
    key(Project, "sandbox_rules.deny_ports", Numbers, "none", "sandboxes", "[5432]", "TCP ports that its agents cannot connect to."),
    key(Project, "sandbox_rules.tmp", SHARING, "that of the settings", "sandboxes", "private", "`private` tightens; `shared` changes nothing."),
    key(Project, "sandbox_rules.caches", SHARING, "that of the settings", "sandboxes", "private", "`private` tightens; `shared` changes nothing."),
    key(Project, "sandbox_rules.limits", Section, "", "", "", "Limits of one session. The lower of two limits holds."),
    key(Project, "sandbox_rules.limits.processes", Number, "that of the settings", "sandboxes", "128", "Maximum number of processes and threads."),
    key(Project, "sandbox_rules.limits.open_files", Number, "that of the settings", "sandboxes", "1024", "Maximum number of open files of each process."),
    key(Project, "sandbox_rules.limits.file_size_mb", Number, "that of the settings", "sandboxes", "512", "Maximum size of a file, in MiB."),
    key(Project, "auto_merge", Flag, "that of the settings", "runs", "false", "Merges a task once it is done and verified."),
    key(Project, "auto_delete_branch", Flag, "that of the settings", "merges", "false", "Removes worktree and branch after a merge."),
    key(Project, "auto_start_tasks", Flag, "that of the settings", "the daemon", "false", "Starts a task when it becomes ready, while the daemon runs and nothing was stopped."),
    key(Project, "definition", Text, "none", "prompts", "A web shop.", "A description of the project for prompts."),
    key(Project, "setup", List, "none", "sessions, merges", "[\"npm ci\"]", "Shell commands, such as `npm ci`, that prepare a fresh task folder before its agent starts, and the merged tree before it is verified. Confined like an agent. What they leave and git does not ignore becomes part of the work."),
    key(Project, "verify", List, "none", "merges", "[\"npm test\"]", "Shell commands that must succeed on the merged tree before the target moves."),
    key(Project, "share", List, "none", "sessions, merges", "[\"node_modules\"]", "Ignored folders of the checkout, such as `node_modules`, that tasks see as a copy-on-write view."),
    key(Project, "copy", List, "none", "sessions", "[\"config.local.json\"]", "Ignored files of the checkout that tasks get a copy of. Those that look like secrets need `sandbox.read` in the settings."),
    key(Project, "protected", List, "none", "merges, chats", "[\"LICENSE\", \"migrations/\"]", "Files and folders, or patterns, that agents may not change. Work that does is held until `watchfire branches merge N --accept-protected`."),
    key(Project, "review", OneOf(&["none", "tools"]), "`none`", "merges", "tools", "`tools` holds work that changes what tools run by themselves, such as `package.json`."),
    key(Project, "max_parallel", Count, "1", "runs", "3", "Maximum number of tasks that run at once."),
    key(Project, "time_limit", Duration, "none", "sessions", "45m", "Maximum duration of a session, and of a setup or verify command."),
    key(Project, "stall_after", Duration, "`5m`", "sessions", "10m", "Silence after which you are told that an agent may be stalled: no output, no tool under way, no work of its processes. It goes on."),
    key(Project, "on_limit", ON_LIMIT, "that of the settings", "runs", "wait", "The reaction to a used-up limit of an agent's plan."),
    key(Project, "merge", Section, "", "", "", "Options of merging."),
    key(Project, "merge.strategy", STRATEGIES, "`merge`", "merges", "squash", "The shape of the history."),
    key(Project, "merge.batch", Count, "1", "merges", "4", "Maximum number of finished tasks that are merged and verified together."),
    key(Project, "wildfire", Section, "", "", "", "Options of wildfire: tasks are refined, generated and worked on until nothing is left to do."),
    key(Project, "wildfire.rounds", Number, "no limit", "wildfire", "3", "Maximum number of times that a run generates tasks. 0 means no limit."),
    key(Project, "wildfire.review", Flag, "false", "wildfire", "true", "Ends a run after it has generated tasks, so that a person looks at them first."),
    key(Project, "wildfire.agent", Text, "the project's", "wildfire", "claude-code", "The agent that refines and generates tasks, by name."),
    key(Project, "wildfire.execute", Section, "", "", "", "The work on tasks in wildfire."),
    key(Project, "wildfire.execute.agent", Text, "the project's", "wildfire", "codex", "Its agent, by name. A task's own agent goes first."),
    key(Project, "wildfire.execute.model", Text, "that of the settings", "wildfire", "gpt-5", "The model of this agent. Where a task or a flag names another agent, that agent's own model counts."),
    key(Project, "wildfire.refine", Section, "", "", "", "The refinement of drafts."),
    key(Project, "wildfire.refine.agent", Text, "`wildfire.agent`", "wildfire", "claude-code", "Its agent, by name."),
    key(Project, "wildfire.refine.model", Text, "that of the settings", "wildfire", "opus", "The model of this agent."),
    key(Project, "wildfire.generate", Section, "", "", "", "The generation of tasks."),
    key(Project, "wildfire.generate.agent", Text, "`wildfire.agent`", "wildfire", "claude-code", "Its agent, by name."),
    key(Project, "wildfire.generate.model", Text, "that of the settings", "wildfire", "opus", "The model of this agent."),
    key(Project, "agents_may", Section, "", "", "", "What agents may do beside their work. An agent can never start anything."),
    key(Project, "agents_may.see_peers", Flag, "true", "sessions", "false", "Agents see which others run in the project."),
    key(Project, "agents_may.message_peers", Flag, "true", "sessions", "false", "Agents ask each other, where they see each other."),
    key(Project, "agents_may.ask_person", Flag, "true", "sessions", "false", "Agents ask the person."),
    key(Project, "created_at", Time, "none", "clients", "\"2026-01-02T03:04:05Z\"", "Time of creation."),
    key(Project, "updated_at", Time, "none", "clients", "\"2026-01-02T03:04:05Z\"", "Time of the last change."),
    key(Project, "next_task_number", Number, "1", "`task add`", "3", "The number of the next task, unless a file with a higher number exists."),

    key(Task, "version", Number, "", "every program", "1", "The version of the format: 1."),
    key(Task, "task_id", Text, "", "every program", "\"k3v9x2mq\"", "The internal id, which is never shown."),
    key(Task, "task_number", Number, "", "every program", "1", "The number, which is also the name of the file."),
    key(Task, "title", Text, "", "clients, prompts", "Add a login page", "One line that describes the task."),
    key(Task, "prompt", Text, "none", "prompts", "Follow docs/ui.md.", "The instruction for the agent."),
    key(Task, "acceptance_criteria", Text, "none", "prompts", "The page has a test.", "Conditions that the finished work must meet."),
    key(Task, "agent", Text, "that of the project", "sessions", "codex", "The agent that works on it, by name."),
    key(Task, "status", STATUSES, "", "runs", "ready", "The status."),
    key(Task, "success", Flag, "true", "runs", "false", "With `done`, false if the task failed."),
    key(Task, "failure_reason", Text, "none", "clients", "The API is missing.", "The reason for `success: false`."),
    key(Task, "merge_failure_reason", Text, "none", "clients", "conflicts in a.txt", "The reason why its work was not merged."),
    key(Task, "position", Number, "0", "runs, clients", "2", "Position in display and work order, ascending."),
    key(Task, "agent_sessions", Number, "0", "clients", "1", "Number of sessions that have worked on it."),
    key(Task, "created_at", Time, "none", "clients", "\"2026-01-02T03:04:05Z\"", "Time of creation."),
    key(Task, "started_at", Time, "none", "clients", "\"2026-01-02T03:04:05Z\"", "Time at which the first session started."),
    key(Task, "completed_at", Time, "none", "clients", "\"2026-01-02T03:04:05Z\"", "Time at which it became done."),
    key(Task, "updated_at", Time, "none", "clients", "\"2026-01-02T03:04:05Z\"", "Time of the last change."),
    key(Task, "deleted_at", Time, "none", "clients", "\"2026-01-02T03:04:05Z\"", "Time at which it went to the trash."),
    key(Task, "depends_on", Numbers, "none", "runs", "[2]", "Tasks that must be merged before this one starts."),
    key(Task, "retries", Number, "0", "runs", "2", "Number of further attempts after a crash, a timeout or a failed verification."),
    key(Task, "labels", List, "none", "`run --label`, lists", "[\"ui\"]", "Words by which tasks are selected."),
    key(Task, "request_id", Text, "none", "`task add`", "import-17", "The caller's id of the request that created it, for requests that are repeated."),
];

/// A key that Watchfire does not read.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct UnknownKey {
    /// The file.
    pub file: KeyFile,
    /// The place of the key.
    pub path: String,
    /// The key that was probably meant, misspelt or misplaced.
    pub nearest: Option<&'static Key>,
}

impl UnknownKey {
    /// An option that the agent of this name does not read.
    pub(crate) fn of_agent(agent: &str, option: &str) -> Self {
        let file = Settings;
        Self { file, path: format!("agents.{agent}.{option}"), nearest: nearest(file, "agents.*", option) }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        (self.file, self.path) == (other.file, other.path)
    }
}

impl Eq for Key {}

impl fmt::Display for UnknownKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, path, nearest } = self;
        if nearest.and_then(Key::agent_option).is_some_and(|option| path.ends_with(&format!(".{option}"))) {
            return write!(f, "`{path}` is an option of other agents and changes nothing");
        }
        write!(f, "`{path}` is no key of {file} and changes nothing")?;
        let Some(nearest) = nearest else { return Ok(()) };
        // Beside the key, for the same agent.
        let agent =
            path.strip_prefix("agents.").and_then(|rest| Some(rest.split_once('.')?.0)).unwrap_or("*");
        write!(f, "; did you mean `{}`", nearest.path.replace('*', agent))?;
        if nearest.file == *file { f.write_str("?") } else { write!(f, " of {}?", nearest.file) }
    }
}

/// Returns the unknown keys of a record. Left out are those that begin with `x-`, which belong to other programs, and options of
/// agents: see [`Backends::unread_settings`](crate::backend::Backends::unread_settings).
#[must_use]
pub fn unknown_keys(file: KeyFile, record: &impl Serialize) -> Vec<UnknownKey> {
    let mut found = Vec::new();
    if let Ok(record) = serde_json::to_value(record) {
        walk(file, "", "", &record, &mut found);
    }
    found
}

/// Collects the unknown keys of the section at `path`, which the table calls `pattern`.
fn walk(file: KeyFile, path: &str, pattern: &str, section: &Value, found: &mut Vec<UnknownKey>) {
    for (name, value) in section.as_object().into_iter().flatten() {
        let path = join(path, name);
        // In this order: a name in the table goes before the `*` that stands for any name.
        let known = [join(pattern, name), join(pattern, "*")]
            .into_iter()
            .find_map(|at| KEYS.iter().find(|key| key.file == file && key.path == at));
        match known {
            Some(key) if key.kind == Section => walk(file, &path, key.path, value, found),
            // Below other kinds, such as a map, people choose the names.
            Some(_) => {}
            // Each backend has options of its own.
            None if name.starts_with("x-") || pattern == "agents.*" => {}
            None => found.push(UnknownKey { file, path, nearest: nearest(file, pattern, name) }),
        }
    }
}

/// Returns the key that a person probably meant by `name` in the section `pattern`.
fn nearest(file: KeyFile, pattern: &str, name: &str) -> Option<&'static Key> {
    let split = |key: &Key| key.path.rsplit_once('.').unwrap_or(("", key.path));
    let name = &name.to_lowercase();
    // What is only begun is meant, too: `depends`.
    let away = |key: &Key| match split(key).1 {
        whole if name.len() > 3 && whole.starts_with(name.as_str()) => 1,
        whole => strsim::damerau_levenshtein(whole, name),
    };
    let here = KEYS.iter().filter(|key| key.file == file && split(key).0 == pattern);
    let misspelt = here
        .map(|key| (away(key), key))
        // A third of the name, so that short names are not near to everything.
        .filter(|(distance, _)| *distance <= (name.chars().count() / 3).clamp(1, 3))
        .min_by_key(|(distance, _)| *distance);
    let elsewhere = || {
        let distance = |key: &Key| strsim::damerau_levenshtein(split(key).1, name);
        // Short names are near to everything.
        let near = |key: &&Key| distance(key) <= usize::from(name.len() > 4) && key.file != Task;
        // A key of the same file is the likelier one.
        KEYS.iter().filter(near).min_by_key(|key| (distance(key), key.file != file))
    };
    misspelt.map(|(_, key)| key).or_else(elsewhere)
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests;

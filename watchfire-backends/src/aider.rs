//! aider.
//!
//! Runs `aider` without questions, updates and analytics. Its histories are in the session's home, and the composed
//! prompt is a read-only file, which aider shows to its model as the person's words. aider has no tools: it writes
//! its edits as text, applies them, and cannot run a command. The copy of the task file is therefore among the files
//! that it may edit, so that it can report that it is done. That copy lies outside of the repository, where aider can
//! edit but not commit, so aider commits nothing at all, and we do. aider looks for a repository only around the
//! files on its command line, so one more file is named in the worktree, which neither exists nor can be created.
//! Where the repository has an `.aiderignore`, aider leaves all files outside alone and cannot report that it is
//! done.
//!
//! With a task aider answers once and ends, on a terminal or as a stream of plain text. Its map of the repository is
//! off (`--map-tokens 0`), because it would be written into the worktree; set `args: [--map-tokens, "1024"]` if you
//! ignore `.aider*` there.
//!
//! If the person's own git configuration has no name, aider writes one into the repository's configuration, and ends
//! where a sandbox does not allow that. Set `user.name` and `user.email` for yourself first.
//!
//! aider prints its provider's errors in the same way as the model's words, so this backend reports no issues.
//!
//! Settings: `path`, `args`, `model` (as `provider/model`), `env`, `pass_env`, and `transport` (`pty` or `stream`).

use std::time::Duration;

use watchfire_core::Result;
use watchfire_core::backend::{
    Delivery, Fact, Framing, InputBox, Launch, Message, Part, Role, SessionContext, Status, Transcript, Usage,
};
use watchfire_core::terminal::Snapshot;

use crate::agent::{Agent, Can, Flags, Table, Transports, implement_backend};
use crate::common::{input_box, prompt};

implement_backend!(Aider);

const CHAT: &str = "chat-history.md";

/// aider: see [the module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct Aider;

impl Agent for Aider {
    const TABLE: Table = Table {
        name: "aider",
        aliases: &[],
        display_name: "aider",
        install: "python -m pip install aider-chat",
        program: "aider",
        places: &[],
        tested: "0.86.2",
        secrets: &[
            "ANTHROPIC_API_KEY",
            "DEEPSEEK_API_KEY",
            "GEMINI_API_KEY",
            "OPENAI_API_KEY",
            "OPENROUTER_API_KEY",
        ],
        passed: &["AIDER_MODEL", "OPENAI_API_BASE"],
        quiet: &[],
        can: Can { system_prompt: false, hooks: false, usage: true, transports: Transports::Both },
        // Without its own editor (`--no-fancy-input`) aider reads one line at a time.
        paste_limit: 1000,
        ready: &["> "],
        busy: &[],
        flags: Flags {
            model: "--model",
            prompt: "--message",
            stream_prompt: "--message",
            session: None,
            resume: None,
        },
        folder: None,
        login: None,
        sign_in: None,
        sessions: &[],
    };

    /// Returns true: the instructions come as a file, though not as system text.
    fn carries_prompt() -> bool {
        true
    }

    fn delivery() -> Delivery {
        let settle = Duration::from_millis(300);
        Delivery::default().with_framing(Framing::Line).with_settle(settle, settle).with_quit(*b"\x04")
    }

    fn launch(mut launch: Launch, context: &SessionContext, _: bool) -> Result<Launch> {
        launch = launch.with_args([
            "--yes-always",
            "--no-analytics",
            "--no-auto-commits",
            "--no-check-update",
            "--no-dirty-commits",
            "--no-fancy-input",
            "--no-gitignore",
            "--no-pretty",
            "--no-show-model-warnings",
            "--no-show-release-notes",
            "--map-tokens",
            "0",
        ]);
        for (flag, name) in [("--chat-history-file", CHAT), ("--input-history-file", "input-history")] {
            // In the session's home: by default aider writes its histories into the worktree.
            launch = launch.with_arg(flag).with_arg(context.home.join(name));
        }
        if !context.system_prompt.is_empty() {
            let path;
            (launch, path) = prompt::in_file(launch, context, prompt::SYSTEM_FILE, &context.system_prompt);
            launch = launch.with_arg("--read").with_arg(path);
        }
        // A chat has no task to report on.
        let Some(task) = &context.task else { return Ok(launch) };
        let git = context.cwd.join(".git");
        if git.is_file() {
            // In a worktree `.git` is a file, so nothing can exist below it. See the module for what the name
            // is for.
            launch = launch.with_arg("--file").with_arg(git.join("nothing"));
        }
        let file = context.session_dir.join("tasks").join(format!("{}.yaml", task.task_number));
        Ok(launch.with_arg("--file").with_arg(file))
    }

    fn input_box(screen: &Snapshot) -> InputBox {
        input_box::line(screen, is_mode)
    }

    /// Reads the status off the screen: aider's prompt is the last line while it waits for input.
    fn from_screen(text: &str) -> Vec<Fact> {
        let last = text.lines().rev().map(str::trim_end).find(|line| !line.is_empty()).unwrap_or_default();
        match last.strip_suffix('>').is_some_and(is_mode) {
            true => vec![Fact::Status(Status::Idle)],
            false => Vec::new(),
        }
    }

    /// Reads the history of the chat. Headings of four marks are the person's words, quotes are aider's own, and the
    /// rest is what the model said.
    fn normalize(text: &str) -> Vec<Message> {
        let mut messages: Vec<Message> = Vec::new();
        for line in text.lines() {
            let (role, said) = match (line.strip_prefix("#### "), line.strip_prefix("> ")) {
                (Some(said), _) => (Role::User, said),
                (_, Some(said)) => (Role::Tool, said),
                _ if line.starts_with("# aider chat started at") => continue,
                _ => (Role::Assistant, line),
            };
            let said = said.trim_end();
            // Only in a quote: the model could write such a line itself.
            if let Some(usage) = tokens(said).filter(|_| role == Role::Tool) {
                // A message of its own, which also ends the text before it.
                let mut message = Message::new(Role::Assistant, Vec::new());
                message.usage = Some(usage);
                messages.push(message);
                continue;
            }
            match messages.last_mut() {
                Some(last) if last.role == role && !last.parts.is_empty() => push(last, said),
                _ if said.is_empty() => {}
                _ => {
                    let part = match role {
                        Role::Tool => Part::tool_result(said, false),
                        _ => Part::text(said),
                    };
                    messages.push(Message::new(role, vec![part]));
                }
            }
        }
        messages
    }

    fn transcript(context: &SessionContext) -> Option<Transcript> {
        let path = context.home.join(CHAT);
        path.is_file().then(|| Transcript::whole(path))
    }
}

/// Returns true if aider's prompt may have `before` in front of the mark: nothing, or the mode, which may be the name
/// of the edit format.
fn is_mode(before: &str) -> bool {
    const MODES: [&str; 13] = [
        "",
        "architect",
        "ask",
        "code",
        "context",
        "diff",
        "diff-fenced",
        "editor-diff",
        "help",
        "patch",
        "udiff",
        "udiff-simple",
        "whole",
    ];
    MODES.contains(&before.strip_suffix("multi").unwrap_or(before).trim_end())
}

fn push(message: &mut Message, line: &str) {
    if let Some(Part::Text { text, .. } | Part::ToolResult { text, .. }) = message.parts.last_mut() {
        text.push('\n');
        text.push_str(line);
    }
}

/// Parses the counts of a line such as `Tokens: 2.5k sent, 60 received.`, as rounded as aider prints them.
fn tokens(line: &str) -> Option<Usage> {
    let counts = line.strip_prefix("Tokens: ")?;
    let mut usage = Usage::default();
    for count in counts.split(". ").next()?.trim_end_matches('.').split(", ") {
        let (number, what) = count.split_once(' ')?;
        let (number, unit) = match (number.strip_suffix('k'), number.strip_suffix('M')) {
            (Some(number), _) => (number, 1e3),
            (_, Some(number)) => (number, 1e6),
            _ => (number, 1.0),
        };
        // The bound rejects NaN and infinity too, and the product below fits.
        let number: f64 = number.parse().ok().filter(|number: &f64| (0.0..1e9).contains(number))?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
        let number = (number * unit).round() as u64;
        match what {
            "sent" => usage.input_tokens = number,
            "received" => usage.output_tokens = number,
            "cache hit" => usage.cache_read_tokens = number,
            "cache write" => usage.cache_write_tokens = number,
            _ => return None,
        }
    }
    Some(usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_counts() {
        let counts = |line| {
            tokens(line).map(|usage| (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens))
        };
        assert_eq!(counts("Tokens: 2.5k sent, 60 received."), Some((2500, 60, 0)));
        let line = "Tokens: 12k sent, 1.1k cache hit, 60 received. Cost: $0.01 message, $0.02 session.";
        assert_eq!(counts(line), Some((12_000, 60, 1100)));
        for line in ["Tokens: many", "Tokens: -5 sent", "Tokens: 1e99 sent", "Tokens: NaN sent", "Tokens: "] {
            assert_eq!(counts(line), None, "{line}");
        }
    }
}

//! Hooks: the agent runs our helper at its events, and the helper writes a message into the session's spool.

use serde_json::{Map, Value, json};
use watchfire_core::backend::SessionContext;
use watchfire_core::endpoint::client::ROLE;

/// Returns the command that sends `event`. The agent adds the payload, or gives it on stdin. Returns `None` if the
/// session has no helper.
pub(crate) fn words(context: &SessionContext, event: &str) -> Option<Vec<String>> {
    let helper: Option<Vec<&str>> = context.helper.iter().map(|word| word.to_str()).collect();
    let helper = helper.filter(|words| !words.is_empty())?;
    Some(helper.into_iter().chain([ROLE, "hook", event]).map(str::to_owned).collect())
}

/// Returns the command that sends `event` as a line of shell.
pub(crate) fn command(context: &SessionContext, event: &str) -> Option<String> {
    Some(words(context, event)?.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
}

/// Returns hooks for these events in the format that Claude Code introduced. Empty without a helper.
pub(crate) fn table(context: &SessionContext, events: &[&str]) -> Value {
    let entry = |event: &&str| {
        let hook = json!({ "type": "command", "command": command(context, event)? });
        Some(((*event).to_owned(), json!([{ "hooks": [hook] }])))
    };
    events.iter().filter_map(entry).collect::<Map<_, _>>().into()
}

fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/' | b'=');
    match !word.is_empty() && word.bytes().all(plain) {
        true => word.to_owned(),
        // In single quotes the shell gives a meaning only to the quote itself.
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_sees_the_words_again() {
        for word in ["/opt/wf", "", "/my apps/it's $HOME", "a\nb", "*;&|`"] {
            let echo = format!("printf %s {}", quoted(word));
            let output = std::process::Command::new("/bin/sh").args(["-c", &echo]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }
}

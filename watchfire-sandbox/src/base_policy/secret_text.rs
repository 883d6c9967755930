//! Recognition of settings files that carry a secret.

use std::fs;
use std::path::Path;

use watchfire_core::sandbox::has_login;

/// Upper bound for the size of a settings file.
const LIMIT: u64 = 256 << 10;

/// Keys whose values are secrets, in any spelling of settings files.
const KEYS: &[&str] = &["token", "password", "passwd", "secret", "_auth", "apikey", "api_key", "api-key"];

/// Returns what makes the file at `path` one that is not shown, or `None` if nothing does. A folder or a missing file has
/// nothing in it.
pub(super) fn in_file(path: &Path) -> Option<&'static str> {
    let found = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    if found.len() > LIMIT {
        return Some("more than settings");
    }
    let text = fs::read(path).ok()?;
    in_text(&String::from_utf8_lossy(&text))
}

fn in_text(text: &str) -> Option<&'static str> {
    if text.split_whitespace().any(has_login) {
        return Some("an address with a login");
    }
    text.lines().any(sets_secret).then_some("a token or a password")
}

/// Returns true if a line that is no comment gives a value to one of [`KEYS`].
fn sets_secret(line: &str) -> bool {
    let line = line.trim_start().to_ascii_lowercase();
    let sets = |after: &str| after.trim_start_matches(['"', '\'', ' ']).starts_with(['=', ':']);
    !line.starts_with('#') && KEYS.iter().any(|key| line.split(key).skip(1).any(sets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_and_logins_are_seen() {
        for (text, secret) in [
            ("[build]\njobs = 2\n[registries.x]\nindex = \"https://example.invalid/git\"\n", false),
            ("[registry]\ntoken = \"abc\"\n", true),
            ("index = \"https://me:abc@example.invalid/\"\n", true),
            ("url: git@example.invalid:a/b\n", false),
            ("# token = none\n", false),
            ("{\"apiKey\": \"abc\"}", true),
            ("max_tokens = 5", false),
            ("//registry.npmjs.org/:_authToken=abc", true),
        ] {
            assert_eq!(in_text(text).is_some(), secret, "{text}");
        }
    }
}

//! Recognition of settings files that carry a secret.

use std::fs;
use std::path::Path;

use watchfire_core::sandbox::{has_login, is_token};

/// Upper bound for the size of a settings file.
const LIMIT: u64 = 256 << 10;

/// Words at whose end a key names a secret: `token`, `authToken`, `CLIENT_SECRET`.
const WORDS: &[&str] =
    &["token", "password", "passwd", "passphrase", "secret", "_auth", "apikey", "api_key", "api-key"];

/// Whole parts of a key that name a secret, wherever they are: `SECRET_ACCESS_KEY`, `DB_PASS`.
const PARTS: &[&str] = &["token", "password", "passwd", "passphrase", "secret", "apikey", "pass", "pwd"];

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

/// Returns true if a line that is no comment gives a value to a key that names a secret, or a value that is one.
fn sets_secret(line: &str) -> bool {
    let line = line.trim_start().to_ascii_lowercase();
    if line.starts_with('#') {
        return false;
    }
    // `<password>` of an XML file as well.
    let sets = |after: &str| after.trim_start_matches(['"', '\'', ' ']).starts_with(['=', ':', '>']);
    let by_word = WORDS.iter().any(|word| line.split(word).skip(1).any(sets));
    by_word || keys(&line).any(names_secret) || line.split(QUOTES).any(is_secret)
}

const QUOTES: [char; 6] = ['"', '\'', ' ', '=', ':', ','];

/// Yields the keys of a line: the words before `=` and `:`.
fn keys(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices(['=', ':']).filter_map(|(at, _)| {
        let before = line.get(..at)?.trim_end_matches(['"', '\'', ' ']);
        before.rsplit(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-' | '.')).next()
    })
}

fn names_secret(key: &str) -> bool {
    key.split(['_', '-', '.']).any(|part| PARTS.contains(&part))
}

fn is_secret(value: &str) -> bool {
    // A key's first line has words in it.
    is_token(value) || value.starts_with("-----begin")
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
            ("[env]\nAWS_SECRET_ACCESS_KEY = \"abc\"\n", true),
            ("DB_PASS=abc\n", true),
            ("{\"clientSecretValue\": 1, \"my-token-value\": \"abc\"}", true),
            ("[env]\nGH = \"ghp_0123456789abcdefghij\"\n", true),
            ("key = '-----BEGIN PRIVATE KEY-----'\n", true),
            ("global-credential-providers = [\"cargo:token\"]\n", false),
            ("bypass = true\nskip-first = 1\ncompass: 2\n", false),
            ("  <password>abc</password>", true),
            ("//registry.npmjs.org/:_authToken=abc", true),
        ] {
            assert_eq!(in_text(text).is_some(), secret, "{text}");
        }
    }
}

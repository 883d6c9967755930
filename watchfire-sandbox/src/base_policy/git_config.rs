//! The git configuration of a session: of the user's own, the settings that say how git should look and behave.
//!
//! The files themselves stay closed, because they can hold passwords, tokens in headers, and commands.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use git2::{Config, ConfigLevel};

use watchfire_core::sandbox::has_login;

/// Keys that are taken over: `section.*` for a whole section, else one key.
const KEYS: &[&str] = &[
    "advice.*",
    "apply.whitespace",
    "author.email",
    "author.name",
    "blame.*",
    "branch.autosetupmerge",
    "branch.autosetuprebase",
    "branch.sort",
    "checkout.*",
    "color.*",
    "column.*",
    "commit.cleanup",
    "commit.status",
    "commit.verbose",
    "committer.email",
    "committer.name",
    "core.abbrev",
    "core.attributesfile",
    "core.autocrlf",
    "core.commentchar",
    "core.compression",
    "core.eol",
    "core.excludesfile",
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.quotepath",
    "core.safecrlf",
    "core.symlinks",
    "core.whitespace",
    "diff.algorithm",
    "diff.colormoved",
    "diff.colormovedws",
    "diff.context",
    "diff.indentheuristic",
    "diff.interhunkcontext",
    "diff.mnemonicprefix",
    "diff.noprefix",
    "diff.relative",
    "diff.renamelimit",
    "diff.renames",
    "diff.submodule",
    "feature.*",
    "fetch.prune",
    "fetch.prunetags",
    "format.pretty",
    "grep.*",
    "help.autocorrect",
    "index.*",
    "init.defaultbranch",
    "log.*",
    "merge.autostash",
    "merge.conflictstyle",
    "merge.directoryrenames",
    "merge.ff",
    "merge.log",
    "merge.renamelimit",
    "merge.renames",
    "merge.stat",
    "pretty.*",
    "pull.ff",
    "pull.rebase",
    "push.autosetupremote",
    "push.default",
    "push.followtags",
    "rebase.abbreviatecommands",
    "rebase.autosquash",
    "rebase.autostash",
    "rebase.missingcommitscheck",
    "rebase.stat",
    "rebase.updaterefs",
    "rerere.*",
    "stash.*",
    "status.*",
    "submodule.recurse",
    "tag.sort",
    "user.email",
    "user.name",
    "versionsort.*",
    "worktree.*",
];

/// The configuration, with the files that it names.
#[derive(Debug, Default)]
pub(super) struct GitConfig {
    pub(super) text: String,
    /// Lists of ignored files and of attributes.
    pub(super) files: Vec<PathBuf>,
}

/// Reads the configuration of the user with what it includes, and adds the folders that git may trust.
pub(super) fn of_session(home: &Path, xdg_config: &Path, project: Option<&Path>) -> GitConfig {
    let mut made = GitConfig::default();
    if let Some(root) = project {
        // The second for work in several repositories.
        let folders = ["worktrees", "together"].map(|name| root.join(".watchfire").join(name).join("*"));
        for folder in [root, &folders[0], &folders[1]] {
            made.set("safe.directory", &folder.to_string_lossy());
        }
    }
    if let Ok(config) = read(home, xdg_config) {
        // What cannot be read to its end is left out: an identity is missed, nothing opened.
        let _ = config.entries(None).and_then(|entries| {
            entries.for_each(|entry| {
                // A key without a value is a switch.
                let value = if entry.has_value() { entry.value() } else { Ok("true") };
                if let (Ok(name), Ok(value)) = (entry.name(), value) {
                    made.take_over(name, value, home);
                }
            })
        });
    }
    made
}

fn read(home: &Path, xdg_config: &Path) -> Result<Config, git2::Error> {
    let mut config = Config::new()?;
    for (path, level) in
        [(xdg_config.join("git/config"), ConfigLevel::XDG), (home.join(".gitconfig"), ConfigLevel::Global)]
    {
        if path.is_file() {
            config.add_file(&path, level, false)?;
        }
    }
    Ok(config)
}

impl GitConfig {
    fn take_over(&mut self, name: &str, value: &str, home: &Path) {
        let section = name.split('.').next().unwrap_or_default();
        let lower = name.to_ascii_lowercase();
        let is_known = KEYS.iter().any(|key| match key.strip_suffix(".*") {
            Some(whole) => section.eq_ignore_ascii_case(whole),
            None => lower == *key,
        });
        // An alias that begins so is a command.
        let is_alias = section == "alias" && !value.trim_start().starts_with('!');
        if !(is_known || is_alias) || has_login(value) {
            return;
        }
        if matches!(lower.as_str(), "core.excludesfile" | "core.attributesfile") {
            let path = value.strip_prefix("~/").map_or_else(|| PathBuf::from(value), |rest| home.join(rest));
            if !path.is_file() {
                return;
            }
            self.files.push(path);
        }
        self.set(name, value);
    }

    /// Writes a line: a section of its own for each, which git puts together.
    fn set(&mut self, name: &str, value: &str) {
        let Some((section, rest)) = name.split_once('.') else { return };
        let (sub, key) = rest.rsplit_once('.').map_or((None, rest), |(sub, key)| (Some(sub), key));
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let section = match sub {
            Some(sub) => format!("{section} \"{}\"", quoted(sub)),
            None => section.to_owned(),
        };
        let value = quoted(value).replace('\n', "\\n").replace('\t', "\\t");
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "[{section}]\n\t{key} = \"{value}\"");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const OURS: &str = r#"
[include]
    path = more
[user]
    name = "Per \"son\"; # x"
    signingKey = SECRET
[core]
    autocrlf = input
    excludesFile = ~/.ignored
    attributesFile = /nowhere
    sshCommand = SECRET
    hooksPath = SECRET
    fsmonitor = SECRET
    pager = SECRET
[credential]
    helper = store --file SECRET
[credential "https://example.invalid"]
    username = SECRET
[http]
    extraHeader = "Authorization: SECRET"
[http "https://example.invalid"]
    proxy = SECRET
[url "https://me:SECRET@example.invalid/"]
    insteadOf = https://example.invalid/
[alias]
    lg = log --oneline
    run = !SECRET
    login = clone https://me:SECRET@example.invalid/x
[filter "lfs"]
    process = SECRET
[diff "pdf"]
    textconv = SECRET
[merge]
    conflictStyle = zdiff3
    tool = SECRET
[commit]
    gpgSign = true
    template = ~/SECRET
[gpg]
    program = SECRET
[sendemail]
    smtpPass = SECRET
[color "diff"]
    meta = "blue black bold"
"#;

    #[test]
    fn looks_pass_and_secrets_do_not() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path();
        fs::write(home.join(".gitconfig"), OURS).unwrap();
        fs::write(home.join("more"), "[user]\n\temail = p@example.invalid\n[github]\n\ttoken = SECRET\n")
            .unwrap();
        fs::write(home.join(".ignored"), "").unwrap();
        fs::create_dir_all(home.join(".config/git")).unwrap();
        fs::write(home.join(".config/git/config"), "[pull]\n\trebase = true\n[core]\n\tautocrlf = false\n")
            .unwrap();
        let made = of_session(home, &home.join(".config"), Some(Path::new("/p")));
        assert!(!made.text.contains("SECRET"), "{}", made.text);
        assert_eq!(made.files, [home.join(".ignored")]);
        fs::write(home.join("session"), &made.text).unwrap();
        let session = Config::open(&home.join("session")).unwrap();
        for (key, value) in [
            ("user.name", "Per \"son\"; # x"),
            ("user.email", "p@example.invalid"),
            ("core.autocrlf", "input"),
            ("core.excludesfile", "~/.ignored"),
            ("alias.lg", "log --oneline"),
            ("merge.conflictstyle", "zdiff3"),
            ("pull.rebase", "true"),
            ("color.diff.meta", "blue black bold"),
        ] {
            assert_eq!(session.get_string(key).as_deref(), Ok(value), "{key}");
        }
        for key in ["core.pager", "core.hookspath", "commit.gpgsign", "merge.tool", "core.attributesfile"] {
            assert!(session.get_string(key).is_err(), "{key}");
        }
    }
}

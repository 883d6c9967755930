//! Files that tools other than git run by themselves: at the next build, test, shell, editor or agent
//! session.

use crate::objects::tree_path::plain;

/// Names of files, at any depth. In lower case, as the names that they are compared with.
const FILES: &[&str] = &[
    ".bazelrc",
    ".cursorrules",
    ".envrc",
    ".gitlab-ci.yml",
    ".lefthook.yml",
    ".mcp.json",
    ".mise.toml",
    ".npmrc",
    ".pnpmfile.cjs",
    ".pre-commit-config.yaml",
    ".travis.yml",
    ".vimrc",
    ".nvimrc",
    ".nvim.lua",
    ".exrc",
    ".yarnrc.yml",
    "agents.md",
    "azure-pipelines.yml",
    "build.gradle",
    "build.gradle.kts",
    "build.rs",
    "claude.md",
    "conftest.py",
    "gemini.md",
    "gnumakefile",
    "jenkinsfile",
    "justfile",
    "lefthook.yml",
    "makefile",
    "mise.toml",
    "noxfile.py",
    "package.json",
    "pyproject.toml",
    "setup.py",
    "sitecustomize.py",
    "tox.ini",
];

/// Names of folders, at any depth. Every file below them counts.
const FOLDERS: &[&str] = &[
    ".buildkite",
    ".circleci",
    ".claude",
    ".codex",
    ".continue",
    ".cursor",
    ".devcontainer",
    ".direnv",
    ".fleet",
    ".gemini",
    ".githooks",
    ".husky",
    ".idea",
    ".vscode",
    ".zed",
];

/// Folders, and the name directly below them that counts.
const BELOW: &[(&str, &str)] = &[
    (".cargo", "config"),
    (".cargo", "config.toml"),
    (".github", "actions"),
    (".github", "copilot-instructions.md"),
    (".github", "workflows"),
    (".gitea", "workflows"),
    (".forgejo", "workflows"),
    (".mvn", "extensions.xml"),
    (".mvn", "jvm.config"),
    (".mvn", "wrapper"),
    ("gradle", "wrapper"),
];

/// Returns true if some tool runs or obeys the file at `path` by itself.
pub(crate) fn runs_by_itself(path: &[u8]) -> bool {
    let parts: Vec<String> = path.split(|byte| *byte == b'/').map(plain).collect();
    let Some((name, folders)) = parts.split_last() else { return false };
    let is_below = |pair: &[String]| match pair {
        [folder, below] => BELOW.contains(&(folder.as_str(), below.as_str())),
        _ => false,
    };
    FILES.contains(&name.as_str())
        || folders.iter().any(|folder| FOLDERS.contains(&folder.as_str()))
        || parts.windows(2).any(is_below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_list_count_at_any_depth_and_in_any_case() {
        for path in [
            ".envrc",
            "a/.vscode/tasks.json",
            ".IDEA/x/y.xml",
            ".husky/pre-commit",
            "web/package.json",
            "build.rs",
            ".cargo/config.toml",
            "tests/conftest.py",
            ".pre-commit-config.yaml",
            ".github/workflows/ci.yml",
            "CLAUDE.md",
            "AGENTS.md",
            ".mcp.json",
            ".claude/settings.json",
        ] {
            assert!(runs_by_itself(path.as_bytes()), "{path}");
        }
        for path in ["src/main.rs", "README.md", ".github/ISSUE_TEMPLATE.md", ".cargo/README", "vscode/a"] {
            assert!(!runs_by_itself(path.as_bytes()), "{path}");
        }
    }
}

//! Caches of tools, for agents whose own cache is moved by `XDG_CACHE_HOME`.
//!
//! Every command of the agent and every server of the person's inherits that variable, and would begin with an empty cache. The
//! folders below are shown to a session with what is in them.

use std::ffi::OsStr;

use watchfire_core::backend::{Launch, SessionContext};

/// Variables that name a tool's cache, and its usual folder below `.cache`.
const OF_TOOLS: &[(&str, &str)] = &[
    ("UV_CACHE_DIR", "uv"),
    ("PIP_CACHE_DIR", "pip"),
    ("POETRY_CACHE_DIR", "pypoetry"),
    ("PRE_COMMIT_HOME", "pre-commit"),
    ("RUFF_CACHE_DIR", "ruff"),
    ("GOCACHE", "go-build"),
    ("GOLANGCI_LINT_CACHE", "golangci-lint"),
    ("DENO_DIR", "deno"),
    ("YARN_CACHE_FOLDER", "yarn"),
    ("COREPACK_HOME", "node/corepack"),
    ("PLAYWRIGHT_BROWSERS_PATH", "ms-playwright"),
    ("PUPPETEER_CACHE_DIR", "puppeteer"),
    ("CYPRESS_CACHE_FOLDER", "Cypress"),
    ("HF_HOME", "huggingface"),
    ("SCCACHE_DIR", "sccache"),
    ("CCACHE_DIR", "ccache"),
];

/// Moves the agent's cache into the session's home, and leaves the caches of tools in place.
pub(crate) fn moved(mut launch: Launch, context: &SessionContext) -> Launch {
    let has = |name: &str| context.environment.contains_key(OsStr::new(name));
    // Who moved all caches has those of tools there.
    let theirs = context.environment.get(OsStr::new("XDG_CACHE_HOME")).map(Into::into);
    let theirs = theirs.or_else(|| context.user_home.as_ref().map(|home| home.join(".cache")));
    for (name, folder) in OF_TOOLS.iter().filter(|(name, _)| !has(name)) {
        if let Some(path) = theirs.as_ref().map(|caches| caches.join(folder)).filter(|path| path.is_dir()) {
            launch = launch.with_env(*name, path);
        }
    }
    launch.with_env("XDG_CACHE_HOME", context.home.join("cache"))
}

#[cfg(test)]
mod tests {
    use watchfire_core::model::Mode;

    use super::*;

    #[test]
    fn tools_keep_their_caches() {
        let home = tempfile::tempdir().unwrap();
        for folder in ["uv", "pip", "go-build"] {
            std::fs::create_dir_all(home.path().join(".cache").join(folder)).unwrap();
        }
        let (id, name) = ("s1".parse().unwrap(), "opencode".parse().unwrap());
        let mut context = SessionContext::new(id, name, Mode::Task, "/bin/agent", "/h", "/w");
        context.user_home = Some(home.path().to_owned());
        context.environment.insert("GOCACHE".into(), "/elsewhere".into());
        let launch = moved(Launch::new("/bin/agent"), &context);
        let of = |name: &str| {
            launch
                .command
                .env()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| std::path::PathBuf::from(value))
        };
        assert_eq!(of("XDG_CACHE_HOME"), Some("/h/cache".into()));
        assert_eq!(of("UV_CACHE_DIR"), Some(home.path().join(".cache/uv")));
        // The person's own variable, and what is not there.
        assert_eq!((of("GOCACHE"), of("DENO_DIR")), (None, None));
    }
}

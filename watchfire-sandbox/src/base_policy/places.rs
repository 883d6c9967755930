//! Where tools keep their things: below the home folder, or where a variable says.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Variables that move something, with where it is without them.
const MOVING: &[(&str, &str)] = &[
    ("XDG_CACHE_HOME", ".cache"),
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_STATE_HOME", ".local/state"),
    // credentials
    ("AWS_CONFIG_FILE", ".aws/config"),
    ("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"),
    ("AZURE_CONFIG_DIR", ".azure"),
    ("CLOUDSDK_CONFIG", ".config/gcloud"),
    ("ANSIBLE_VAULT_PASSWORD_FILE", ".vault_pass"),
    ("DOCKER_CERT_PATH", ".docker"),
    ("DOCKER_CONFIG", ".docker"),
    ("GH_CONFIG_DIR", ".config/gh"),
    ("GNUPGHOME", ".gnupg"),
    ("GOOGLE_APPLICATION_CREDENTIALS", ".config/gcloud/application_default_credentials.json"),
    ("HISTFILE", ".bash_history"),
    ("KUBECONFIG", ".kube/config"),
    ("LESSHISTFILE", ".lesshst"),
    ("NETRC", ".netrc"),
    ("NPM_CONFIG_USERCONFIG", ".npmrc"),
    ("PASSWORD_STORE_DIR", ".password-store"),
    ("PGPASSFILE", ".pgpass"),
    ("PIP_CONFIG_FILE", ".config/pip/pip.conf"),
    ("REGISTRY_AUTH_FILE", ".config/containers/auth.json"),
    ("SOPS_AGE_KEY_FILE", ".config/sops/age/keys.txt"),
    ("TF_CLI_CONFIG_FILE", ".terraformrc"),
    ("XAUTHORITY", ".Xauthority"),
    // agents
    ("CLAUDE_CONFIG_DIR", ".claude"),
    ("CODEX_HOME", ".codex"),
    // package managers
    ("BUN_INSTALL", ".bun"),
    ("CARGO_HOME", ".cargo"),
    ("DENO_DIR", ".cache/deno"),
    ("GOCACHE", ".cache/go-build"),
    ("GOMODCACHE", "go/pkg/mod"),
    ("GOPATH", "go"),
    ("GRADLE_USER_HOME", ".gradle"),
    ("NPM_CONFIG_CACHE", ".npm"),
    ("PIP_CACHE_DIR", ".cache/pip"),
    ("UV_CACHE_DIR", ".cache/uv"),
    ("YARN_CACHE_FOLDER", ".cache/yarn"),
    // toolchains
    ("ASDF_DATA_DIR", ".asdf"),
    ("FNM_DIR", ".local/share/fnm"),
    ("MISE_DATA_DIR", ".local/share/mise"),
    ("NVM_DIR", ".nvm"),
    ("PIPX_HOME", ".local/share/pipx"),
    ("PNPM_HOME", ".local/share/pnpm"),
    ("PYENV_ROOT", ".pyenv"),
    ("RBENV_ROOT", ".rbenv"),
    ("RUSTUP_HOME", ".rustup"),
    ("SDKMAN_DIR", ".sdkman"),
    ("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python"),
    ("UV_TOOL_DIR", ".local/share/uv/tools"),
    ("VOLTA_HOME", ".volta"),
];

/// The places of one home folder.
pub(super) struct Places<'a> {
    home: &'a Path,
    moved: Vec<(&'static str, PathBuf)>,
}

impl<'a> Places<'a> {
    /// Returns the places of `home`, as moved by the variables in `environment`.
    pub(super) fn new(home: &'a Path, environment: &BTreeMap<OsString, OsString>) -> Self {
        let value = |(name, usual): &(_, &'static str)| Some((*usual, environment.get(OsStr::new(name))?));
        let moved = MOVING.iter().filter_map(value).flat_map(|(usual, value)| {
            let paths = std::env::split_paths(value).filter(|path| super::is_absolute(path));
            // What is no place of its own is not worth a rule: `HISTFILE=/dev/null`.
            paths.filter(|path| !path.starts_with("/dev")).map(move |path| (usual, path))
        });
        Self { home, moved: moved.collect() }
    }

    /// Yields the places outside of the home folder to which variables move its folders.
    pub(super) fn moved(&self) -> impl Iterator<Item = PathBuf> {
        let moved = self.moved.iter().map(|(_, to)| to);
        moved.filter(|path| !path.starts_with(self.home) && !self.home.starts_with(path)).cloned()
    }

    /// Yields every location of a file or folder whose default is `usual`: the default itself, and each override from
    /// the environment.
    ///
    /// Never a folder with the home folder in it.
    pub(super) fn of(&self, usual: &'static str) -> impl Iterator<Item = PathBuf> {
        let usual = Path::new(usual);
        let moved = self.moved.iter().filter_map(move |(from, to)| match usual.strip_prefix(from) {
            Ok(rest) if rest.as_os_str().is_empty() => Some(to.clone()),
            Ok(rest) => Some(to.join(rest)),
            Err(_) => Path::new(from).starts_with(usual).then(|| to.clone()),
        });
        let moved = moved.filter(|path| !self.home.starts_with(path));
        std::iter::once(self.home.join(usual)).chain(moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_move_what_is_theirs() {
        let environment = [
            ("XDG_CONFIG_HOME", "/srv/cfg"),
            ("KUBECONFIG", "/srv/k1:/srv/k2:relative"),
            ("GOCACHE", "/srv/go"),
            ("XDG_CACHE_HOME", "/home"),
            ("HISTFILE", "/dev/null"),
        ];
        let environment = environment.map(|(name, value)| (name.into(), value.into())).into();
        let places = Places::new(Path::new("/home/u"), &environment);
        let of = |usual| places.of(usual).map(|path| path.display().to_string()).collect::<Vec<_>>();
        assert_eq!(of(".config/gh"), ["/home/u/.config/gh", "/srv/cfg/gh"]);
        assert_eq!(of(".kube"), ["/home/u/.kube", "/srv/k1", "/srv/k2"]);
        assert_eq!(of(".cache"), ["/home/u/.cache", "/srv/go"]);
        assert_eq!(of(".bash_history"), ["/home/u/.bash_history"]);
    }
}

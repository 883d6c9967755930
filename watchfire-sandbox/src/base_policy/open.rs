//! Things of a home folder that an agent needs to see: toolchains and their settings.
//!
//! The home folder is closed, so whatever is not listed here is not there for an agent. Folders in which a tool also keeps
//! credentials are opened piece by piece.

/// Something that shows in the closed home folder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// Path below the home folder.
    pub(super) path: &'static str,
    /// Tool that needs it, for the report.
    pub(super) tool: &'static str,
    pub(super) kind: Kind,
}

/// The view that the sandbox gives of an open path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// To be read only.
    Settings,
    /// A copy-on-write view: the tool writes it, and the user's own stays as it is.
    Tools,
    /// The same, for what the tool downloads or computes.
    Cache,
}

const fn settings(tool: &'static str, path: &'static str) -> Open {
    Open { path, tool, kind: Kind::Settings }
}

const fn tools(tool: &'static str, path: &'static str) -> Open {
    Open { path, tool, kind: Kind::Tools }
}

const fn cache(tool: &'static str, path: &'static str) -> Open {
    Open { path, tool, kind: Kind::Cache }
}

/// The table.
pub(super) const OPEN: &[Open] = &[
    // programs that people install for themselves
    tools("installed programs", ".local/bin"),
    tools("installed programs", "bin"),
    tools("installed programs", ".linuxbrew"),
    settings("nix", ".nix-profile"),
    settings("nix", ".local/state/nix/profiles"),
    settings("guix", ".guix-profile"),
    settings("fonts", ".fonts"),
    settings("fonts", ".local/share/fonts"),
    settings("fonts", ".config/fontconfig"),
    settings("terminals", ".terminfo"),
    // rust
    tools("rustup", ".rustup/toolchains"),
    tools("rustup", ".rustup/update-hashes"),
    settings("rustup", ".rustup/settings.toml"),
    tools("cargo", ".cargo/bin"),
    settings("cargo", ".cargo/config.toml"),
    settings("cargo", ".cargo/config"),
    settings("cargo", ".cargo/env"),
    cache("cargo", ".cargo/registry"),
    cache("cargo", ".cargo/git"),
    settings("rustfmt", ".rustfmt.toml"),
    settings("rustfmt", ".config/rustfmt"),
    settings("clippy", ".clippy.toml"),
    settings("nextest", ".config/nextest.toml"),
    cache("sccache", ".cache/sccache"),
    // node
    tools("nvm", ".nvm"),
    tools("fnm", ".local/share/fnm"),
    tools("fnm", ".fnm"),
    tools("volta", ".volta"),
    tools("nodenv", ".nodenv"),
    tools("npm", ".npm-global"),
    tools("npm", ".npm-packages"),
    cache("npm", ".npm/_cacache"),
    cache("npx", ".npm/_npx"),
    cache("corepack", ".cache/node/corepack"),
    cache("pnpm", ".cache/pnpm"),
    cache("pnpm", ".local/share/pnpm"),
    cache("pnpm", ".pnpm-store"),
    cache("yarn", ".yarn/berry/cache"),
    cache("yarn", ".cache/yarn"),
    tools("yarn", ".config/yarn/global"),
    tools("bun", ".bun"),
    tools("deno", ".deno"),
    cache("deno", ".cache/deno"),
    cache("node-gyp", ".cache/node-gyp"),
    cache("typescript", ".cache/typescript"),
    cache("playwright", ".cache/ms-playwright"),
    cache("puppeteer", ".cache/puppeteer"),
    cache("cypress", ".cache/Cypress"),
    cache("electron", ".cache/electron"),
    cache("turbo", ".cache/turbo"),
    settings("node", ".nvmrc"),
    settings("node", ".node-version"),
    settings("prettier", ".prettierrc"),
    settings("eslint", ".eslintrc.json"),
    // python
    tools("pyenv", ".pyenv"),
    tools("uv", ".local/share/uv/python"),
    tools("uv", ".local/share/uv/tools"),
    cache("uv", ".cache/uv"),
    tools("pipx", ".local/share/pipx"),
    tools("pipx", ".local/pipx"),
    tools("pip", ".local/lib"),
    cache("pip", ".cache/pip"),
    tools("virtualenvwrapper", ".virtualenvs"),
    tools("pipenv", ".local/share/virtualenvs"),
    tools("poetry", ".poetry"),
    tools("poetry", ".local/share/pypoetry"),
    cache("poetry", ".cache/pypoetry"),
    settings("poetry", ".config/pypoetry/config.toml"),
    cache("pre-commit", ".cache/pre-commit"),
    cache("mypy", ".cache/mypy"),
    cache("ruff", ".cache/ruff"),
    cache("black", ".cache/black"),
    settings("ruff", ".config/ruff"),
    settings("pylint", ".pylintrc"),
    settings("flake8", ".config/flake8"),
    cache("hugging face", ".cache/huggingface/hub"),
    cache("hugging face", ".cache/huggingface/datasets"),
    cache("torch", ".cache/torch"),
    tools("conda", "miniconda3"),
    tools("conda", "miniforge3"),
    tools("conda", "mambaforge"),
    tools("conda", "anaconda3"),
    tools("conda", "micromamba"),
    tools("conda", ".conda/envs"),
    cache("conda", ".conda/pkgs"),
    settings("python", ".python-version"),
    // go
    tools("go", "go/bin"),
    cache("go", "go/pkg"),
    cache("go", ".cache/go-build"),
    cache("gopls", ".cache/gopls"),
    cache("golangci-lint", ".cache/golangci-lint"),
    settings("go", ".config/go/env"),
    // java, kotlin, scala
    tools("sdkman", ".sdkman"),
    tools("jenv", ".jenv"),
    tools("jabba", ".jabba"),
    tools("jdks", ".jdks"),
    cache("maven", ".m2/repository"),
    cache("maven", ".m2/wrapper"),
    cache("gradle", ".gradle/caches"),
    cache("gradle", ".gradle/wrapper"),
    cache("gradle", ".gradle/native"),
    cache("gradle", ".gradle/jdks"),
    cache("ivy", ".ivy2/cache"),
    cache("ivy", ".ivy2/local"),
    cache("sbt", ".sbt/boot"),
    cache("sbt", ".sbt/launchers"),
    cache("coursier", ".cache/coursier"),
    tools("coursier", ".local/share/coursier"),
    cache("kotlin", ".konan"),
    tools("android", "Android/Sdk"),
    // other languages
    tools("rbenv", ".rbenv"),
    tools("rvm", ".rvm"),
    tools("gem", ".gem/ruby"),
    tools("gem", ".local/share/gem/ruby"),
    cache("bundler", ".bundle/cache"),
    cache("bundler", ".cache/bundle"),
    tools("asdf", ".asdf"),
    settings("asdf", ".tool-versions"),
    settings("asdf", ".asdfrc"),
    tools("mise", ".local/share/mise"),
    cache("mise", ".cache/mise"),
    tools("dotnet", ".dotnet/tools"),
    tools("dotnet", ".dotnet/sdk"),
    tools("dotnet", ".dotnet/shared"),
    tools("dotnet", ".dotnet/host"),
    tools("dotnet", ".dotnet/packs"),
    settings("dotnet", ".dotnet/dotnet"),
    cache("nuget", ".nuget/packages"),
    cache("composer", ".composer/cache"),
    tools("composer", ".composer/vendor"),
    tools("composer", ".config/composer/vendor"),
    cache("composer", ".cache/composer"),
    tools("ghcup", ".ghcup"),
    tools("cabal", ".cabal/bin"),
    cache("cabal", ".cabal/packages"),
    cache("cabal", ".cabal/store"),
    tools("stack", ".stack/programs"),
    cache("stack", ".stack/snapshots"),
    cache("stack", ".stack/pantry"),
    tools("opam", ".opam"),
    tools("elan", ".elan"),
    tools("juliaup", ".juliaup"),
    cache("julia", ".julia/packages"),
    cache("julia", ".julia/artifacts"),
    cache("julia", ".julia/compiled"),
    cache("julia", ".julia/registries"),
    cache("julia", ".julia/juliaup"),
    cache("hex", ".hex/packages"),
    tools("mix", ".mix"),
    cache("rebar3", ".cache/rebar3"),
    cache("zig", ".cache/zig"),
    tools("zvm", ".zvm"),
    tools("swiftly", ".local/share/swiftly"),
    cache("swift", ".cache/org.swift.swiftpm"),
    cache("dart", ".pub-cache/hosted"),
    cache("dart", ".pub-cache/git"),
    tools("dart", ".pub-cache/bin"),
    tools("perl", "perl5"),
    tools("perlbrew", ".perlbrew"),
    tools("luarocks", ".luarocks/lib"),
    tools("luarocks", ".luarocks/share"),
    tools("luarocks", ".luarocks/bin"),
    tools("foundry", ".foundry/bin"),
    tools("foundry", ".foundry/versions"),
    tools("solana", ".local/share/solana/install"),
    tools("tfenv", ".tfenv"),
    cache("terraform", ".terraform.d/plugin-cache"),
    tools("krew", ".krew/bin"),
    tools("krew", ".krew/store"),
    tools("pulumi", ".pulumi/bin"),
    // compilers and editors' helpers
    cache("ccache", ".ccache"),
    cache("ccache", ".cache/ccache"),
    cache("bazelisk", ".cache/bazelisk"),
    cache("nix", ".cache/nix"),
    settings("clang-format", ".clang-format"),
    settings("editors", ".editorconfig"),
    settings("shellcheck", ".shellcheckrc"),
    settings("git", ".config/git/ignore"),
    settings("git", ".config/git/attributes"),
];

/// Paths that show within the closed parts of a Linux system, each with its reason.
pub(super) const OPEN_SYSTEM: &[(&str, &str)] = &[
    ("/home/linuxbrew/.linuxbrew", "installed programs"),
    ("/run/current-system", "nixos"),
    ("/run/opengl-driver", "nixos"),
    ("/run/wrappers/bin", "nixos"),
    ("/sys/devices/system", "processors and memory, as runtimes count them"),
    ("/sys/fs/cgroup", "limits, as runtimes read them"),
    ("/sys/kernel/mm", "sizes of pages"),
    ("/var/cache/fontconfig", "fonts"),
    ("/var/lib/alternatives", "installed programs"),
    ("/var/lib/apt/lists", "apt"),
    ("/var/lib/ca-certificates", "certificates"),
    ("/var/lib/dpkg", "dpkg"),
    ("/var/lib/gems", "gem"),
    ("/var/lib/ghc", "ghc"),
    ("/var/lib/pacman/local", "pacman"),
    ("/var/lib/rpm", "rpm"),
    ("/var/lib/texmf", "tex"),
];

/// Names in `/` that show, because systems need them. `/tmp`, `/dev` and `/proc` are made anew.
pub(super) const OPEN_TOP: &[&str] = &[
    "bin", "dev", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "opt", "proc", "sbin", "snap",
    "sw", "tmp", "usr",
];

/// Variables that name where a tool is installed.
pub(super) const INSTALLED: &[&str] = &[
    "ANDROID_HOME",
    "ANDROID_SDK_ROOT",
    "CONDA_PREFIX",
    "DOTNET_ROOT",
    "FLUTTER_ROOT",
    "GOROOT",
    "GRADLE_HOME",
    "HOMEBREW_PREFIX",
    "JAVA_HOME",
    "JDK_HOME",
    "KOTLIN_HOME",
    "M2_HOME",
    "MAVEN_HOME",
    "NVM_BIN",
    "POETRY_HOME",
    "VIRTUAL_ENV",
    // certificates
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NIX_SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

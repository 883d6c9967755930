//! Builds and installations from warm caches, outside and inside, in turn. Inside, caches show copy-on-write, and what a tool adds is
//! kept for the project.
//!
//! The caches are filled first, outside, which takes a network. A tool that is not there, or that cannot fill its cache, is skipped.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use watchfire_benches::{Report, millis};
use watchfire_core::process::CommandSpec;
use watchfire_core::process::helper::Helper;
use watchfire_core::sandbox::{Network, NoSandbox, Sandbox, SandboxPolicy};
use watchfire_core::{Error, Result};
use watchfire_sandbox::LinuxSandbox;

use crate::world::{World, run_confined};

const SECTION: &str = "a warm cache, to the end of the command";

/// A tool, with commands of the shell that run in a folder of its own.
struct Tool {
    name: &'static str,
    /// Writes the project and fills the caches.
    warm: &'static str,
    /// The work, which needs no network.
    job: &'static str,
    /// Removes the result.
    clean: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool {
        name: "cargo build",
        warm: "mkdir -p src && echo 'fn main() {}' > src/main.rs && printf '[package]\\nname = \"x\"\\nversion = \"0.1.0\"\\n\
               edition = \"2021\"\\n[dependencies]\\nserde = { version = \"1\", features = [\"derive\"] }\\nregex = \"1\"\\n\
               [workspace]\\n' > Cargo.toml && cargo fetch -q",
        job: "cargo build -q --offline",
        clean: "rm -rf target",
    },
    Tool {
        name: "npm ci",
        warm: "echo '{\"name\":\"x\",\"dependencies\":{\"express\":\"4\",\"typescript\":\"5\"}}' > package.json && npm install -s",
        job: "npm ci -s --offline --no-audit",
        clean: "rm -rf node_modules",
    },
    Tool {
        name: "pnpm install",
        warm: "echo '{\"name\":\"x\",\"dependencies\":{\"express\":\"4\",\"typescript\":\"5\"}}' > package.json && pnpm install -s",
        job: "pnpm install -s --offline --frozen-lockfile",
        clean: "rm -rf node_modules",
    },
    Tool {
        name: "pip install",
        warm: "python3 -m pip --version > /dev/null && python3 -m pip download -q -d wheels django requests",
        job: "python3 -m pip install -q --no-index --find-links wheels --target out django requests",
        clean: "rm -rf out",
    },
    Tool {
        name: "uv pip install",
        warm: "uv pip install -q --python /usr/bin/python3 --target out django requests",
        job: "uv pip install -q --offline --python /usr/bin/python3 --target out django requests",
        clean: "rm -rf out",
    },
    Tool {
        name: "go build",
        warm: "printf 'package main\\nimport \"net/http\"\\nfunc main() { _ = http.ListenAndServe(\"\", nil) }\\n' > main.go && \
               printf 'module x\\n' > go.mod && go build -o out .",
        job: "go build -a=false -o out . && go vet .",
        clean: "rm -f out",
    },
];

pub(crate) fn measure(world: &World, rounds: usize, report: &mut Report) -> Result<()> {
    let (own, toolchain) = (LinuxSandbox::new(Helper::current()?), toolchain());
    let builder = world.policy(Network::Open)?.to_builder();
    let policy = toolchain.iter().fold(builder, |policy, folder| policy.read(folder, "the bench")).build()?;
    let path = std::iter::once(world.tools()?).chain(toolchain.iter().map(|folder| folder.join("bin")));
    let path: Vec<_> = path.chain(["/usr/bin".into(), "/bin".into()]).collect();
    let path = std::env::join_paths(path).unwrap_or_default();
    for tool in TOOLS {
        let folder = world.worktree.join(tool.name.replace(' ', "-"));
        std::fs::create_dir_all(&folder).map_err(|e| Error::io("making a folder", e).with_path(&folder))?;
        let shell = |words: &str| {
            let command = CommandSpec::new("/bin/sh").with_args(["-c", words]).with_cwd(&folder);
            world
                .in_worktree(command)
                .with_cwd(&folder)
                .with_env("PATH", &path)
                .with_env("PIP_ROOT_USER_ACTION", "ignore")
        };
        let program = tool.name.split(' ').next().unwrap_or_default();
        let has = format!("command -v {} > /dev/null", if program == "pip" { "python3" } else { program });
        if !outside(&shell(&format!("{has} && {}", tool.warm))) {
            report.skip(tool.name, "not installed, or there is no network to fill its cache");
            continue;
        }
        let timed = |sandbox: &dyn Sandbox, policy: &SandboxPolicy| {
            let confined = sandbox.prepare(policy, shell(tool.job))?;
            let began = Instant::now();
            run_confined(confined, || ())?;
            let took = millis(began);
            outside(&shell(tool.clean));
            Ok::<_, Error>(took)
        };
        outside(&shell(tool.clean));
        let (mut there, mut here) = (Vec::new(), Vec::new());
        for round in 0..=rounds {
            let pair = (timed(&NoSandbox, &policy)?, timed(&own, &policy)?);
            // The first round fills the kernel's caches.
            if round > 0 {
                there.push(pair.0);
                here.push(pair.1);
            }
        }
        report.add(SECTION, format!("{}, outside", tool.name), "ms", there.clone());
        report.compare(SECTION, tool.name.to_owned(), "ms", here, "outside", &there);
    }
    Ok(())
}

/// Returns the folder of the Rust toolchain, which may lie in the home of whoever runs the bench.
fn toolchain() -> Option<PathBuf> {
    let said = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let path = String::from_utf8(said.stdout).ok()?;
    Path::new(path.trim()).canonicalize().ok()
}

fn outside(command: &CommandSpec) -> bool {
    let mut child = Command::new(command.program());
    child.args(command.args()).env_clear().envs(command.env());
    if let Some(cwd) = command.cwd() {
        child.current_dir(cwd);
    }
    child
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|it| it.success())
}

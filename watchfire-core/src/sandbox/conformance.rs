//! The requirements on every [`Sandbox`], as a suite that any implementation can run on real files and processes.
//! Feature `testing`.
//!
//! Each denial runs unconfined too: one that fails there as well proves nothing and is [`Skipped`](NotPassed::Skipped).
//! What the sandbox reports as enforced must hold; what it reports as open must really be open.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use super::{
    Access, Bind, Confined, Control, ControlState, Enforcement, NamePattern, NoSandbox, PolicyReport,
    RuleAccess, Sandbox, SandboxPolicy, SandboxPolicyBuilder,
};
use crate::conformance::{NotPassed, Outcome, cases};
use crate::process::{CommandSpec, SpawnOptions, spawn};

/// Fixture of one case.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The sandbox to judge.
    pub sandbox: Arc<dyn Sandbox>,
    /// An existing empty folder for this case alone.
    pub scratch: PathBuf,
}

/// Returns the folder in which tests of sandboxes make homes and projects, created if it is missing.
///
/// It lies below `target`, the folder that cargo has for tests, unless the variable `WATCHFIRE_TEST_HOMES` names another
/// one: with it, tests already built run again below `/tmp` and in a path with a space.
///
/// # Errors
/// If the folder cannot be created.
pub fn test_homes(target: &str) -> std::io::Result<PathBuf> {
    let named = std::env::var_os("WATCHFIRE_TEST_HOMES").map(PathBuf::from);
    let homes = named.unwrap_or_else(|| Path::new(target).join("homes"));
    fs::create_dir_all(&homes)?;
    // Policies compare names alone, so a link on the way would make every rule miss.
    homes.canonicalize()
}

cases! {
    pub Bench:
    denied_paths_are_hidden,
    links_lead_nowhere_new,
    writes_stay_where_they_are_granted,
    grants_open_what_they_name,
    a_grant_inside_a_denial_opens_itself_alone,
    a_denial_inside_a_grant_stays_closed,
    a_rule_on_a_file_is_a_file_rule,
    names_are_hidden_where_nothing_is_written,
    read_only_places_in_writable_folders,
    private_copies_show_at_their_places,
    missing_paths_do_no_harm,
    usual_devices_work,
    renames_across_folders_work,
    temporary_files_work,
    odd_names_are_names,
    arguments_environment_folder_and_code_pass,
    no_descriptor_leaks,
    a_missing_program_is_an_error,
    explain_promises_what_prepare_does,
}

/// Outcome of a confined command.
#[derive(Debug)]
pub struct Ran {
    /// Exit code, or 128 plus the number of the signal that ended the command.
    pub code: i32,
    /// Output on stdout.
    pub stdout: String,
    /// Output on stderr.
    pub stderr: String,
    /// Report of the guard after the command had ended.
    pub report: PolicyReport,
}

/// Starts a confined command, waits for it and drops its guard.
///
/// # Errors
/// If the command cannot be started.
pub fn run(confined: Confined) -> crate::Result<Ran> {
    use std::os::unix::process::ExitStatusExt as _;
    let options = SpawnOptions::default()
        .with_stdout(Stdio::piped())
        .with_stderr(Stdio::piped())
        .with_descriptors(confined.descriptors);
    let child = spawn(&confined.command, options)?;
    let output = child
        .wait_with_output()
        .map_err(|error| crate::Error::io("waiting for a confined command", error))?;
    let signal = || output.status.signal().map_or(-1, |signal| 128 + signal);
    Ok(Ran {
        code: output.status.code().unwrap_or_else(signal),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        report: confined.guard.report(),
    })
}

/// Returns a shell command with the variables that shells need.
#[must_use]
pub fn shell(script: &str) -> CommandSpec {
    CommandSpec::new("/bin/sh").with_args(["-c", script]).with_env("PATH", "/usr/local/bin:/usr/bin:/bin")
}

impl Bench {
    fn path(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    /// Creates a file whose content is its own name.
    fn file(&self, name: &str) -> Result<PathBuf, NotPassed> {
        let path = self.path(name);
        let parent = path.parent().unwrap_or(&self.scratch);
        fs::create_dir_all(parent).and_then(|()| fs::write(&path, name)).map_err(failed("making a file"))?;
        Ok(path)
    }

    fn folder(&self, name: &str) -> Result<PathBuf, NotPassed> {
        let path = self.path(name);
        fs::create_dir_all(&path).map_err(failed("making a folder"))?;
        Ok(path)
    }

    /// Returns a policy with one rule: the scratch folder may be read.
    fn policy(&self) -> SandboxPolicyBuilder {
        SandboxPolicy::builder().read(&self.scratch, "the scratch folder")
    }

    fn run(
        &self,
        sandbox: &dyn Sandbox,
        policy: SandboxPolicyBuilder,
        script: &str,
    ) -> Result<Ran, NotPassed> {
        let policy = policy.build().map_err(failed("building the policy"))?;
        let command = shell(script).with_cwd(&self.scratch);
        let confined = sandbox.prepare(&policy, command).map_err(failed("preparing"))?;
        run(confined).map_err(failed("running"))
    }

    /// Checks that the script succeeds under the policy.
    fn works(&self, policy: SandboxPolicyBuilder, script: &str) -> Result<Ran, NotPassed> {
        let ran = self.run(&*self.sandbox, policy, script)?;
        if ran.code == 0 {
            return Ok(ran);
        }
        fail(format!("must work: {script}\ncode {}, {}\n{}", ran.code, ran.stderr, ran.report))
    }

    /// Checks that the script fails where `control` is enforced, and succeeds where it is open.
    fn denied(&self, control: &str, policy: SandboxPolicyBuilder, script: &str) -> Outcome {
        let state = {
            let policy = policy.clone().build().map_err(failed("building the policy"))?;
            let report = self.sandbox.explain(&policy).map_err(failed("explaining"))?;
            report.state(control)
        };
        let ran = self.run(&*self.sandbox, policy.clone(), script)?;
        match state {
            Some(ControlState::Open) if ran.code != 0 => {
                return fail(format!("reported as open, but it fails: {script}"));
            }
            // A partial control holds in some places only, so the script may succeed or fail.
            Some(ControlState::Open | ControlState::Partial) => return Ok(()),
            _ if ran.code == 0 => return fail(format!("must fail: {script}\n{}", ran.report)),
            _ => {}
        }
        // What fails without a sandbox as well was not denied by this one.
        match self.run(&NoSandbox, policy, script)?.code {
            0 => Ok(()),
            code => Err(NotPassed::Skipped(format!("fails unconfined too, with code {code}: {script}"))),
        }
    }
}

fn fail<T>(why: String) -> Result<T, NotPassed> {
    Err(NotPassed::Failed(why))
}

fn failed<E: std::error::Error>(what: &'static str) -> impl Fn(E) -> NotPassed {
    move |error| {
        let cause = error.source().map_or(String::new(), |source| format!(": {source}"));
        NotPassed::Failed(format!("{what}: {error}{cause}"))
    }
}

fn denied_paths_are_hidden(bench: &Bench) -> Outcome {
    bench.file("keys/id")?;
    bench.file("token")?;
    bench.file("public")?;
    let policy = || bench.policy().deny(bench.path("keys"), "a folder").deny(bench.path("token"), "a file");
    bench.denied(Control::HIDDEN, policy(), "grep -q keys keys/id")?;
    bench.denied(Control::HIDDEN, policy(), "ls keys | grep -q id")?;
    bench.denied(Control::HIDDEN, policy(), "grep -q token token")?;
    bench.denied(Control::HIDDEN, policy(), "echo x > token && grep -q x token")?;
    bench.works(policy(), "grep -q public public").map(drop)
}

fn links_lead_nowhere_new(bench: &Bench) -> Outcome {
    bench.file("keys/id")?;
    bench.folder("work")?;
    std::os::unix::fs::symlink(bench.path("keys/id"), bench.path("work/link")).map_err(failed("linking"))?;
    std::os::unix::fs::symlink(bench.path("keys"), bench.path("alias")).map_err(failed("linking"))?;
    let policy = || bench.policy().deny(bench.path("keys"), "keys").write(bench.path("work"), "work");
    bench.denied(Control::HIDDEN, policy(), "grep -q keys work/link")?;
    bench.denied(Control::HIDDEN, policy(), "ln -s ../keys work/new; grep -q keys work/new/id")?;
    bench.denied(
        Control::HIDDEN,
        policy(),
        // A hard link gives the file a second name that no rule is about.
        "rm -f work/hard; ln keys/id work/hard && grep -q keys work/hard",
    )?;
    // A rule for a link means what the link leads to, by whichever name it is opened.
    let by_link = bench.policy().deny(bench.path("alias"), "keys, by a link");
    bench.denied(Control::HIDDEN, by_link, "grep -q keys keys/id")
}

fn writes_stay_where_they_are_granted(bench: &Bench) -> Outcome {
    bench.folder("work")?;
    // Landlock has a right of its own for most of these, so each could be forgotten alone.
    for script in [
        "echo x > out/new && test -e out/new",
        "echo x >> out/file && grep -q x out/file",
        ": > out/file && test ! -s out/file",
        "rm out/file",
        "mv out/file out/other",
        "mkdir out/folder",
        "ln -s x out/link",
        "cp out/file work/copy && mv work/copy out/copy",
        "mv out/file work/file",
    ] {
        // The unconfined run of the script before has changed it.
        let _ = fs::remove_dir_all(bench.path("out"));
        bench.file("out/file")?;
        let policy = bench.policy().write(bench.path("work"), "work");
        bench.denied(Control::WRITES, policy, script)?;
    }
    Ok(())
}

fn grants_open_what_they_name(bench: &Bench) -> Outcome {
    bench.file("work/old")?;
    let policy = bench.policy().write(bench.path("work"), "work");
    // Most steps need a right of their own, up to running a program that was written here.
    let script = "cd work && echo x > new && mkdir -p a/b && mv new a/b/ && ln -s a l && ln a/b/new h && \
                  echo y >> old && : > old && chmod 700 a && rm -r a l h && \
                  printf '#!/bin/sh\\nexit 0\\n' > run && chmod +x run && ./run";
    bench.works(policy, script).map(drop)
}

fn a_grant_inside_a_denial_opens_itself_alone(bench: &Bench) -> Outcome {
    bench.file("private/project/file")?;
    bench.file("private/taxes")?;
    let policy = || {
        let project = bench.path("private/project");
        bench.policy().deny(bench.path("private"), "private").write(project, "project")
    };
    bench.works(policy(), "cd private/project && cat file && echo x > new && rm new")?;
    bench.denied(Control::HIDDEN, policy(), "grep -q taxes private/taxes")?;
    bench.denied(Control::HIDDEN, policy(), "echo x > private/new")
}

fn a_denial_inside_a_grant_stays_closed(bench: &Bench) -> Outcome {
    bench.file("work/deep/secret/key")?;
    bench.file("work/other/file")?;
    let policy =
        || bench.policy().write(bench.path("work"), "work").deny(bench.path("work/deep/secret"), "secret");
    bench.denied(Control::HIDDEN, policy(), "grep -q key work/deep/secret/key")?;
    bench.denied(
        Control::HIDDEN,
        policy(),
        // A rename takes the denied folder to a path that no rule is about.
        "mv work/deep/secret work/other/ && grep -q key work/other/secret/key",
    )?;
    // The unconfined run has moved it away.
    bench.file("work/deep/secret/key")?;
    bench.denied(Control::HIDDEN, policy(), "mv work/deep work/moved; grep -q key work/moved/secret/key")?;
    bench.file("work/deep/secret/key")?;
    bench.works(policy(), "echo x > work/other/new && grep -q other work/other/file").map(drop)
}

fn a_rule_on_a_file_is_a_file_rule(bench: &Bench) -> Outcome {
    bench.file("one")?;
    bench.file("two")?;
    // Landlock refuses a rule on a file that grants rights of folders, so files need a case of their own.
    let policy = || bench.policy().write(bench.path("one"), "one file");
    bench.works(policy(), "echo x >> one && grep -q x one")?;
    bench.denied(Control::WRITES, policy(), "echo x >> two")?;
    let denied = || bench.policy().deny(bench.path("one"), "one file");
    bench.works(denied(), "grep -q two two")?;
    bench.denied(Control::HIDDEN, denied(), "cat one")
}

fn names(root: &Path) -> NamePattern {
    NamePattern {
        root: root.to_owned(),
        names: vec![".env".to_owned(), ".env.*".to_owned()],
        except: vec!["*.example".to_owned()],
        origin: "names".to_owned(),
    }
}

fn names_are_hidden_where_nothing_is_written(bench: &Bench) -> Outcome {
    for name in ["app/.env", "app/deep/er/.env.local", "app/.env.example", "app/main"] {
        bench.file(name)?;
    }
    let policy = || bench.policy().pattern(names(&bench.scratch));
    bench.works(policy(), "cat app/main app/.env.example")?;
    // Other places may be reported as partial; here, where nothing is written, all can hold it.
    let open = bench
        .sandbox
        .explain(&policy().build().map_err(failed("building"))?)
        .map_err(failed("explaining"))?;
    for script in ["cat app/.env", "cat app/deep/er/.env.local", "echo x > app/.env"] {
        let ran = bench.run(&*bench.sandbox, policy(), script)?;
        // An open control must let the command succeed, and every other state must stop it here.
        if (open.state(Control::NAMES) == Some(ControlState::Open)) != (ran.code == 0) {
            return fail(format!("code {}: {script}\n{open}", ran.code));
        }
    }
    Ok(())
}

fn read_only_places_in_writable_folders(bench: &Bench) -> Outcome {
    bench.file("work/.git")?;
    bench.file("work/config/hooks/h")?;
    let policy = || {
        bench
            .policy()
            .write(bench.path("work"), "work")
            .read(bench.path("work/.git"), "pointer")
            .read(bench.path("work/config"), "config")
    };
    for script in [
        // A worktree's `.git` file and its configuration decide which programs git runs.
        "echo x > work/.git",
        "rm work/.git",
        "mv work/.git work/git",
        "echo x > work/config/hooks/h",
        "mv work/config work/other && echo x > work/other/hooks/h",
    ] {
        // The unconfined run of the script before has changed them.
        bench.file("work/.git")?;
        let _ = fs::remove_dir_all(bench.path("work/other"));
        bench.file("work/config/hooks/h")?;
        bench.denied(Control::READ_ONLY, policy(), script)?;
    }
    bench.file("work/.git")?;
    bench.file("work/config/hooks/h")?;
    bench.works(policy(), "cat work/.git work/config/hooks/h && echo x > work/new").map(drop)
}

fn private_copies_show_at_their_places(bench: &Bench) -> Outcome {
    bench.file("session/tasks/copy")?;
    bench.file("session/one")?;
    bench.file("project/tasks/real")?;
    bench.file("project/one")?;
    let policy = || {
        bench
            .policy()
            // The copies must show at their targets and at no other path.
            .deny(bench.path("session"), "the session's own")
            .deny(bench.path("project/tasks"), "tasks")
            .bind(Bind::new(
                bench.path("session/tasks"),
                bench.path("project/tasks"),
                RuleAccess::Write,
                "copies",
            ))
            .bind(Bind::new(bench.path("session/one"), bench.path("project/one"), RuleAccess::Read, "a file"))
    };
    let built = policy().build().map_err(failed("building the policy"))?;
    let report = bench.sandbox.explain(&built).map_err(failed("explaining"))?;
    if report.state(Control::BINDS) == Some(ControlState::Open) {
        // Then what is really there is as the rules say.
        return bench.denied(Control::HIDDEN, policy(), "cat project/tasks/real");
    }
    // In this order: the copy shows in place of the real file, writes and renames reach it, the other bind
    // cannot be written, and the source stays hidden.
    let script = "grep -q copy project/tasks/copy && test ! -e project/tasks/real && echo new > project/tasks/copy && \
                  echo x > project/tasks/more && mv project/tasks/more project/tasks/most && \
                  grep -q session project/one && ! (echo x > project/one) 2> /dev/null && test ! -e session/one";
    bench.works(policy(), script)?;
    // The confined writes must be in the copies, and the real files untouched.
    let real = fs::read_to_string(bench.path("project/tasks/real")).map_err(failed("reading"))?;
    let copy = fs::read_to_string(bench.path("session/tasks/copy")).map_err(failed("reading"))?;
    let more = bench.path("session/tasks/most").exists() && !bench.path("project/tasks/most").exists();
    match (real.as_str(), copy.as_str(), more) {
        ("project/tasks/real", "new\n", true) => Ok(()),
        other => fail(format!("real, copy, new file: {other:?}")),
    }
}

fn missing_paths_do_no_harm(bench: &Bench) -> Outcome {
    bench.folder("work")?;
    let policy = bench
        .policy()
        .write(bench.path("work"), "work")
        // A policy is written for many machines, so it names places that this one lacks.
        .deny(bench.path("none/denied"), "missing")
        .read(bench.path("none/read"), "missing")
        .write(bench.path("none/write"), "missing")
        .deny(bench.path("work/none"), "missing")
        .pattern(names(&bench.path("none")));
    bench.works(policy, "echo x > work/new && cat work/new").map(drop)
}

fn usual_devices_work(bench: &Bench) -> Outcome {
    let script = "echo x > /dev/null && head -c 8 /dev/zero > /dev/null && head -c 8 /dev/urandom > /dev/null && \
                  : 2> /dev/null >> /dev/null && { test ! -e /dev/ptmx || : 3<> /dev/ptmx; }";
    bench.works(bench.policy(), script).map(drop)
}

fn renames_across_folders_work(bench: &Bench) -> Outcome {
    bench.folder("work/a")?;
    bench.folder("work/b/c")?;
    let policy = bench.policy().write(bench.path("work"), "work");
    // The first ABI of Landlock denies every rename from one folder into another.
    bench.works(policy, "cd work && echo x > a/f && mv a/f b/c/g && mv b/c a/ && cat a/c/g").map(drop)
}

fn temporary_files_work(bench: &Bench) -> Outcome {
    let ran = bench.works(bench.policy(), "f=$(mktemp) && echo x > $f && cat $f && echo $f")?;
    let path = ran.stdout.lines().last().unwrap_or_default();
    // What is private leaves nothing behind; a shared one is the caller's.
    let open = ran.report.open().all(|control| control.state == ControlState::Open);
    let left = Path::new(path).exists();
    let _ = fs::remove_file(path);
    if left && !open { fail(format!("{path} is still there")) } else { Ok(()) }
}

fn odd_names_are_names(bench: &Bench) -> Outcome {
    use std::os::unix::ffi::OsStrExt as _;
    // Names that quoting, mount tables and option parsers get wrong.
    for bytes in [&b"a b'\"c"[..], b"\xff\xfe", b"new\nline", "h\u{e4}us".as_bytes(), b"-n"] {
        let name = OsStr::from_bytes(bytes);
        let folder = bench.scratch.join(name);
        let hidden = bench.scratch.join("hidden").join(name);
        fs::create_dir_all(&folder).map_err(failed("making a folder"))?;
        fs::create_dir_all(&hidden).map_err(failed("making a folder"))?;
        fs::write(hidden.join("x"), "secret").map_err(failed("making a file"))?;
        let policy = bench.policy().write(&folder, "odd").deny(&hidden, "odd");
        let policy = policy.build().map_err(failed("building the policy"))?;
        // Or a wrong rule would look like a fault of the sandbox.
        if !policy.allows(folder.join("x"), Access::Write) || policy.allows(&hidden, Access::Read) {
            return fail("the policy itself is wrong".to_owned());
        }
        let command = shell("echo x > \"$1/x\" && ! cat \"$2/x\" > /dev/null 2>&1").with_arg("sh");
        let command = command.with_arg(&folder).with_arg(&hidden).with_cwd(&bench.scratch);
        let ran = run(bench.sandbox.prepare(&policy, command).map_err(failed("preparing"))?);
        let ran = ran.map_err(failed("running"))?;
        // Without hiding, the second half of the script can read the file and fails.
        let expected = ran.report.state(Control::HIDDEN) != Some(ControlState::Open);
        if (ran.code == 0) != expected {
            return fail(format!("{name:?}: code {}, {}", ran.code, ran.stderr));
        }
    }
    Ok(())
}

fn arguments_environment_folder_and_code_pass(bench: &Bench) -> Outcome {
    let policy = bench.policy().build().map_err(failed("building the policy"))?;
    let command = shell("echo \"$0|$1|$MINE|$HOME|$(pwd -P)\"; echo oops >&2; exit 7");
    let command = command.with_args(["zero", "a  b"]).with_env("MINE", "x y").with_cwd(&bench.scratch);
    let ran = run(bench.sandbox.prepare(&policy, command).map_err(failed("preparing"))?);
    let ran = ran.map_err(failed("running"))?;
    let here = bench.scratch.canonicalize().map_err(failed("resolving"))?;
    let expected = format!("zero|a  b|x y||{}\n", here.display());
    if ran.code == 7 && ran.stdout == expected && ran.stderr == "oops\n" {
        return Ok(());
    }
    fail(format!("expected {expected:?}, got {ran:?}"))
}

fn no_descriptor_leaks(bench: &Bench) -> Outcome {
    // Shells hold descriptors of their own; ls does not.
    let policy = bench.policy().build().map_err(failed("building the policy"))?;
    let command = CommandSpec::new("/bin/ls").with_arg("/proc/self/fd").with_cwd(&bench.scratch);
    let ran = run(bench.sandbox.prepare(&policy, command).map_err(failed("preparing"))?);
    let ran = ran.map_err(failed("running"))?;
    // The fourth is the listing itself.
    let extra: Vec<_> = ran.stdout.lines().filter(|line| !matches!(*line, "0" | "1" | "2" | "3")).collect();
    match (ran.code, extra.is_empty()) {
        (0, true) => Ok(()),
        (0, false) => fail(format!("inherited: {extra:?}")),
        (code, _) => Err(NotPassed::Skipped(format!("/proc cannot be listed: code {code}, {}", ran.stderr))),
    }
}

fn a_missing_program_is_an_error(bench: &Bench) -> Outcome {
    let policy = bench.policy().build().map_err(failed("building the policy"))?;
    let command = CommandSpec::new(bench.path("no-such-program")).with_cwd(&bench.scratch);
    // A sandbox may notice it before the start or leave it to the start.
    let Ok(confined) = bench.sandbox.prepare(&policy, command) else { return Ok(()) };
    match run(confined) {
        Ok(ran) if ran.code == 0 => fail("a program that does not exist ran".to_owned()),
        _ => Ok(()),
    }
}

fn explain_promises_what_prepare_does(bench: &Bench) -> Outcome {
    bench.file("work/.env")?;
    bench.file("keys/id")?;
    for enforcement in [Enforcement::Required, Enforcement::BestEffort] {
        let policy = bench
            .policy()
            .write(bench.path("work"), "work")
            .deny(bench.path("keys"), "keys")
            .pattern(names(&bench.scratch))
            .enforcement(enforcement);
        let built = policy.clone().build().map_err(failed("building the policy"))?;
        let explained = bench.sandbox.explain(&built).map_err(failed("explaining"))?;
        let ran = bench.works(policy, "true")?;
        if explained.controls.is_empty() {
            return fail("an empty report".to_owned());
        }
        if explained.controls != ran.report.controls {
            return fail(format!("explained:\n{explained}\nin force:\n{}", ran.report));
        }
    }
    Ok(())
}

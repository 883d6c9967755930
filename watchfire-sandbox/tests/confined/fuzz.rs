//! Random policies over random folders: what `decide` denies is denied.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use watchfire_core::conformance::{NotPassed, Outcome};
use watchfire_core::process::helper::{Helper, RoleArgs};
use watchfire_core::sandbox::conformance::run;
use watchfire_core::sandbox::{Access, Control, ControlState, NamePattern, RuleAccess, SandboxPolicy};

use crate::Bench;

/// How many policies.
const ROUNDS: u64 = 24;

const POKE: &str = "test-poke";

watchfire_core::register_helper_role!(POKE, poke);

/// Tries to read and to write each path of a list; prints `r`, `w`, both or neither, one line each.
fn poke(args: RoleArgs) -> i32 {
    let Some(list) = args.args().first().and_then(|path| fs::read(path).ok()) else { return 1 };
    for bytes in list.split(|byte| *byte == 0).filter(|bytes| !bytes.is_empty()) {
        let path = Path::new(std::ffi::OsStr::from_bytes(bytes));
        let (read, write) = match path.is_dir() {
            true => {
                let new = path.join("poked");
                (
                    fs::read_dir(path).is_ok_and(|entries| entries.count() > 0),
                    fs::write(&new, "x").is_ok() && fs::remove_file(new).is_ok(),
                )
            }
            false => (fs::read(path).is_ok(), fs::OpenOptions::new().append(true).open(path).is_ok()),
        };
        println!("{}{}.", if read { "r" } else { "" }, if write { "w" } else { "" });
    }
    0
}

/// A small generator, the same on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or_default() % sides
    }
}

const NAMES: &[&[u8]] =
    &[b"a", b"b c", b"\xff\xfe", b".env", b".env.example", "h\u{e4}".as_bytes(), b"x\ny", b"d"];

pub(crate) fn fuzzed_policies_hold(bench: Bench<'_>, helper: Helper) -> Outcome {
    (0..ROUNDS).try_for_each(|seed| {
        let scratch = bench.scratch.join(format!("round{seed}"));
        round(Bench { scratch: &scratch, ..bench }, &helper, seed)
    })
}

fn failed(error: impl std::fmt::Display) -> NotPassed {
    NotPassed::Failed(error.to_string())
}

fn round(bench: Bench<'_>, helper: &Helper, seed: u64) -> Outcome {
    let mut dice = Dice(seed);
    let root = bench.scratch.join("root");
    let mut places = vec![root.clone()];
    fs::create_dir_all(&root).map_err(failed)?;
    plant(&mut dice, &root, 0, &mut places).map_err(failed)?;

    let mut policy = SandboxPolicy::builder().read(bench.scratch, "scratch").pattern(NamePattern {
        root: root.clone(),
        names: vec![".env".to_owned(), ".env.*".to_owned()],
        except: vec!["*.example".to_owned()],
        origin: "names".to_owned(),
    });
    let mut rules = Vec::new();
    for _ in 0..2 + dice.roll(7) {
        let path = places[dice.roll(places.len())].clone();
        let path = if dice.roll(9) == 0 { path.join("missing") } else { path };
        rules.push((path, [RuleAccess::Deny, RuleAccess::Read, RuleAccess::Write][dice.roll(3)]));
    }
    for (path, access) in &rules {
        policy = policy.rule(watchfire_core::sandbox::Rule::new(path, *access, "fuzz"));
    }
    let policy = policy.build().map_err(failed)?;
    let real = resolved(&policy)?;

    let list = bench.scratch.join("list");
    let mut bytes = Vec::new();
    for place in &places {
        bytes.extend_from_slice(place.as_os_str().as_bytes());
        bytes.push(0);
    }
    fs::write(&list, bytes).map_err(failed)?;
    let exe = std::env::current_exe().map_err(failed)?;
    let command = helper.command(POKE, [&list]).with_program(exe).with_cwd("/");
    let confined = bench.sandbox.prepare(&policy, command).map_err(|error| failed(error.report()))?;
    let ran = run(confined).map_err(failed)?;
    let outcomes: Vec<_> = ran.stdout.lines().collect();
    if outcomes.len() != places.len() {
        return Err(NotPassed::Failed(format!(
            "seed {seed}: {} of {} lines, {}",
            outcomes.len(),
            places.len(),
            ran.stderr
        )));
    }
    let policy = real;
    let enforced = |control| ran.report.state(control).is_none_or(|state| state == ControlState::Enforced);
    for (place, outcome) in places.iter().zip(&outcomes) {
        // Through links: what counts is where they lead.
        let Ok(real) = place.canonicalize() else { continue };
        for (access, letter) in [(Access::Read, 'r'), (Access::Write, 'w')] {
            let decision = policy.decide(&real, access);
            let explicit = is_explicit(&policy, &real);
            // A name in a folder that can be written, and a read-only place in one, may be reported as open.
            let held = match access {
                Access::Read => explicit || !below_a_grant(&policy, &real) || enforced(Control::NAMES),
                Access::Write => {
                    !below_a_grant(&policy, &real)
                        || (enforced(Control::READ_ONLY) && enforced(Control::NAMES))
                        || (explicit && !policy.allows(&real, Access::Read))
                }
            };
            let allowed = policy.allows(&real, access);
            // A hidden folder may show the way to what is open in it.
            let way = access == Access::Read
                && policy.rules.iter().any(|rule| rule.path != real && rule.path.starts_with(&real));
            if outcome.contains(letter) && !allowed && held && !way {
                return Err(NotPassed::Failed(format!(
                    "seed {seed}: {letter} on {} got through: {decision:?}\nrules: {rules:#?}\n{}",
                    real.display(),
                    ran.report
                )));
            }
            // What is allowed works, but for listing folders on the way to hidden ones, for new names there, and through
            // links that are hidden themselves.
            if !outcome.contains(letter) && allowed && real.is_file() && *place == real {
                return Err(NotPassed::Failed(format!(
                    "seed {seed}: {letter} on {} was refused: {decision:?}\nrules: {rules:#?}\n{}",
                    real.display(),
                    ran.report
                )));
            }
        }
    }
    Ok(())
}

/// The same policy with the rules' links resolved, since the oracle looks at names alone.
fn resolved(policy: &SandboxPolicy) -> Result<SandboxPolicy, NotPassed> {
    let mut builder = SandboxPolicy::builder();
    for pattern in &policy.patterns {
        builder = builder.pattern(pattern.clone());
    }
    for rule in &policy.rules {
        let real = rule.path.canonicalize().unwrap_or_else(|_| rule.path.clone());
        // Such a link is not followed, and the report says so.
        let holds_itself = real != rule.path
            && rule
                .path
                .parent()
                .is_some_and(|parent| parent.canonicalize().is_ok_and(|parent| parent.starts_with(&real)));
        if !(holds_itself && rule.access == RuleAccess::Deny) {
            builder = builder.rule(watchfire_core::sandbox::Rule::new(real, rule.access, &rule.origin));
        }
    }
    builder.build().map_err(failed)
}

/// Whether rules alone, without names, decide about the path.
fn is_explicit(policy: &SandboxPolicy, path: &Path) -> bool {
    !policy.patterns.iter().any(|pattern| path.ancestors().any(|ancestor| pattern.matches(ancestor)))
}

/// Whether a folder above the path, or it itself, can be written.
fn below_a_grant(policy: &SandboxPolicy, path: &Path) -> bool {
    policy.rules.iter().any(|rule| rule.access == RuleAccess::Write && path.starts_with(&rule.path))
}

fn plant(dice: &mut Dice, folder: &Path, depth: usize, places: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for name in NAMES {
        let path = folder.join(OsString::from_vec(name.to_vec()));
        match dice.roll(if depth < 3 { 6 } else { 3 }) {
            0 => continue,
            1 | 2 => fs::write(&path, "text")?,
            3 if places.len() > 3 => {
                std::os::unix::fs::symlink(&places[dice.roll(places.len())], &path)?;
            }
            _ => {
                fs::create_dir(&path)?;
                plant(dice, &path, depth + 1, places)?;
            }
        }
        places.push(path);
    }
    Ok(())
}

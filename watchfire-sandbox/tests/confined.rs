//! What each sandbox that works here really holds, on real files and processes.
//!
//! The program is its own helper. As root every test runs a second time, `user::…`, as an ordinary user.

#[cfg(target_os = "linux")]
#[path = "confined/base.rs"]
mod base;
#[cfg(target_os = "linux")]
#[path = "confined/budget.rs"]
mod budget;
#[cfg(target_os = "linux")]
#[path = "confined/closed_home.rs"]
mod closed_home;
#[cfg(target_os = "linux")]
#[path = "confined/file_systems.rs"]
mod file_systems;
#[cfg(target_os = "linux")]
#[path = "confined/fuzz.rs"]
mod fuzz;
#[cfg(target_os = "linux")]
#[path = "confined/kept.rs"]
mod kept;
#[cfg(target_os = "linux")]
#[path = "confined/lifecycle.rs"]
mod lifecycle;
#[cfg(target_os = "linux")]
#[path = "confined/limits.rs"]
mod limits;
#[cfg(target_os = "linux")]
#[path = "confined/misuse.rs"]
mod misuse;
#[cfg(target_os = "linux")]
#[path = "confined/network.rs"]
mod network;
#[path = "confined/places.rs"]
mod places;
#[cfg(target_os = "linux")]
#[path = "confined/planted.rs"]
mod planted;
#[cfg(target_os = "linux")]
#[path = "confined/probes.rs"]
mod probes;
#[cfg(target_os = "linux")]
#[path = "confined/questions.rs"]
mod questions;
#[cfg(target_os = "linux")]
#[path = "confined/session.rs"]
mod session;
#[cfg(target_os = "linux")]
#[path = "confined/table.rs"]
mod table;

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use watchfire_core::conformance::{NotPassed, Outcome};
use watchfire_core::process::helper::{Helper, run_if_asked};
use watchfire_core::sandbox::{NoSandbox, Sandbox, conformance};
#[cfg(target_os = "linux")]
use watchfire_sandbox::LinuxSandbox;

use places::{AS_USER, Scratch, USER};

/// The sandbox under test, and a place for the test.
#[derive(Clone, Copy)]
struct Bench<'a> {
    sandbox: &'a dyn Sandbox,
    /// An empty folder for this test alone.
    scratch: &'a Path,
}

/// A sandbox to judge.
struct Variant {
    name: &'static str,
    make: fn(Helper) -> Box<dyn Sandbox>,
}

#[cfg(not(target_os = "linux"))]
const VARIANTS: &[Variant] = &[
    Variant { name: "none", make: |_| Box::new(NoSandbox) },
    Variant { name: "seatbelt", make: |_| Box::new(watchfire_sandbox::Seatbelt::new()) },
];

#[cfg(target_os = "linux")]
const VARIANTS: &[Variant] = &[
    Variant { name: "none", make: |_| Box::new(NoSandbox) },
    Variant { name: "landlock", make: |helper| Box::new(LinuxSandbox::new(helper)) },
    Variant { name: "bwrap", make: |helper| Box::new(LinuxSandbox::bwrap(helper)) },
    Variant {
        name: "landlock_alone",
        make: |helper| Box::new(LinuxSandbox::new(helper).without_namespaces()),
    },
    Variant { name: "birdcage", make: |helper| Box::new(LinuxSandbox::birdcage(helper)) },
];

/// A test of ours, for one sandbox.
type Test = fn(Bench<'_>, Helper) -> Outcome;

#[cfg(not(target_os = "linux"))]
const TESTS: &[(&str, Test)] = &[];

#[cfg(target_os = "linux")]
const TESTS: &[(&str, Test)] = &[
    ("fuzzed_policies_hold", fuzz::fuzzed_policies_hold),
    ("the_base_policy_keeps_secrets_and_lets_work", base::the_base_policy_keeps_secrets_and_lets_work),
    ("nothing_of_a_planted_home_can_be_read", closed_home::nothing_of_a_planted_home_can_be_read),
    ("what_appears_in_the_home_does_not_show", closed_home::what_appears_in_the_home_does_not_show),
    ("usual_jobs_work", closed_home::usual_jobs_work),
    ("the_keeper_cannot_be_weakened", closed_home::the_keeper_cannot_be_weakened),
    ("a_planted_link_does_not_hide_the_system", closed_home::a_planted_link_does_not_hide_the_system),
    ("required_never_steps_down_silently", closed_home::required_never_steps_down_silently),
    ("programs_that_listen_are_out_of_reach", closed_home::programs_that_listen_are_out_of_reach),
    ("unusual_homes_work_or_are_refused", closed_home::unusual_homes_work_or_are_refused),
    ("layers_leave_nothing", closed_home::layers_leave_nothing),
    ("caches_are_kept_for_the_project", kept::caches_are_kept_for_the_project),
    ("sessions_at_once_share_no_layer", kept::sessions_at_once_share_no_layer),
    ("terminals_work", lifecycle::terminals_work),
    ("signals_arrive", lifecycle::signals_arrive),
    ("ends_are_ends", lifecycle::ends_are_ends),
    ("works_in_a_group_that_cannot_be_seen", lifecycle::works_in_a_group_that_cannot_be_seen),
    ("replaced_files_stay_covered", lifecycle::replaced_files_stay_covered),
    ("replaced_files_stay_covered_without_watchers", lifecycle::replaced_files_stay_covered_without_watchers),
    ("replaced_files_stay_covered_in_a_flood", lifecycle::replaced_files_stay_covered_in_a_flood),
    ("a_folder_in_place_of_a_file_is_covered", lifecycle::a_folder_in_place_of_a_file_is_covered),
    ("a_covered_name_moves_with_its_folder", lifecycle::a_covered_name_moves_with_its_folder),
    ("watches_cannot_be_used_up", budget::watches_cannot_be_used_up),
    ("sessions_work_under_a_guardian", session::sessions_work_under_a_guardian),
    ("limits_hold", limits::limits_hold),
    ("a_fork_bomb_ends", limits::a_fork_bomb_ends),
    ("the_network_is_what_was_asked", network::the_network_is_what_was_asked),
    ("the_internet_is_other_machines_alone", network::the_internet_is_other_machines_alone),
    ("a_lost_helper_starts_nothing", misuse::a_lost_helper_starts_nothing),
    ("garbled_configuration_starts_nothing", misuse::garbled_configuration_starts_nothing),
    ("the_ladder_is_climbed_from_the_top", misuse::the_ladder_is_climbed_from_the_top),
    ("too_many_layers_start_nothing", misuse::too_many_layers_start_nothing),
    ("what_works_is_remembered", misuse::what_works_is_remembered),
    ("steps_down_are_said", misuse::steps_down_are_said),
];

fn main() {
    run_if_asked();
    #[cfg(target_os = "linux")]
    {
        places::find_birdcage();
        places::work_in_memory();
    }
    let arguments = Arguments::from_args();
    let filter = arguments.filter.as_deref();
    let mut trials = Vec::new();
    for variant in VARIANTS {
        if let Some(why) = missing(variant) {
            let ignored = move || Ok(Completion::ignored_with(why));
            trials.push(Trial::ignorable_test(variant.name, ignored));
            continue;
        }
        for case in conformance::CASES {
            add(&mut trials, filter, variant, case.name(), |bench, helper| {
                let (sandbox, scratch) = ((variant.make)(helper).into(), bench.scratch.to_owned());
                case.run_alone(&conformance::Bench { sandbox, scratch })
            });
        }
        if variant.name == "none" {
            continue;
        }
        for (name, test) in TESTS {
            add(&mut trials, filter, variant, name, test);
        }
        #[cfg(target_os = "linux")]
        for row in file_systems::ROWS.iter().filter(|_| file_systems::IN_PLACE.contains(&variant.name)) {
            let name = format!("caches_on_{}", row.name);
            add(&mut trials, filter, variant, &name, |bench, helper| {
                file_systems::ask(row, variant.name, bench, &helper)
            });
        }
        #[cfg(target_os = "linux")]
        for probe in questions::GROUPS.iter().flat_map(|(_, probes)| *probes) {
            let name = format!("probe_{}", probe.name);
            add(&mut trials, filter, variant, &name, |bench, helper| {
                probes::ask(probe, variant.name, bench, helper)
            });
        }
    }
    #[cfg(target_os = "linux")]
    trials.push(Trial::test("the_table_is_of_this_suite", table::is_of_this_suite));
    let conclusion = libtest_mimic::run(&arguments, trials);
    #[cfg(target_os = "linux")]
    {
        probes::clean();
        table::write();
    }
    conclusion.exit();
}

/// Why a sandbox cannot be judged here.
fn missing(variant: &Variant) -> Option<String> {
    let helper = match Helper::current() {
        Ok(helper) => helper,
        Err(error) => return Some(error.report()),
    };
    let probe = (variant.make)(helper).probe();
    (!probe.available).then(|| format!("not available here: {}", probe.lacking()))
}

fn add(
    trials: &mut Vec<Trial>,
    filter: Option<&str>,
    variant: &'static Variant,
    name: &str,
    test: impl Fn(Bench<'_>, Helper) -> Outcome + Send + 'static,
) {
    let name = format!("{}::{name}", variant.name);
    if places::is_root() && std::env::var_os(AS_USER).is_none() {
        let (inner, filter) = (name.clone(), filter.map(str::to_owned));
        let test = move || {
            let outcome = as_user(&inner, filter.as_deref());
            #[cfg(target_os = "linux")]
            table::record(&format!("user::{inner}"), &outcome);
            outcome
        };
        trials.push(Trial::ignorable_test(format!("user::{name}"), test));
    }
    let recorded = name.clone();
    let judge = move || {
        let helper = Helper::current().map_err(|error| Failed::from(error.report()))?;
        let once = || {
            let sandbox = (variant.make)(helper.clone());
            let scratch = Scratch::new()?;
            Ok::<_, Failed>(test(Bench { sandbox: &*sandbox, scratch: scratch.path() }, helper.clone()))
        };
        // birdcage starts nothing where something beside a hidden place goes away just then, as other tests' folders do.
        let mut tries = if variant.name == "birdcage" { 5 } else { 1 };
        let outcome = loop {
            tries -= 1;
            match once()? {
                Err(NotPassed::Failed(_)) if tries > 0 => {}
                outcome => break outcome,
            }
        };
        match outcome {
            Ok(()) => Ok(Completion::Completed),
            Err(NotPassed::Skipped(why)) => Ok(Completion::ignored_with(why)),
            Err(NotPassed::Failed(why)) => Err(why.into()),
        }
    };
    trials.push(Trial::ignorable_test(name, move || {
        let outcome: Result<Completion, Failed> = judge();
        #[cfg(target_os = "linux")]
        table::record(&recorded, &outcome);
        outcome
    }));
}

/// What became of all tests in a process of an ordinary user, which runs them once.
static AS_USER_RESULTS: OnceLock<Result<String, String>> = OnceLock::new();

/// What became of one of them.
fn as_user(name: &str, filter: Option<&str>) -> Result<Completion, Failed> {
    let results = AS_USER_RESULTS.get_or_init(|| run_as_user(filter).map_err(|failed| format!("{failed:?}")));
    let text = results.as_ref().map_err(|why| Failed::from(why.clone()))?;
    let line = |line: &&str| line.strip_prefix("test ").and_then(|rest| rest.split(' ').next()) == Some(name);
    let whole = |line: &&str| {
        let variant = name.split("::").next().unwrap_or(name);
        line.strip_prefix("test ").and_then(|rest| rest.split(' ').next()) == Some(variant)
    };
    // A sandbox that does not work for that user is one line for all of its tests.
    let Some(line) = text.lines().find(line).or_else(|| text.lines().find(whole)) else {
        return Err(format!("no result of {name} as another user:\n{text}").into());
    };
    match line.rsplit_once(" ... ").map(|(_, outcome)| outcome) {
        Some("ok") => Ok(Completion::Completed),
        Some(outcome) if outcome.starts_with("ignored") => Ok(Completion::ignored_with(outcome)),
        _ => {
            let details = text.split_once(&format!("---- {name} ----")).map_or("", |(_, rest)| rest);
            Err(details.split("\n---- ").next().unwrap_or(line).into())
        }
    }
}

fn run_as_user(filter: Option<&str>) -> Result<String, Failed> {
    let scratch = Scratch::for_user()?;
    let filter = filter.map(|filter| filter.strip_prefix("user::").unwrap_or(filter));
    let output = Command::new(std::env::current_exe()?)
        .args(filter)
        .env(AS_USER, scratch.path())
        .env("HOME", scratch.path())
        .current_dir(scratch.path())
        .uid(USER)
        .gid(USER)
        .output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

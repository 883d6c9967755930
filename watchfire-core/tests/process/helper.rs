//! Our own program in other roles.

use std::fs;
use std::io::{Read, Write};
use std::time::Instant;

use libtest_mimic::Trial;
use watchfire_core::process::helper::{Helper, RoleArgs};
use watchfire_core::process::{CommandSpec, RunLimits, SpawnOptions, run_blocking, spawn};
use watchfire_core::sandbox::Descriptor;

use crate::support::{DEADLINE, Flavour, Mark, confined, helper, on_terminal, read_all};

pub(crate) fn trials(flavour: Flavour) -> Vec<Trial> {
    vec![
        flavour.trial("a_deleted_or_replaced_helper_still_works", async |mark| {
            let folder = tempfile::tempdir().unwrap();
            let copy = folder.path().join("helper");
            // By another process: a descriptor of ours for writing could be in a child that another test forks just
            // then, and the file would be busy.
            let cp = CommandSpec::new("cp").with_args([std::env::current_exe().unwrap(), copy.clone()]);
            assert!(run_blocking(&cp, RunLimits::default()).unwrap().success());
            let helper = Helper::at(&copy).unwrap();
            fs::remove_file(&copy).unwrap();
            assert_eq!(greeting(&helper, &mark).await, "hello\r\n");
            fs::write(&copy, "something else").unwrap();
            assert_eq!(greeting(&helper, &mark).await, "hello\r\n");
        }),
        flavour.trial("a_helper_starts_a_helper_under_its_guardian", async |mark| {
            let command = mark.on(helper().command("test-echo", ["from", "a role"]));
            let mut confined = confined(command);
            confined.descriptors.extend(helper().descriptors().unwrap());
            let session = on_terminal(helper(), confined).await.unwrap();
            assert_eq!(read_all(&session).await, "[\"from\", \"a role\"]\r\nwf-test-echo\r\n");
        }),
        flavour.trial("a_role_takes_its_descriptors_once", async |_| {
            let (reader, mut writer) = std::io::pipe().unwrap();
            writer.write_all(b"through 30").unwrap();
            drop(writer);
            let options = SpawnOptions::default()
                .with_descriptors([Descriptor { target: 30, fd: reader.into() }])
                .with_stdout(std::process::Stdio::piped());
            let child = spawn(&helper().direct_command("test-fds", [""; 0]), options).unwrap();
            let output = child.wait_with_output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), "through 30, false, false\n");
        }),
        flavour.trial("an_unknown_role_is_refused", async |_| {
            let ran = run_blocking(&helper().direct_command("none", [""; 0]), RunLimits::default()).unwrap();
            assert_eq!(ran.code(), 127);
            assert!(ran.stderr.text().contains("unknown role none"));
        }),
        flavour.trial("a_program_that_is_no_helper_is_killed", async |mark| {
            // One that ends at once, and one that would run for ever as itself.
            for program in ["/bin/false", "/usr/bin/yes"] {
                let begun = Instant::now();
                let helper = Helper::at(program).unwrap();
                let started = on_terminal(helper, confined(mark.sh("true"))).await;
                let error = started.unwrap_err();
                assert_eq!(error.code(), "helper_missing", "{error}");
                assert!(begun.elapsed() < DEADLINE);
            }
        }),
    ]
}

async fn greeting(helper: &Helper, mark: &Mark) -> String {
    let session = on_terminal(helper.clone(), confined(mark.sh("echo hello"))).await;
    read_all(&session.unwrap()).await
}

watchfire_core::register_helper_role!("test-echo", echo);

fn echo(args: RoleArgs) -> i32 {
    println!("{:?}", args.args());
    print!("{}", fs::read_to_string("/proc/self/comm").unwrap());
    0
}

watchfire_core::register_helper_role!("test-fds", take);

fn take(mut args: RoleArgs) -> i32 {
    let mut text = String::new();
    let mut file = fs::File::from(args.take_fd(30).unwrap());
    file.read_to_string(&mut text).unwrap();
    println!("{text}, {}, {}", args.take_fd(30).is_ok(), args.take_fd(31).is_ok());
    0
}

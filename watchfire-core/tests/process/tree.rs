//! No process of a session survives it.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};
use watchfire_core::process::helper::{Helper, RoleArgs};
use watchfire_core::process::{SpawnOptions, spawn};
use watchfire_core::session::Exit;

use crate::support::{
    DEADLINE, Flavour, Mark, children_of, confined, helper, on_terminal, parent_of, read_until, until,
};

/// A daemon that has left its parents, its session and its streams, and heeds no request to end.
const DAEMON: &str = "(setsid sh -c 'trap \"\" HUP TERM INT; while :; do sleep 0.2; done' \
                      </dev/null >/dev/null 2>&1 &)";

pub(crate) fn trials(flavour: Flavour) -> Vec<Trial> {
    vec![
        flavour.trial("who_heeds_a_request_is_not_killed", async |mark| {
            let script = "trap '' HUP; trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done";
            let (session, mut offset) = (mark.pty(script).await, 0);
            read_until(&session, &mut offset, "ready").await;
            assert_eq!(session.terminate(DEADLINE).await.unwrap(), Exit::Code(5));
        }),
        flavour.trial("who_heeds_nothing_is_killed", async |mark| {
            let script = "trap '' HUP TERM INT; echo ready; while :; do sleep 0.05; done";
            let (session, mut offset) = (mark.pty(script).await, 0);
            read_until(&session, &mut offset, "ready").await;
            let begun = Instant::now();
            assert_eq!(session.terminate(Duration::from_millis(300)).await.unwrap(), Exit::Signal(9));
            assert!(begun.elapsed() >= Duration::from_millis(300), "it had its grace");
            assert_eq!(session.terminate(DEADLINE).await.unwrap(), Exit::Signal(9), "once is enough");
        }),
        flavour.trial("who_is_stopped_is_ended_too", async |mark| {
            let (session, mut offset) = (mark.pty("echo ready; kill -STOP $$; echo on").await, 0);
            read_until(&session, &mut offset, "ready").await;
            session.terminate(Duration::from_millis(500)).await.unwrap();
        }),
        flavour.trial("a_daemon_ends_with_its_agent", async |mark| {
            let session = mark.pty(&format!("{DAEMON}; {DAEMON}; exit 3")).await;
            assert_eq!(session.wait().await, Exit::Code(3));
            assert_eq!(mark.alive(), [0; 0], "nothing is left when wait returns");
        }),
        flavour.trial("orphans_are_reaped_while_the_agent_runs", async |mark| {
            let script = "for i in 1 2 3 4 5 6 7 8; do (sleep 0.01 &); done; echo ready; sleep 100";
            let (session, mut offset) = (mark.pty(script).await, 0);
            read_until(&session, &mut offset, "ready").await;
            let agent = session.identity().pid;
            let guardian = parent_of(agent).unwrap();
            until(|| children_of(guardian) == [agent], || format!("{:?}", children_of(guardian))).await;
            session.terminate(Duration::ZERO).await.unwrap();
        }),
        flavour.trial("a_fork_storm_is_caught", async |mark| {
            let storm = "i=0; while [ $i -lt 300 ]; do (setsid sleep 300 </dev/null >/dev/null 2>&1 &); \
                         i=$((i+1)); [ $i = 20 ] && echo storm; done; sleep 300";
            let script = format!("trap '' HUP TERM; ({storm}) & ({storm}) & wait");
            let (session, mut offset) = (mark.pty(&script).await, 0);
            read_until(&session, &mut offset, "storm").await;
            session.terminate(Duration::ZERO).await.unwrap();
            assert_eq!(mark.alive(), [0; 0]);
        }),
        flavour.trial("dropping_a_session_ends_it", async |mark| {
            let (session, mut offset) = (mark.pty(&format!("{DAEMON}; echo ready; sleep 100")).await, 0);
            read_until(&session, &mut offset, "ready").await;
            drop(session);
            mark.assert_gone().await;
        }),
        flavour.trial("ending_the_runtime_ends_its_sessions", async |mark| {
            let script = format!("{DAEMON}; echo ready; sleep 100");
            let started = mark.clone();
            let thread = std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let session = started.pty(&script).await;
                    read_until(&session, &mut 0, "ready").await;
                    session
                })
            });
            let session = thread.join().unwrap();
            // Its runtime is gone, and with it whoever could tell; but it does not hang.
            assert_eq!(session.wait().await, Exit::Unknown);
            drop(session);
            mark.assert_gone().await;
        }),
        flavour.trial("giving_up_a_start_ends_it", async |mark| {
            for micros in [0, 500, 1000, 2000, 4000, 8000] {
                let start = on_terminal(helper(), confined(mark.sh("sleep 100")));
                let _ = tokio::time::timeout(Duration::from_micros(micros), start).await;
            }
            mark.assert_gone().await;
        }),
        flavour.trial("a_killed_guardian_is_noticed", async |mark| {
            let session = mark.pty("trap '' HUP; echo ready; sleep 100").await;
            read_until(&session, &mut 0, "ready").await;
            let guardian = parent_of(session.identity().pid).unwrap();
            kill_process(pid(guardian), Signal::KILL).unwrap();
            assert_eq!(session.wait().await, Exit::Unknown);
            mark.assert_gone().await;
        }),
        flavour.trial("signals_do_not_end_a_guardian", async |mark| {
            let (session, mut offset) = (mark.pty("echo ready; read x; echo got $x").await, 0);
            read_until(&session, &mut offset, "ready").await;
            let guardian = parent_of(session.identity().pid).unwrap();
            for signal in [Signal::HUP, Signal::INT, Signal::TERM, Signal::QUIT] {
                kill_process(pid(guardian), signal).unwrap();
            }
            session.write(b"it\r").await.unwrap();
            read_until(&session, &mut offset, "got it").await;
            assert_eq!(session.wait().await, Exit::Code(0));
        }),
        flavour.trial("a_killed_orchestrator_takes_everything_with_it", async |mark| {
            let helper = helper();
            let command = helper.direct_command("test-orchestrator", [mark.name()]);
            let options = SpawnOptions::default().with_stdout(Stdio::piped()).with_stderr(std::io::stderr());
            let mut orchestrator = spawn(&command, options).unwrap();
            let mut lines = BufReader::new(orchestrator.stdout.take().unwrap()).lines();
            assert_eq!(lines.next().unwrap().unwrap(), "ready");
            // One that is just becoming another program shows no mark for a moment.
            until(|| mark.alive().len() >= 3, || format!("{:?}", mark.alive())).await;
            orchestrator.kill().unwrap();
            orchestrator.wait().unwrap();
            mark.assert_gone().await;
        }),
    ]
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(number.try_into().unwrap()).unwrap()
}

watchfire_core::register_helper_role!("test-orchestrator", orchestrate);

/// Starts a session, says so, and waits to be killed.
fn orchestrate(args: RoleArgs) -> i32 {
    let mark = Mark::named(args.args()[0].to_str().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let helper = Helper::at(std::env::current_exe().unwrap()).unwrap();
        let spec = mark.sh(&format!("trap '' HUP TERM; {DAEMON}; echo ready; sleep 100"));
        let session = on_terminal(helper, confined(spec)).await.unwrap();
        let mut offset = 0;
        read_until(&session, &mut offset, "ready").await;
        until(|| mark.alive().len() >= 3, || "no daemon".to_owned()).await;
        println!("ready");
        std::future::pending().await
    })
}

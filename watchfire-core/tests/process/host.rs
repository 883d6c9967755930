//! The host of sessions that live as long as this program.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};
use watchfire_core::model::SessionId;
use watchfire_core::session::{HostChannel, HostRequest, Hosted, InProcess, SessionHost as _, conformance};
use watchfire_core::terminal::Size;

use crate::support::{DEADLINE, Flavour, Mark, confined, helper, read_until, recordings};

/// A process that has left its parents and its session when it says `daemon`.
const DAEMON: &str = "(setsid sh -c 'echo daemon; exec sleep 300 </dev/null >/dev/null 2>&1' &)";

pub(crate) fn trials(flavour: Flavour) -> Vec<Trial> {
    let own = vec![
        flavour.trial("a_guardian_that_is_stopped_delays_the_end_and_no_more", async |mark| {
            let host = InProcess::new(helper());
            let hosted = launch(&host, &mark, &format!("{DAEMON}; sleep 100")).await.unwrap();
            read_until(&hosted.process, &mut 0, "daemon").await;
            signal_guardian(&hosted, Signal::STOP);
            let begun = Instant::now();
            hosted.process.terminate(Duration::from_millis(100)).await.unwrap();
            assert!(begun.elapsed() < DEADLINE / 2, "{:?}", begun.elapsed());
            mark.assert_gone().await;
        }),
        flavour.trial("what_outlives_its_guardian_is_found_and_ended", async |mark| {
            let host = InProcess::new(helper());
            let hosted = launch(&host, &mark, &format!("{DAEMON}; sleep 100")).await.unwrap();
            read_until(&hosted.process, &mut 0, "daemon").await;
            signal_guardian(&hosted, Signal::KILL);
            hosted.process.wait().await;
            // Nothing may go on writing while the work is captured.
            assert_eq!(mark.alive(), [0; 0]);
        }),
    ];
    let conforming = conformance::CASES
        .iter()
        .map(|case| flavour.trial(case.name(), async |_| case.run(&InProcess::new(helper())).await.unwrap()));
    conforming.chain(own).collect()
}

fn id(mark: &Mark) -> SessionId {
    format!("host-{}", mark.name()).parse().unwrap()
}

async fn launch(host: &InProcess, mark: &Mark, script: &str) -> watchfire_core::Result<Hosted> {
    let channel = HostChannel::Terminal(Size::new(80, 24));
    let recording = recordings().join(SessionId::random().as_str());
    host.launch(HostRequest::new(id(mark), confined(mark.sh(script)), channel, recording)).await
}

fn signal_guardian(hosted: &Hosted, signal: Signal) {
    let pid = hosted.guardian.as_ref().unwrap().pid.cast_signed();
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

//! Agents on pipes.

use std::time::Duration;

use libtest_mimic::Trial;
use watchfire_core::process::RunLimits;
use watchfire_core::session::{Exit, run};
use watchfire_core::terminal::Size;

use crate::support::{Flavour, confined, helper, on_pipes, read_all, read_until, until};

pub(crate) fn trials(flavour: Flavour) -> Vec<Trial> {
    vec![
        flavour.trial("lines_go_both_ways", async |mark| {
            let script = "while read -r line; do echo \"<$line>\"; echo note >&2; done; exit 2";
            let session = on_pipes(mark.sh(script)).await;
            let mut offset = 0;
            session.write(b"{\"a\":1}\n").await.unwrap();
            assert_eq!(read_until(&session, &mut offset, "\n").await, "<{\"a\":1}>\n");
            session.close_input().await;
            assert_eq!(session.wait().await, Exit::Code(2));
            assert!(session.read_from(offset).await.unwrap().ended);
            until(|| session.complaints() == "note\n", || session.complaints()).await;
            assert_eq!(session.write(b"x").await.unwrap_err().code(), "no_input_channel");
            assert_eq!(session.resize(Size::new(1, 1)).await.unwrap_err().code(), "not_supported");
        }),
        flavour.trial("a_flood_on_stderr_holds_nothing_up", async |mark| {
            let script = "head -c 3000000 /dev/zero >&2; echo done";
            let session = on_pipes(mark.sh(script)).await;
            assert_eq!(read_all(&session).await, "done\n");
            let omitted = format!("… {} bytes omitted …", 3_000_000 - 64 * 1024);
            until(|| session.complaints().contains(&omitted), || "stderr is lost".to_owned()).await;
        }),
        flavour.trial("an_interrupt_is_a_signal", async |mark| {
            let script = "trap 'echo caught; exit 6' INT; echo ready; while :; do sleep 0.05; done";
            let session = on_pipes(mark.sh(script)).await;
            let mut offset = 0;
            read_until(&session, &mut offset, "ready").await;
            session.interrupt().await.unwrap();
            read_until(&session, &mut offset, "caught").await;
            assert_eq!(session.wait().await, Exit::Code(6));
            assert_eq!(session.interrupt().await.unwrap_err().code(), "target_off");
        }),
        flavour.trial("a_command_is_run_to_its_end", async |mark| {
            let script = "cat; pwd; head -c 3000000 /dev/zero >&2; (setsid sleep 300 &); exit 9";
            let spec = mark.sh(script).with_cwd("/usr");
            let ran = run(&helper(), confined(spec), RunLimits::default().with_output(100)).await.unwrap();
            assert_eq!((ran.code(), ran.timed_out, ran.stdout.text().as_str()), (9, false, "/usr\n"));
            assert_eq!(ran.stderr.omitted(), 3_000_000 - 100);
            assert_eq!(mark.alive(), [0; 0]);
        }),
        flavour.trial("a_command_that_takes_too_long_is_ended_with_all_of_its", async |mark| {
            let script = "(setsid sleep 300 &); echo begun; sleep 300";
            let limits = RunLimits::default().with_timeout(Duration::from_millis(500));
            let ran = run(&helper(), confined(mark.sh(script)), limits).await.unwrap();
            assert!(ran.timed_out && !ran.success(), "{ran:?}");
            assert_eq!(ran.stdout.text(), "begun\n");
            assert_eq!(mark.alive(), [0; 0]);
        }),
        flavour.trial("a_survivor_on_the_pipe_is_ended", async |mark| {
            let script = "trap '' HUP TERM; setsid sleep 300 & echo first; exit 0";
            let session = on_pipes(mark.sh(script)).await;
            read_until(&session, &mut 0, "first").await;
            // Whoever holds the pipe, the output ends with the agent's tree, not before its grace is over.
            assert_eq!(session.terminate(Duration::from_secs(5)).await.unwrap(), Exit::Code(0));
            assert_eq!(mark.alive(), [0; 0]);
        }),
    ]
}

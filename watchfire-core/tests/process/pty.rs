//! What an agent sees of its terminal, its environment and its descriptors, and what we see of the agent.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use watchfire_core::model::SessionId;
use watchfire_core::process::{CommandSpec, Liveness, RunLimits, SESSION_MARK, run_blocking};
use watchfire_core::session::{Exit, HostChannel, HostRequest, InProcess, SessionHost as _};
use watchfire_core::terminal::Size;

use crate::support::{
    DEADLINE, Flavour, confined, helper, on_terminal, parent_of, processes, read_all, read_until, recordings,
    start,
};

pub(crate) fn trials(flavour: Flavour) -> Vec<Trial> {
    vec![
        flavour.trial("exits_are_told", async |mark| {
            let session = mark.pty("echo bye; exit 7").await;
            assert_eq!(session.wait().await, Exit::Code(7));
            // After the end, what was written can still be read.
            assert_eq!(read_all(&session).await, "bye\r\n");
            assert_eq!(session.identity().liveness(), Liveness::Dead);
            let session = mark.pty("kill -SEGV $$").await;
            assert_eq!(session.wait().await, Exit::Signal(11));
            assert_eq!(session.write(b"x").await.unwrap_err().code(), "target_off");
        }),
        flavour.trial("the_terminal_is_its_own", async |mark| {
            let session =
                mark.pty("tty; echo direct >/dev/tty; ps -o pgid=,sid=,tpgid= -p $$; echo $$").await;
            let all = read_all(&session).await;
            let lines: Vec<_> = all.lines().collect();
            let [tty, direct, ids, pid] = lines[..] else { panic!("{all:?}") };
            assert!(tty.starts_with("/dev/pts/"), "{all:?}");
            assert_eq!(direct, "direct");
            assert_eq!(ids.split_whitespace().collect::<Vec<_>>(), [pid, pid, pid], "{all:?}");
            assert_eq!(pid.parse(), Ok(session.identity().pid));
        }),
        flavour.trial("a_resize_reaches_the_foreground", async |mark| {
            let script = "trap 'stty size' WINCH; stty size; echo ready; while :; do sleep 0.05; done";
            let (session, mut offset) = (mark.pty(script).await, 0);
            assert_eq!(read_until(&session, &mut offset, "ready\r\n").await, "24 80\r\nready\r\n");
            session.resize(Size::new(100, 30)).await.unwrap();
            read_until(&session, &mut offset, "30 100\r\n").await;
            session.terminate(Duration::ZERO).await.unwrap();
        }),
        flavour.trial("an_interrupt_reaches_the_foreground_job_alone", async |mark| {
            let (session, mut offset) =
                (mark.pty("trap : INT; set -m; echo go; sleep 100; echo job $?; exit 4").await, 0);
            read_until(&session, &mut offset, "go").await;
            // The job becomes the foreground one after that.
            let begun = Instant::now();
            loop {
                session.interrupt().await.unwrap();
                let ended = tokio::time::timeout(Duration::from_millis(200), session.wait()).await;
                match ended {
                    Ok(exit) => break assert_eq!(exit, Exit::Code(4)),
                    Err(_) => assert!(begun.elapsed() < DEADLINE, "it goes on"),
                }
            }
            assert!(read_until(&session, &mut offset, "job 130").await.contains("job 130"));
        }),
        flavour.trial("input_is_read", async |mark| {
            let (session, mut offset) = (mark.pty("read line; echo got $line").await, 0);
            session.write(b"hello\r").await.unwrap();
            read_until(&session, &mut offset, "got hello\r\n").await;
            assert_eq!(session.wait().await, Exit::Code(0));
        }),
        flavour.trial("descriptors_are_the_three", async |mark| {
            // Two that anyone could inherit: one of ours, and one that we hand to the command on purpose.
            let leaky = rustix::io::dup(std::io::stderr().as_fd()).unwrap();
            let list = mark.on(CommandSpec::new("/bin/ls").with_arg("/proc/self/fd"));
            let all = read_all(&start(list.clone()).await).await;
            // 3 is the listing's own.
            assert_eq!(all.split_whitespace().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
            let given = rustix::io::fcntl_dupfd_cloexec(&leaky, 3).unwrap();
            let confined = confined(list).with_descriptor(12, given);
            let session = on_terminal(helper(), confined).await.unwrap();
            let all = read_all(&session).await;
            assert_eq!(all.split_whitespace().collect::<Vec<_>>(), ["0", "1", "12", "2", "3"]);
        }),
        flavour.trial("the_environment_is_exact", async |mark| {
            let spec = mark.on(CommandSpec::new("/usr/bin/env")).with_secret("KEY", "v").with_env("A", "b=c");
            let all = read_all(&start(spec).await).await;
            let mut names: Vec<_> = all.lines().collect();
            names.sort_unstable();
            let own = format!("WATCHFIRE_TEST_MARK={}", mark.name());
            // The name of its session, by which all of its processes are found.
            names.retain(|name| !name.starts_with(SESSION_MARK));
            assert_eq!(names, ["A=b=c", "KEY=v", "PATH=/usr/bin:/bin", own.as_str()]);
        }),
        flavour.trial("secrets_stay_out_of_sight", async |mark| {
            let secret = format!("s3cret-{}", mark.name());
            let spec = mark.sh("echo up; read x").with_secret("TOKEN", &secret);
            let (session, mut offset) = (start(spec).await, 0);
            read_until(&session, &mut offset, "up").await;
            let holds = |path: String| {
                let text = std::fs::read(path).unwrap_or_default();
                text.windows(secret.len()).any(|window| window == secret.as_bytes())
            };
            let shown = processes().find(|pid| holds(format!("/proc/{pid}/cmdline")));
            assert_eq!(shown, None, "an argument shows the secret");
            let guardian = parent_of(session.identity().pid).unwrap();
            assert!(!holds(format!("/proc/{guardian}/environ")));
            assert!(holds(format!("/proc/{}/environ", session.identity().pid)), "the agent has it");
            assert!(!format!("{session:?}").contains(&secret));
            session.terminate(Duration::ZERO).await.unwrap();
        }),
        flavour.trial("what_cannot_start_says_why", async |mark| {
            let folder = tempfile::tempdir().unwrap();
            let (plain, script) = (folder.path().join("plain"), folder.path().join("script"));
            std::fs::write(&plain, "text").unwrap();
            // By another process, see the helper that is copied.
            let make = format!("echo '#!/none/such' >{0} && chmod 755 {0}", script.display());
            assert!(run_blocking(&mark.sh(&make), RunLimits::default()).unwrap().success());
            let cases = [
                (mark.on(CommandSpec::new("/none/such")), "program_missing", "no such program"),
                (mark.on(CommandSpec::new("no-such-program")), "program_missing", "no-such-program"),
                (mark.on(CommandSpec::new(&script)), "program_missing", "interpreter"),
                (mark.on(CommandSpec::new(&plain)), "permission_denied", "plain"),
                (mark.sh("true").with_cwd("/none/such"), "not_found", "working directory is missing"),
            ];
            for (spec, code, part) in cases {
                let started = on_terminal(helper(), confined(spec)).await;
                let error = started.unwrap_err();
                assert_eq!(error.code(), code, "{error}");
                assert!(error.to_string().contains(part), "{error}");
            }
        }),
        flavour.trial("an_agent_whose_output_cannot_be_recorded_is_not_started", async |mark| {
            let folder = tempfile::tempdir().unwrap();
            let (file, proof) = (folder.path().join("file"), folder.path().join("proof"));
            std::fs::write(&file, "").unwrap();
            for channel in [HostChannel::Terminal(Size::new(80, 24)), HostChannel::Pipes] {
                let spec = mark.sh(&format!(": > '{}'", proof.display()));
                let recording = file.join("recording");
                let request = HostRequest::new(SessionId::random(), confined(spec), channel, &recording);
                let error = InProcess::new(helper()).launch(request).await.unwrap_err();
                assert_eq!(error.code(), "io", "{error}");
                assert!(error.report().contains("recording the agent's output"), "{}", error.report());
                assert!(error.report().contains("file/recording"), "{}", error.report());
                assert!(!proof.exists());
            }
        }),
        flavour.trial("an_agent_whose_output_is_lost_goes_on", async |mark| {
            let recording = recordings().join(SessionId::random().as_str());
            let spec = confined(mark.sh("read line; head -c 20000000 /dev/zero; echo end"));
            let request = HostRequest::new(SessionId::random(), spec, HostChannel::Pipes, recording.clone());
            let process = InProcess::new(helper()).launch(request).await.unwrap().process;
            // No segment can be made from now on.
            std::fs::rename(&recording, recording.with_extension("away")).unwrap();
            std::fs::write(&recording, "").unwrap();
            process.write(b"\n").await.unwrap();
            let reading = async {
                let (mut offset, mut ended) = (0, false);
                while !ended {
                    let output = process.read_from(offset).await.unwrap();
                    (offset, ended) = (output.next_offset(), output.ended);
                }
            };
            tokio::time::timeout(DEADLINE, reading).await.expect("it is held up");
            assert_eq!(process.wait().await, Exit::Code(0));
        }),
        flavour.trial("the_working_directory_is_the_commands", async |mark| {
            let session = start(mark.sh("pwd").with_cwd("/usr")).await;
            assert_eq!(read_all(&session).await, "/usr\r\n");
            let ours = std::env::current_dir().unwrap();
            let session = mark.pty("pwd -P").await;
            assert_eq!(read_all(&session).await, format!("{}\r\n", ours.display()), "without one, ours");
        }),
        flavour.trial("a_flood_arrives_whole", async |mark| {
            const BYTES: usize = 5_000_000;
            let begun = Instant::now();
            let session = mark.pty(&format!("head -c {BYTES} /dev/zero | tr '\\0' x")).await;
            assert_eq!(read_all(&session).await.len(), BYTES);
            let rate = BYTES as f64 / begun.elapsed().as_secs_f64();
            assert!(rate > 1e6, "{rate} bytes a second");
        }),
        flavour.trial("an_agent_stands_back", async |mark| {
            let ours = run_blocking(&CommandSpec::new("nice"), RunLimits::default()).unwrap();
            let ours: i32 = ours.stdout.text().trim().parse().unwrap();
            let session = mark.pty("nice").await;
            assert_eq!(read_all(&session).await.trim().parse(), Ok((ours + 15).min(19)));
            // As a session too, where the kernel weighs them. That is not waited for.
            let group = "/proc/self/autogroup";
            let waits = format!("until grep -q 'nice 15$' {group}; do sleep 0.05; done; echo done");
            if std::path::Path::new(group).exists() {
                assert_eq!(read_all(&mark.pty(&waits).await).await.trim(), "done");
            }
        }),
        flavour.trial("a_reader_that_never_waits_lets_others_work", async |mark| {
            let session = mark.pty("head -c 1000000 /dev/zero").await;
            assert_eq!(session.wait().await, Exit::Code(0));
            let mut turns = 0;
            let others = std::future::poll_fn(|_| {
                turns += 1;
                std::task::Poll::<()>::Pending
            });
            let all = tokio::select! {
                biased;
                all = read_all(&session) => all,
                () = others => unreachable!(),
            };
            assert_eq!(all.len(), 1_000_000);
            assert!(turns > 50, "{turns} turns beside a reader of a million bytes");
        }),
        flavour.trial("a_flood_that_nobody_reads_can_be_ended", async |mark| {
            let (session, mut offset) = (mark.pty("yes").await, 0);
            read_until(&session, &mut offset, "y").await;
            let begun = Instant::now();
            session.terminate(Duration::ZERO).await.unwrap();
            assert!(begun.elapsed() < DEADLINE / 3);
            // What was under way is there, and then the end.
            while !session.read_from(offset).await.map(|it| (offset = it.next_offset(), it.ended).1).unwrap()
            {
            }
        }),
        flavour.trial("input_that_nobody_reads_holds_nothing_up", async |mark| {
            let script = "stty raw -echo; echo ready; sleep 100";
            let (session, mut offset) = (mark.pty(script).await, 0);
            read_until(&session, &mut offset, "ready").await;
            let big = vec![b'x'; 1 << 20];
            let stuck = tokio::time::timeout(Duration::from_millis(200), session.write(&big)).await;
            assert!(stuck.is_err(), "{stuck:?}");
            let (written, exit) = tokio::join!(session.write(&big), session.terminate(Duration::ZERO));
            assert_eq!(written.unwrap_err().code(), "target_off");
            assert_eq!(exit.unwrap(), Exit::Signal(9));
        }),
        flavour.trial("output_can_be_read_again_but_not_before_it_is_written", async |mark| {
            let session = mark.pty("echo abc").await;
            assert_eq!(session.read_from(1 << 40).await.unwrap_err().code(), "invalid_input");
            assert_eq!(read_all(&session).await, "abc\r\n");
            let again = session.read_from(1).await.unwrap();
            assert_eq!((again.offset, &again.bytes[..]), (1, &b"bc\r\n"[..]));
        }),
        flavour.trial("an_agent_waits_for_a_reader_that_is_far_behind", async |mark| {
            let script = "head -c 20000000 /dev/zero; : > \"$DONE\"; head -c 20000000 /dev/zero; sleep 300";
            let done = recordings().join(format!("{}-done", mark.name()));
            let session = start(mark.sh(script).with_env("DONE", done.as_os_str())).await;
            let mut offset = read_until(&session, &mut 0, "\0").await.len() as u64;
            // A lead of a few megabytes, then nothing, until it is read.
            while !done.exists() {
                offset = session.read_from(offset).await.unwrap().next_offset();
            }
            assert!(offset > 12_000_000, "{offset}");
            while offset < 40_000_000 {
                let output = session.read_from(offset).await.unwrap();
                assert_eq!(output.offset, offset, "a reader that is waited for misses nothing");
                offset = output.next_offset();
            }
            session.terminate(Duration::ZERO).await.unwrap();
        }),
    ]
}

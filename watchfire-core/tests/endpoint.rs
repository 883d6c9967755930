//! The agent's side of the endpoint as agents run it: our own program in another role, in a process of its own.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};
use watchfire_core::endpoint::{Spool, SpoolLimits, SpoolMessage, client};
use watchfire_core::process::helper::Helper;

fn main() {
    watchfire_core::process::helper::run_if_asked();
    let trials = vec![
        Trial::test("a_hook_arrives", a_hook_arrives),
        Trial::test("many_at_once_all_arrive", many_at_once_all_arrive),
        Trial::test("what_cannot_be_sent_vetoes_nothing", what_cannot_be_sent_vetoes_nothing),
        Trial::test("the_command_tells_its_faults_by_code", the_command_tells_its_faults_by_code),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// Runs `agent-send` as a hook would.
fn agent_send(outbox: Option<&Path>, words: &[&str], input: &str) -> Result<Output, Failed> {
    let helper = Helper::current()?;
    let spec = helper.direct_command(client::ROLE, words);
    let mut command = Command::new(spec.program());
    command.args(spec.args()).env_clear();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(outbox) = outbox {
        command.env(client::OUTBOX, outbox);
    }
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that refuses does not read it.
        let _ = stdin.write_all(input.as_bytes());
    }
    Ok(child.wait_with_output()?)
}

fn a_hook_arrives() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let spool = Spool::open(folder.path(), SpoolLimits::default())?;
    let payload = "{\"hook_event_name\":\"Stop\",\n\"text\":\"größer\"}";
    let output = agent_send(Some(&folder.path().join("outbox")), &["hook", "Stop"], payload)?;
    assert_eq!((output.status.code(), output.stdout, output.stderr), (Some(0), vec![], vec![]));
    assert_eq!(spool.take()?.messages, [SpoolMessage::hook("Stop", payload)]);
    Ok(())
}

fn many_at_once_all_arrive() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let spool = Spool::open(folder.path(), SpoolLimits::default())?;
    let outbox = folder.path().join("outbox");
    std::thread::scope(|scope| {
        for n in 0..8 {
            let outbox = &outbox;
            scope.spawn(move || {
                let output = agent_send(Some(outbox), &["note"], &n.to_string());
                assert!(output.is_ok_and(|output| output.status.success()));
            });
        }
    });
    let intake = spool.take()?;
    assert_eq!((intake.messages.len(), intake.refused.len()), (8, 0));
    Ok(())
}

fn what_cannot_be_sent_vetoes_nothing() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let missing = folder.path().join("none");
    for (outbox, words) in [
        (None, &["hook", "Stop"][..]),
        (Some(missing.as_path()), &["hook", "Stop"]),
        (Some(folder.path()), &["nonsense"]),
    ] {
        let output = agent_send(outbox, words, "{}")?;
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
    Ok(())
}

/// Exits with 1 and an envelope on stderr, and leaves stdout empty.
fn the_command_tells_its_faults_by_code() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let helper = Helper::current()?;
    for (words, code) in [
        (&["rule"][..], "invalid_input"),
        (&["ask"], "invalid_input"),
        (&["list", "--fast"], "invalid_input"),
        (&["listen", "--timeout", "soon"], "invalid_input"),
        // There is no spool.
        (&["note", "hello"], "not_found"),
        (&["answer", "q1-0000", "yes"], "not_found"),
    ] {
        let folder = folder.path().as_os_str().to_owned();
        let spec =
            helper.direct_command("agent", std::iter::once(folder).chain(words.iter().map(Into::into)));
        let output =
            Command::new(spec.program()).args(spec.args()).env_clear().stdin(Stdio::null()).output()?;
        let said: serde_json::Value = serde_json::from_slice(&output.stderr)?;
        assert_eq!(
            (output.status.code(), &said["ok"], &said["error"]["code"]),
            (Some(1), &false.into(), &code.into())
        );
        assert!(output.stdout.is_empty(), "{words:?}");
    }
    Ok(())
}

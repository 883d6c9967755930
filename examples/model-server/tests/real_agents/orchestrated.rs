//! A real agent through the orchestrator: given a task, sandboxed, in a worktree, watched, merged.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use watchfire_core::backend::{Backend, Framing, InputBox};
use watchfire_core::observe::WatchRequest;
use watchfire_core::orchestrator::{ChatRequest, SandboxRecord, Seen};
use watchfire_core::sandbox::{Access, Refusal, Refused};
use watchfire_core::schedule::{Change, Ending};
use watchfire_core::session::Receipt;
use watchfire_model_server::Ask;

use super::agents::Agent;
use super::checks::{long_text, task_script};
use super::harness::{Checked, MARK, PROMPT, git, must};
use super::stage::{EXPANDED, INSTRUCTIONS, Stage, Watched, failed, log, told, watch};

/// What a shell does to complete the task.
pub(crate) const WORK: &str = "echo hello > hello.txt && git add -A && git commit -qm 'Say hello' && sed -i 's/^status: .*/status: done/' \"$WATCHFIRE_TASK_FILE\"";

pub(crate) fn run(agent: &Agent, backend: Arc<dyn Backend>, transport: &str) -> Checked {
    told(|dir| story(agent, backend, transport, dir))
}

async fn story(agent: &Agent, backend: Arc<dyn Backend>, transport: &str, dir: PathBuf) -> Checked {
    let stage = Stage::set(agent, transport, &task_script(agent, WORK), dir).await?;
    if agent.renews {
        stage.server.require_login();
    }
    let task = stage.task().await?;
    let mut changes = stage.project.subscribe(None).await.map_err(failed)?.changes;
    let seen = Arc::new(Mutex::new(Watched::default()));
    let watching = tokio::spawn(watch(stage.project.clone(), Arc::clone(&seen)));
    let summary = stage.run(task).await.map_err(|error| format!("{error}\n{:#?}", seen.lock()))?;
    let _ = tokio::time::timeout(Duration::from_secs(20), watching).await;
    let mut spent = None;
    while let Ok(Some(seen)) = tokio::time::timeout(Duration::from_secs(20), changes.next()).await {
        let Seen::Record(record) = seen else { continue };
        match record.change {
            Change::SessionOver { end, .. } => {
                spent = Some(end.usage);
                break;
            }
            Change::Notice(notice) => eprintln!("{}: {}", agent.name, notice.message),
            _ => {}
        }
    }
    let seen = std::mem::take(&mut *seen.lock().map_err(|error| error.to_string())?);

    let root = &stage.root;
    must(
        matches!(summary.endings.get(&task), Some(Ending::Merged { .. })),
        &format!("it is not merged: {summary:?}\n{seen:#?}\n{}", log(&stage.project)),
    )?;
    must(git(root, &["show", "main:hello.txt"])? == "hello\n", "the work is not in main")?;
    let subjects = git(root, &["log", "main", "--format=%s"])?;
    must(subjects.contains("Say hello") || agent.writes, "its commit is not in main")?;
    must(git(root, &["status", "--porcelain"])?.is_empty(), "the checkout is not clean")?;
    must(
        stage.server.asks().iter().any(|ask| ask.system.contains(MARK))
            || !backend.capabilities().system_prompt,
        "the system prompt did not arrive as system text",
    )?;
    let all = |ask: &Ask| [&[ask.system.clone()][..], &ask.users, &ask.added].concat().join("\n");
    let lost: Vec<_> = EXPANDED
        .iter()
        .filter(|line| !stage.server.asks().iter().any(|ask| all(ask).contains(**line)))
        .collect();
    must(lost.is_empty(), &format!("the task's text did not arrive as it is: {lost:?}"))?;
    let has_instructions = |text: &str| text.contains(INSTRUCTIONS.trim_end());
    let is_told =
        |ask: &Ask| has_instructions(&ask.system) || ask.added.iter().any(|text| has_instructions(text));
    must(
        agent.instructions.is_none() || stage.server.asks().iter().any(is_told),
        "the person's own instructions did not arrive",
    )?;
    if agent.renews {
        let file = agent.rewrites.ok_or("no file with its login")?;
        let kept =
            fs::read_to_string(stage.dir.join("user").join(file)).map_err(|error| error.to_string())?;
        let last = stage.server.login().ok_or("no login")?;
        must(last.number > 0, &format!("the login was not renewed; asked for: {}", stage.vendor.asked()))?;
        let lost = || format!("the renewed login is lost: {kept}");
        must(kept.contains(&last.access()), &lost())?;
        // Google's tokens are not used up, and Gemini keeps the one it had.
        must(kept.contains(&last.refresh()) || agent.name == "gemini", &lost())?;
    }
    stage.strike(agent.rewrites).await?;

    must(seen.issues.is_empty(), &format!("issues: {seen:#?}"))?;
    let silent = agent.silent.contains(&transport);
    must(seen.turn.is_some() || silent, &format!("no end of a turn: {seen:#?}"))?;
    must(seen.text.contains("All is done.") || silent, &format!("no text: {seen:#?}"))?;
    // Of every request's 100 tokens of input, 40 come from the cache.
    let counted = spent.is_some_and(|usage| {
        let turns = usage.output_tokens / 20;
        turns > 0 && (usage.input_tokens, usage.cache_read_tokens) == (60 * turns, 40 * turns)
    });
    must(counted || silent, &format!("no tokens, or not as they are: {spent:?}"))?;
    eprintln!(
        "{} {transport}: turn told by {:?}, {:?}, session id {}",
        agent.name,
        seen.turn,
        spent.unwrap_or_default(),
        if seen.vendor_session { "seen" } else { "not seen" }
    );
    must(seen.remarks.is_empty(), &format!("remarks: {seen:#?}"))
}

/// Its shell is refused a file of the person's by the sandbox: that is told, and hinders nothing.
pub(crate) fn refused(agent: &Agent, _: Arc<dyn Backend>, transport: &str) -> Checked {
    told(|dir| refuse(agent, transport, dir))
}

async fn refuse(agent: &Agent, transport: &str, dir: PathBuf) -> Checked {
    let secret = dir.join("user/.netrc");
    fs::create_dir_all(dir.join("user")).map_err(|error| error.to_string())?;
    fs::write(&secret, "secret").map_err(|error| error.to_string())?;
    let read = format!("cat '{}'", secret.display());
    let turns = serde_json::json!([{ "text": "Let me look.", "run": read }, { "run": WORK, "delay_ms": 1500 }, { "text": "All is done." }]);
    let script = serde_json::json!([{ "turns": turns }]).to_string();
    let stage = Stage::set(agent, transport, &script, dir).await?;
    let task = stage.task().await?;
    let summary = stage.run(task).await?;
    let merged = matches!(summary.endings.get(&task), Some(Ending::Merged { .. }));
    must(merged, &format!("{summary:?}\n{}", log(&stage.project)))?;
    let logs = stage.project.logs_dir().to_owned();
    stage.strike(agent.rewrites).await?;
    let record = SandboxRecord::latest(&logs, Some(task)).map_err(failed)?.ok_or("nothing is recorded")?;
    let access = |refusal: &Refusal| match &refusal.what {
        Refused::Path { path, access, .. } => Some((path.clone(), *access)),
        _ => None,
    };
    let known: Vec<_> = record.refused.iter().filter_map(access).collect();
    let said = || {
        let files = fs::read_dir(&logs).into_iter().flatten().flatten();
        let texts = files.filter_map(|file| fs::read(file.path()).ok());
        let texts =
            texts.map(|text| String::from_utf8_lossy(&text).into_owned()).collect::<Vec<_>>().join("\n");
        texts.lines().filter(|line| line.contains(".netrc")).collect::<Vec<_>>().join("\n")
    };
    must(known == [(secret.clone(), Access::Read)], &format!("{:?}\n{}", record.refused, said()))
}

/// A first attempt fails its verification, a second one goes on with the same session, or, where that is `lost`, falls
/// back to a fresh one.
pub(crate) fn resumed(agent: &Agent, transport: &str, lost: bool) -> Checked {
    told(|dir| resume(agent, transport, lost, dir))
}

async fn resume(agent: &Agent, transport: &str, lost: bool, dir: PathBuf) -> Checked {
    let again = "touch second && git add -A && git commit -qm Second && sed -i 's/^status: .*/status: done/' \"$WATCHFIRE_TASK_FILE\"";
    let turns = |work: &str| serde_json::json!([{ "text": "On it.", "run": work, "delay_ms": 1500 }, { "text": "All is done." }]);
    // What a resumed session is told is long: it lies in a file, or is said in the conversation.
    let script = match lost {
        false => {
            serde_json::json!([
                { "when": "Read the file", "turns": turns(again) },
                { "when": "Go on. ", "turns": turns(again) },
                { "turns": turns(WORK) },
            ])
        }
        true => {
            serde_json::json!([{ "turns": turns(&format!("if [ -e hello.txt ]; then {again}; else {WORK}; fi")) }])
        }
    };
    let stage = Stage::set(agent, transport, &script.to_string(), dir).await?;
    let settings = stage.root.join(".watchfire/project.yaml");
    let text = fs::read_to_string(&settings).map_err(|error| error.to_string())?;
    fs::write(&settings, format!("{text}verify: ['test -f second']\n")).map_err(|error| error.to_string())?;
    let task = stage.task().await?;
    let summary = stage.run(task).await?;
    must(
        matches!(summary.endings.get(&task), Some(Ending::VerifyFailed { .. })),
        &format!("the first attempt: {summary:?}\n{}", log(&stage.project)),
    )?;
    let kept = stage.dir.join("home/state").join(stage.project.id().as_str()).join("resume/0001");
    must(kept.is_dir(), "nothing is kept to resume")?;
    if lost {
        for session in fs::read_dir(&kept).map_err(|error| error.to_string())?.flatten() {
            fs::remove_dir_all(session.path().join("home")).map_err(|error| error.to_string())?;
            fs::create_dir(session.path().join("home")).map_err(|error| error.to_string())?;
        }
    }
    tokio::time::sleep(agent.rest(transport)).await;
    let mut changes = stage.project.subscribe(None).await.map_err(failed)?.changes;
    let summary = stage.run(task).await?;
    let users = || stage.server.asks().into_iter().map(|ask| ask.users).collect::<Vec<_>>();
    must(
        matches!(summary.endings.get(&task), Some(Ending::Merged { .. })),
        &format!("the second attempt: {summary:?}\n{:#?}\n{}", users(), log(&stage.project)),
    )?;
    let (mut told, newest) =
        (Vec::new(), stage.project.subscribe(None).await.map_err(failed)?.snapshot.cursor);
    loop {
        let seen = tokio::time::timeout(Duration::from_secs(60), changes.next()).await;
        let Some(seen) = seen.map_err(|_| "the log does not reach its end")? else { break };
        let Seen::Record(record) = seen else { continue };
        if let Change::Notice(notice) = record.change {
            told.push(notice.message);
        }
        if record.cursor == newest {
            break;
        }
    }
    let fell_back = told.iter().any(|message| message.contains("could not be resumed"));
    let went_on = stage.server.asks().iter().any(|ask| {
        let said = |words: &str| ask.users.iter().any(|said| said.contains(words));
        said(PROMPT) && (said("Read the file") || said("Go on. ")) && ask.outputs.len() + ask.users.len() > 1
    });
    must(fell_back == lost, &format!("told: {told:?}"))?;
    must(
        went_on != lost,
        &format!("the second attempt did not go on with the first one's conversation: {:#?}", users()),
    )?;
    stage.strike(agent.rewrites).await
}

/// Texts are typed into an empty box only, whole, and one after the other.
pub(crate) fn delivers(agent: &Agent, backend: Arc<dyn Backend>) -> Checked {
    told(|dir| deliver(agent, backend, dir))
}

async fn deliver(agent: &Agent, backend: Arc<dyn Backend>, dir: PathBuf) -> Checked {
    let rules = r#"[{"when": "hurry", "turns": [{"text": "Thinking.", "delay_ms": 4000}]}, {"turns": [{"text": "Noted."}]},
        {"when": "hurry", "without_tools": true, "turns": [{"text": "Thinking.", "delay_ms": 4000}]},
        {"without_tools": true, "turns": [{"text": "Noted."}]}]"#;
    let stage = Stage::set(agent, "pty", rules, dir).await?;
    let session = stage.project.chat(ChatRequest::new()).await.map_err(failed)?;
    let asks = || stage.server.asks();
    let said = |text: &str| asks().iter().any(|ask| ask.users.iter().any(|said| said.contains(text)));
    let shown = async |what: &str, is: &dyn Fn(&InputBox) -> bool| {
        let end = tokio::time::Instant::now() + Duration::from_secs(90);
        loop {
            let screen = session.snapshot();
            let seen = backend.input_box(&screen);
            if is(&seen) {
                return Ok(());
            }
            if tokio::time::Instant::now() > end {
                return Err(format!("{what}: {seen:?}\n{}", screen.text()));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let arrived = async |what: &str, words: &str| -> Checked {
        let end = tokio::time::Instant::now() + Duration::from_secs(60);
        while !said(words) {
            let users: Vec<_> = asks().into_iter().flat_map(|ask| ask.users).collect();
            let screen = session.snapshot().text();
            must(
                tokio::time::Instant::now() < end,
                &format!("{what}: it did not arrive as it is\n{users:#?}\n{screen}"),
            )?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    };
    let accepted = async |what: &str, text: &str, words: &str| -> Checked {
        let sent = tokio::time::timeout(Duration::from_secs(120), session.send(text)).await;
        let screen = || session.snapshot().text();
        let receipt = match sent {
            Ok(sent) => sent.map_err(|error| format!("{what}: {}\n{}", error.report(), screen()))?,
            Err(_) => return Err(format!("{what}: it takes too long\n{}", screen())),
        };
        must(receipt == Receipt::Accepted, &format!("{what}: {receipt:?}"))?;
        arrived(what, words).await
    };

    // A person's half-typed text is left alone, until they take it away.
    shown("an empty box", &InputBox::is_empty).await?;
    // Some show it before they read keys.
    let idle = WatchRequest::default().with_until("status:idle").with_accept_current(true);
    session.log().watch(&idle.with_timeout(Duration::from_secs(90))).await.map_err(failed)?;
    session.write("half").await.map_err(failed)?;
    shown("a half-typed text", &|seen| seen.holds("half")).await?;
    {
        let mut sending = std::pin::pin!(accepted("one line", "first things 4471", "first things 4471"));
        let early = tokio::time::timeout(Duration::from_secs(3), &mut sending).await;
        must(early.is_err(), &format!("it was sent over a half-typed text: {early:?}"))?;
        must(backend.input_box(&session.snapshot()).holds("half"), &session.snapshot().text())?;
        // One by one: some take several at once for one. After the last, the text follows at once.
        for left in ["hal", "ha", "h"] {
            session.write("\x7f").await.map_err(failed)?;
            shown("what is left of a half-typed text", &|seen| seen.holds(left)).await?;
        }
        session.write("\x7f").await.map_err(failed)?;
        sending.await?;
    }
    must(!said("half"), "a half-typed text was submitted")?;

    // Up to the limit as it is, beyond it by file.
    let limit = backend.capabilities().paste_limit.unwrap_or(1000);
    let one_line = backend.delivery().framing == Framing::Line;
    let long = if one_line { long_text(limit).replace('\n', " ") } else { long_text(limit) };
    accepted("a text up to the limit", &long, &long).await?;
    let longer = format!("{long}{}", "x".repeat(limit));
    accepted("a text beyond the limit", &longer, "/inbox/message-").await?;
    let message =
        fs::read_dir(stage.dir.join("home/state").join(stage.project.id().as_str()).join("sessions"))
            .map_err(|error| error.to_string())?
            .flatten()
            .filter_map(|session| fs::read_dir(session.path().join("files/inbox")).ok()?.flatten().next())
            .find_map(|file| fs::read_to_string(file.path()).ok());
    must(message.as_deref() == Some(&*longer), "the file does not hold the text")?;

    // While it works, from several senders at once.
    accepted("a slow turn", "hurry up", "hurry up").await?;
    let words = ["alpha alpha alpha 1", "beta beta beta 2", "gamma gamma gamma 3"];
    let sends = words.map(|text| {
        let session = session.clone();
        tokio::spawn(async move { session.send(text).await })
    });
    for (sent, text) in sends.into_iter().zip(words) {
        let sent = tokio::time::timeout(Duration::from_secs(120), sent).await;
        let sent = sent.map_err(|_| format!("{text}: it takes too long\n{}", session.snapshot().text()))?;
        sent.map_err(|error| error.to_string())?.map_err(failed)?;
    }
    for text in words {
        arrived(text, text).await?;
    }
    session.stop();
    session.ended().await;
    stage.strike(agent.rewrites).await
}

/// Runs a script in the place of an agent's program, with a login in the person's home, which `check` sees afterwards.
pub(crate) fn in_its_place(
    agent: Agent,
    program: String,
    (login, content): (&str, &str),
    check: impl Fn(&Path) -> Checked,
) -> Checked {
    told(|dir| async move {
        let text = |error: std::io::Error| error.to_string();
        let user = dir.join("user");
        let (login, script) = (user.join(login), user.join("program/agent"));
        for (path, content) in [(&login, content), (&script, &*program)] {
            fs::create_dir_all(path.parent().unwrap_or(&user)).map_err(text)?;
            fs::write(path, content).map_err(text)?;
        }
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).map_err(text)?;
        let stage = Stage::set(&agent, "pty", "[]", dir).await?;
        let task = stage.task().await?;
        let summary = stage.run(task).await?;
        must(
            matches!(summary.endings.get(&task), Some(Ending::Merged { .. })),
            &format!("{summary:?}\n{}", log(&stage.project)),
        )?;
        stage.strike(agent.rewrites).await?;
        check(&user)
    })
}

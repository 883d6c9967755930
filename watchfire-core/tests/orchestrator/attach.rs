//! Following the screens of sessions to their ends.

use libtest_mimic::Trial;
use watchfire_core::orchestrator::RunRequest;
use watchfire_core::session::{AttachRequest, Attachment, ScreenUpdate, Session};
use watchfire_core::terminal::Size;

use super::support::{DONE, World, within};
use super::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("every_line_of_a_session_is_followed_once", every_line_is_followed_once),
        trial("a_session_that_ended_has_its_last_screen", an_ended_session_has_its_last_screen),
    ]
}

/// A session that prints `lines` numbered lines once the file `go` exists.
async fn counting(world: &mut World, lines: u32) -> Session {
    let go = world.temp.path().join("go");
    let wait = format!("while [ ! -e '{}' ]; do sleep 0.01; done", go.display());
    let task = world.task("counts", &format!("{wait}\nseq 1 {lines}\n{DONE}")).await;
    world.project.run(RunRequest::task(task)).await.unwrap();
    world.running().await;
    world.session().await
}

fn numbers(lines: u32) -> Vec<String> {
    (1..=lines).map(|number| number.to_string()).collect()
}

/// The lines that went up, and then those of the last screen.
async fn all_lines(mut screen: Attachment) -> Vec<String> {
    let (mut lines, mut last) = (Vec::new(), None);
    while let Some(update) = screen.next().await {
        let ScreenUpdate::Changed(change) = update else { panic!("{update:?}") };
        assert!(last.is_none() || !change.full, "a resize that nobody asked for");
        assert_eq!(change.skipped, 0);
        lines.extend(change.scrolled.iter().map(|line| line.text().to_owned()));
        last = Some(change.snapshot);
    }
    lines.extend(last.unwrap().text().lines().map(str::to_owned));
    lines
}

async fn all_bytes(mut output: Attachment) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(update) = output.next().await {
        let ScreenUpdate::Output { offset, bytes, .. } = update else { panic!("{update:?}") };
        assert_eq!(offset, all.len() as u64);
        all.extend_from_slice(&bytes);
    }
    all
}

async fn every_line_is_followed_once() {
    const LINES: u32 = 900;
    let mut world = World::new().await;
    let session = counting(&mut world, LINES).await;
    let screen = session.attach(&AttachRequest::screen()).unwrap();
    let output = session.attach(&AttachRequest::output().with_since(0)).unwrap();
    std::fs::write(world.temp.path().join("go"), "").unwrap();
    let (lines, bytes) = within(async { tokio::join!(all_lines(screen), all_bytes(output)) }).await;
    assert_eq!(lines, numbers(LINES));
    assert_eq!(String::from_utf8_lossy(&bytes), numbers(LINES).join("\r\n") + "\r\n");
    world.orchestrator.shutdown().await;
}

async fn an_ended_session_has_its_last_screen() {
    let mut world = World::new().await;
    let session = counting(&mut world, 30).await;
    session.resize(Size::new(40, 10)).await.unwrap();
    std::fs::write(world.temp.path().join("go"), "").unwrap();
    within(session.ended()).await;
    let mut screen = session.attach(&AttachRequest::screen()).unwrap();
    let Some(ScreenUpdate::Changed(last)) = within(screen.next()).await else { panic!("no last screen") };
    assert_eq!(last.snapshot.text().lines().last(), Some("30"));
    assert_eq!(within(screen.next()).await, None);
    let numbers = last.snapshot.scrollback.clone();
    let above = session.scrollback(numbers.end - 2..numbers.end);
    assert_eq!(above.iter().map(|line| line.text()).collect::<Vec<_>>(), ["20", "21"]);
    let output = session.attach(&AttachRequest::output().with_since(0)).unwrap();
    assert!(within(all_bytes(output)).await.ends_with(b"29\r\n30\r\n"));
    world.orchestrator.shutdown().await;
}

//! Budgets: warnings, the request to finish, and the end.

use libtest_mimic::Trial;
use watchfire_core::Result;
use watchfire_core::backend::{Backend, Delivery, Launch, LocatedProgram, ProgramSearch, SessionContext};
use watchfire_core::orchestrator::{RunRequest, Spent};
use watchfire_core::schedule::{Change, Ending, NoticeCode};

use super::support::{DONE, Shell, World, within};
use super::told::hook;
use super::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("who_can_be_asked_finishes_when_the_budget_is_used_up", who_can_be_asked_finishes),
        trial("who_cannot_be_asked_is_stopped_and_its_work_kept", who_cannot_be_asked_is_stopped),
        trial("a_nudge_beyond_the_budget_counts_both_sessions", a_nudge_beyond_the_budget),
        trial("a_model_without_a_price_does_not_hide_the_rest", a_model_without_a_price),
        trial("spending_that_is_not_known_is_told_or_refused", spending_that_is_not_known),
    ]
}

/// The test agent, which does not tell what it spends.
#[derive(Debug)]
struct Mute;

impl Backend for Mute {
    fn name(&self) -> &str {
        "mute"
    }

    fn locate(&self, search: &ProgramSearch) -> Result<LocatedProgram> {
        Shell.locate(search)
    }

    fn prepare(&self, context: &SessionContext) -> Result<Launch> {
        Shell.prepare(context)
    }

    fn delivery(&self) -> Delivery {
        Shell.delivery()
    }
}

/// A dollar is a million of the test agent's tokens.
async fn world(budget: &str) -> World {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().to_owned();
    World::built(temp, |builder| {
        let builder = builder.backend(Mute);
        let settings = path.join("home/settings.yaml");
        let text = std::fs::read_to_string(&settings).unwrap();
        std::fs::write(settings, format!("{text}budget: {budget}\n")).unwrap();
        builder
    })
    .await
}

fn notice(change: &Change) -> Option<&str> {
    match change {
        Change::Notice(notice) if notice.code == NoticeCode::Budget => Some(&notice.message),
        _ => None,
    }
}

async fn who_can_be_asked_finishes() {
    let mut world = world("{task: 5.00}").await;
    let script = [
        hook(1, "busy"),
        "printf 'say 4100000 a lot\\n' >> \"$TRANSCRIPT\"; until [ -e warned ]; do sleep 0.01; done".into(),
        "printf 'say 950000 more\\n' >> \"$TRANSCRIPT\"".into(),
        hook(2, "idle"),
        format!("read -r line; case \"$line\" in *'budget for this is used up'*) {DONE};; *) exit 1;; esac"),
    ];
    let task = world.task("t", &script.join("\n")).await;
    let run = world.project.run(RunRequest::task(task)).await.unwrap();
    let warned = world.change(|change| notice(change).is_some()).await;
    assert_eq!(notice(&warned), Some("$4.10 of the budget of $5.00 for the task are spent"));
    std::fs::write(world.root().join(".watchfire/worktrees/0001/warned"), "").unwrap();
    let asked = world.change(|change| notice(change).is_some()).await;
    let words = "$5.05 of the budget of $5.00 for the task are spent; the agent is asked to finish";
    assert_eq!(notice(&asked), Some(words));
    assert!(within(run.wait()).await.unwrap().is_good(), "it said that it was done");
}

async fn who_cannot_be_asked_is_stopped() {
    let mut world = world("{day: 2.5}").await;
    let (go, logs) = (world.temp.path().join("go"), world.temp.path().join("home/logs"));
    let script = format!(
        "# stream\nread prompt; echo busy; echo say 2000000 hello; \
         while [ ! -e '{}' ]; do sleep 0.01; done; echo say 1000000 more; sleep 60",
        go.display()
    );
    let task = world.task("t", &script).await;
    let other = world.task("other", &script).await;
    let run = world.project.run(RunRequest::all()).await.unwrap();
    world.change(|change| notice(change).is_some_and(|said| said.starts_with("$2.00 of"))).await;
    // Written while it works: what it spent is known after a kill.
    let logs = logs.join(world.project.id().as_str());
    let records = Spent::records(&logs).unwrap();
    assert_eq!((records.len(), records[0].spent.cost), (1, Some(2_000_000)));
    std::fs::write(go, "").unwrap();
    let summary = within(run.wait()).await.unwrap();
    let words = "$3.00 of the budget of $2.50 for the day are spent";
    for task in [task, other] {
        assert!(
            matches!(&summary.endings[&task], Ending::Limited { reason, until: None, .. } if reason == words),
            "{summary:?}"
        );
    }
    within(world.orchestrator.shutdown()).await;
    let calls = world.fake.calls();
    assert!(calls.contains(&format!("capture {task}")), "{calls:?}");
    let records = Spent::records(&logs).unwrap();
    assert_eq!(records.len(), 1, "the second never started: {records:?}");
    let [record] = &records[..] else { unreachable!() };
    assert_eq!((record.task, record.run.is_some(), record.spent.cost), (Some(task), true, Some(3_000_000)));
}

/// The second session of a task begins with what the first one left and cost.
async fn a_nudge_beyond_the_budget() {
    let mut world = world("{task: 5.00}").await;
    let script = "[ -n \"$RESUME\" ] || { echo first > \"$MEMORY\"; \
                  printf 'id v-1\\nbusy\\nsay 4900000 I look around.\\n' >> \"$TRANSCRIPT\"; exit 0; }\n\
                  printf 'id v-1\\nbusy\\nsay 200000 more\\n' >> \"$TRANSCRIPT\"; sleep 20";
    let task = world.task("t", script).await;
    let run = world.project.run(RunRequest::task(task)).await.unwrap();
    let life = world.running().await;
    let words = "$5.10 of the budget of $5.00 for the task are spent";
    world.change(|change| notice(change).is_some_and(|said| said.starts_with(words))).await;
    world.project.stop(life.id).await.unwrap();
    within(run.wait()).await.unwrap();
}

/// A model without a price does not hide what is known.
async fn a_model_without_a_price() {
    let mut world = world("{task: 5.00}").await;
    let script = "# stream\nread prompt; echo busy; echo say 4000000 a; echo model free; echo say 1 b; echo model dear; \
                  sleep 2.5; echo say 1500000 c; sleep 60";
    let task = world.task("t", script).await;
    let run = world.project.run(RunRequest::task(task)).await.unwrap();
    world.change(|change| notice(change).is_some_and(|said| said.contains("count only the rest"))).await;
    let summary = within(run.wait()).await.unwrap();
    assert!(
        matches!(&summary.endings[&task], Ending::Limited { reason, .. } if reason.starts_with("$5.50")),
        "{summary:?}"
    );
    within(world.orchestrator.shutdown()).await;
    let logs = world.temp.path().join("home/logs").join(world.project.id().as_str());
    let records = Spent::records(&logs).unwrap();
    assert_eq!((records[0].spent.cost, records[0].known_cost()), (None, 5_500_000));
}

async fn spending_that_is_not_known() {
    let mut world = world("{task: 5.00, unknown: refuse}").await;
    let task = world.task("t", DONE).await;
    let request = || RunRequest::task(task).with_agent("mute".parse().unwrap());
    let run = world.project.run(request()).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    let ending = &summary.endings[&task];
    assert!(
        matches!(ending, Ending::Limited { reason, .. } if reason.contains("does not tell what it spends"))
    );
    let settings = world.temp.path().join("home/settings.yaml");
    let text = std::fs::read_to_string(&settings).unwrap().replace("refuse", "allow");
    std::fs::write(settings, text).unwrap();
    world.change(|change| matches!(change, Change::Run(run) if run.ended.is_some())).await;
    let run = world.project.run(request()).await.unwrap();
    let told = world.change(|change| notice(change).is_some()).await;
    assert!(notice(&told).unwrap().ends_with("budgets do not hold for it"), "{told:?}");
    assert!(within(run.wait()).await.unwrap().is_good());
}

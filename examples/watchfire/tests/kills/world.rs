//! A project whose tasks come by every state of a life.

use std::fs;
use std::path::PathBuf;

use watchfire_core::model::TaskNumber;
use watchfire_core::store::{NewTask, TaskStore as _};

use crate::aftermath;
use crate::agent::prelude;
use crate::driver::{home, store};
use crate::support::World;

/// The tasks that meet something, by number.
pub(super) const FAILS: u32 = 5;
pub(super) const IS_HELD: u32 = 6;
pub(super) const BREAKS: u32 = 9;
pub(super) const IS_STOPPED: u32 = 11;
/// A draft, which wildfire makes ready.
pub(super) const REFINED: u32 = 12;
/// Its agent, another one, reaches a limit with a reset.
pub(super) const IS_LIMITED: u32 = 13;
/// The one that wildfire writes.
const GENERATED: u32 = 14;
/// The two that change one line of one file.
pub(super) const RIVALS: [u32; 2] = [3, 4];
/// Number of tasks at the end.
pub(super) const TASKS: u32 = 14;

/// The file that a person edits in the root.
pub(super) const EDITED: &str = "6.txt";
/// What the person writes into it. A merge may see the file while the second text is being written.
pub(super) const EDITS: [&str; 2] = ["base\nan edit of a person\n", "base\n"];

/// Makes the project below `world`, and returns its root.
pub(super) async fn make(world: &World) -> PathBuf {
    let root = world.repo("project");
    for (name, text) in [("rivals.txt", "base\n"), (EDITED, "base\n"), (".gitignore", ".watchfire/\n")] {
        fs::write(root.join(name), text).unwrap();
    }
    world.git(&root, &["add", "."]);
    world.git(&root, &["commit", "-qm", "more"]);
    let folder = world.folder.path();
    let home = home(folder).await;
    fs::write(home.path().join("settings.yaml"), "version: 1\ndefaults:\n  default_sandbox: none\n").unwrap();
    home.init_project(&root, Default::default()).await.unwrap();
    let yaml = root.join(".watchfire/project.yaml");
    let text = fs::read_to_string(&yaml).unwrap();
    let verify = format!(
        "max_parallel: 4\non_limit: wait\nauto_merge: true\nauto_delete_branch: true\nmerge:\n  batch: 2\nverify:\n- |\n  \
         test ! -e broken.txt && {}\n",
        aftermath::verify(folder)
    );
    fs::write(&yaml, text + &verify).unwrap();
    let store = store(folder).await;
    for number in 1..GENERATED {
        let script = format!("{}{}", prelude(folder), script(number));
        let task = NewTask::new(format!("task {number}")).with_prompt(script);
        let mut task = task.with_ready(number != REFINED);
        if number == 10 {
            task.depends_on = vec![TaskNumber::new(1).unwrap()];
        }
        if number == IS_LIMITED {
            task = task.with_agent("limited".parse().unwrap());
        }
        store.create(task, None).await.unwrap();
    }
    let script = format!("{}{}", prelude(folder), script(GENERATED));
    let script: String = script.lines().map(|line| format!("  {line}\n")).collect();
    fs::write(folder.join("new"), format!("title: generated\nprompt: |\n{script}")).unwrap();
    // Only what is not there yet.
    let generate = format!(
        "{}cd \"$WATCHFIRE_SESSION_DIR\"\n\
         grep -q '^title: .*generated' tasks/*.yaml || cp \"$W/new\" tasks/0077.yaml\ntouch generate_done.yaml\n",
        prelude(folder)
    );
    fs::write(folder.join("generate"), generate).unwrap();
    fs::write(root.join(EDITED), EDITS[0]).unwrap();
    root
}

fn script(number: u32) -> String {
    let work = format!("work {number}\n");
    match number {
        1 | 10 => format!("{work}commit 'work {number}'\nwork more-{number}\nfinish\n"),
        2 => format!("{work}finish\n"),
        // Each begins before the other is done, so that both start from the same target.
        3 | 4 => format!(
            "touch \"$W/began-{number}\"\n{work}echo {number} > rivals.txt\ncommit 'rival {number}'\n\
             until_there \"$W/began-{}\"\nfinish\n",
            7 - number
        ),
        FAILS => format!(
            "{work}sed -i -e '/^success:/d' -e '/^failure_reason:/d' \"$WATCHFIRE_TASK_FILE\"\n\
             printf 'success: false\\nfailure_reason: too hard\\n' >> \"$WATCHFIRE_TASK_FILE\"\nfinish\n"
        ),
        IS_HELD => format!("{work}commit 'in the way'\nfinish\n"),
        7 => format!(
            "{work}printf '{{\"kind\":\"signal\",\"status\":\"questions\",\"questions\":[{{\"id\":\"port\",\
             \"question\":\"Which port?\"}}]}}' > \"$WATCHFIRE_OUTBOX/.1\"\n\
             mv \"$WATCHFIRE_OUTBOX/.1\" \"$WATCHFIRE_OUTBOX/1.json\"\n\
             until_there \"$WATCHFIRE_SESSION_DIR/inbox/answer-port.json\"\nwork answered-7\nfinish\n"
        ),
        8 => format!("{work}stty -echo\necho limited\nread -r line\necho went on\nwork after-8\nfinish\n"),
        // First as a draft.
        REFINED | GENERATED => format!(
            "case \"$FIRST\" in Refine*)\n\
             sed -i 's/^status: .*/status: ready/' \"$WATCHFIRE_TASK_FILE\"\n\
             touch \"$WATCHFIRE_SESSION_DIR/refine_done.yaml\"\nexit;;\nesac\n{work}commit refined\nfinish\n"
        ),
        IS_LIMITED => format!(
            "{work}stty -echo\necho used up until $(date -u -d '+2 seconds' +%Y-%m-%dT%H:%M:%SZ)\nread -r line\n\
             echo went on\nwork after-{number}\nfinish\n"
        ),
        BREAKS => format!("{work}touch broken.txt\ncommit broken\nfinish\n"),
        _ => format!("{work}commit 'half of it'\nwork rest-{number}\ntouch \"$W/parked\"\nsleep 1000\n"),
    }
}

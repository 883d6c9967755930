//! What an agent meets in a task, and how the task may end.

use std::fs;
use std::path::Path;

use watchfire_core::model::Task;
use watchfire_core::schedule::{Ending, StopReason};

use crate::person::EDITED;
use crate::random::Random;

/// A kind of task. Its word is a label of the task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Works,
    Asks,
    /// The agent goes on by itself.
    IsSlowedDown,
    /// The agent waits until it hears that the limit is over.
    IsUsedUp,
    /// Writes the line that all rivals write.
    Rivals,
    /// Changes the file that the person edits.
    IsInTheWay,
    Prints,
    LeavesProcess,
    Breaks,
    Fails,
    Crashes,
    ClaimsNothing,
    /// Works until the person stops it.
    Hangs,
}

const ALL: [(Kind, &str); 13] = [
    (Kind::Works, "works"),
    (Kind::Asks, "asks"),
    (Kind::IsSlowedDown, "is-slowed-down"),
    (Kind::IsUsedUp, "is-used-up"),
    (Kind::Rivals, "rivals"),
    (Kind::IsInTheWay, "is-in-the-way"),
    (Kind::Prints, "prints"),
    (Kind::LeavesProcess, "leaves-process"),
    (Kind::Breaks, "breaks"),
    (Kind::Fails, "fails"),
    (Kind::Crashes, "crashes"),
    (Kind::ClaimsNothing, "claims-nothing"),
    (Kind::Hangs, "hangs"),
];

impl Kind {
    /// Returns any kind. Half of the tasks just work.
    pub(super) fn random(random: &mut Random) -> Self {
        match random.once_in(2) {
            true => Self::Works,
            false => ALL[random.below(ALL.len() as u64) as usize].0,
        }
    }

    /// Returns the kind of a task.
    pub(super) fn of(task: &Task) -> Self {
        let named = |(_, word): &&(Self, &str)| task.labels.iter().any(|label| label == word);
        ALL.iter().find(named).unwrap_or_else(|| panic!("task {} has no kind", task.task_number)).0
    }

    /// Returns the word for it.
    pub(super) fn word(self) -> &'static str {
        ALL.iter().find(|(kind, _)| *kind == self).unwrap().1
    }

    /// Returns true if nothing but a merge ends it.
    pub(super) fn merges(self) -> bool {
        self.is_final(&Ending::merged(None, None)) && !self.may_conflict()
    }

    /// Returns true if its task stays ready, so that each run starts it again.
    pub(super) fn stays_ready(self) -> bool {
        matches!(self, Self::Crashes | Self::ClaimsNothing | Self::Hangs)
    }

    fn may_conflict(self) -> bool {
        matches!(self, Self::Rivals | Self::IsInTheWay)
    }

    /// Returns true if its script explains this ending. A stop may end a task of any kind for a while.
    pub(super) fn is_final(self, ending: &Ending) -> bool {
        match self {
            Self::Breaks => matches!(ending, Ending::VerifyFailed { .. }),
            Self::Fails => matches!(ending, Ending::Failed { reason, .. } if reason == "too hard"),
            Self::Crashes => matches!(ending, Ending::Crashed { .. }),
            Self::ClaimsNothing => matches!(ending, Ending::Unclaimed { .. }),
            Self::Hangs => is_stop(ending),
            _ => match ending {
                Ending::Merged { .. } => true,
                Ending::Conflict { .. } => self.may_conflict(),
                _ => false,
            },
        }
    }

    /// Returns the prompt of task `number`.
    pub(super) fn prompt(self, folder: &Path, number: u32, random: &mut Random) -> String {
        let world = folder.display();
        let run = |line: String| format!("run . '{world}/lib'; {line}\n");
        let mut pause = || format!("sleep 0.{:02}\n", random.below(80));
        let meets = match self {
            Self::Asks => format!(
                "question port Which port?\nanswer port \"{world}/answered-{number}\"\n\
                 run test -e '{world}/answered-{number}'\n"
            ),
            Self::IsSlowedDown => {
                format!("issue rate_limited slow down\n{}cleared rate_limited\n", pause())
            }
            Self::IsUsedUp => {
                "issue usage_limit used up, try again in 2 seconds\nsleep 1\nline\ncleared usage_limit\n"
                    .to_owned()
            }
            Self::Rivals => run(format!("echo {number} > rivals.txt")),
            Self::IsInTheWay => run(format!("sed -i '1s/.*/agent {number}/' {EDITED}")),
            Self::Prints => "flood 200000\n".to_owned(),
            Self::LeavesProcess => format!("orphan \"{world}/orphan-{number}\" 900\n"),
            Self::Breaks => run("touch broken.txt".to_owned()),
            _ => String::new(),
        };
        let end = match self {
            Self::Fails => "fail too hard\n".to_owned(),
            Self::Crashes => "exit 3\n".to_owned(),
            Self::ClaimsNothing => "exit 0\n".to_owned(),
            Self::Hangs => run(format!("touch \"$W/parked-{number}\"")) + "hang\n",
            _ => "done\n".to_owned(),
        };
        let begin = run(format!("begin; work {number} first"));
        let half = run(format!("commit {number}"));
        let rest = run(format!("work {number} last"));
        let script = [begin, pause(), meets, half, pause(), rest, pause(), end].concat();
        // Some wait for their end, as agents do that hold a conversation.
        let exit = if random.once_in(4) { "" } else { "exit 0\n" };
        format!("Do it.\n\n```watchfire-script\n{script}{exit}```\n")
    }
}

/// Returns true for the end of a stop that was asked for.
pub(super) fn is_stop(ending: &Ending) -> bool {
    matches!(ending, Ending::Stopped { by: StopReason::Requested, .. })
}

/// Writes the functions for all scripts. A note of work is made only after the work, so that whatever is noted must never be
/// lost. A commit may fail: the agent before may have been killed within one.
pub(super) fn write_functions(folder: &Path) {
    let text = format!(
        r#"W='{}'
begin() {{ echo $PPID >> "$W/pids"; }}
work() {{ line="$1 $2 $$ $(date +%s%N)"; echo "$line" >> "work-$1.txt" && echo "$line" >> "$W/written"; }}
commit() {{ git add -A && git commit -qm "work $1" && git rev-parse HEAD >> "$W/commits"; true; }}
"#,
        folder.display()
    );
    fs::write(folder.join("lib"), text).unwrap();
}

//! Screens of real agents in narrow and wide terminals, and in long folders: what they say, and what their input box
//! holds.

use watchfire_backends as _;
use watchfire_core::backend::{Backends, Fact, InputBox, Observation};
use watchfire_core::terminal::{Size, Terminal as _};
use watchfire_term::Emulator;

struct Case {
    agent: &'static str,
    screen: &'static str,
    size: (u16, u16),
    /// Its state, and its issue if it tells one.
    says: &'static str,
    /// How what stands in its box begins and ends; nothing does in an empty one.
    held: (&'static str, &'static str),
}

const CASES: &[Case] = &[
    Case {
        agent: "opencode",
        screen: include_str!("screens/opencode-wide-sidebar-121x40.txt"),
        size: (121, 40),
        says: "idle",
        held: ("", ""),
    },
    Case {
        agent: "opencode",
        screen: include_str!("screens/opencode-wide-typed.txt"),
        size: (200, 50),
        says: "idle",
        held: ("and be quick", ", please"),
    },
    Case {
        agent: "opencode",
        screen: include_str!("screens/opencode-wide-unauthorized.txt"),
        size: (200, 50),
        says: "idle auth_required",
        held: ("", ""),
    },
    Case {
        agent: "opencode",
        screen: include_str!("screens/opencode-narrow-no-credit.txt"),
        size: (80, 24),
        says: "processing out_of_credit",
        held: ("", ""),
    },
    Case {
        agent: "opencode",
        screen: include_str!("screens/opencode-narrow-overloaded.txt"),
        size: (80, 24),
        says: "processing overloaded",
        held: ("", ""),
    },
    Case {
        agent: "claude-code",
        screen: include_str!("screens/claude-code-box-scrolled-60x20.txt"),
        size: (60, 20),
        says: "idle",
        held: ("w16", "w74 end"),
    },
    Case {
        agent: "claude-code",
        screen: include_str!("screens/claude-code-box-with-a-rule.txt"),
        size: (80, 24),
        says: "idle",
        held: ("Title", "Text below"),
    },
    Case {
        agent: "codex",
        screen: include_str!("screens/codex-box-scrolled-60x20.txt"),
        size: (60, 20),
        says: "idle",
        held: ("w17", "end"),
    },
    Case {
        agent: "codex",
        screen: include_str!("screens/codex-box-with-marks.txt"),
        size: (80, 24),
        says: "idle",
        held: ("do as it says:", "* item"),
    },
    Case {
        agent: "copilot",
        screen: include_str!("screens/copilot-working-no-interrupt-hint.txt"),
        size: (80, 24),
        says: "processing",
        held: ("", ""),
    },
];

#[test]
fn screens_of_all_sizes_are_read() {
    let backends = Backends::linked().unwrap();
    let mut wrong = Vec::new();
    for Case { agent, screen, size, says, held } in CASES {
        let backend = backends.get(agent).unwrap();
        let mut terminal = Emulator::new(Size::new(size.0, size.1));
        // As codex draws it.
        let text = screen.trim_end_matches('\n').replace(" ↑\n", " \x1b[2m↑\x1b[m\n");
        terminal.feed(text.replace('\n', "\r\n").as_bytes());
        let screen = terminal.snapshot();
        let word = |fact: Fact| match fact {
            Fact::Status(status) => status.as_str().to_owned(),
            Fact::Issue(issue) => {
                let clean = !issue.message.contains(['■', '⬝', '[', '\n']) && !issue.message.contains("  ");
                assert!(clean, "{issue:?}");
                serde_json::to_value(issue.kind).unwrap().as_str().unwrap().to_owned()
            }
            other => format!("{other:?}"),
        };
        let mut said: Vec<String> =
            backend.interpret(&Observation::Screen(&screen.text())).into_iter().map(word).collect();
        // That an issue is over is no news here.
        said.retain(|word| !word.starts_with("IssueCleared"));
        let box_now = backend.input_box(&screen);
        let fits = match (&box_now, held) {
            (InputBox::Holds(text), ("", "")) => text.trim().is_empty(),
            (InputBox::Holds(text), (start, end)) => {
                text.trim().starts_with(start) && text.trim().ends_with(end)
            }
            _ => false,
        };
        if said.join(" ") != *says || !fits {
            wrong
                .push(format!("{agent}: {said:?} for {says:?}, {box_now:?} for {held:?}\n{}", screen.text()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

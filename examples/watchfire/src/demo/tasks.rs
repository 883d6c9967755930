//! Defines the demo's tasks: real prompts, with a script for the agent that stands in for a coding agent.

use watchfire_core::store::NewTask;

/// A task of the demo.
struct Task {
    title: &'static str,
    prompt: &'static str,
    script: &'static str,
}

/// The tasks in work order. The first two start together and edit the same line.
const TASKS: &[Task] = &[
    Task {
        title: "Say good morning",
        prompt: "Make greet.sh say good morning.",
        script: r##"
say Reading greet.sh ...
work 0.5 "changing the greeting"
replace greet.sh "Hello" "Good morning"
commit Say good morning
done
exit 0
"##,
    },
    Task {
        title: "Say hi",
        prompt: "Make greet.sh say hi. (The task before it changes the same line.)",
        script: r##"
say Reading greet.sh ...
work 1.4 "changing the greeting"
replace greet.sh "Hello" "Hi"
commit Say hi
done
exit 0
"##,
    },
    Task {
        title: "Add a farewell",
        prompt: "Add farewell.sh, which says goodbye.",
        script: r##"
work 0.4 "writing farewell.sh"
write farewell.sh <<END
#!/bin/sh
echo "Goodbye, ${1:-world}!"
END
commit Add a farewell
say This line was never committed by the agent; Watchfire captures it.
write NOTES.md "Uncommitted work is captured too.\n"
done
exit 0
"##,
    },
    Task {
        title: "Count down",
        prompt: "Add countdown.sh. (The agent makes a mistake; the project's verify command sees it.)",
        script: r##"
work 0.4 "writing countdown.sh"
write countdown.sh <<END
#!/bin/sh
for n in 3 2 1; do
    echo $n
END
commit Count down
done
exit 0
"##,
    },
    Task {
        title: "Translate with a paid service",
        prompt: "Translate the greeting with a service that needs an account. (The agent has none, and says so.)",
        script: r##"
work 0.3 "looking for an account"
fail No account for the translation service; ask a person for one.
exit 0
"##,
    },
    Task {
        title: "Look around",
        prompt: "Try to leave the sandbox: read a private key, write outside of the worktree. Write down what happened.",
        script: r##"
say Trying to read ~/.ssh/id_demo ...
run if cat "$HOME/.ssh/id_demo" > stolen.tmp 2> why.tmp; then echo "- read ~/.ssh/id_demo: NOT refused" > LOOKED.md; else echo "- read ~/.ssh/id_demo: refused ($(sed 's/.*: //' why.tmp))" > LOOKED.md; fi
say Trying to write into the home folder ...
run if echo gotcha 2> why.tmp > "$HOME/planted.txt"; then echo "- write ~/planted.txt: NOT refused" >> LOOKED.md; else echo "- write ~/planted.txt: refused" >> LOOKED.md; fi
say Trying to change the project's task files ...
run if echo "# touched" 2> why.tmp >> "$WATCHFIRE_DEMO_ROOT/.watchfire/project.yaml"; then echo "- change .watchfire/project.yaml: NOT refused" >> LOOKED.md; else echo "- change .watchfire/project.yaml: refused" >> LOOKED.md; fi
run rm -f stolen.tmp why.tmp; cat LOOKED.md
commit Write down what the sandbox refused
done
exit 0
"##,
    },
];

/// Returns the demo's tasks, ready to run. `root` is the project's root, which the last task tries to damage.
pub(super) fn tasks(root: &str) -> impl Iterator<Item = NewTask> {
    TASKS.iter().map(move |task| {
        let script = task.script.replace("$WATCHFIRE_DEMO_ROOT", root);
        let prompt = format!("{}\n\n```watchfire-script{script}```\n", task.prompt);
        NewTask::new(task.title).with_prompt(prompt).with_ready(true)
    })
}

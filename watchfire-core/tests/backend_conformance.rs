//! The conformance suite finds what it is there to find: one broken backend for each guarantee.
#![cfg(feature = "testing")]

use std::sync::atomic::{AtomicU32, Ordering};

use watchfire_core::Result;
use watchfire_core::backend::{
    Backend, Capabilities, Delivery, Fact, Grant, Launch, LocatedProgram, Message, Observation,
    ProgramSearch, PromptDelivery, Secret, SessionContext, conformance,
};
use watchfire_core::conformance::check;

/// Does everything right, but for the one thing that it is told to do wrong.
#[derive(Debug)]
struct Broken(&'static str, AtomicU32);

impl Broken {
    fn is(&self, wrong: &str) -> bool {
        self.0 == wrong
    }
}

impl Backend for Broken {
    fn name(&self) -> &str {
        if self.is("name") { "Not A Name" } else { "fine" }
    }

    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::default();
        can.system_prompt = self.is("system prompt");
        can.chooses_session_id = self.is("session id");
        can.resume = self.is("resume");
        can.interrupt = self.is("interrupt");
        can.paste_limit = Some(100);
        can
    }

    fn install_hint(&self) -> Option<String> {
        (!self.is("hint")).then(|| "install it".into())
    }

    fn locate(&self, search: &ProgramSearch) -> Result<LocatedProgram> {
        if self.is("configured") {
            return Ok(LocatedProgram::new("/bin/sh"));
        }
        search.find("no-such-agent", &[]).map(LocatedProgram::new)
    }

    fn prepare(&self, context: &SessionContext) -> Result<Launch> {
        let mut launch = Launch::new(&context.program);
        let key = context.env("OPENAI_API_KEY").unwrap_or_default();
        match self.0 {
            "secret argument" => launch = launch.with_arg(key),
            "secret shown" => launch = launch.with_env("KEY", key),
            "long argument" => launch = launch.with_args(&context.first_prompt),
            "long typing" => {
                launch = launch
                    .with_prompt(PromptDelivery::Typed(context.first_prompt.clone().unwrap_or_default()));
            }
            "leaves home" => launch = launch.with_file("../x", "x"),
            "absolute file" => launch = launch.with_file("/x", "x"),
            "link leaves home" => launch = launch.with_link("a/../../x", "/x"),
            "public file" => {
                launch = launch.with_file("x", "x");
                launch.files.iter_mut().for_each(|file| file.mode = 0o644);
            }
            "two files" => launch = launch.with_file("x", "x").with_file("x", "y"),
            "grant" => launch = launch.with_grant(Grant::Write("relative".into())),
            "wide grant" => launch = launch.with_grant(Grant::Write("/".into())),
            "variable" => launch.secrets.push(Secret { name: "A=B".into(), value: "".into() }),
            "chance" => launch = launch.with_arg(self.1.fetch_add(1, Ordering::SeqCst).to_string()),
            "writes" => std::fs::write(context.cwd.join("x"), "x").unwrap(),
            _ => {}
        }
        Ok(launch)
    }

    fn delivery(&self) -> Delivery {
        let delivery = Delivery::line();
        if self.is("interrupt") { delivery.with_interrupt([]) } else { delivery }
    }

    fn interpret(&self, observation: &Observation<'_>) -> Vec<Fact> {
        match observation {
            Observation::Title(title) if self.is("panic") => {
                assert!(!title.contains('['), "an unexpected title");
            }
            _ => {}
        }
        Vec::new()
    }

    fn normalize(&self, line: &str) -> Vec<Message> {
        if self.is("normalize") {
            let _ = line.split_at(1);
        }
        Vec::new()
    }
}

#[test]
fn every_breach_is_found() {
    std::panic::set_hook(Box::new(|_| {}));
    let judge = |wrong| check(conformance::CASES, || Box::new(Broken(wrong, AtomicU32::new(0))));
    let mut missed = Vec::new();
    for (wrong, says) in [
        ("name", "not a valid backend name"),
        ("hint", "no install hint"),
        ("configured", "a configured program is not the one"),
        ("system prompt", "no file carries it"),
        ("session id", "does not name it"),
        ("resume", "not in the command"),
        ("interrupt", "no key does it"),
        ("secret argument", "a secret is among the arguments"),
        ("secret shown", "shows a secret"),
        ("long argument", "long text belongs in a file"),
        ("long typing", "beyond its paste limit"),
        ("leaves home", "not below the session's home"),
        ("absolute file", "not below the session's home"),
        ("link leaves home", "not below the home"),
        ("public file", "readable by others"),
        ("two files", "have one path"),
        ("grant", "not an absolute path"),
        ("wide grant", "opens the whole home"),
        ("variable", "invalid name"),
        ("chance", "different launches"),
        ("writes", "outside of the session's home"),
        ("panic", "interpret panics"),
        ("normalize", "normalize panics"),
    ] {
        let found = judge(wrong).err().map(|error| error.to_string()).unwrap_or_default();
        if !found.contains(says) {
            missed.push(format!("{wrong}: {found:?}"));
        }
    }
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "not found:\n{}", missed.join("\n"));
    judge("nothing").unwrap();
}

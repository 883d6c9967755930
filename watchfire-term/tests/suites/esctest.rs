//! esctest2: its tests, each run in a terminal of ours, fresh, on a pseudo-terminal.
//!
//! It is looked for in `$WATCHFIRE_ESCTEST`, the folder of `esctest.py`; it takes `python3` and util-linux's `script`.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use libtest_mimic::{Failed, Trial};
use watchfire_term::{Emulator, Options, Size, Terminal};

/// Prints the names of all tests. Its modules import each other, and in another order fail to.
const LIST: &str = "import inspect, esccmd, tests\nfor c in tests.tests:\n  for n, _ in inspect.getmembers(c(), inspect.ismethod):\n    \
    if n.startswith('test_'): print(c.__name__ + '.' + n)";

const TITLE: &str = "a title is text that the child planted, and is never told back";

/// What fails on purpose, by how its name begins.
const KNOWN: &[(&str, &str)] = &[
    (
        "BSTests.test_BS_InitialReverseWraparound",
        "the others ask for mode 45 as it was before xterm's patch 383",
    ),
    ("DATests.test_DA_", "ours has no locator"),
    ("DECRQSSTests.test_DECRQSS_DECSCL", "ours takes level 5"),
    ("ManipulateSelectionDataTests.test_ManipulateSelectionData_default", "the clipboard is never told back"),
    ("ResetSpecialColorTests.test_ResetSpecialColor_Dynamic", "it wants black as the default"),
    ("RISTests.test_RIS_ResetTitleMode", TITLE),
    ("SMTitleTests.test_SMTitle_Set", TITLE),
    ("XtermWinopsTests.test_XtermWinops_Push", TITLE),
    ("XtermWinopsTests.test_XtermWinops_ReportIconLabel", TITLE),
    ("XtermWinopsTests.test_XtermWinops_ReportWindowLabel", TITLE),
];

pub(crate) fn trials(folder: &Path) -> Vec<Trial> {
    let listed =
        Command::new("python3").args(["-c", LIST]).current_dir(folder).env("PYTHONPATH", folder).output();
    let names = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    if names.is_empty() {
        let reason = "esctest: SKIPPED: python3 lists no tests of the suite";
        return vec![Trial::test(reason, || Ok(())).with_ignored_flag(true)];
    }
    names
        .lines()
        .map(|name| {
            let (folder, name) = (folder.to_owned(), name.to_owned());
            let reason = KNOWN.iter().find(|(start, _)| name.starts_with(start)).map(|(_, reason)| *reason);
            let title = format!("esctest {name}{}", super::note(reason));
            Trial::test(title, move || check(&folder, &name)).with_ignored_flag(reason.is_some())
        })
        .collect()
}

/// What xterm fails as well is no failure; the log tells.
fn check(folder: &Path, name: &str) -> Result<(), Failed> {
    let log = log_file(name);
    let run = |log: &Path| {
        let program = format!(
            "stty cols 80 rows 25; exec python3 esctest.py --expected-terminal xterm --max-vt-level 4 --no-print-logs \
             --options xtermWinopsEnabled disableWideChars --include '^{name}$' --logfile '{}'",
            log.display()
        );
        let mut child = Command::new("script")
            .args(["-qfec", &program, "/dev/null"])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(mut input), Some(mut output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(std::io::Error::other("no pipes"));
        };
        let options = Options::default().with_child_resize(true).with_c1_controls(true);
        let mut terminal = Emulator::with_options(Size::new(80, 25), options);
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = output.read(&mut buffer) {
            terminal.feed(&buffer[..count]);
            input.write_all(&terminal.take_replies())?;
            input.flush()?;
        }
        child.wait()?;
        std::fs::read_to_string(log)
    };
    let text = run(&log);
    let _ = std::fs::remove_file(&log);
    let text = text?;
    let known = text.contains("Fails as expected") || text.contains("lacks requisite capability");
    let passed = text.lines().any(|line| line.ends_with("Passed."));
    if text.contains(" FAILED:") || !(passed || known) { Err(text.into()) } else { Ok(()) }
}

fn log_file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("watchfire-esctest-{}-{name}.log", std::process::id()))
}

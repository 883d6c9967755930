//! Agents that are shell scripts: their task's prompt.

use std::io::Write as _;
use std::time::Duration;

use watchfire_core::Result;
use watchfire_core::backend::{Backend, Launch, LocatedProgram, ProgramSearch, SessionContext};
use watchfire_core::process::helper::{Helper, RoleArgs};

/// Prints what fills the given number of rows of 120 columns, then sleeps.
#[must_use]
pub fn prints(rows: usize) -> String {
    format!("yes '{}' | head -n {rows}; exec sleep 1000000", "x".repeat(118))
}

watchfire_core::register_helper_role!("bench-redraw", redraw);

/// Bytes of a redraw of 120x40.
const REDRAW: u64 = 40 * 118 + 39 * 2 + 3;

/// Paints the whole screen again and again. The argument is the number of bytes a second.
fn redraw(args: RoleArgs) -> i32 {
    let rate = args.args().first().and_then(|rate| rate.to_str()?.parse::<f64>().ok()).unwrap_or(1.0);
    let pause = Duration::from_secs_f64(REDRAW as f64 / rate);
    let mut out = std::io::stdout().lock();
    for letter in (b'a'..=b'z').cycle() {
        let row = char::from(letter).to_string().repeat(118);
        let screen = format!("\x1b[H{}", vec![row; 40].join("\r\n"));
        if out.write_all(screen.as_bytes()).and_then(|()| out.flush()).is_err() {
            break;
        }
        std::thread::sleep(pause);
    }
    0
}

/// Returns a script that redraws its screen with so many bytes a second.
///
/// # Errors
/// Errors of finding this program.
pub fn redraws(rate: u64) -> Result<String> {
    let line = Helper::current()?.command_line_inside();
    let line: Vec<_> = line.iter().map(|word| format!("'{}'", word.to_string_lossy())).collect();
    Ok(format!("stty -opost -echo; exec {} bench-redraw {rate}", line.join(" ")))
}

/// Makes a file of its own and claims success.
pub const FINISHES: &str =
    r#"echo x > "made-$$"; sed -i 's/^status: .*/status: done/' "$WATCHFIRE_TASK_FILE""#;

/// An agent whose program is the shell.
#[derive(Debug)]
pub struct Agent;

impl Backend for Agent {
    fn name(&self) -> &str {
        "bench"
    }

    fn locate(&self, _: &ProgramSearch) -> Result<LocatedProgram> {
        Ok(LocatedProgram::new("/bin/sh"))
    }

    fn prepare(&self, context: &SessionContext) -> Result<Launch> {
        let script = context.task.as_ref().map_or("", |task| &task.prompt);
        Ok(Launch::new(&context.program).with_args(["-c", script]))
    }
}

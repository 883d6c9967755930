//! Runs a program on a pseudo-terminal and shows its screen as plain text each time it pauses:
//! `cargo run -p watchfire-term --example live -- 'top -d 1 -n 3'`.

use std::io::Read as _;
use std::process::{Command, Stdio};

use watchfire_term::{Emulator, Size};

fn main() -> std::io::Result<()> {
    let program = std::env::args().nth(1).unwrap_or_else(|| "ls --color=always /".into());
    let program = format!("stty cols 80 rows 24; {program}");
    // util-linux's `script` owns the pseudo-terminal, so that this example needs nothing else.
    let mut child = Command::new("script")
        .args(["-qfec", &program, "/dev/null"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut output = child.stdout.take().ok_or_else(|| std::io::Error::other("no output to read"))?;
    let mut terminal = Emulator::new(Size::new(80, 24));
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = output.read(&mut buffer) {
        terminal.process(buffer.get(..count).unwrap_or(&[]));
        if !terminal.is_mid_sequence() && !terminal.is_synchronizing() {
            println!("{}\n{}", "-".repeat(80), terminal.contents());
        }
    }
    child.wait().map(|_| ())
}

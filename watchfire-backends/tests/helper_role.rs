//! The scripted agent as a role of a program that calls `run_if_asked`: here, this test.

use std::fs;
use std::process::Command;

use watchfire_backends as _;
use watchfire_core::process::helper::{Helper, run_if_asked};

fn main() {
    run_if_asked();
    let dir = std::env::temp_dir().join(format!("watchfire-helper-role-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a folder");
    let script = dir.join("script");
    fs::write(&script, "say hello\norphan pid 20\nexit 7\n").expect("a script");
    let helper = Helper::current().expect("this program");
    let spec = helper.direct_command::<&str>("scripted-agent", []);
    let output = Command::new(spec.program())
        .args(spec.args())
        .env("WATCHFIRE_SCRIPT", &script)
        .current_dir(&dir)
        .output()
        .expect("the agent");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("hello"), "{output:?}");
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    // The process left behind is this program too, started again in the same role.
    let pid = fs::read_to_string(dir.join("pid")).expect("a pid");
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().expect("a number")).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it was alive");
    fs::remove_dir_all(&dir).expect("removed");
    println!("the scripted agent ran as a helper role");
}

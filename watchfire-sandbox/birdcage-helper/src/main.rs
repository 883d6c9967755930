//! `watchfire-birdcage-helper <config> <program> <args…>`, the first being the number of a descriptor: reads there what is
//! allowed, runs the program in a birdcage and ends as it does. Other descriptors go on to the program.
//!
//! It is a program of its own because birdcage is GPL-3.0-or-later; watchfire-sandbox starts it, and knows nothing of it
//! but this.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use birdcage::process::Command;
use birdcage::{Birdcage, Exception, Sandbox};
use serde::Deserialize;

/// The exit code when nothing was started.
const REFUSED: i32 = 126;

/// The access of the program. Paths that are not listed do not exist for it.
#[derive(Deserialize)]
struct Config {
    /// Each with all below it.
    places: Vec<Place>,
    network: bool,
}

#[derive(Deserialize)]
struct Place {
    /// One character for each byte.
    path: String,
    write: bool,
}

fn main() {
    let code = match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("watchfire birdcage: {error}; nothing was started");
            REFUSED
        }
    };
    std::process::exit(code);
}

fn run() -> Result<i32, String> {
    let mut args = std::env::args_os().skip(1);
    let config = args.next().and_then(|arg| arg.into_string().ok());
    let config = config.and_then(|text| text.parse::<RawFd>().ok()).ok_or("wrong arguments")?;
    // SAFETY: who starts us gives us this one, and nothing else here has it.
    let mut config = unsafe { File::from_raw_fd(config) };
    let cage = read(&mut config)?;
    drop(config);
    let status = start(cage, args.collect())?.wait().map_err(|error| format!("waiting: {error}"))?;
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()))
}

fn read(config: &mut File) -> Result<Config, String> {
    let failed = |error: &dyn std::fmt::Display| format!("reading the configuration: {error}");
    let mut text = String::new();
    config.read_to_string(&mut text).map_err(|error| failed(&error))?;
    serde_json::from_str(&text).map_err(|error| failed(&error))
}

fn start(config: Config, command: Vec<OsString>) -> Result<birdcage::process::Child, String> {
    let (program, args) = command.split_first().ok_or("no program to start")?;
    let mut cage = Birdcage::new();
    let mut allow = |exception: Exception| {
        let text = format!("{exception:?}");
        cage.add_exception(exception).map(|_| ()).map_err(|error| format!("{text}: {error}"))
    };
    allow(Exception::FullEnvironment)?;
    if config.network {
        allow(Exception::Networking)?;
    }
    for place in config.places {
        let bytes: Result<Vec<u8>, _> = place.path.chars().map(u8::try_from).collect();
        let path = PathBuf::from(OsString::from_vec(bytes.map_err(|error| error.to_string())?));
        // Gone since: nothing is allowed there.
        if !path.exists() {
            continue;
        }
        // Rights add up: what may be written may be executed too, or no build could run what it made.
        if place.write {
            allow(Exception::WriteAndRead(path.clone()))?;
        }
        allow(Exception::ExecuteAndRead(path))?;
    }
    let mut caged = Command::new(program);
    caged.args(args);
    cage.spawn(caged).map_err(|error| error.to_string())
}

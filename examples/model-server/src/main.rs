//! Runs the server: `watchfire-model-server [--port N] SCRIPT.json`. Prints its URL, then one JSON line per request.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use watchfire_model_server::{ModelServer, Script};

const USAGE: &str = "usage: watchfire-model-server [--port N] SCRIPT.json";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("watchfire-model-server: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Vec<String>) -> Result<(), Box<dyn std::error::Error>> {
    let (port, file) = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [file] => (0, file),
        ["--port", port, file] => (port.parse()?, file),
        _ => return Err(USAGE.into()),
    };
    let script: Script =
        serde_json::from_slice(&std::fs::read(file)?).map_err(|error| format!("{file}: {error}"))?;
    let server = ModelServer::start(script, port).await?;
    println!("{}", server.url());
    // Requests are only appended, so their number is where to go on.
    let mut shown = 0;
    loop {
        for ask in server.asks_from(shown) {
            println!("{}", serde_json::to_string(&ask)?);
            shown += 1;
        }
        // The program runs until it is killed.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

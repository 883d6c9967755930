//! The daemon as a program: its options, its log, and its exit code.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Args;
use tracing_subscriber::EnvFilter;
use watchfire_core::store::Home;
use watchfire_core::{Error, Result};

use crate::daemon_log::DaemonLog;
use crate::{Options, life};

/// Variable with the log filter, in the syntax of `tracing`, for example `watchfire_core=debug`.
const LEVELS: &str = "WATCHFIRE_LOG";

/// Options of the program.
#[derive(Args, Clone, Debug, Default)]
pub struct DaemonArgs {
    /// Listen on this port of 127.0.0.1; 0 is a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
    /// Let pages of this origin call, for example http://localhost:8080; they need the token all the same
    #[arg(long = "origin", value_name = "ORIGIN")]
    pub origins: Vec<String>,
    /// End the agents with the daemon, instead of leaving them at work for the next one
    #[arg(long)]
    pub end_agents: bool,
    /// Send traces and metrics to the OpenTelemetry collector at this address, for example http://127.0.0.1:4317 [default: that of
    /// OTEL_EXPORTER_OTLP_ENDPOINT, or nowhere]
    #[cfg(feature = "otel")]
    #[arg(long, value_name = "URL")]
    pub otlp_endpoint: Option<String>,
    /// The port for other machines.
    #[cfg(feature = "tls")]
    #[command(flatten)]
    pub tls: crate::TlsArgs,
    /// Log into daemon.log of the home
    #[arg(long, hide = true)]
    pub detached: bool,
}

impl DaemonArgs {
    /// Returns them as options of the daemon.
    ///
    /// # Errors
    /// `invalid_input` for an option that lacks another.
    pub fn options(&self) -> Result<Options> {
        let Self { port, origins, end_agents, .. } = self.clone();
        Ok(Options {
            port,
            origins,
            end_agents,
            #[cfg(feature = "otel")]
            otlp_endpoint: self.otlp_endpoint.clone(),
            #[cfg(feature = "tls")]
            tls: self.tls.options()?,
        })
    }
}

/// Runs the daemon of the person's home until a signal or a call ends it. Prints one line once it is ready.
///
/// # Errors
/// The errors of [`run`](crate::run).
pub async fn program(args: DaemonArgs) -> Result<()> {
    let home = Home::default_path(|name| std::env::var_os(name)).map_err(life::unusable)?;
    watchfire_core::files::make_private(&home).map_err(life::unusable)?;
    let filter = EnvFilter::try_from_env(LEVELS).unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false);
    // Fails if the program has a log already, which then takes ours too.
    if args.detached {
        let writer = DaemonLog::open(&home).map_err(life::unusable)?;
        let _ = log.with_writer(std::sync::Mutex::new(writer)).try_init();
    } else {
        let _ = log.with_writer(std::io::stderr).try_init();
    }
    let ended = life::run(&home, args.options()?, |file| {
        // Whoever waits for it may have gone.
        let _ = writeln!(std::io::stdout(), "ready on {}:{}, pid {}", file.host, file.port, file.pid);
    })
    .await;
    if let Err(error) = &ended {
        tracing::error!("{}", error.report());
    }
    ended
}

/// Runs the program and returns its exit code.
#[must_use]
pub fn main(args: DaemonArgs) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::io("starting the runtime", error));
    match runtime.and_then(|runtime| runtime.block_on(program(args))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If stderr cannot be written, there is no place left to report that.
            let _ = writeln!(std::io::stderr(), "error: {}", error.report());
            ExitCode::FAILURE
        }
    }
}

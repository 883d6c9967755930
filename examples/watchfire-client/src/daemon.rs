//! The daemon of a home: found, or started.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::time::Duration;

use tokio::io::DuplexStream;
use tonic::transport::Channel;
use watchfire_api::ApiError;
use watchfire_api::daemon_proto::RequestMeta;
use watchfire_api::daemon_proto::agent_service_client::AgentServiceClient;
use watchfire_api::daemon_proto::branch_service_client::BranchServiceClient;
use watchfire_api::daemon_proto::daemon_service_client::DaemonServiceClient;
use watchfire_api::daemon_proto::log_service_client::LogServiceClient;
use watchfire_api::daemon_proto::project_service_client::ProjectServiceClient;
use watchfire_api::daemon_proto::settings_service_client::SettingsServiceClient;
use watchfire_api::daemon_proto::task_service_client::TaskServiceClient;
use watchfire_api::daemon_socket;
use watchfire_api::talk_proto::talk_service_client::TalkServiceClient;
use watchfire_api::work_proto::report_service_client::ReportServiceClient;
use watchfire_api::work_proto::work_service_client::WorkServiceClient;
use watchfire_core::process::{CommandSpec, Group, SpawnOptions, spawn};

use crate::client::{ANSWER, LARGEST, channel, channel_over, no_answer};

/// Time that a daemon has to start.
const START: Duration = Duration::from_secs(20);
/// Pause between two tries to reach one that starts.
const AGAIN: Duration = Duration::from_millis(10);

/// Variables with which a daemon gives memory back. glibc makes eight pools for each core, which keep what they once needed: of an
/// idle daemon half of its memory. And once a large block was freed, it keeps blocks of that size too, up to 32 MiB, unless a limit is set.
pub const ALLOCATOR: [(&str, &str); 2] = [("MALLOC_ARENA_MAX", "2"), ("MALLOC_MMAP_THRESHOLD_", "131072")];

/// A connection to the daemon of a home, over its socket. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Daemon(Channel);

impl Daemon {
    /// Connects to the daemon of the home at `home`.
    ///
    /// # Errors
    /// `app_not_running` if none runs.
    pub async fn connect(home: &Path) -> Result<Self, ApiError> {
        let channel = channel(&daemon_socket(home)).await.map_err(|_| {
            ApiError::new("app_not_running", "no daemon runs for this home").with_hint(
                "watchfire daemon start starts it; watchfire watch and logs --screen show the agents of a run without it",
            )
        })?;
        let daemon = Self(channel);
        // A socket that takes connections may belong to one that is ending, or is stopped.
        let pinged = tokio::time::timeout(ANSWER, async { daemon.service().ping(()).await }).await;
        match pinged {
            Ok(answer) => answer.map(|_| daemon).map_err(ApiError::from),
            Err(_) => Err(no_answer(&daemon_socket(home)).await),
        }
    }

    /// Connects to the daemon of the home at `home`, or starts it by `command`, in a session of its own and without the descriptors
    /// of this process.
    ///
    /// # Errors
    /// `app_not_running` if it does not start, with what it said.
    pub async fn find_or_start(home: &Path, command: &CommandSpec) -> Result<Self, ApiError> {
        if let Ok(daemon) = Self::connect(home).await {
            return Ok(daemon);
        }
        let log = home.join("daemon.log");
        let before = std::fs::metadata(&log).map_or(0, |log| log.len());
        let failed = |why: String| {
            let why = last_words(&log, before).unwrap_or(why);
            ApiError::new("app_not_running", format!("the daemon did not start: {why}"))
                .with_hint(format!("its log is {}", log.display()))
        };
        let mut command = command.clone();
        for (name, value) in ALLOCATOR {
            if !command.env().any(|(set, _)| set == name) {
                command = command.with_env(name, value);
            }
        }
        let start = || {
            let started = spawn(&command, SpawnOptions::default().with_group(Group::Session));
            started.map_err(|error| failed(error.report()))
        };
        let mut child = start()?;
        let mut again = true;
        let deadline = tokio::time::Instant::now() + START;
        loop {
            // Another client may have started one at the same time: ours ends then, and theirs is as good.
            if let Ok(daemon) = Self::connect(home).await {
                return Ok(daemon);
            }
            let ended = child.try_wait().ok().flatten().filter(|status| !status.success());
            if tokio::time::Instant::now() >= deadline {
                return Err(failed(ended.map_or("it does not answer".to_owned(), |it| it.to_string())));
            }
            if let Some(status) = ended
                && !is_starting(home).await
            {
                // The lock of one that has just been killed is free a moment later.
                if !std::mem::take(&mut again) {
                    return Err(failed(status.to_string()));
                }
                child = start()?;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Speaks to services within the same process, over their end of a connection.
    ///
    /// # Errors
    /// `internal` if they do not answer.
    pub async fn over(connection: DuplexStream) -> Result<Self, ApiError> {
        let failed = |error: tonic::transport::Error| ApiError::new("internal", error.to_string());
        Ok(Self(channel_over(connection).await.map_err(failed)?))
    }

    /// Returns the service of the daemon itself.
    #[must_use]
    pub fn service(&self) -> DaemonServiceClient<Channel> {
        DaemonServiceClient::new(self.0.clone())
    }

    /// Returns the service of projects.
    #[must_use]
    pub fn projects(&self) -> ProjectServiceClient<Channel> {
        ProjectServiceClient::new(self.0.clone())
    }

    /// Returns the service of tasks.
    #[must_use]
    pub fn tasks(&self) -> TaskServiceClient<Channel> {
        TaskServiceClient::new(self.0.clone()).max_decoding_message_size(LARGEST)
    }

    /// Returns the service of agents.
    #[must_use]
    pub fn agents(&self) -> AgentServiceClient<Channel> {
        AgentServiceClient::new(self.0.clone()).max_decoding_message_size(LARGEST)
    }

    /// Returns the service of branches.
    #[must_use]
    pub fn branches(&self) -> BranchServiceClient<Channel> {
        BranchServiceClient::new(self.0.clone()).max_decoding_message_size(LARGEST)
    }

    /// Returns the service of logs.
    #[must_use]
    pub fn logs(&self) -> LogServiceClient<Channel> {
        LogServiceClient::new(self.0.clone()).max_decoding_message_size(LARGEST)
    }

    /// Returns the service of questions.
    #[must_use]
    pub fn talk(&self) -> TalkServiceClient<Channel> {
        TalkServiceClient::new(self.0.clone())
    }

    /// Returns the service of runs and logs.
    #[must_use]
    pub fn work(&self) -> WorkServiceClient<Channel> {
        WorkServiceClient::new(self.0.clone()).max_decoding_message_size(LARGEST)
    }

    /// Returns the service of costs, history and what stands in line.
    #[must_use]
    pub fn reports(&self) -> ReportServiceClient<Channel> {
        ReportServiceClient::new(self.0.clone()).max_decoding_message_size(LARGEST)
    }

    /// Returns the service of settings.
    #[must_use]
    pub fn settings(&self) -> SettingsServiceClient<Channel> {
        SettingsServiceClient::new(self.0.clone())
    }
}

/// Returns the variables of this process, as a request that starts an agent has them. Names that are not text are left out: no agent
/// gets them.
#[must_use]
pub fn environment() -> HashMap<String, Vec<u8>> {
    let named = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_vec()));
    std::env::vars_os().filter_map(named).collect()
}

/// Says who calls: `cli`, `tui`, `gui` or `api`, this process, and the release of this crate.
#[must_use]
pub fn meta(origin: &str) -> RequestMeta {
    RequestMeta {
        origin: origin.to_owned(),
        client_id: format!("{origin}-{}", std::process::id()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Connects to the socket of the daemon of a home, for other clients of its API.
///
/// # Errors
/// `app_not_running` if none runs.
pub async fn raw_channel(home: &Path) -> Result<Channel, ApiError> {
    Daemon::connect(home).await.map(|daemon| daemon.0)
}

/// Returns the last error that a daemon has written to its log behind `before`.
fn last_words(log: &Path, before: u64) -> Option<String> {
    let text = std::fs::read(log).ok()?;
    // A log that was rotated meanwhile is new.
    let text = text.get(usize::try_from(before).ok()?..).unwrap_or(&text);
    last_error(&String::from_utf8_lossy(text))
}

/// Returns the last error of a log.
fn last_error(text: &str) -> Option<String> {
    let (_, error) = text.rsplit_once(" ERROR ")?;
    let error = error.split_once(": ").map_or(error, |(_, words)| words);
    // Its details have lines of their own. What was logged after it begins with a time.
    let mut lines = error.lines();
    let words = lines
        .next()
        .into_iter()
        .chain(lines.take_while(|line| !line.starts_with(|c: char| c.is_ascii_digit())));
    Some(words.map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(", "))
}

/// Returns true if another program holds the daemon's lock, and may answer soon.
async fn is_starting(home: &Path) -> bool {
    let lock = home.join("daemon.lock");
    let held = tokio::task::spawn_blocking(move || watchfire_core::files::FileLock::try_acquire(&lock)).await;
    matches!(held, Ok(Ok(None)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_of_a_log_is_told_whole_and_alone() {
        let log = "2026-01-02T03:04:05Z ERROR watchfired: first\n\
                   2026-01-02T03:04:06Z ERROR watchfired::life: address in use\n  port: 4000\n\n\
                   2026-01-02T03:04:07Z  INFO watchfired: it ends\n";
        assert_eq!(last_error(log).as_deref(), Some("address in use, port: 4000"));
        assert_eq!(last_error("2026-01-02T03:04:07Z  INFO watchfired: it ends\n"), None);
    }
}

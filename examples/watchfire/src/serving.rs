//! The socket on which a second terminal watches this program's agents and sends them text.

use std::io::Write as _;
use std::path::Path;

use tokio::sync::oneshot;
use watchfire_api::{Server, listen};
use watchfire_core::orchestrator::ProjectHandle;

/// A server that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Serving {
    _stop: Option<oneshot::Sender<()>>,
}

/// Serves the sessions of a project. Agents run without a socket too, so a failure is only a warning.
pub(crate) fn serve(home: &Path, project: &ProjectHandle) -> Serving {
    let listener = match listen(home, project.id()) {
        Ok(listener) => listener,
        Err(error) => {
            let told = format!("warning: watchfire watch and send will not find this run: {error}\n");
            // If stderr cannot be written, there is no place left to report that.
            let _ = std::io::stderr().write_all(told.as_bytes());
            return Serving { _stop: None };
        }
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let project = project.clone();
    tokio::spawn(async move {
        let stopped = async { drop(stopped.await) };
        // A listener that fails ends the serving, not the run.
        drop(Server::new(move || vec![project.clone()]).serve(listener, stopped).await);
    });
    Serving { _stop: Some(stop) }
}

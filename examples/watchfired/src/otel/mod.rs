//! Traces and metrics for an OpenTelemetry collector, made from the logs of the projects.
//!
//! The daemon reads its own logs like any other subscriber, so the library knows nothing of this. What is read becomes spans and
//! counts, which wait in a bounded queue; threads of the SDK send them. While the collector is away, what does not fit is dropped.
//!
//! Attributes are ids, numbers and words of closed lists, and the name of the project: never a prompt, an agent's words, a command,
//! or a variable.

mod meters;
mod spans;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use opentelemetry_otlp::{ExporterBuildError, MetricExporter, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::{BatchSpanProcessor, SpanProcessor as _};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use watchfire_core::model::ProjectId;
use watchfire_core::orchestrator::{ProjectHandle, Seen, Subscription};
use watchfire_core::{Error, ErrorKind, Result};

use self::meters::Meters;
use self::spans::Lives;
use crate::Daemon;

/// Variables that name a collector.
const ENDPOINTS: [&str; 3] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
];
/// Time limit for sending the rest when the daemon ends.
const LAST: Duration = Duration::from_secs(1);

/// Returns an error for an address that no collector can have.
pub(crate) fn check(endpoint: &str) -> Result<()> {
    let uri = endpoint.parse::<http::Uri>().ok();
    if uri.is_some_and(|uri| uri.scheme_str() == Some("http") && uri.host().is_some()) {
        return Ok(());
    }
    let error = Error::new(ErrorKind::InvalidInput, "not the address of a collector");
    let hint = "http://HOST:PORT of OTLP over gRPC, for example http://127.0.0.1:4317; a collector near by can forward with TLS";
    Err(error.with("option", "--otlp-endpoint").with("value", endpoint).with("hint", hint))
}

/// A sender of spans and counts to the collector, until it is stopped.
pub(crate) struct Telemetry {
    sink: Arc<Sink>,
    following: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

struct Sink {
    spans: BatchSpanProcessor,
    provider: SdkMeterProvider,
    meters: Meters,
}

impl Telemetry {
    /// Begins to follow all projects of `daemon`, if `endpoint` or the environment names a collector. What is wrong with the latter
    /// is told in the log.
    pub(crate) fn start(daemon: &Daemon, endpoint: Option<&str>) -> Option<Self> {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_off = std::env::var("OTEL_SDK_DISABLED").is_ok_and(|value| value.eq_ignore_ascii_case("true"));
        if is_off || endpoint.is_none() && !ENDPOINTS.iter().any(|name| set(name)) {
            return None;
        }
        let sink = match Sink::new(endpoint) {
            Ok(sink) => Arc::new(sink),
            Err(error) => {
                tracing::warn!("no traces and no metrics: {error}");
                return None;
            }
        };
        let (stop, stopped) = oneshot::channel();
        let following = tokio::spawn(follow_all(daemon.clone(), Arc::clone(&sink), stopped));
        Some(Self { sink, following, stop })
    }

    /// Sends the rest. Waits no longer than [`LAST`], also for a collector that does not answer.
    pub(crate) async fn stop(self) {
        // An error means that nothing is followed any more.
        let _ = self.stop.send(());
        let (sink, following) = (self.sink, self.following);
        let last = async {
            let _ = following.await;
            let (done, flushed) = oneshot::channel();
            // No task of the runtime, which would wait for it.
            std::thread::spawn(move || {
                // The collector has been away, and the SDK has said so.
                let _ = sink.spans.shutdown_with_timeout(LAST);
                let _ = sink.provider.shutdown();
                let _ = done.send(());
            });
            let _ = flushed.await;
        };
        if tokio::time::timeout(LAST, last).await.is_err() {
            tracing::warn!("the collector did not take the last traces and metrics in time");
        }
    }
}

impl Sink {
    fn new(endpoint: Option<&str>) -> std::result::Result<Self, ExporterBuildError> {
        let (spans, metrics) = (SpanExporter::builder().with_tonic(), MetricExporter::builder().with_tonic());
        let (spans, metrics) = match endpoint {
            Some(endpoint) => (spans.with_endpoint(endpoint), metrics.with_endpoint(endpoint)),
            None => (spans, metrics),
        };
        let (spans, metrics) = (spans.build()?, metrics.build()?);
        let mut resource = Resource::builder();
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name("watchfire");
        }
        let version = opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = resource.with_attribute(version).build();
        let mut spans = BatchSpanProcessor::builder(spans).build();
        spans.set_resource(&resource);
        let provider =
            SdkMeterProvider::builder().with_resource(resource).with_periodic_exporter(metrics).build();
        let meters = Meters::new(&provider);
        Ok(Self { spans, provider, meters })
    }
}

/// Follows all projects, also those that are opened later, and after `stopped` to the ends of their logs.
async fn follow_all(daemon: Daemon, sink: Arc<Sink>, mut stopped: oneshot::Receiver<()>) {
    let mut turns = daemon.turns();
    let (mut known, mut following) = (BTreeSet::new(), JoinSet::new());
    loop {
        turns.mark_unchanged();
        for project in daemon.projects() {
            if known.insert(project.id().clone()) {
                following.spawn(follow(project, Arc::clone(&sink)));
            }
        }
        tokio::select! {
            _ = &mut stopped => break,
            changed = turns.changed() => if changed.is_err() { break },
            // It may be opened again.
            Some(Ok(closed)) = following.join_next() => match closed {
                Ok(id) => drop(known.remove(&id)),
                // The daemon is ending.
                Err(error) if error.kind() == ErrorKind::Cancelled => {}
                Err(error) => tracing::warn!("a project is not traced: {}", error.report()),
            },
        }
    }
    while following.join_next().await.is_some() {}
}

/// Follows a project until it is closed, and returns its id.
async fn follow(project: ProjectHandle, sink: Arc<Sink>) -> Result<ProjectId> {
    let id = project.id().clone();
    let name = project.store().project().await.map(|it| it.value.name).unwrap_or_default();
    loop {
        let Subscription { snapshot, mut changes, .. } = project.subscribe(None).await?;
        let mut lives = Lives::new(&id, &name, &sink.meters, snapshot.lives);
        loop {
            match changes.next().await {
                None => return Ok(id),
                // What was missed is in the next snapshot, but for lives that ended meanwhile.
                Some(Seen::Gap(_)) => break,
                // An earlier start has told it.
                Some(Seen::Record(record)) if record.replayed => {}
                Some(Seen::Record(record)) => {
                    for span in lives.take_in(&record.change, SystemTime::now()) {
                        sink.spans.on_end(span);
                    }
                }
                Some(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{SpanId, Status};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{SdkMeterProvider, Temporality};
use opentelemetry_sdk::trace::SpanData;
use watchfire_core::model::{Alias, BackendName, ProjectId, SessionId, TaskNumber, Timestamp};
use watchfire_core::schedule::{Change, Ending, Life, LifeId, LifeState, SessionRef, Subject};

use super::meters::Meters;
use super::spans::Lives;

/// Keeps the last export, as text.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<String>>);

impl PushMetricExporter for Kept {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        *self.0.lock().unwrap() = format!("{:?}", ExportMetricsServiceRequest::from(metrics));
        Ok(())
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_unix_millis(second * 1000)
}

fn life(state: LifeState, since: i64) -> Life {
    let mut life = Life::new(LifeId(7), Subject::of_task(TaskNumber::new(3).unwrap()), at(10));
    (life.state, life.since) = (state, at(since));
    life
}

fn session() -> SessionRef {
    let backend: BackendName = "scripted".parse().unwrap();
    let (id, alias): (SessionId, Alias) = ("s1".parse().unwrap(), "otter".parse().unwrap());
    SessionRef::new(id, alias, backend, "none", "/", at(11))
}

fn ids(span: &SpanData) -> (String, String, String) {
    let context = &span.span_context;
    (context.trace_id().to_string(), context.span_id().to_string(), span.parent_span_id.to_string())
}

#[test]
fn spans_are_the_same_with_a_restart_in_between_and_without() {
    let (provider, project) = (SdkMeterProvider::builder().build(), "shop".parse::<ProjectId>().unwrap());
    let meters = Meters::new(&provider);
    let states = [
        life(LifeState::Starting, 10),
        life(LifeState::Running, 11),
        life(LifeState::Running, 11),
        life(LifeState::Capturing, 14),
        life(LifeState::ended(Ending::failed("private")), 15),
    ];
    let told = |states: &[Life], open: Vec<Life>| {
        let mut lives = Lives::new(&project, "Shop", &meters, open);
        let seen =
            |life: &Life| UNIX_EPOCH + Duration::from_secs(life.since.unix_millis().unsigned_abs() / 1000);
        let take = |life: &Life| lives.take_in(&Change::Life(Box::new(life.clone())), seen(life));
        states.iter().flat_map(take).collect::<Vec<_>>()
    };
    let whole = told(&states, Vec::new());
    let names: Vec<_> = whole.iter().map(|span| span.name.to_string()).collect();
    assert_eq!(names, ["starting", "running", "capturing", "task"]);
    let root = whole.last().unwrap();
    assert_eq!((root.parent_span_id, &root.status), (SpanId::INVALID, &Status::error("failed")));
    assert!(whole[..3].iter().all(|span| span.parent_span_id == root.span_context.span_id()));
    assert!(!format!("{whole:?}").contains("private"));
    let lengths: Vec<_> =
        whole.iter().map(|span| span.end_time.duration_since(span.start_time).unwrap().as_secs()).collect();
    assert_eq!(lengths, [1, 3, 1, 5]);
    // The journal gives the next daemon the life as it was.
    let apart = [told(&states[..2], Vec::new()), told(&states[2..], vec![states[1].clone()])].concat();
    assert_eq!(apart.iter().map(ids).collect::<Vec<_>>(), whole.iter().map(ids).collect::<Vec<_>>());
}

#[test]
fn merges_tokens_and_cost_are_counted() {
    let kept = Kept::default();
    let provider = SdkMeterProvider::builder().with_periodic_exporter(kept.clone()).build();
    let (meters, project) = (Meters::new(&provider), "shop".parse::<ProjectId>().unwrap());
    let mut lives = Lives::new(&project, "Shop", &meters, Vec::new());
    let mut end = watchfire_core::schedule::SessionEnd::new("exit code 0");
    (end.usage.input_tokens, end.usage.cache_read_tokens, end.cost) = (1201, 34_001, Some(1_250_000));
    let mut take = |change| lives.take_in(&change, SystemTime::now());
    take(Change::session_over(LifeId(7), Box::new(session()), end));
    // An attempt whose merge failed, another that was merged, and one that never got that far.
    take(Change::Life(Box::new(life(LifeState::Merging, 12))));
    let mut again = life(LifeState::Starting, 13);
    again.setback = Some(Ending::conflict("private.txt"));
    take(Change::Life(Box::new(again.clone())));
    (again.state, again.since) = (LifeState::Merging, at(14));
    take(Change::Life(Box::new(again.clone())));
    (again.state, again.since) = (LifeState::ended(Ending::merged(None, None)), at(15));
    take(Change::Life(Box::new(again)));
    take(Change::Life(Box::new(life(LifeState::ended(Ending::Closed), 16))));
    provider.force_flush().unwrap();
    let told = kept.0.lock().unwrap().clone();
    for word in ["AsInt(1201)", "AsInt(34001)", "AsDouble(1.25)", "cache_read", "conflict", "scripted"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    assert!(!told.contains("private"), "{told}");
    let merges = told.split("name: ").find(|metric| metric.starts_with("\"watchfire.merges\"")).unwrap();
    assert!(
        merges.contains("\"conflict\"") && merges.contains("\"merged\"") && !merges.contains("\"closed\"")
    );
}

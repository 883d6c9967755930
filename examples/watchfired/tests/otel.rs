//! Traces and metrics, as a collector gets them.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpListener as Silent};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::metrics::v1 as metrics;
use opentelemetry_proto::tonic::collector::trace::v1 as trace;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::metrics::v1::{metric::Data, number_data_point};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use support::{PATIENCE, Running, World, id, start, until, until_task};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};
use watchfire_api::daemon_proto as proto;
use watchfire_client::Daemon;

/// A collector, which keeps what it gets.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Got>>);

#[derive(Default)]
struct Got {
    spans: Vec<Span>,
    /// The last value of each metric, by its name and its attributes but for those of the project.
    metrics: BTreeMap<String, f64>,
    /// The bytes of all requests.
    bytes: Vec<u8>,
    resources: Vec<KeyValue>,
}

#[tonic::async_trait]
impl trace::trace_service_server::TraceService for Collector {
    async fn export(
        &self,
        request: Request<trace::ExportTraceServiceRequest>,
    ) -> Result<Response<trace::ExportTraceServiceResponse>, Status> {
        let mut got = self.0.lock().unwrap();
        let request = request.into_inner();
        got.bytes.extend(request.encode_to_vec());
        for mut of in request.resource_spans {
            got.resources.extend(of.resource.take().unwrap().attributes);
            got.spans.extend(of.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
        Ok(Response::new(Default::default()))
    }
}

#[tonic::async_trait]
impl metrics::metrics_service_server::MetricsService for Collector {
    async fn export(
        &self,
        request: Request<metrics::ExportMetricsServiceRequest>,
    ) -> Result<Response<metrics::ExportMetricsServiceResponse>, Status> {
        let mut got = self.0.lock().unwrap();
        let request = request.into_inner();
        got.bytes.extend(request.encode_to_vec());
        let scopes = request.resource_metrics.into_iter().flat_map(|of| of.scope_metrics);
        for metric in scopes.flat_map(|scope| scope.metrics) {
            let Some(Data::Sum(sum)) = metric.data else { panic!("{metric:?}") };
            for point in sum.data_points {
                let named = |it: &KeyValue| (!it.key.contains("project")).then(|| text(&it.value));
                let mut words: Vec<_> = point.attributes.iter().filter_map(named).collect();
                words.sort();
                let value = match point.value.unwrap() {
                    number_data_point::Value::AsDouble(value) => value,
                    number_data_point::Value::AsInt(value) => f64::from(i32::try_from(value).unwrap()),
                };
                got.metrics.insert(format!("{} {}", metric.name, words.join(" ")), value);
            }
        }
        Ok(Response::new(Default::default()))
    }
}

fn text(value: &Option<AnyValue>) -> String {
    match value.as_ref().and_then(|it| it.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => panic!("{other:?}"),
    }
}

/// The value of a span's attribute.
fn attribute(span: &Span, key: &str) -> String {
    let found = span.attributes.iter().find(|it| it.key == key);
    found.map(|it| text(&it.value)).unwrap_or_default()
}

impl Collector {
    async fn serve() -> (Self, SocketAddr) {
        let collector = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tonic::transport::Server::builder()
            .add_service(trace::trace_service_server::TraceServiceServer::new(collector.clone()))
            .add_service(metrics::metrics_service_server::MetricsServiceServer::new(collector.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(server);
        (collector, address)
    }

    fn got<T>(&self, read: impl FnOnce(&Got) -> T) -> T {
        read(&self.0.lock().unwrap())
    }

    fn metric(&self, name: &str) -> Option<f64> {
        self.got(|got| got.metrics.get(name).copied())
    }
}

/// Ends the daemon, and returns how long that took.
async fn end(daemon: &Daemon, mut running: Running) -> Duration {
    let began = Instant::now();
    daemon.service().shutdown(()).await.unwrap();
    let ended = tokio::task::spawn_blocking(move || running.child.wait().unwrap());
    assert!(tokio::time::timeout(PATIENCE, ended).await.unwrap().unwrap().success());
    began.elapsed()
}

#[tokio::test]
async fn a_collector_gets_the_lives_of_tasks_and_their_counts() {
    let (collector, address) = Collector::serve().await;
    let world = World::new();
    let mut command = world.command(&["--otlp-endpoint", &format!("http://{address}")]);
    command.env("OTEL_METRIC_EXPORT_INTERVAL", "100").env("OTEL_BSP_SCHEDULE_DELAY", "100");
    command.env("SECRET_TOKEN", "private-variable");
    let running = world.start_by(command);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    let file = world.path("shop/.watchfire/project.yaml");
    let yaml = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{yaml}verify: [\"true private-command\"]\n")).unwrap();

    world.task(&daemon, &project, "private-title", "say private-word\nwrite one.txt 1\ncommit x\ndone").await;
    world.task(&daemon, &project, "Fails", "fail private-reason").await;
    world.task(&daemon, &project, "Hangs", "hang").await;
    daemon.agents().start_agent(start(&project, "task", 1)).await.unwrap();
    until_task(&daemon, &project, 1, "merged").await;
    daemon.agents().start_agent(start(&project, "task", 2)).await.unwrap();
    until_task(&daemon, &project, 2, "failed").await;
    daemon.agents().start_agent(start(&project, "task", 3)).await.unwrap();
    until("a session runs", || async { collector.metric("watchfire.sessions scripted") == Some(1.0) }).await;
    daemon.agents().stop_agent(id(&project)).await.unwrap();
    until("no session runs", || async { collector.metric("watchfire.sessions scripted") == Some(0.0) }).await;
    end(&daemon, running).await;

    let spans = collector.got(|got| got.spans.clone());
    let whole = |task: &str| {
        let is_whole = |it: &&Span| it.name == "task" && attribute(it, "watchfire.task.number") == task;
        let mut found = spans.iter().filter(is_whole);
        let span = found.next().unwrap_or_else(|| panic!("no span of task {task}: {spans:?}"));
        assert!(found.next().is_none());
        span
    };
    let merged = whole("1");
    assert!(merged.parent_span_id.is_empty(), "{merged:?}");
    for (key, value) in [
        ("watchfire.project.id", project.as_str()),
        ("watchfire.project.name", "shop"),
        ("watchfire.agent", "scripted"),
        ("watchfire.ending", "merged"),
        ("watchfire.attempt", "1"),
    ] {
        assert_eq!(attribute(merged, key), value, "{merged:?}");
    }
    let mut states: Vec<_> = spans.iter().filter(|it| it.parent_span_id == merged.span_id).collect();
    states.sort_by_key(|it| (it.start_time_unix_nano, it.end_time_unix_nano));
    for state in ["starting", "running", "capturing", "merging", "verifying", "publishing"] {
        let found = states.iter().filter(|it| it.name == state).count();
        assert_eq!(found, 1, "{state}: {:?}", states.iter().map(|it| &it.name).collect::<Vec<_>>());
    }
    for state in &states {
        assert_eq!(state.trace_id, merged.trace_id);
        assert!(state.start_time_unix_nano >= merged.start_time_unix_nano);
        assert!(state.end_time_unix_nano <= merged.end_time_unix_nano);
    }
    // One follows the other.
    assert!(states.windows(2).all(|pair| pair[0].end_time_unix_nano <= pair[1].start_time_unix_nano));
    // The log has whole seconds, the spans more.
    assert!(states.iter().any(|it| it.start_time_unix_nano % 1_000_000_000 != 0));
    assert_eq!(merged.status.as_ref().map_or(0, |it| it.code), 0);
    let (failed, stopped) = (whole("2"), whole("3"));
    assert_ne!(failed.trace_id, merged.trace_id);
    assert_eq!(attribute(failed, "watchfire.ending"), "failed");
    assert_eq!(failed.status.as_ref().map(|it| it.code), Some(2));
    assert_eq!(attribute(stopped, "watchfire.ending"), "stopped");

    assert_eq!(collector.metric("watchfire.merges merged"), Some(1.0));
    for ending in ["merged", "failed", "stopped"] {
        assert_eq!(collector.metric(&format!("watchfire.tasks {ending}")), Some(1.0), "{ending}");
    }
    let (bytes, resources) = collector.got(|got| (got.bytes.clone(), got.resources.clone()));
    let service = resources.iter().find(|it| it.key == "service.name").unwrap();
    assert_eq!(text(&service.value), "watchfire");
    // No words of people or agents, no commands, no variables, no paths.
    let sent = String::from_utf8_lossy(&bytes);
    assert!(!sent.contains("private"), "{sent}");
    assert!(!sent.contains(&world.path("").display().to_string()), "{sent}");
}

/// An agent that stands in for Claude Code: it works, and leaves its transcript where that one does.
const CLAUDE: &str = r#"#!/bin/sh
while [ $# -gt 0 ]; do
    [ "$1" != --session-id ] || id=$2
    shift
done
mkdir -p "$CLAUDE_CONFIG_DIR/projects/shop"
usage='{"input_tokens":900,"output_tokens":20,"cache_read_input_tokens":5000,"cache_creation_input_tokens":100}'
message='{"id":"m1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"private-word"}],"usage":'"$usage"'}'
echo '{"type":"assistant","message":'"$message"'}' > "$CLAUDE_CONFIG_DIR/projects/shop/$id.jsonl"
echo 1 > one.txt && git add . && git commit -qm one
sed -i 's/^status: .*/status: done/' "$WATCHFIRE_TASK_FILE"
exec sleep 1000
"#;

/// Tokens and cost come from the transcript that the agent leaves.
#[tokio::test]
async fn a_collector_gets_the_tokens_of_an_agent() {
    let (collector, address) = Collector::serve().await;
    let world = World::new();
    let claude = world.path("claude");
    fs::write(&claude, CLAUDE).unwrap();
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    let settings = world.home.join("settings.yaml");
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, format!("{text}agents:\n  claude-code:\n    path: '{}'\n", claude.display()))
        .unwrap();
    let running = world.start(&["--otlp-endpoint", &format!("http://{address}")]);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    world.task(&daemon, &project, "Works", "").await;
    let by_claude =
        proto::StartAgentRequest { agent: "claude-code".to_owned(), ..start(&project, "task", 1) };
    daemon.agents().start_agent(by_claude).await.unwrap();
    until_task(&daemon, &project, 1, "merged").await;
    end(&daemon, running).await;
    for (metric, value) in [
        ("watchfire.tokens claude-code input", 900.0),
        ("watchfire.tokens claude-code output", 20.0),
        ("watchfire.tokens cache_read claude-code", 5000.0),
        ("watchfire.tokens cache_write claude-code", 100.0),
    ] {
        assert_eq!(collector.metric(metric), Some(value), "{:?}", collector.got(|got| got.metrics.clone()));
    }
    assert!(collector.metric("watchfire.cost claude-code").is_some_and(|cost| cost > 0.0));
}

/// A life that goes on with the next daemon is one trace all the same.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_life_that_outlives_the_daemon_is_one_trace() {
    let (collector, address) = Collector::serve().await;
    let world = World::new();
    let endpoint = format!("http://{address}");
    let running = world.start(&["--otlp-endpoint", &endpoint]);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    world.task(&daemon, &project, "Waits", "wait tide 600\nwrite one.txt 1\ncommit x\ndone").await;
    daemon.agents().start_agent(start(&project, "task", 1)).await.unwrap();
    until_task(&daemon, &project, 1, "running").await;
    end(&daemon, running).await;
    collector.got(|got| assert!(got.spans.iter().all(|span| span.name != "task"), "{:?}", got.spans));
    let first = collector.got(|got| got.spans.iter().find(|it| it.name == "starting").cloned().unwrap());

    let running = world.start(&["--otlp-endpoint", &endpoint]);
    let daemon = world.connect().await;
    let folders = world.git(&world.path("shop"), &["worktree", "list", "--porcelain"]);
    let folder = folders.lines().filter_map(|line| line.strip_prefix("worktree ")).next_back().unwrap();
    fs::write(std::path::Path::new(folder).join("tide"), "").unwrap();
    until_task(&daemon, &project, 1, "merged").await;
    end(&daemon, running).await;
    let whole = collector.got(|got| got.spans.iter().find(|it| it.name == "task").cloned().unwrap());
    assert_eq!((&first.trace_id, &first.parent_span_id), (&whole.trace_id, &whole.span_id));
    assert!(first.start_time_unix_nano >= whole.start_time_unix_nano);
}

/// Tasks go on, and the daemon ends, whether the collector refuses, or takes connections and never answers.
#[tokio::test]
async fn a_collector_that_is_away_delays_nothing() {
    let silent = Silent::bind("127.0.0.1:0").unwrap();
    let nobody = Silent::bind("127.0.0.1:0").unwrap();
    let (hanging, refusing) = (silent.local_addr().unwrap(), nobody.local_addr().unwrap());
    drop(nobody);
    for address in [hanging, refusing] {
        let world = World::new();
        let mut command = world.command(&[]);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}"));
        // Nearly nothing fits, and what does not is dropped.
        command.env("OTEL_BSP_MAX_QUEUE_SIZE", "2").env("OTEL_BSP_SCHEDULE_DELAY", "50");
        command.env("OTEL_METRIC_EXPORT_INTERVAL", "50").stderr(Stdio::null());
        let running = world.start_by(command);
        let daemon = world.connect().await;
        let project = world.project(&daemon, "shop").await.project_id;
        for number in 1..=3 {
            let script = format!("write {number}.txt 1\ncommit x\ndone");
            world.task(&daemon, &project, "Works", &script).await;
            daemon.agents().start_agent(start(&project, "task", number)).await.unwrap();
        }
        for number in 1..=3 {
            until_task(&daemon, &project, number, "merged").await;
        }
        let took = end(&daemon, running).await;
        // It waits a second for the collector. The rest is the machine's.
        assert!(took < PATIENCE / 4, "{address}: {took:?}");
        if address == hanging {
            silent.set_nonblocking(true).unwrap();
            silent.accept().expect("it was called");
        }
    }
}

#[test]
fn what_is_no_address_is_named() {
    let world = World::new();
    for wrong in ["nonsense", "https://collector.example:4317", "127.0.0.1:4317"] {
        let output = world.command(&["--otlp-endpoint", wrong]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && said.contains("--otlp-endpoint") && said.contains(wrong),
            "{said}"
        );
    }
}

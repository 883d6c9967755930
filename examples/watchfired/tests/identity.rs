//! Who gets in on the port, and what anybody can do to the daemon there.

mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use support::{World, calls, on_port, until};
use tonic::Code;
use tonic::transport::Endpoint;
use watchfire_api::DaemonFile;
use watchfire_api::daemon_proto::daemon_service_client::DaemonServiceClient;
use watchfire_api::daemon_proto::project_service_client::ProjectServiceClient;

/// Sends a request as a browser or any other program would, and returns the whole answer.
fn exchange(file: &DaemonFile, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect((file.host.as_str(), file.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    // It may refuse in the middle.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// A gRPC-Web call of `Ping`, with these headers in front.
fn web(file: &DaemonFile, method: &str, headers: &[(&str, &str)]) -> String {
    call(file, method, "/watchfire.DaemonService/Ping", headers)
}

/// A gRPC-Web call with an empty message and these headers in front.
fn call(file: &DaemonFile, method: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let mut request = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str("content-type: application/grpc-web+proto\r\ncontent-length: 5\r\n\r\n");
    let mut request = request.into_bytes();
    request.extend([0; 5]);
    String::from_utf8_lossy(&exchange(file, &request)).to_lowercase()
}

/// Whoever holds connections to the port keeps neither the daemon nor its socket from answering, and others from the port only for
/// the time that a connection has to show the token.
#[tokio::test]
async fn connections_are_bounded() {
    let world = World::new();
    let running = world.start(&[]);
    let mut held = Vec::new();
    for _ in 0..600 {
        held.push(TcpStream::connect((running.file.host.as_str(), running.file.port)).unwrap());
    }
    let daemon = world.connect().await;
    daemon.service().ping(()).await.unwrap();
    // The kernel has accepted all of them; the daemon has closed the surplus.
    until("the surplus is closed", || async {
        let open = held.iter().filter(|stream| is_open(stream)).count();
        (1..=256).contains(&open)
    })
    .await;
    until("there is room again", || async {
        let address = format!("http://{}:{}", running.file.host, running.file.port);
        let Ok(channel) = Endpoint::from_shared(address).unwrap().connect().await else { return false };
        let bearer = support::Bearer(running.file.token.clone());
        let mut service = DaemonServiceClient::with_interceptor(channel, bearer);
        service.ping(()).await.is_ok()
    })
    .await;
    drop(held);
}

/// Returns whether the other side has not closed a connection on which it sends nothing.
fn is_open(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    !matches!(stream.read(&mut [0]), Ok(0)) && stream.take_error().unwrap().is_none()
}

#[tokio::test]
async fn only_the_token_opens_the_port() {
    let world = World::new();
    let running = world.start(&["--origin", "http://localhost:3000"]);
    let file = &running.file;
    let good = on_port(file, &file.token).await;
    DaemonServiceClient::new(good.clone()).ping(()).await.unwrap();
    ProjectServiceClient::new(good).list_projects(()).await.unwrap();
    for token in ["", "wrong", &file.token[1..], &format!("{}x", file.token)] {
        let bad = on_port(file, token).await;
        let refused = DaemonServiceClient::new(bad.clone()).ping(()).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{token}");
        assert_eq!(watchfire_api::ApiError::from(refused).code, "unauthorized");
        let refused = DaemonServiceClient::new(bad.clone()).shutdown(()).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{token}");
        let refused = ProjectServiceClient::new(bad).list_projects(()).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{token}");
    }
    // The socket asks for nobody's token: only the person's own processes reach it.
    world.connect().await.service().ping(()).await.unwrap();
}

/// What a page in the person's browser can send, on the same port.
#[tokio::test]
async fn pages_get_in_only_with_token_and_origin() {
    let world = World::new();
    let running = world.start(&["--origin", "http://localhost:3000"]);
    let file = &running.file;
    let (host, bearer) = (format!("127.0.0.1:{}", file.port), format!("Bearer {}", file.token));
    let (host, token) = (("host", host.as_str()), ("authorization", bearer.as_str()));
    let (ours, evil) = (("origin", "http://localhost:3000"), ("origin", "http://evil.example"));
    let rebound = format!("evil.example:{}", file.port);
    let rebound = ("host", rebound.as_str());

    let answer = web(file, "POST", &[host, token, ours]);
    assert!(answer.contains("grpc-status:0") || answer.contains("grpc-status: 0"), "{answer}");
    assert!(answer.contains("access-control-allow-origin: http://localhost:3000"), "{answer}");
    for (headers, status) in [
        (&[host][..], 16),
        (&[host, ours], 16),
        (&[host, token, evil], 7),
        (&[rebound, token], 7),
        (&[rebound, token, ours], 7),
    ] {
        let answer = web(file, "POST", headers);
        assert!(answer.contains(&format!("grpc-status: {status}\r\n")), "{headers:?}: {answer}");
        assert!(!answer.contains("access-control-allow-origin"), "{headers:?}: {answer}");
    }
    // A browser asks first. Only our pages get a yes.
    assert!(
        web(file, "OPTIONS", &[host, ours]).contains("access-control-allow-origin: http://localhost:3000")
    );
    assert!(!web(file, "OPTIONS", &[host, evil]).contains("access-control-allow-origin"));
}

/// Every call against everybody who has no token, or comes from elsewhere: an agent in its sandbox, which reaches the port and cannot
/// read the token, and a page. A new service cannot be forgotten, since the list is the server's own.
#[tokio::test]
async fn no_call_is_answered_without_the_token() {
    let world = World::new();
    let running = world.start(&["--origin", "http://localhost:3000"]);
    let file = &running.file;
    let (host, rebound) = (format!("127.0.0.1:{}", file.port), format!("evil.example:{}", file.port));
    let (bearer, wrong) = (format!("Bearer {}", file.token), format!("Bearer {}x", file.token));
    let (host, rebound) = (("host", host.as_str()), ("host", rebound.as_str()));
    let (token, wrong) = (("authorization", bearer.as_str()), ("authorization", wrong.as_str()));
    let callers: [(&[(&str, &str)], u8); 5] = [
        (&[host], 16),
        (&[host, wrong], 16),
        (&[host, ("origin", "http://localhost:3000")], 16),
        (&[host, token, ("origin", "http://evil.example")], 7),
        (&[rebound, token], 7),
    ];
    let mut answered = Vec::new();
    let paths = calls();
    assert!(paths.len() > 60, "{}", paths.len());
    for path in &paths {
        for (headers, status) in callers {
            let answer = call(file, "POST", path, headers);
            if !answer.contains(&format!("grpc-status: {status}\r\n")) {
                answered.push(format!("{path} {headers:?}: {answer}"));
            }
        }
    }
    assert!(answered.is_empty(), "{}", answered.join("\n"));
    // Nothing of it had an effect: the daemon has no project, and still runs.
    let good = on_port(file, &file.token).await;
    assert!(
        ProjectServiceClient::new(good).list_projects(()).await.unwrap().into_inner().projects.is_empty()
    );
}

/// What asks a server what it can do, and whether it is well.
#[tokio::test]
async fn it_says_what_it_can_do() {
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;
    let world = World::new();
    let running = world.start(&[]);
    let channel = on_port(&running.file, &running.file.token).await;
    let well = HealthClient::new(channel.clone()).check(HealthCheckRequest::default()).await.unwrap();
    assert_eq!(well.into_inner().status, 1);
    /// Asks for the list of services in one version of the protocol.
    macro_rules! services {
        ($version:ident) => {{
            use pb::server_reflection_request::MessageRequest;
            use pb::server_reflection_response::MessageResponse;
            use tonic_reflection::pb::$version as pb;
            let message_request = Some(MessageRequest::ListServices(String::new()));
            let asked = pb::ServerReflectionRequest { host: String::new(), message_request };
            let mut client = pb::server_reflection_client::ServerReflectionClient::new(channel.clone());
            let answers = client.server_reflection_info(tokio_stream::once(asked)).await;
            let answer = answers.unwrap().into_inner().message().await.unwrap().unwrap();
            let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
                panic!("{answer:?}")
            };
            list.service.into_iter().map(|service| service.name).collect::<Vec<_>>()
        }};
    }
    for names in [services!(v1), services!(v1alpha)] {
        for name in ["watchfire.TaskService", "watchfire.observe.v1.ObserveService", "grpc.health.v1.Health"]
        {
            assert!(names.iter().any(|it| it == name), "{names:?}");
        }
    }
}

/// Another program on the port is not the daemon.
#[tokio::test]
async fn nobody_is_asked_for_the_token_by_another_program() {
    let world = World::new();
    let running = world.start(&[]);
    let (file, mut child) = (running.file.clone(), running);
    child.child.kill().unwrap();
    child.child.wait().unwrap();
    // Clients on this machine use the socket, which only the person's processes can make.
    assert!(watchfire_client::Daemon::connect(&world.home).await.is_err());
    let address = format!("http://{}:{}", file.host, file.port);
    assert!(Endpoint::from_shared(address).unwrap().connect().await.is_err());
}

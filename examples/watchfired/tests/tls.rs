//! The port for other machines: who gets in, and who does not.

mod support;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use support::{Running, World, on_port};
use tonic::Code;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};
use watchfire_api::daemon_proto::daemon_service_client::DaemonServiceClient;
use watchfire_client::Remote;

/// An authority, and the folder into which it writes.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Authority {
    fn new(world: &World, name: &str) -> Self {
        let folder = world.path(name);
        fs::create_dir_all(&folder).unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(folder.join("ca.pem"), issuer.pem()).unwrap();
        let authority = Self { issuer, folder };
        authority.issue("daemon", &["localhost", "127.0.0.1", "build.example"]);
        authority.issue("client", &[]);
        authority
    }

    /// Writes a certificate and its key.
    fn issue(&self, name: &str, hosts: &[&str]) {
        let key = KeyPair::generate().unwrap();
        let hosts: Vec<_> = hosts.iter().map(|&host| host.to_owned()).collect();
        let made = CertificateParams::new(hosts).unwrap().signed_by(&key, &self.issuer).unwrap();
        fs::write(self.file(&format!("{name}.pem")), made.pem()).unwrap();
        let file = self.file(&format!("{name}.key"));
        fs::write(&file, key.serialize_pem()).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn text(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }

    /// The daemon's options, without those named in `without`.
    fn options(&self, without: &[&str]) -> Vec<String> {
        let all = [
            ("--tls-listen", "127.0.0.1:0".to_owned()),
            ("--tls-cert", self.text("daemon.pem")),
            ("--tls-key", self.text("daemon.key")),
            ("--tls-client-ca", self.text("ca.pem")),
        ];
        let wanted = all.into_iter().filter(|(option, _)| !without.contains(option));
        wanted.flat_map(|(option, value)| [option.to_owned(), value]).collect()
    }

    fn start(&self, world: &World) -> (Running, SocketAddr) {
        let options = self.options(&[]);
        let running = world.start(&options.iter().map(String::as_str).collect::<Vec<_>>());
        let address = running.file.tls.unwrap();
        (running, address)
    }

    /// A client with this authority's certificate, which expects a daemon of it.
    fn client(&self, address: SocketAddr, token: &str) -> Remote {
        let identity = (self.file("client.pem"), self.file("client.key"));
        Remote::new(format!("localhost:{}", address.port()), self.file("ca.pem"), identity, token)
    }
}

/// Calls the daemon, and returns the code of its answer: `None` if no call reached it.
async fn ping(remote: &Remote) -> Option<Code> {
    // With TLS 1.3, the refusal of a certificate may arrive after the client has connected.
    answered(DaemonServiceClient::new(remote.connect().await.ok()?).ping(()).await)
}

/// Returns the code of the daemon's answer. A broken connection has none.
fn answered(answer: Result<tonic::Response<()>, tonic::Status>) -> Option<Code> {
    let code = answer.map_or_else(|status| status.code(), |_| Code::Ok);
    [Code::Ok, Code::Unauthenticated, Code::PermissionDenied].contains(&code).then_some(code)
}

#[tokio::test]
async fn a_client_needs_a_certificate_of_the_authority_and_the_token() {
    let world = World::new();
    let (ours, other) = (Authority::new(&world, "ours"), Authority::new(&world, "other"));
    let (running, address) = ours.start(&world);
    let token = &running.file.token;
    assert_eq!(ping(&ours.client(address, token)).await, Some(Code::Ok));
    for wrong in ["", "wrong", &token[1..]] {
        assert_eq!(ping(&ours.client(address, wrong)).await, Some(Code::Unauthenticated), "{wrong}");
    }
    // A certificate of another authority, in spite of the token.
    let mut stranger = ours.client(address, token);
    (stranger.cert, stranger.key) = (other.file("client.pem"), other.file("client.key"));
    assert_eq!(ping(&stranger).await, None);
    // The client does not take a daemon of another authority either.
    let mut cautious = ours.client(address, token);
    cautious.ca = other.file("ca.pem");
    let refused = cautious.connect().await.unwrap_err();
    assert_eq!(refused.code, "app_not_running", "{refused:?}");

    // Without any certificate.
    let authority = Certificate::from_pem(fs::read(ours.file("ca.pem")).unwrap());
    let endpoint = Endpoint::from_shared(format!("https://localhost:{}", address.port())).unwrap();
    let endpoint = endpoint.tls_config(ClientTlsConfig::new().ca_certificate(authority)).unwrap();
    if let Ok(channel) = endpoint.connect().await {
        let bearer = support::Bearer(token.clone());
        assert_eq!(answered(DaemonServiceClient::with_interceptor(channel, bearer).ping(()).await), None);
    }

    // The port of this machine is as without.
    let local = on_port(&running.file, token).await;
    DaemonServiceClient::new(local).ping(()).await.unwrap();
    let nobody = on_port(&running.file, "").await;
    let refused = DaemonServiceClient::new(nobody).ping(()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    assert_eq!(running.file.host, "127.0.0.1");
    world.connect().await.service().ping(()).await.unwrap();
}

/// A foreign name that resolves to this machine is not in the certificate.
#[tokio::test]
async fn the_host_of_a_request_is_one_of_the_certificate() {
    let world = World::new();
    let ours = Authority::new(&world, "ours");
    let (running, address) = ours.start(&world);
    let read = |name: &str| fs::read(ours.file(name)).unwrap();
    for (host, code) in [("build.example:7", Code::Ok), ("evil.example", Code::PermissionDenied)] {
        let identity = tonic::transport::Identity::from_pem(read("client.pem"), read("client.key"));
        let tls =
            ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read("ca.pem"))).identity(identity);
        let endpoint = Endpoint::from_shared(format!("https://localhost:{}", address.port())).unwrap();
        let endpoint = endpoint.origin(format!("https://{host}").parse().unwrap());
        let channel = endpoint.tls_config(tls.domain_name("localhost")).unwrap().connect().await.unwrap();
        let bearer = support::Bearer(running.file.token.clone());
        let answer = DaemonServiceClient::with_interceptor(channel, bearer).ping(()).await;
        assert_eq!(answered(answer), Some(code), "{host}");
    }
}

/// Whoever speaks no TLS is told nothing, and who is silent is no client.
#[tokio::test]
async fn what_is_not_encrypted_gets_nothing() {
    let world = World::new();
    let ours = Authority::new(&world, "ours");
    let (running, address) = ours.start(&world);
    let request = format!(
        "POST /watchfire.DaemonService/Ping HTTP/1.1\r\nhost: localhost:{}\r\nauthorization: Bearer {}\r\n\
         content-type: application/grpc-web+proto\r\ncontent-length: 5\r\n\r\n\0\0\0\0\0",
        address.port(),
        running.file.token
    );
    for bytes in [request.as_bytes(), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\0"] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(bytes).unwrap();
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        // It may be reset.
        let _ = stream.read_to_end(&mut answer);
        // At most an alert of TLS.
        assert!(answer.len() < 16, "{}", String::from_utf8_lossy(&answer));
    }
    // Any number of silent ones keeps nobody out for longer than their time, and the other port answers meanwhile.
    let _silent: Vec<_> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
    let local = on_port(&running.file, &running.file.token).await;
    DaemonServiceClient::new(local).ping(()).await.unwrap();
}

/// Starts the daemon, which must not start, and returns what it says.
fn refused(world: &World, options: &[String]) -> String {
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    let output = world.command(&options).stdin(Stdio::null()).output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn what_is_missing_or_open_to_all_is_named() {
    let world = World::new();
    let (ours, other) = (Authority::new(&world, "ours"), Authority::new(&world, "other"));
    for option in ["--tls-listen", "--tls-cert", "--tls-key", "--tls-client-ca"] {
        let said = refused(&world, &ours.options(&[option]));
        assert!(said.contains(&format!("`{option}` is missing")), "{said}");
    }
    let key = ours.file("daemon.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let said = refused(&world, &ours.options(&[]));
    assert!(said.contains("private key") && said.contains(&format!("chmod 600 {}", key.display())), "{said}");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();

    let instead = |option: &str, path: &Path| {
        let mut options = ours.options(&[option]);
        options.extend([option.to_owned(), path.display().to_string()]);
        refused(&world, &options)
    };
    let said = instead("--tls-cert", &ours.file("nowhere.pem"));
    assert!(said.contains("nowhere.pem") && said.contains("--tls-cert"), "{said}");
    let said = instead("--tls-client-ca", &key);
    assert!(said.contains("no certificate in the file") && said.contains("--tls-client-ca"), "{said}");
    // A key that belongs to another certificate.
    let said = instead("--tls-key", &other.file("daemon.key"));
    assert!(said.contains("--tls-key"), "{said}");
    assert!(!world.home.join("daemon.yaml").exists());
}

//! A proxy that lets the model server answer for the vendors' own addresses: some agents renew a login at a fixed
//! address.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

use crate::ModelServer;
use crate::server::serve_connection;

/// Longest request to connect, in bytes.
const HEAD: u64 = 8 * 1024;

/// A proxy on loopback through which every host is the model server. It ends when this value is dropped.
///
/// An agent that is to use it gets the [`url`](Self::url) as `HTTPS_PROXY` and must trust the
/// [`authority`](Self::authority), which is created for each proxy. Node's variable for that is
/// `NODE_EXTRA_CA_CERTS`. Nothing leaves the machine.
#[derive(Debug)]
pub struct VendorProxy {
    address: SocketAddr,
    authority: String,
    hosts: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

type Issuer = CertifiedIssuer<'static, KeyPair>;

impl VendorProxy {
    /// Starts a proxy on any free port of loopback. Needs a tokio runtime with io.
    ///
    /// # Errors
    /// If no port is free, or no certificate can be made.
    pub async fn start(server: &ModelServer) -> io::Result<Self> {
        let issuer = Arc::new(issuer().map_err(io::Error::other)?);
        let authority = issuer.pem();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let hosts = Arc::new(Mutex::new(Vec::new()));
        let (state, asked) = (server.state(), Arc::clone(&hosts));
        let task = tokio::spawn(async move {
            loop {
                let Ok((mut stream, _)) = listener.accept().await else { continue };
                let (state, issuer, asked) = (Arc::clone(&state), Arc::clone(&issuer), Arc::clone(&asked));
                tokio::spawn(async move {
                    let Some(host) = host(&mut stream).await else { return };
                    asked.lock().unwrap_or_else(PoisonError::into_inner).push(host.clone());
                    // A certificate for exactly the host that the client names, or the client would reject
                    // it.
                    let Ok(config) = config(&issuer, &host) else { return };
                    // A client that does not trust us or hangs up ends only its own connection.
                    if let Ok(stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await {
                        serve_connection(TokioIo::new(stream), state).await;
                    }
                });
            }
        });
        Ok(Self { address, authority, hosts, task })
    }

    /// Returns the address of the proxy, such as `http://127.0.0.1:4242`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the certificate of the proxy's authority, as PEM.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the hosts that clients asked for, in order and with repetitions.
    #[must_use]
    pub fn hosts(&self) -> Vec<String> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for VendorProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads a request to connect and accepts it. Returns the host that it names.
async fn host(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        // A client that never ends its head must not fill the memory.
        if head.len() as u64 >= HEAD {
            return None;
        }
        // Byte by byte: what follows the head belongs to TLS and must stay unread.
        head.push(stream.read_u8().await.ok()?);
    }
    let target = std::str::from_utf8(&head).ok()?.strip_prefix("CONNECT ")?.split(' ').next()?;
    let (host, _) = target.rsplit_once(':')?;
    stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.ok()?;
    Some(host.to_owned())
}

fn issuer() -> Result<Issuer, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, "watchfire-model-server, for one test");
    // Clients reject an issuer that is not marked as an authority.
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

fn config(issuer: &Issuer, host: &str) -> io::Result<ServerConfig> {
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let certificate = CertificateParams::new([host.to_owned()])
        .and_then(|params| params.signed_by(&key, issuer))
        .map_err(io::Error::other)?;
    let chain = vec![certificate.der().clone()];
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key.into());
    config.map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    use super::*;

    #[tokio::test]
    async fn every_host_is_the_model_server_for_who_trusts_the_authority() {
        let server = ModelServer::start(crate::Script::default(), 0).await.unwrap();
        server.require_login();
        let proxy = VendorProxy::start(&server).await.unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(proxy.authority().as_bytes()).unwrap()).unwrap();
        let trusting = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let trusting = TlsConnector::from(Arc::new(trusting));
        let ask = async |host: &'static str| {
            let mut stream = TcpStream::connect(proxy.address).await.unwrap();
            let connect = format!("CONNECT {host}:443 HTTP/1.1\r\nhost: {host}:443\r\n\r\n");
            stream.write_all(connect.as_bytes()).await.unwrap();
            let mut established = [0; 39];
            stream.read_exact(&mut established).await.unwrap();
            let mut stream = trusting.connect(ServerName::try_from(host).unwrap(), stream).await.unwrap();
            let body = r#"{"refresh_token":"refresh-0"}"#;
            let request = format!(
                "POST /v1/oauth/token HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            String::from_utf8_lossy(&answer).into_owned()
        };
        let both = async { (ask("vendor.example").await, ask("other.example").await) };
        let (first, second) = tokio::time::timeout(Duration::from_secs(20), both).await.unwrap();
        assert!(first.starts_with("HTTP/1.1 200") && first.contains("refresh-1"), "{first}");
        assert!(second.starts_with("HTTP/1.1 401"), "a token works once: {second}");
        assert_eq!(proxy.hosts(), ["vendor.example", "other.example"]);
    }
}

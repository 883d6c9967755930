//! The port for other machines: TLS 1.3, for clients with a certificate of the person's own authority.
//!
//! A client shows its certificate before it can send anything. One that has none, or one of another authority, does not count as
//! a client, and is told nothing but that it is refused.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use tokio_rustls::rustls::{RootCertStore, ServerConfig, client, version};
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use watchfire_core::{Error, ErrorKind, Result};

/// Time that a client has to show its certificate.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Upper bound for the connections that have not shown one yet.
const AT_ONCE: usize = 64;
/// Pause after a connection that could not be accepted, for example for want of descriptors.
const AGAIN: Duration = Duration::from_millis(100);
/// Upper bound for the size of a file that is read.
const LARGEST: u64 = 1 << 20;

/// Arguments of the port for other machines. The last three belong to the first.
#[derive(Args, Clone, Debug, Default)]
pub struct TlsArgs {
    /// Listen for other machines at this address, for example 0.0.0.0:4001, with TLS and client certificates
    #[arg(long, value_name = "ADDR:PORT")]
    pub tls_listen: Option<SocketAddr>,
    /// The daemon's certificate, and those between it and its authority, as PEM
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of that certificate, as PEM
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// The authority that clients need a certificate of, as PEM
    #[arg(long, value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,
}

/// Options of the port for other machines.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TlsOptions {
    /// The address. Port 0: a free one.
    pub listen: SocketAddr,
    /// File with the chain of certificates of the daemon.
    pub cert: PathBuf,
    /// File with the private key.
    pub key: PathBuf,
    /// File with the authority for clients.
    pub client_ca: PathBuf,
}

impl TlsArgs {
    /// Returns them as options, or `None` if none is given.
    ///
    /// # Errors
    /// `invalid_input` if some are given and one is missing.
    pub(crate) fn options(&self) -> Result<Option<TlsOptions>> {
        let Self { tls_listen, tls_cert, tls_key, tls_client_ca } = self;
        let files = [tls_cert, tls_key, tls_client_ca];
        if tls_listen.is_none() && files.iter().all(|file| file.is_none()) {
            return Ok(None);
        }
        let listen = tls_listen.ok_or_else(|| missing("--tls-listen"))?;
        let file = |path: &Option<PathBuf>, option| {
            let path = path.as_ref().ok_or_else(|| missing(option))?;
            // The daemon in the background has another working directory.
            std::path::absolute(path).map_err(|error| Error::io("finding the file", error).with_path(path))
        };
        Ok(Some(TlsOptions {
            listen,
            cert: file(tls_cert, "--tls-cert")?,
            key: file(tls_key, "--tls-key")?,
            client_ca: file(tls_client_ca, "--tls-client-ca")?,
        }))
    }
}

fn missing(option: &'static str) -> Error {
    let message = format!("`{option}` is missing, without which there is no port with TLS");
    let hint = "`--tls-listen` needs `--tls-cert`, `--tls-key` and `--tls-client-ca`, and they need it";
    Error::new(ErrorKind::InvalidInput, message).with("option", option).with("hint", hint)
}

impl TlsOptions {
    /// Returns the arguments that these options come from.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let file = |option: &str, path: &Path| [option.to_owned(), path.display().to_string()];
        let listen = ["--tls-listen".to_owned(), self.listen.to_string()];
        let files = [
            file("--tls-cert", &self.cert),
            file("--tls-key", &self.key),
            file("--tls-client-ca", &self.client_ca),
        ];
        listen.into_iter().chain(files.into_iter().flatten()).collect()
    }

    /// Returns an error if no port can be opened with these files.
    pub(crate) fn check(&self) -> Result<()> {
        self.load().map(drop)
    }

    /// Reads the files.
    fn load(&self) -> Result<(TlsAcceptor, Certificate)> {
        let chain = certificates(&self.cert, "--tls-cert")?;
        let own = chain.first().cloned().ok_or_else(|| no_certificate(&self.cert, "--tls-cert"))?;
        let mut authority = RootCertStore::empty();
        for certificate in certificates(&self.client_ca, "--tls-client-ca")? {
            let added = authority.add(certificate);
            added.map_err(|error| unusable("--tls-client-ca", error).with_path(&self.client_ca))?;
        }
        let provider = Arc::new(ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(authority), Arc::clone(&provider));
        let verifier = verifier.build().map_err(|error| unusable("--tls-client-ca", error))?;
        let config = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&version::TLS13]);
        let config = config.map_err(|error| unusable("--tls-listen", error))?;
        let config = config.with_client_cert_verifier(verifier).with_single_cert(chain, self.private_key()?);
        // Also where the key belongs to another certificate.
        let mut config = config.map_err(|error| unusable("--tls-key", error).with_path(&self.key))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok((TlsAcceptor::from(Arc::new(config)), Certificate(own)))
    }

    /// Reads the private key, which other users of the machine must not be able to read or change.
    fn private_key(&self) -> Result<PrivateKeyDer<'static>> {
        let (text, mode) = read(&self.key, "--tls-key")?;
        if mode & 0o007 != 0 {
            let error =
                Error::new(ErrorKind::InvalidInput, "every user of this machine can get at the private key");
            let error = error.with_path(&self.key).with("option", "--tls-key");
            return Err(error.with("hint", format!("chmod 600 {}", self.key.display())));
        }
        PrivateKeyDer::from_pem_slice(&text)
            .map_err(|error| unusable("--tls-key", error).with_path(&self.key))
    }
}

/// Reads a file, and returns its bytes and its mode.
fn read(path: &Path, option: &'static str) -> Result<(Vec<u8>, u32)> {
    let failed = |error| Error::io("reading a file for TLS", error).with_path(path).with("option", option);
    let file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode();
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes).map_err(failed)?;
    Ok((bytes, mode))
}

fn certificates(path: &Path, option: &'static str) -> Result<Vec<CertificateDer<'static>>> {
    let (text, _) = read(path, option)?;
    let all = CertificateDer::pem_slice_iter(&text).collect::<std::result::Result<Vec<_>, _>>();
    let all = all.map_err(|error| unusable(option, error).with_path(path))?;
    match all.is_empty() {
        true => Err(no_certificate(path, option)),
        false => Ok(all),
    }
}

fn no_certificate(path: &Path, option: &'static str) -> Error {
    Error::new(ErrorKind::Malformed, "no certificate in the file").with_path(path).with("option", option)
}

fn unusable(option: &'static str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    let message = format!("the file of `{option}` is of no use for TLS");
    Error::new(ErrorKind::Malformed, message).with("option", option).with_source(error)
}

/// The certificate of the daemon.
#[derive(Clone, Debug)]
pub(crate) struct Certificate(CertificateDer<'static>);

impl Certificate {
    /// Returns true if it is a certificate for `host`: a name, or an address, that of IPv6 in brackets.
    pub(crate) fn names(&self, host: &str) -> bool {
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let (Ok(host), Ok(parsed)) = (ServerName::try_from(host), ParsedCertificate::try_from(&self.0))
        else {
            return false;
        };
        client::verify_server_name(&parsed, &host).is_ok()
    }
}

/// The port for other machines, on which nothing is served yet.
pub(crate) struct Remote {
    listener: TcpListener,
    address: SocketAddr,
    acceptor: TlsAcceptor,
    certificate: Certificate,
}

impl Remote {
    /// Listens at the address of `options`.
    pub(crate) async fn listen(options: &TlsOptions) -> Result<Self> {
        let (acceptor, certificate) = options.load()?;
        let failed = |error| Error::io("listening for other machines", error).with("address", options.listen);
        let listener = TcpListener::bind(options.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, acceptor, certificate })
    }

    /// Returns its address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the certificate of the daemon.
    pub(crate) fn certificate(&self) -> Certificate {
        self.certificate.clone()
    }

    /// Yields the connections whose clients have shown their certificate. Dropping the result closes the port.
    pub(crate) fn connections(self) -> ReceiverStream<io::Result<TlsStream<TcpStream>>> {
        let (send, receive) = mpsc::channel(1);
        tokio::spawn(accept(self.listener, self.acceptor, send));
        ReceiverStream::new(receive)
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    send: mpsc::Sender<io::Result<TlsStream<TcpStream>>>,
) {
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = send.closed() => return,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("a connection to the port with TLS was not accepted: {error}");
                tokio::time::sleep(AGAIN).await;
                continue;
            }
        };
        // Further connections are closed at once, so that strangers use up no descriptors.
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else { continue };
        let (acceptor, send) = (acceptor.clone(), send.clone());
        tokio::spawn(async move {
            let _permit = permit;
            // Calls are small. One that cannot be set works all the same.
            let _ = stream.set_nodelay(true);
            match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                // An error means that the daemon is ending.
                Ok(Ok(stream)) => drop(send.send(Ok(stream)).await),
                // Not louder: strangers must not be able to fill the log.
                Ok(Err(error)) => tracing::debug!(%from, "refused: {error}"),
                Err(_) => tracing::debug!(%from, "refused: it did not show a certificate in time"),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_is_missing_is_named() {
        let file = || Some(PathBuf::from("/some/file"));
        let all = TlsArgs {
            tls_listen: Some("127.0.0.1:0".parse().unwrap()),
            tls_cert: file(),
            tls_key: file(),
            tls_client_ca: file(),
        };
        assert!(TlsArgs::default().options().unwrap().is_none());
        let options = all.options().unwrap().unwrap();
        let given = ["--tls-cert", "/some/file", "--tls-key", "/some/file", "--tls-client-ca", "/some/file"];
        assert_eq!(options.arguments(), [&["--tls-listen", "127.0.0.1:0"], &given[..]].concat());
        for (option, args) in [
            ("--tls-listen", TlsArgs { tls_listen: None, ..all.clone() }),
            ("--tls-cert", TlsArgs { tls_cert: None, ..all.clone() }),
            ("--tls-key", TlsArgs { tls_key: None, ..all.clone() }),
            ("--tls-client-ca", TlsArgs { tls_client_ca: None, ..all.clone() }),
        ] {
            let error = args.options().unwrap_err();
            assert_eq!((error.kind(), error.detail("option")), (ErrorKind::InvalidInput, Some(option)));
        }
    }

    #[test]
    fn a_certificate_says_which_hosts_are_meant() {
        let names = ["build.example", "*.farm.example", "10.0.0.7", "::1"].map(str::to_owned);
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let certificate = Certificate(made.cert.der().clone());
        for host in ["build.example", "BUILD.example", "a.farm.example", "10.0.0.7", "[::1]"] {
            assert!(certificate.names(host), "{host}");
        }
        for host in ["", "evil.example", "farm.example", "10.0.0.8", "build.example.evil.example", "[::2]"] {
            assert!(!certificate.names(host), "{host}");
        }
    }
}

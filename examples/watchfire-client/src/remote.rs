//! The daemon of another machine, over its port with TLS.

use std::fmt;
use std::path::PathBuf;

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status};
use watchfire_api::ApiError;

use crate::client::{CONNECT, WINDOW};

/// The port of a daemon on another machine, and what opens it.
#[derive(Clone)]
#[non_exhaustive]
pub struct Remote {
    /// Address of the port, as `host:port`. The host is a name in the daemon's certificate.
    pub address: String,
    /// File with the authority of the daemon's certificate, as PEM.
    pub ca: PathBuf,
    /// File with the client's certificate, as PEM.
    pub cert: PathBuf,
    /// File with the private key of that certificate, as PEM.
    pub key: PathBuf,
    /// The token of the daemon's `daemon.yaml`.
    pub token: String,
}

/// Without the token.
impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("address", &self.address).field("ca", &self.ca).finish_non_exhaustive()
    }
}

/// Connection to the daemon of another machine, for the clients of its API.
pub type RemoteChannel = InterceptedService<Channel, Bearer>;

/// Adds the token to each request.
#[derive(Clone)]
pub struct Bearer(MetadataValue<Ascii>);

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bearer").finish_non_exhaustive()
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.0.clone());
        Ok(request)
    }
}

impl Remote {
    /// Returns the port at `address`, opened by these files and this token.
    #[must_use]
    pub fn new(
        address: impl Into<String>,
        ca: impl Into<PathBuf>,
        (cert, key): (impl Into<PathBuf>, impl Into<PathBuf>),
        token: impl Into<String>,
    ) -> Self {
        Self {
            address: address.into(),
            ca: ca.into(),
            cert: cert.into(),
            key: key.into(),
            token: token.into(),
        }
    }

    /// Connects to the port. Whether the daemon takes the certificate shows with the first call.
    ///
    /// # Errors
    /// `invalid_input` for an address or a token that cannot be one, `io` for a file that cannot be read,
    /// `app_not_running` if no daemon answers, or not the one of the authority.
    pub async fn connect(&self) -> Result<RemoteChannel, ApiError> {
        let invalid = |what: &str| ApiError::new("invalid_input", format!("not {what}"));
        let mut token: MetadataValue<_> =
            format!("Bearer {}", self.token).parse().map_err(|_| invalid("a token"))?;
        token.set_sensitive(true);
        let read = async |path: &PathBuf| {
            let failed = |error| ApiError::new("io", format!("reading {}: {error}", path.display()));
            let path = path.clone();
            let read = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
            read.map_err(std::io::Error::other).and_then(|read| read).map_err(failed)
        };
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(read(&self.ca).await?))
            .identity(Identity::from_pem(read(&self.cert).await?, read(&self.key).await?));
        let endpoint = Endpoint::from_shared(format!("https://{}", self.address));
        let endpoint = endpoint.map_err(|_| invalid("an address: host:port"))?;
        let endpoint = endpoint.connect_timeout(CONNECT).initial_stream_window_size(WINDOW);
        let endpoint = endpoint.tls_config(tls).map_err(|error| {
            ApiError::new("invalid_input", format!("certificates that cannot be used: {}", chain(&error)))
        })?;
        let channel = endpoint.connect().await.map_err(|error| {
            let message = format!("no daemon answers at {}: {}", self.address, chain(&error));
            ApiError::new("app_not_running", message)
        })?;
        Ok(InterceptedService::new(channel, Bearer(token)))
    }
}

/// Returns an error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |all, cause| format!("{all}: {cause}"))
}

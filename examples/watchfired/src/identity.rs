//! Who may call: every request on a port carries the token of `daemon.yaml`, and none comes from a page of another origin
//! or by another name of the host.
//!
//! A page in the person's browser can send requests to every port of the machine. It does not know the token, and a browser
//! tells its origin; a name of the attacker's that leads to 127.0.0.1 shows in the host.

use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, AUTHORIZATION, HOST, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use tonic::body::Body;
use tonic::{Code, Status};
use tower_layer::Layer;
use tower_service::Service;
use watchfire_core::{Error, ErrorKind};

use crate::connections::Admission;

/// Requests that a page may send, and parts of answers that it may read.
const HEADERS: HeaderValue =
    HeaderValue::from_static("authorization, content-type, grpc-timeout, x-grpc-web, x-user-agent");
const EXPOSED: HeaderValue = HeaderValue::from_static("grpc-status, grpc-message, grpc-status-details-bin");

/// Layer that checks the host, the origin and the token of every request.
#[derive(Clone, Debug)]
pub(crate) struct Guard(Arc<Rules>);

struct Rules {
    token: String,
    hosts: Hosts,
    /// Origins of pages that may call, for example `http://localhost:8080`.
    origins: Vec<String>,
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rules").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

/// The hosts that a request may name, with any port: a port can be forwarded, for example by SSH. A name of an attacker's is
/// refused for its name.
#[derive(Debug)]
enum Hosts {
    /// The names of this machine.
    Loopback,
    /// The names in the certificate.
    #[cfg(feature = "tls")]
    Certificate(crate::tls::Certificate),
}

impl Hosts {
    fn include(&self, host: &[u8]) -> bool {
        let Ok(host) = http::uri::Authority::try_from(host) else { return false };
        match self {
            Self::Loopback => ["localhost", "127.0.0.1", "[::1]"].contains(&host.host()),
            #[cfg(feature = "tls")]
            Self::Certificate(certificate) => certificate.names(host.host()),
        }
    }
}

impl Guard {
    pub(crate) fn new(token: String, origins: Vec<String>) -> Self {
        Self(Arc::new(Rules { token, hosts: Hosts::Loopback, origins }))
    }

    /// Returns the guard of a port with TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn for_certificate(
        token: String,
        certificate: crate::tls::Certificate,
        origins: Vec<String>,
    ) -> Self {
        Self(Arc::new(Rules { token, hosts: Hosts::Certificate(certificate), origins }))
    }
}

fn refused(code: Code, why: &'static str) -> Status {
    let kind =
        if code == Code::Unauthenticated { ErrorKind::Unauthorized } else { ErrorKind::PermissionDenied };
    watchfire_api::status_as(code, &Error::new(kind, why))
}

impl Rules {
    /// Returns the reason to refuse a request.
    fn refusal<B>(&self, request: &Request<B>) -> Option<Status> {
        let headers = request.headers();
        // HTTP/2 has the host in the address.
        let host = request.uri().authority().map(|authority| authority.as_str().as_bytes());
        let host = host.or_else(|| headers.get(HOST).map(HeaderValue::as_bytes)).unwrap_or_default();
        if !self.hosts.include(host) {
            return Some(refused(Code::PermissionDenied, "the host of the request is not this machine"));
        }
        if headers.contains_key(ORIGIN) && self.allowed(headers).is_none() {
            return Some(refused(Code::PermissionDenied, "pages of this origin may not call"));
        }
        if !self.has_token(headers) {
            return Some(refused(Code::Unauthenticated, "the token of daemon.yaml is missing or wrong"));
        }
        None
    }

    /// Returns the origin of a request, if its pages may call.
    fn allowed<'a>(&self, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        self.origins.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes()).then_some(origin)
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let (Some(given), None) = (given.next(), given.next()) else { return false };
        let Some(given) = given.as_bytes().strip_prefix(b"Bearer ") else { return false };
        let expected = self.token.as_bytes();
        // In constant time, so that it does not reveal the place of the first difference.
        given.len() == expected.len() && given.iter().zip(expected).fold(0, |all, (a, b)| all | (a ^ b)) == 0
    }

    /// Answers the question of a browser whether a page may call.
    fn preflight<B>(&self, request: &Request<B>) -> Option<Response<Body>> {
        if request.method() != Method::OPTIONS {
            return None;
        }
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        if let Some(origin) = self.allowed(request.headers()) {
            let headers = response.headers_mut();
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST"));
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
            headers.insert(VARY, HeaderValue::from_static("origin"));
        }
        Some(response)
    }
}

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { inner, rules: Arc::clone(&self.0) }
    }
}

/// A service whose requests are looked at first.
#[derive(Clone, Debug)]
pub(crate) struct Guarded<S> {
    inner: S,
    rules: Arc<Rules>,
}

impl<S, B> Service<Request<B>> for Guarded<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let answer = self.rules.preflight(&request);
        let answer = answer.or_else(|| self.rules.refusal(&request).map(Status::into_http));
        if let Some(answer) = answer {
            return Box::pin(std::future::ready(Ok(answer)));
        }
        if let Some(admission) = request.extensions().get::<Admission>() {
            admission.admit();
        }
        let origin = self.rules.allowed(request.headers()).cloned();
        let response = self.inner.call(request);
        Box::pin(async move {
            let mut response = response.await?;
            if let Some(origin) = origin {
                let headers = response.headers_mut();
                headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
                headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
                headers.insert(VARY, HeaderValue::from_static("origin"));
            }
            Ok(response)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        let origins = vec!["http://localhost:3000".to_owned()];
        Rules { token: "secret".to_owned(), hosts: Hosts::Loopback, origins }
    }

    fn refused(headers: &[(&str, &str)]) -> Option<Code> {
        let mut request = Request::builder().uri("/watchfire.DaemonService/Ping");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        rules().refusal(&request.body(()).unwrap()).map(|status| status.code())
    }

    #[test]
    fn only_the_token_opens() {
        let (ours, good) = (("host", "127.0.0.1:4000"), ("authorization", "Bearer secret"));
        assert_eq!(refused(&[ours, good]), None);
        assert_eq!(refused(&[("host", "localhost:4000"), good]), None);
        let denied = Some(Code::Unauthenticated);
        for bad in
            ["", "secret", "Bearer ", "Bearer secreT", "Bearer secret2", "bearer secret", "Basic secret"]
        {
            assert_eq!(refused(&[ours, ("authorization", bad)]), denied, "{bad}");
        }
        assert_eq!(refused(&[ours]), denied);
        // Which of two is meant nobody can say.
        assert_eq!(refused(&[ours, good, ("authorization", "Bearer other")]), denied);
    }

    #[test]
    fn neither_other_names_nor_other_pages_get_in() {
        let good = ("authorization", "Bearer secret");
        let denied = Some(Code::PermissionDenied);
        for host in [
            "evil.example:4000",
            "localhost.evil.example:4000",
            "127.0.0.1.evil.example",
            "127.0.0.2:4000",
            "",
        ] {
            assert_eq!(refused(&[("host", host), good]), denied, "{host}");
        }
        // As SSH forwards it.
        assert_eq!(refused(&[("host", "localhost:9000"), good]), None);
        let ours = ("host", "127.0.0.1:4000");
        for origin in ["http://evil.example", "null", "http://localhost:3001", "https://localhost:3000"] {
            assert_eq!(refused(&[ours, good, ("origin", origin)]), denied, "{origin}");
        }
        assert_eq!(refused(&[ours, good, ("origin", "http://localhost:3000")]), None);
    }
}

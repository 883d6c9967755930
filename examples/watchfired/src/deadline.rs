//! Deadlines of calls: what a client gives as `grpc-timeout` ends the call and its stream with `DEADLINE_EXCEEDED` and the stable code.
//! By itself the library below ends a call as cancelled, and no stream.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, Request, Response};
use http_body::{Body as HttpBody, Frame};
use tokio::time::{Sleep, sleep};
use tonic::Status;
use tonic::body::Body;
use tower_layer::Layer;
use tower_service::Service;
use watchfire_core::{Error, ErrorKind};

/// The library's own timer runs around ours and would answer first if both were due at once.
const FIRST: Duration = Duration::from_millis(5);

/// Layer that heeds the deadlines of calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadlines;

impl<S> Layer<S> for Deadlines {
    type Service = Heeding<S>;

    fn layer(&self, inner: S) -> Heeding<S> {
        Heeding(inner)
    }
}

/// A service whose calls have deadlines.
#[derive(Clone, Debug)]
pub(crate) struct Heeding<S>(S);

impl<S, B> Service<Request<B>> for Heeding<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let given = deadline(request.headers());
        let response = self.0.call(request);
        let Some(given) = given else { return Box::pin(response) };
        Box::pin(async move {
            let mut over = Box::pin(sleep(given.saturating_sub(FIRST)));
            tokio::select! {
                response = response => Ok(response?.map(|body| Body::new(Until { body, over: Some(over) }))),
                () = &mut over => Ok(exceeded().into_http()),
            }
        })
    }
}

fn exceeded() -> Status {
    watchfire_api::status(&Error::new(ErrorKind::Timeout, "the deadline of the call is over"))
}

/// Returns the time that a call has, as `grpc-timeout` gives it: up to eight digits and a unit.
fn deadline(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

/// A body that ends at a deadline.
struct Until {
    body: Body,
    /// `None` once it has ended.
    over: Option<Pin<Box<Sleep>>>,
}

impl HttpBody for Until {
    type Data = <Body as HttpBody>::Data;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        let Some(over) = &mut self.over else { return Poll::Ready(None) };
        if over.as_mut().poll(context).is_ready() {
            self.over = None;
            let mut trailers = HeaderMap::new();
            return Poll::Ready(match exceeded().add_header(&mut trailers) {
                Ok(()) => Some(Ok(Frame::trailers(trailers))),
                Err(status) => Some(Err(status)),
            });
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.over.is_none() || self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_call_is_read() {
        let read = |text: &str| {
            deadline(
                &[(http::HeaderName::from_static("grpc-timeout"), text.parse().unwrap())]
                    .into_iter()
                    .collect(),
            )
        };
        assert_eq!(read("300m"), Some(Duration::from_millis(300)));
        assert_eq!(read("2H"), Some(Duration::from_secs(7200)));
        assert_eq!(read("99999999M"), Some(Duration::from_secs(99_999_999 * 60)));
        for wrong in ["", "m", "x", "-1S", "123456789S", "5", "5d"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}

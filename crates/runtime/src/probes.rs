//! HTTP server of probes and metrics.
//!
//! One [`Server`] serves `/healthz` and `/readyz`, another one `/metrics`, so that scrapers cannot
//! delay the kubelet. Guaranteed, whatever clients do: a server has at most [`MAX_CONNECTIONS`]
//! connections, each for at most [`CONNECTION_TIMEOUT`] and with at most [`MAX_HEAD_BYTES`] of a
//! request; a connection serves one request.

mod address;
mod health;
#[cfg(test)]
mod tests;

use std::{convert::Infallible, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};

pub use address::{BindAddress, BindAddressError};
pub use health::{Health, Report};

use crate::metrics::CONTENT_TYPE;

/// Further connections wait in the kernel.
pub const MAX_CONNECTIONS: usize = 128;

pub const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// The smallest limit that hyper allows.
pub const MAX_HEAD_BYTES: usize = 8192;

const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

/// Delay when the process has no file descriptors left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// A response.
#[derive(Clone, Debug)]
pub struct Page {
    /// 200, or 500 when a check failed.
    pub status: StatusCode,
    pub content_type: &'static str,
    pub body: String,
}

/// Responses by path; `None` is 404.
pub type Pages = Arc<dyn Fn(&str) -> Option<Page> + Send + Sync>;

/// `/healthz` and `/readyz`.
pub fn health(health: Health) -> Pages {
    Arc::new(move |path| {
        let report = match path {
            "/healthz" => health.alive(),
            "/readyz" => health.ready(),
            _ => return None,
        };
        Some(Page {
            status: if report.passed() {
                StatusCode::OK
            } else {
                StatusCode::INTERNAL_SERVER_ERROR
            },
            content_type: "text/plain; charset=utf-8",
            body: report.to_string(),
        })
    })
}

/// `/metrics`, in the Prometheus text format.
pub fn metrics(expose: impl Fn() -> String + Send + Sync + 'static) -> Pages {
    Arc::new(move |path| {
        (path == "/metrics").then(|| Page {
            status: StatusCode::OK,
            content_type: CONTENT_TYPE,
            body: expose(),
        })
    })
}

/// Bound socket that serves pages.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
}

impl Server {
    /// Binds to `address`; `None` if it is [`BindAddress::Off`].
    pub async fn bind(address: BindAddress) -> io::Result<Option<Self>> {
        let mut refused = None;
        for address in address.candidates() {
            match TcpListener::bind(address).await {
                Ok(listener) => return Ok(Some(Self { listener })),
                Err(error) => {
                    let text = format!("cannot listen on {address}: {error}");
                    refused = Some(io::Error::new(error.kind(), text));
                }
            }
        }
        refused.map_or(Ok(None), Err)
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The socket, for another protocol.
    pub fn into_listener(self) -> TcpListener {
        self.listener
    }

    /// Serves `pages` until `token` is cancelled. Responses in flight then have a second.
    pub async fn serve(self, pages: Pages, token: CancellationToken) {
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let connections = TaskTracker::new();
        let accept = async {
            loop {
                // The semaphore is never closed.
                let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
                    return;
                };
                match self.listener.accept().await {
                    Ok((stream, _)) => {
                        let connection = connection(stream, Arc::clone(&pages), token.clone());
                        connections.spawn(async move {
                            if timeout(CONNECTION_TIMEOUT, connection).await.is_err() {
                                debug!("a connection to the probes timed out");
                            }
                            drop(permit);
                        });
                    }
                    Err(error) => {
                        warn!(%error, "cannot accept a connection to the probes");
                        tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    }
                }
            }
        };
        token.run_until_cancelled(accept).await;
        drop(self.listener);
        connections.close();
        connections.wait().await;
    }
}

async fn connection(stream: TcpStream, pages: Pages, token: CancellationToken) {
    let service = service_fn(move |request| {
        let answer = answer(&request, &pages);
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(CONNECTION_TIMEOUT)
            .max_buf_size(MAX_HEAD_BYTES)
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service)
    );
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = token.cancelled() => {
            connection.as_mut().graceful_shutdown();
            timeout(SHUTDOWN_GRACE, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = served {
        debug!(%error, "a connection to the probes failed");
    }
}

/// Request bodies are not read. hyper omits the body of the response to a HEAD.
fn answer(request: &Request<Incoming>, pages: &Pages) -> Response<Full<Bytes>> {
    let Some(page) = pages(request.uri().path()) else {
        return plain(StatusCode::NOT_FOUND, "404 page not found\n");
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refusal = plain(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed\n");
        let allowed = HeaderValue::from_static("GET, HEAD");
        refusal.headers_mut().insert(header::ALLOW, allowed);
        return refusal;
    }
    response(page.status, page.content_type, page.body)
}

fn plain(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8", body)
}

fn response(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    let sniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, sniff);
    response
}

//! HTTPS server whose certificate can be replaced while it runs.
//!
//! Guaranteed, whatever clients do: a server has at most [`MAX_CONNECTIONS`] connections and reads at
//! most [`MAX_CONCURRENT_REQUESTS`] requests, each with at most [`MAX_HEAD_BYTES`] of head and
//! [`MAX_SMALL_BODY_BYTES`] of body; one of them may have up to [`MAX_BODY_BYTES`]. The TLS handshake,
//! a head and a body have to arrive within [`READ_TIMEOUT`], and a response within
//! [`RESPONSE_TIMEOUT`]. A connection lasts at most [`MAX_CONNECTION_AGE`], so that idle ones do not
//! block others for good.
//!
//! Only HTTP/1.1 is supported: in HTTP/2 one connection could have many pending requests, whose frames
//! take many times the memory of their content.
//!
//! A handshake after [`Certificate::replace`] gets the new certificate; open connections continue.

mod certificate;
mod request;
#[cfg(test)]
mod tests;

use std::{convert::Infallible, io, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, future::BoxFuture, stream};
use http::{Request, Response};
use http_body_util::Full;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};

pub use certificate::{Certificate, CertificateError};
use request::Permits;

/// Further connections wait in the kernel.
pub const MAX_CONNECTIONS: usize = 128;

/// Further requests wait.
pub const MAX_CONCURRENT_REQUESTS: usize = 8;

pub const MAX_HEAD_BYTES: usize = 16 << 10;

/// An API server accepts objects of 3 MiB, and a review of an update has the old and the new one.
pub const MAX_BODY_BYTES: usize = 7 << 20;

/// Longer bodies are read one at a time. Almost all objects are far smaller.
pub const MAX_SMALL_BODY_BYTES: usize = 256 << 10;

pub const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// No API server waits for longer.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

pub const MAX_CONNECTION_AGE: Duration = Duration::from_secs(600);

/// Time for responses in flight when the server or a connection closes.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// Delay when the process has no file descriptors left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Handler of requests whose body has been read.
pub type Handler =
    Arc<dyn Fn(Request<Bytes>) -> BoxFuture<'static, Response<Full<Bytes>>> + Send + Sync>;

/// Serves requests until `token` is cancelled. Responses in flight then have a few seconds.
pub async fn serve(
    listener: TcpListener,
    certificate: Certificate,
    handler: Handler,
    token: CancellationToken,
) {
    let accepted = stream::unfold(listener, async |listener| {
        let accepted = listener.accept().await.map(|(stream, _)| stream);
        Some((accepted, listener))
    });
    Server {
        acceptor: TlsAcceptor::from(certificate.config()),
        permits: Permits::default(),
        handler,
        token,
    }
    .serve(accepted)
    .await;
}

/// Byte stream of a connection.
trait Io: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Io for T {}

#[derive(Clone)]
struct Server {
    acceptor: TlsAcceptor,
    permits: Permits,
    handler: Handler,
    token: CancellationToken,
}

impl Server {
    async fn serve<S: Io>(self, accepted: impl Stream<Item = io::Result<S>>) {
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let connections = TaskTracker::new();
        let accept = async {
            let mut accepted = pin!(accepted);
            // The semaphore is never closed, and the listener never ends.
            while let Ok(slot) = Arc::clone(&slots).acquire_owned().await
                && let Some(accepted) = accepted.next().await
            {
                match accepted {
                    Ok(stream) => {
                        let server = self.clone();
                        connections.spawn(async move {
                            server.connection(stream).await;
                            drop(slot);
                        });
                    }
                    Err(error) => {
                        warn!(%error, "cannot accept a connection to the webhook");
                        sleep(ACCEPT_RETRY_DELAY).await;
                    }
                }
            }
        };
        self.token.run_until_cancelled(accept).await;
        connections.close();
        connections.wait().await;
    }

    async fn connection(self, stream: impl Io) {
        let handshake = timeout(READ_TIMEOUT, self.acceptor.accept(stream));
        match self.token.run_until_cancelled(handshake).await {
            Some(Ok(Ok(stream))) => self.http(stream).await,
            Some(Ok(Err(error))) => {
                debug!(%error, "TLS handshake with a client of the webhook failed");
            }
            Some(Err(_)) => debug!("TLS handshake with a client of the webhook timed out"),
            None => {}
        }
    }

    async fn http(self, stream: TlsStream<impl Io>) {
        let Self {
            permits,
            handler,
            token,
            ..
        } = self;
        let service = service_fn(move |request| {
            let answer = request::answer(request, permits.clone(), Arc::clone(&handler));
            async move { Ok::<_, Infallible>(answer.await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(READ_TIMEOUT)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let served = tokio::select! {
            served = connection.as_mut() => served,
            _ = timeout(MAX_CONNECTION_AGE, token.cancelled()) => {
                connection.as_mut().graceful_shutdown();
                timeout(SHUTDOWN_GRACE, connection).await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = served {
            debug!(%error, "a connection to the webhook failed");
        }
    }
}

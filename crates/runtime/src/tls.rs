//! An HTTPS server whose certificate can be replaced while it runs.
//!
//! Guaranteed: whatever clients do, a server holds at most [`CONNECTIONS`] connections and reads at
//! most [`REQUESTS`] requests at a time, each with at most [`HEAD`] bytes of head and [`SHORT`] of
//! body; one of them may have up to [`BODY`]. TLS, a head and a body have to come within [`PATIENCE`],
//! and an answer within [`ANSWER`]. A connection lasts at most [`AGE`], so that idle ones do not take
//! the place of others for good.
//!
//! Only HTTP/1.1 is spoken: in HTTP/2 one connection could have many requests waiting, and send their
//! bodies in frames that take many times the memory of what is in them.
//!
//! A handshake that begins after [`Certificate::replace`] is answered with the new certificate;
//! connections that are open go on.

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
use request::Places;

/// How many connections a server holds at a time; others wait in the kernel.
pub const CONNECTIONS: usize = 128;

/// How many requests a server reads and answers at a time; others wait.
pub const REQUESTS: usize = 8;

/// The longest head of a request.
pub const HEAD: usize = 16 << 10;

/// The longest body of a request. An API server takes objects of 3 MiB, and asks about a change with
/// what was and what is to be.
pub const BODY: usize = 7 << 20;

/// The longest body that others are read beside; of longer ones there is one at a time. Almost all
/// objects are far shorter.
pub const SHORT: usize = 256 << 10;

/// How long TLS, the head of a request and its body may take to arrive.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How long an answer may take. No API server waits for longer.
pub const ANSWER: Duration = Duration::from_secs(30);

/// How long a connection may last.
pub const AGE: Duration = Duration::from_secs(600);

/// How long answers that were begun may take once the server or the connection is to end.
const GRACE: Duration = Duration::from_secs(5);

/// How long to wait when the process has no file descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

/// What answers a request, whose body has been read.
pub type Handler =
    Arc<dyn Fn(Request<Bytes>) -> BoxFuture<'static, Response<Full<Bytes>>> + Send + Sync>;

/// Answers requests until `token` is cancelled. Answers that were begun then have a few seconds.
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
        places: Places::default(),
        handler,
        token,
    }
    .serve(accepted)
    .await;
}

/// What a client can be heard and spoken to by.
trait Io: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Io for T {}

#[derive(Clone)]
struct Server {
    acceptor: TlsAcceptor,
    places: Places,
    handler: Handler,
    token: CancellationToken,
}

impl Server {
    async fn serve<S: Io>(self, accepted: impl Stream<Item = io::Result<S>>) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let connections = TaskTracker::new();
        let accept = async {
            let mut accepted = pin!(accepted);
            // A semaphore that is never closed, and a listener that never ends.
            while let Ok(place) = Arc::clone(&places).acquire_owned().await
                && let Some(accepted) = accepted.next().await
            {
                match accepted {
                    Ok(stream) => {
                        let server = self.clone();
                        connections.spawn(async move {
                            server.connection(stream).await;
                            drop(place);
                        });
                    }
                    Err(error) => {
                        warn!(%error, "Cannot accept a connection to the webhook");
                        sleep(PAUSE).await;
                    }
                }
            }
        };
        self.token.run_until_cancelled(accept).await;
        connections.close();
        connections.wait().await;
    }

    async fn connection(self, stream: impl Io) {
        let handshake = timeout(PATIENCE, self.acceptor.accept(stream));
        match self.token.run_until_cancelled(handshake).await {
            Some(Ok(Ok(stream))) => self.http(stream).await,
            Some(Ok(Err(error))) => debug!(%error, "A client of the webhook speaks no TLS"),
            Some(Err(_)) => debug!("A client of the webhook was too slow"),
            None => {}
        }
    }

    async fn http(self, stream: TlsStream<impl Io>) {
        let Self {
            places,
            handler,
            token,
            ..
        } = self;
        let service = service_fn(move |request| {
            let answer = request::answer(request, places.clone(), Arc::clone(&handler));
            async move { Ok::<_, Infallible>(answer.await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE)
            .max_buf_size(HEAD)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let served = tokio::select! {
            served = connection.as_mut() => served,
            _ = timeout(AGE, token.cancelled()) => {
                connection.as_mut().graceful_shutdown();
                timeout(GRACE, connection).await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = served {
            debug!(%error, "A connection to the webhook ended early");
        }
    }
}

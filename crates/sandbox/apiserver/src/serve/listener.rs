//! Connection handling.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Service, ServiceExt};

use super::{Certificates, Error};

/// Bounds on resources that clients can claim.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Concurrent connections; further ones are closed at once.
    pub connections: usize,
    /// Concurrent HTTP/2 streams per connection.
    pub streams: u32,
    /// Size of the request headers.
    pub header_bytes: u32,
    /// Timeout of the TLS handshake.
    pub handshake: Duration,
    /// Timeout of HTTP/1.1 headers.
    pub headers: Duration,
    /// Grace period of open requests at shutdown.
    pub shutdown: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            streams: 1000,
            header_bytes: 128 << 10,
            handshake: Duration::from_secs(10),
            headers: Duration::from_secs(60),
            shutdown: Duration::from_secs(2),
        }
    }
}

#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    tls: Arc<ServerConfig>,
    limits: Limits,
}

impl Server {
    /// Port 0 picks a free port.
    pub async fn bind(
        address: SocketAddr,
        certificates: &Certificates,
        limits: Limits,
    ) -> Result<Self, Error> {
        if !address.ip().is_loopback() {
            return Err(Error::NotLoopback(address));
        }
        let tls = certificates.server_config()?;
        let failed = |source| Error::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        Ok(Self {
            address: listener.local_addr().map_err(failed)?,
            listener,
            tls,
            limits,
        })
    }

    /// With the port that was picked.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves requests until `shutdown`, and ends within the grace period. Response bodies are
    /// polled only as fast as the client reads.
    pub async fn serve<S, B>(self, service: S, shutdown: CancellationToken)
    where
        S: Service<Request<Incoming>, Response = Response<B>, Future: Send, Error: Into<BoxError>>,
        S: Clone + Send + Sync + 'static,
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let slots = Arc::new(Semaphore::new(self.limits.connections));
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                () = shutdown.cancelled() => break,
                Some(_) = connections.join_next() => continue,
                accepted = self.listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Usually out of file descriptors; passes when connections end.
                    tracing::warn!(%error, "failed to accept a connection");
                    sleep(Duration::from_millis(20)).await;
                    continue;
                }
            };
            let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
                tracing::warn!(
                    limit = self.limits.connections,
                    "closed a connection: too many connections"
                );
                continue;
            };
            connections.spawn(
                Connection {
                    stream,
                    tls: TlsAcceptor::from(Arc::clone(&self.tls)),
                    limits: self.limits,
                    _slot: slot,
                }
                .serve(service.clone(), shutdown.clone()),
            );
        }
        drop(self.listener);
        let all = async { while connections.join_next().await.is_some() {} };
        if timeout(self.limits.shutdown, all).await.is_err() {
            tracing::debug!("aborted open requests: shutdown grace period expired");
        }
        connections.shutdown().await;
    }
}

struct Connection {
    stream: TcpStream,
    tls: TlsAcceptor,
    limits: Limits,
    /// Released when the connection ends.
    _slot: OwnedSemaphorePermit,
}

impl Connection {
    async fn serve<S, B>(self, service: S, shutdown: CancellationToken)
    where
        S: Service<Request<Incoming>, Response = Response<B>, Future: Send, Error: Into<BoxError>>,
        S: Clone + Send + Sync + 'static,
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        // Small watch events must not wait for more data.
        let _ = self.stream.set_nodelay(true);
        let handshake = timeout(self.limits.handshake, self.tls.accept(self.stream));
        let stream = tokio::select! {
            () = shutdown.cancelled() => return,
            stream = handshake => match stream {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
                Err(_) => return tracing::debug!("TLS handshake timed out"),
            },
        };
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let http = protocol(is_http2, &self.limits);
        let service = service_fn(move |request| service.clone().oneshot(request));
        let mut connection =
            std::pin::pin!(http.serve_connection_with_upgrades(TokioIo::new(stream), service));
        let ended = tokio::select! {
            ended = &mut connection => ended,
            () = shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(error, "connection failed");
        }
    }
}

/// The protocol is known from ALPN. Sniffing the first bytes would wait forever for a silent
/// client.
fn protocol(is_http2: bool, limits: &Limits) -> auto::Builder<TokioExecutor> {
    let http = auto::Builder::new(TokioExecutor::new());
    let mut http = if is_http2 {
        http.http2_only()
    } else {
        http.http1_only()
    };
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.headers)
        .max_headers(256)
        .max_buf_size(usize::try_from(limits.header_bytes).unwrap_or(usize::MAX));
    http.http2()
        .timer(TokioTimer::new())
        .max_header_list_size(limits.header_bytes)
        .max_concurrent_streams(limits.streams)
        .max_send_buf_size(64 << 10)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20));
    http
}

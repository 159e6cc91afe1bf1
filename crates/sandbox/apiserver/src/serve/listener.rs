//! Connections, from being accepted to being closed.

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
use tower::{Service, ServiceExt};

use super::{Certificates, Error};

/// What strangers can make the server hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at the same time. One more is closed as soon as it is open.
    pub connections: usize,
    /// Requests at the same time on a connection, in HTTP/2.
    pub streams: u32,
    /// Bytes of a request's headers.
    pub header_bytes: u32,
    /// How long TLS may take to begin.
    pub handshake: Duration,
    /// How long headers may take to arrive, in HTTP/1.1.
    pub headers: Duration,
    /// How long requests may go on once the server is told to stop.
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

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    tls: Arc<ServerConfig>,
    limits: Limits,
}

impl Server {
    /// Listens on a loopback address; port 0 for a free one.
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

    /// The address, with the port that was found.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests with `service` until `shutdown`, and ends within the limit after it. Bodies
    /// of answers are asked for more only as fast as the client reads.
    pub async fn serve<S, B>(self, service: S, shutdown: CancellationToken)
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
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
                    // Mostly a lack of file descriptors, which passes when connections end.
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(Duration::from_millis(20)).await;
                    continue;
                }
            };
            let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
                tracing::warn!(limit = self.limits.connections, "too many connections");
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
            tracing::debug!("requests were still going on when the server ended");
        }
        connections.shutdown().await;
    }
}

struct Connection {
    stream: TcpStream,
    tls: TlsAcceptor,
    limits: Limits,
    /// Freed when the connection ends.
    _slot: OwnedSemaphorePermit,
}

impl Connection {
    async fn serve<S, B>(self, service: S, shutdown: CancellationToken)
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        // Watches send small events, which must not wait for more.
        let _ = self.stream.set_nodelay(true);
        let handshake = timeout(self.limits.handshake, self.tls.accept(self.stream));
        let stream = tokio::select! {
            () = shutdown.cancelled() => return,
            stream = handshake => match stream {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => return tracing::debug!(%error, "no TLS"),
                Err(_) => return tracing::debug!("TLS took too long to begin"),
            },
        };
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let http = protocol(is_http2, &self.limits);
        let service = service_fn(move |request| service.clone().oneshot(request));
        let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
        let ended = tokio::select! {
            ended = &mut connection => ended,
            () = shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(error, "a connection has broken");
        }
    }
}

/// The protocol is known from TLS. Were it told from the first bytes, a client that sends none would
/// be waited for without end.
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

//! Upgrade of a request to a WebSocket, for an extension behind it.

use futures::future::BoxFuture;
use http::{
    HeaderMap, Response, StatusCode,
    header::{
        CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE,
    },
    request::Parts,
};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use crate::{ApiError, body::Body};

/// Connection after the handshake.
pub type Upgraded = TokioIo<hyper::upgrade::Upgraded>;

/// What is behind a connection.
pub type Tunnel = Box<dyn FnOnce(Upgraded) -> BoxFuture<'static, ()> + Send>;

/// Request for a WebSocket over a connection that can become one.
pub(crate) struct Upgrade {
    key: String,
    has_protocol: bool,
    connection: OnUpgrade,
}

impl Upgrade {
    /// None for other requests, and for clients in this process, which have no connection.
    pub(crate) fn of(parts: &mut Parts) -> Option<Self> {
        let connection = parts.extensions.remove::<OnUpgrade>()?;
        let text = |headers: &HeaderMap, name| {
            let value = headers.get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let headers = &parts.headers;
        let key = text(headers, SEC_WEBSOCKET_KEY);
        let is_requested = text(headers, UPGRADE).eq_ignore_ascii_case("websocket");
        let protocols = text(headers, SEC_WEBSOCKET_PROTOCOL);
        let has_protocol = protocols
            .split(',')
            .any(|it| it.trim() == websocket::PROTOCOL);
        (is_requested && !key.is_empty()).then_some(Self {
            key,
            has_protocol,
            connection,
        })
    }

    /// Answers the handshake, and runs the tunnel once the client has the answer.
    pub(crate) fn accept(self, tunnel: Tunnel) -> Result<Response<Body>, ApiError> {
        let mut response = Response::builder()
            .status(StatusCode::SWITCHING_PROTOCOLS)
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_ACCEPT, websocket::accept_key(&self.key));
        if self.has_protocol {
            response = response.header(SEC_WEBSOCKET_PROTOCOL, websocket::PROTOCOL);
        }
        let response = response.body(Body::Full(None));
        let response = response.map_err(|error| ApiError::bad_request(error.to_string()))?;
        tokio::spawn(async move {
            // Fails if the client has gone.
            if let Ok(upgraded) = self.connection.await {
                tunnel(TokioIo::new(upgraded)).await;
            }
        });
        Ok(response)
    }
}

//! Tunnels to guests, through subresources of KubeVirt.

use http::{
    Request, StatusCode,
    header::{
        CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
        SEC_WEBSOCKET_VERSION, UPGRADE,
    },
};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use kube::{Client, client::Body, core::Status};
use runtime::backoff::Random;

use crate::failure::{Failure, status_failure};

/// Connection to a port of a guest, whose handshake is done.
pub(crate) type Tunnel = TokioIo<hyper::upgrade::Upgraded>;

/// Console, or a port, of the guest of a VirtualMachine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    namespace: String,
    /// Name of the VirtualMachine.
    vm: String,
    /// Subresource.
    part: String,
    /// For messages.
    what: String,
}

impl Target {
    pub(crate) fn console(namespace: &str, vm: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            vm: vm.to_owned(),
            part: "console".to_owned(),
            what: "the console".to_owned(),
        }
    }

    pub(crate) fn port(namespace: &str, vm: &str, port: u16) -> Self {
        Self {
            part: format!("portforward/{port}/tcp"),
            what: format!("port {port}"),
            ..Self::console(namespace, vm)
        }
    }

    fn path(&self) -> String {
        let Self {
            namespace,
            vm,
            part,
            ..
        } = self;
        format!(
            "/apis/subresources.kubevirt.io/v1/namespaces/{namespace}/virtualmachineinstances/{vm}/{part}"
        )
    }

    /// Opens the tunnel.
    pub(crate) async fn open(&self, client: &Client) -> Result<Tunnel, Failure> {
        let what = format!("{} of {}/{}", self.what, self.namespace, self.vm);
        let mut random = Random::from_entropy();
        let key = websocket::request_key([random.next(), random.next()]);
        let request = Request::get(self.path())
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key)
            .header(SEC_WEBSOCKET_PROTOCOL, websocket::PROTOCOL)
            .body(Body::empty())
            .map_err(|error| Failure::Other(error.to_string()))?;
        let response = client.send(request).await;
        let response = response.map_err(|error| Failure::api("connect to", &what, error))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let code = response.status().as_u16();
            let body = response.into_body().collect().await;
            let body = body
                .map(http_body_util::Collected::to_bytes)
                .unwrap_or_default();
            let status: Status = serde_json::from_slice(&body).unwrap_or_default();
            return Err(status_failure(
                "connect to",
                &what,
                &Status { code, ..status },
            ));
        }
        let accepted = response.headers().get(SEC_WEBSOCKET_ACCEPT);
        if accepted
            .is_none_or(|accepted| accepted.as_bytes() != websocket::accept_key(&key).as_bytes())
        {
            return Err(Failure::Other(format!(
                "cannot connect to {what}: the answer to the WebSocket handshake is wrong: check the proxies \
                 before the API server"
            )));
        }
        let upgraded = hyper::upgrade::on(response).await;
        let upgraded = upgraded
            .map_err(|error| Failure::Other(format!("cannot connect to {what}: {error}")))?;
        Ok(TokioIo::new(upgraded))
    }
}

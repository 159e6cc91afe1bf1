//! Network to an API server that can be cut.

use std::{sync::Arc, time::Duration};

use apiserver::{ApiServer, User};
use bytes::Bytes;
use http::{Request, Response};
use runtime::{
    backoff::Random,
    client::{self, Body, CallCounter, Limits, Transport},
    election::{Candidate, Clock, Election, Fence},
};
use tokio::sync::watch;
use tower::{BoxError, ServiceExt};

pub const SECOND: Duration = Duration::from_secs(1);

/// A network that can be cut. Requests in flight arrive when it is restored, even if their sender has
/// given up.
#[derive(Clone)]
pub struct Network {
    pub server: ApiServer,
    cut: Arc<watch::Sender<bool>>,
}

impl Network {
    pub fn to(server: &ApiServer) -> Self {
        Self {
            server: server.clone(),
            cut: Arc::new(watch::Sender::new(false)),
        }
    }

    pub fn set_cut(&self, cut: bool) {
        self.cut.send_replace(cut);
    }

    fn transport(&self) -> Transport {
        let server = self.server.as_user(User::admin());
        self.route(move |request| {
            let answer = server.clone().oneshot(request);
            async move { Ok(answer.await?) }
        })
    }

    /// Transport to `server` over this network.
    pub fn route<B, F>(
        &self,
        server: impl Fn(Request<Body>) -> F + Clone + Send + Sync + 'static,
    ) -> Transport
    where
        F: Future<Output = Result<Response<B>, BoxError>> + Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let cut = self.cut.subscribe();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, mut cut) = (server.clone(), cut.clone());
            let routed = tokio::spawn(async move {
                cut.wait_for(|cut| !cut).await?;
                server(request).await
            });
            async move { routed.await? }
        });
        Transport::new(service, "default")
    }

    pub fn client(&self, fence: Fence) -> kube::Client {
        let calls = Arc::new(CallCounter::default());
        client::layered(self.transport(), fence, Limits::UNLIMITED, calls)
    }

    pub fn candidate(&self, name: &str) -> Election {
        Election::new(
            self.client(Fence::open()),
            candidate(name),
            clock(&self.server),
            Random::seeded(name.len() as u64),
        )
    }
}

pub fn candidate(identity: &str) -> Candidate {
    Candidate {
        namespace: "default".to_owned(),
        name: "operator".to_owned(),
        identity: identity.to_owned(),
    }
}

pub fn clock(server: &ApiServer) -> Clock {
    let server = server.clone();
    Arc::new(move || server.now())
}

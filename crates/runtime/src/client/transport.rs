//! Transport of requests to an API server.

use std::{
    fmt,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use tower::{BoxError, Service, ServiceExt, util::BoxCloneSyncService};

use super::Body;

pub(super) type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// Sends requests to an API server: over the network (see [`super::transport`]), or to one in the
/// same process. Clones share connections.
#[derive(Clone)]
pub struct Transport {
    service: BoxCloneSyncService<Request<Body>, Answer, BoxError>,
    namespace: String,
}

impl Transport {
    /// Sends requests to `service`, which must send nothing before it has polled the body.
    pub fn new<S, B>(service: S, namespace: impl Into<String>) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let service = service
            .map_response(|answer| answer.map(|body| body.map_err(Into::into).boxed_unsync()))
            .map_err(Into::into);
        Self {
            service: BoxCloneSyncService::new(service),
            namespace: namespace.into(),
        }
    }

    /// Namespace of requests that name none.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }
}

/// For an API server in the same process. The fence is checked when the request is passed to
/// `client`, and not again if it then waits for a connection.
impl From<kube::Client> for Transport {
    fn from(client: kube::Client) -> Self {
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request: Request<Body>| {
            let client = client.clone();
            async move {
                let (parts, body) = request.into_parts();
                let bytes = body.collect().await?.to_bytes();
                let request = Request::from_parts(parts, bytes.into());
                client.send(request).await.map_err(BoxError::from)
            }
        });
        Self::new(service, namespace)
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Answer;
    type Error = BoxError;
    type Future =
        <BoxCloneSyncService<Request<Body>, Answer, BoxError> as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.service.call(request)
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

//! Proxy between an operator and the API server that counts requests.
//!
//! It accepts plain HTTP on the loopback interface and adds the credentials of the harness, so any
//! operator can be counted in the same way, from outside.

use std::{convert::Infallible, fs, net::Ipv4Addr, path::Path, sync::Arc};

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::rt::TokioIo;
use kube::Client;
use tokio::net::TcpListener;
use tower::BoxError;

type Body = UnsyncBoxBody<bytes::Bytes, BoxError>;

/// Starts the proxy, and writes a kubeconfig for its clients. `client` counts the requests.
pub async fn start(client: Client, kubeconfig: &Path) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("there is a free port");
    let address = listener.local_addr().expect("it is bound");
    let content = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: proxy\n\
         clusters: [{{name: proxy, cluster: {{server: \"http://{address}\"}}}}]\n\
         users: [{{name: proxy, user: {{}}}}]\n\
         contexts: [{{name: proxy, context: {{cluster: proxy, user: proxy, namespace: default}}}}]\n"
    );
    fs::write(kubeconfig, content).expect("the kubeconfig is written");
    tokio::spawn(accept(listener, Arc::new(client)));
}

async fn accept(listener: TcpListener, client: Arc<Client>) {
    while let Ok((stream, _)) = listener.accept().await {
        // Without this, small answers wait for acknowledgements.
        let _ = stream.set_nodelay(true);
        let client = Arc::clone(&client);
        tokio::spawn(async move {
            let service = hyper::service::service_fn(move |request| {
                let client = Arc::clone(&client);
                async move { Ok::<_, Infallible>(forward(&client, request).await) }
            });
            // An operator that ends closes its connections.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn forward(client: &Client, request: Request<Incoming>) -> Response<Body> {
    let (mut parts, body) = request.into_parts();
    parts.headers.remove(http::header::HOST);
    let answer = async {
        let body = body.collect().await?.to_bytes();
        let answer = client.send(Request::from_parts(parts, body.into())).await?;
        Ok::<_, BoxError>(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
    };
    answer.await.unwrap_or_else(|error| {
        let body = http_body_util::Full::from(error.to_string());
        let mut answer = Response::new(body.map_err(|never| match never {}).boxed_unsync());
        *answer.status_mut() = StatusCode::BAD_GATEWAY;
        answer
    })
}

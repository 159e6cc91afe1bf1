use std::{
    convert::Infallible,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll},
};

use apiserver::{ApiServer, Options, User};
use bytes::Bytes;
use futures::{AsyncReadExt as _, future::pending};
use http_body::Frame;
use http_body_util::Full;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::{Instant, advance, sleep},
};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn unlimited(transport: impl Into<Transport>, fence: &Fence) -> (kube::Client, Arc<CallCounter>) {
    let calls = Arc::new(CallCounter::default());
    let client = layered(transport, fence.clone(), Limits::UNLIMITED, calls.clone());
    (client, calls)
}

fn counted(calls: &CallCounter) -> Vec<String> {
    let describe = |((verb, resource, code), count)| format!("{verb} {resource} {code} {count}");
    calls.take().into_iter().map(describe).collect()
}

/// A server that never answers.
fn silent() -> Transport {
    let service = tower::service_fn(|request: Request<Body>| async {
        request.into_body().collect().await?;
        pending::<Result<Response<Full<Bytes>>, BoxError>>().await
    });
    Transport::new(service, "default")
}

/// A server that answers with a head and no body.
fn incomplete() -> Transport {
    struct Nothing;
    impl http_body::Body for Nothing {
        type Data = Bytes;
        type Error = Infallible;
        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }
    }
    let service =
        tower::service_fn(|_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Nothing)) });
    Transport::new(service, "default")
}

/// Transport to `server` that polls the body after `wait`.
fn after<F>(server: &ApiServer, wait: impl Fn() -> F + Clone + Send + Sync + 'static) -> Transport
where
    F: Future<Output = ()> + Send + 'static,
{
    let server = server.as_user(User::admin());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (server, wait) = (server.clone(), wait());
        async move {
            wait.await;
            server.oneshot(request).await
        }
    });
    Transport::new(service, "default")
}

fn config_maps(client: &kube::Client) -> Api<ConfigMap> {
    Api::default_namespaced(client.clone())
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

async fn create(client: &kube::Client, name: &str) -> kube::Result<ConfigMap> {
    config_maps(client)
        .create(&PostParams::default(), &config_map(name))
        .await
}

#[tokio::test(start_paused = true)]
async fn calls_are_counted_by_verb_resource_and_code() {
    let server = ApiServer::start(Options::seeded(1));
    let (client, calls) = unlimited(server.client(), &Fence::open());
    create(&client, "a").await.unwrap();
    create(&client, "a").await.unwrap_err();
    let api = config_maps(&client);
    api.get("a").await.unwrap();
    api.get("a").await.unwrap();
    api.get_opt("missing").await.unwrap();
    api.list(&ListParams::default()).await.unwrap();
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(
        counted(&calls),
        [
            "create configmaps 201 1",
            "create configmaps 409 1",
            "delete configmaps 200 1",
            "get configmaps 200 2",
            "get configmaps 404 1",
            "list configmaps 200 1",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_times_out_without_quoting_its_body() {
    let (client, calls) = unlimited(silent(), &Fence::open());
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "login"}, "stringData": {"password": "hunter2"},
    }))
    .unwrap();
    let api: Api<Secret> = Api::default_namespaced(client);
    let start = Instant::now();
    let params = PostParams {
        field_manager: Some("me".to_owned()),
        ..PostParams::default()
    };
    let error = api.create(&params, &secret).await.unwrap_err();
    assert_eq!(start.elapsed(), Limits::TIMEOUT);
    assert!(is_timeout(&error) && !is_fenced(&error));
    assert_eq!(
        error.to_string(),
        "ServiceError: create /api/v1/namespaces/default/secrets: no answer from the API server \
         within 15 s"
    );
    assert!(!format!("{error:?}").contains("hunter2"));
    assert_eq!(counted(&calls), ["create secrets timeout 1"]);
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_answer_times_out() {
    let (client, calls) = unlimited(incomplete(), &Fence::open());
    let error = config_maps(&client).get("a").await.unwrap_err();
    assert!(is_timeout(&error), "{error}");
    assert_eq!(counted(&calls), ["get configmaps timeout 1"]);
}

#[tokio::test(start_paused = true)]
async fn only_the_start_of_a_watch_times_out() {
    let watch = || {
        Request::get("/api/v1/configmaps?watch=true")
            .body(Vec::new())
            .unwrap()
    };
    let (client, calls) = unlimited(silent(), &Fence::open());
    let error = client.request_stream(watch()).await.err().unwrap();
    assert!(is_timeout(&error), "{error}");
    assert_eq!(counted(&calls), ["watch configmaps timeout 1"]);

    let server = ApiServer::start(Options::seeded(1));
    let (client, calls) = unlimited(server.client(), &Fence::open());
    let mut stream = Box::pin(client.request_stream(watch()).await.unwrap());
    assert_eq!(counted(&calls), ["watch configmaps 200 1"]);
    sleep(120 * SECOND).await;
    create(&server.client(), "late").await.unwrap();
    let mut events = vec![0; 1024];
    let mut received = String::new();
    while !received.contains("late") {
        let length = stream.read(&mut events).await.unwrap();
        assert!(length > 0, "the watch has ended");
        received.push_str(std::str::from_utf8(&events[..length]).unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_names_the_call_and_its_cause() {
    let service = tower::service_fn(|_: Request<Body>| async {
        let cause = std::io::Error::other("connection refused");
        Err::<Response<Full<Bytes>>, _>(BoxError::from(Failed {
            verb: "connect",
            path: "host".to_owned(),
            source: cause.into(),
        }))
    });
    let (client, calls) = unlimited(Transport::new(service, "default"), &Fence::open());
    let error = config_maps(&client).get("a").await.unwrap_err().to_string();
    assert!(
        error.contains("get /api/v1/namespaces/default/configmaps/a: ")
            && error.contains("connection refused"),
        "{error}"
    );
    assert_eq!(counted(&calls), ["get configmaps error 1"]);
}

#[tokio::test(start_paused = true)]
async fn calls_wait_for_the_rate_limit_and_watches_do_not() {
    let server = ApiServer::start(Options::seeded(1));
    let limits = Limits::rate(NonZeroU32::MIN, NonZeroU32::MIN);
    let client = layered(
        server.client(),
        Fence::open(),
        limits,
        Arc::new(CallCounter::default()),
    );
    let api = config_maps(&client);
    let start = Instant::now();
    // Longer than the timeout, which excludes the wait for the rate limit.
    for _ in 0..=20 {
        api.get_opt("a").await.unwrap();
    }
    assert_eq!(start.elapsed().as_secs(), 20);
    let watch = Request::get("/api/v1/configmaps?watch=1").body(Vec::new());
    client.request_stream(watch.unwrap()).await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_does_not_lead_reads_and_does_not_write() {
    let server = ApiServer::start(Options::seeded(1));
    create(&server.client(), "there").await.unwrap();
    let reached = Arc::new(AtomicUsize::new(0));
    let count = reached.clone();
    let transport = after(&server, move || {
        count.fetch_add(1, Ordering::SeqCst);
        std::future::ready(())
    });
    let (client, calls) = unlimited(transport, &Fence::closed());
    let api = config_maps(&client);
    api.get("there").await.unwrap();
    api.list(&ListParams::default()).await.unwrap();
    let refused = [
        create(&client, "a").await.map(|_| ()),
        api.delete("there", &DeleteParams::default())
            .await
            .map(|_| ()),
        api.replace("there", &PostParams::default(), &config_map("there"))
            .await
            .map(|_| ()),
    ];
    for result in refused {
        let error = result.unwrap_err();
        assert!(is_fenced(&error) && !is_timeout(&error), "{error}");
    }
    assert_eq!(
        counted(&calls),
        ["get configmaps 200 1", "list configmaps 200 1"]
    );
    assert_eq!(reached.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_the_api_server_is_not_one_of_the_fence() {
    let server = ApiServer::start(Options::seeded(1));
    let (client, _) = unlimited(server.client_of("default", "nobody"), &Fence::open());
    assert!(!is_fenced(&create(&client, "a").await.unwrap_err()));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waited_for_the_rate_limit_is_fenced() {
    let server = ApiServer::start(Options::seeded(1));
    let fence = Fence::closed();
    assert!(fence.extend(Instant::now() + 10 * SECOND));
    let limits = Limits::rate(NonZeroU32::MIN, NonZeroU32::MIN);
    let calls = Arc::new(CallCounter::default());
    let client = layered(server.client(), fence, limits, calls.clone());
    let writes = (0..20).map(|number| {
        let client = client.clone();
        async move { create(&client, &format!("m{number}")).await }
    });
    let (made, refused): (Vec<_>, Vec<_>) = futures::future::join_all(writes)
        .await
        .into_iter()
        .partition(Result::is_ok);
    assert_eq!((made.len(), refused.len()), (10, 10));
    assert!(
        refused
            .iter()
            .all(|refused| is_fenced(refused.as_ref().unwrap_err()))
    );
    assert_eq!(counted(&calls), ["create configmaps 201 10"]);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waited_for_a_connection_is_fenced_when_its_body_is_polled() {
    let server = ApiServer::start(Options::seeded(1));
    let fence = Fence::closed();
    let falls = fence.clone();
    let transport = after(&server, move || {
        let falls = falls.clone();
        async move { falls.close() }
    });
    assert!(fence.extend(Instant::now() + 10 * SECOND));
    let (client, calls) = unlimited(transport, &fence);
    let error = create(&client, "a").await.unwrap_err();
    assert!(is_fenced(&error), "{error}");
    assert_eq!(counted(&calls), Vec::<String>::new());
    assert!(
        config_maps(&server.client())
            .get_opt("a")
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn a_stopped_process_sends_nothing_when_it_resumes() {
    let server = ApiServer::start(Options::seeded(1));
    let fence = Fence::closed();
    assert!(fence.extend(Instant::now() + 10 * SECOND));
    // Time passes while no task runs, as in a stopped process.
    let transport = after(&server, || advance(60 * SECOND));
    let calls = Arc::new(CallCounter::default());
    let limits = Limits {
        timeout: 3600 * SECOND,
        ..Limits::UNLIMITED
    };
    let client = layered(transport, fence, limits, calls.clone());
    assert!(is_fenced(&create(&client, "a").await.unwrap_err()));

    let api = config_maps(&server.client());
    assert!(api.get_opt("a").await.unwrap().is_none());
    assert_eq!(counted(&calls), Vec::<String>::new());
}

/// Listener that records requests and sends `answer` to each.
async fn listener(
    answer: &'static [u8],
) -> (
    kube::Config,
    Arc<std::sync::Mutex<Vec<u8>>>,
    Arc<AtomicUsize>,
) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (received, connections) = (Arc::default(), Arc::new(AtomicUsize::new(0)));
    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    let (remember, count): (Arc<std::sync::Mutex<Vec<u8>>>, _) =
        (Arc::clone(&received), connections.clone());
    tokio::spawn(async move {
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            let (remember, count) = (remember.clone(), count.clone());
            tokio::spawn(async move {
                let mut buffer = vec![0; 4096];
                while let Ok(length @ 1..) = connection.read(&mut buffer).await {
                    remember
                        .lock()
                        .unwrap()
                        .extend_from_slice(&buffer[..length]);
                    if connection.write_all(answer).await.is_err() {
                        break;
                    }
                }
                count.fetch_add(1, Ordering::SeqCst);
            });
        }
    });
    (config, received, connections)
}

/// Closes `fence` when `transport` gets a request and is not connected yet.
fn closing(transport: Transport, fence: &Fence) -> Transport {
    let fence = fence.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        fence.close();
        transport.clone().oneshot(request)
    });
    Transport::new(service, "default")
}

#[tokio::test]
async fn not_even_the_head_of_a_fenced_write_is_sent() {
    let (config, received, ended) = listener(b"").await;
    let with_body = Request::post("/api/v1/namespaces/default/configmaps").body(b"{}".to_vec());
    let without = Request::delete("/api/v1/namespaces/default/configmaps/a").body(Vec::new());
    for request in [with_body, without] {
        let fence = Fence::closed();
        assert!(fence.extend(Instant::now() + 3600 * SECOND));
        let (client, calls) = unlimited(closing(transport(&config).unwrap(), &fence), &fence);
        let error = client.request_text(request.unwrap()).await.unwrap_err();
        assert!(is_fenced(&error), "{error}");
        assert_eq!(counted(&calls), Vec::<String>::new());
    }
    while ended.load(Ordering::SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(String::from_utf8_lossy(&received.lock().unwrap()), "");
}

#[tokio::test]
async fn a_failed_call_is_not_retried() {
    let (mut config, received, _) = listener(
        b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n",
    )
    .await;
    connect::harden(&mut config);
    let (client, calls) = unlimited(transport(&config).unwrap(), &Fence::open());
    create(&client, "a").await.unwrap_err();
    config_maps(&client).get("a").await.unwrap_err();
    assert_eq!(
        counted(&calls),
        ["create configmaps 503 1", "get configmaps 503 1"]
    );
    let received = String::from_utf8_lossy(&received.lock().unwrap()).into_owned();
    assert_eq!(received.matches(" HTTP/1.1\r\n").count(), 2, "{received}");
    let agent = concat!(
        "user-agent: kubevirt-operator/",
        env!("CARGO_PKG_VERSION"),
        "\r\n"
    );
    assert_eq!(received.matches(agent).count(), 2, "{received}");
}

#[tokio::test]
async fn an_unreachable_server_is_named() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    let (client, calls) = unlimited(transport(&config).unwrap(), &Fence::open());
    let error = create(&client, "a").await.unwrap_err().to_string();
    assert!(
        error.contains("create /api/v1/namespaces/default/configmaps: ")
            && error.to_lowercase().contains("connection refused"),
        "{error}"
    );
    assert_eq!(counted(&calls), ["create configmaps error 1"]);
}

/// A server that answers 429.
fn busy(body: &'static str) -> Transport {
    let service = tower::service_fn(move |_: Request<Body>| async move {
        let answer = Response::builder()
            .status(429)
            .header("retry-after", "7")
            .body(Full::<Bytes>::from(body));
        answer.map_err(BoxError::from)
    });
    Transport::new(service, "default")
}

#[tokio::test]
async fn an_error_has_retry_after_and_the_message_of_the_server() {
    let status = r#"{"kind": "Status", "status": "Failure", "code": 429, "message": "too many",
        "reason": "TooManyRequests", "details": {"name": "a"}}"#;
    for (body, message) in [
        (status, "too many"),
        (
            "Too many requests, please try again later.\n",
            "Too many requests, please try again later.",
        ),
    ] {
        let (client, _) = unlimited(busy(body), &Fence::open());
        let maps: Api<ConfigMap> = Api::namespaced(client, "default");
        let error = maps
            .create(&PostParams::default(), &ConfigMap::default())
            .await
            .unwrap_err();
        assert_eq!(retry_after(&error), Some(7 * SECOND));
        let kube::Error::Api(status) = error else {
            panic!("{error}");
        };
        assert_eq!((status.code, status.message.as_str()), (429, message));
    }
}

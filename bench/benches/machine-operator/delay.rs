//! Latency from the watch event of a new Machine to the request that creates its VirtualMachine, in an
//! idle operator. It includes two writes to the API server, of the finalizer and the disk.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::Client;
use runtime::client::{Body, CallCounter, Transport};
use tower::BoxError;

use crate::cluster::{self, InProcessOperator};

/// Time of the last watch event of a new Machine, and the latencies.
#[derive(Debug, Default)]
struct Stopwatch {
    event: Option<Instant>,
    delays: Vec<Duration>,
}

pub fn run(times: usize) {
    cluster::block_on(async {
        let cluster = cluster::start(times).await;
        let client = cluster.client();
        let stopwatch = Arc::new(Mutex::new(Stopwatch::default()));
        let transport = timed(cluster.client(), &stopwatch);
        let operator = InProcessOperator::start(
            cluster.server(),
            transport,
            Arc::new(CallCounter::default()),
        );
        for number in 0..times {
            cluster::create(&client, &format!("delay-{number}")).await;
            cluster::until_running(&client, number + 1, Duration::from_millis(5)).await;
            // Until the operator is idle.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        operator.stop().await;
        cluster.stop().await.expect("the cluster ends in order");
        let mut delays = std::mem::take(&mut stopwatch.lock().expect("no panic").delays);
        delays.sort_unstable();
        let at = |part: usize| {
            delays
                .get(delays.len() * part / 100)
                .copied()
                .unwrap_or_default()
        };
        println!(
            "\nfrom a Machine's event to the request for its VirtualMachine, {} times: \
             p50 {:.2?}, p90 {:.2?}, p99 {:.2?}",
            delays.len(),
            at(50),
            at(90),
            at(99),
        );
    });
}

/// Transport that observes events and requests.
fn timed(client: Client, stopwatch: &Arc<Mutex<Stopwatch>>) -> Transport {
    let stopwatch = Arc::clone(stopwatch);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, stopwatch) = (client.clone(), Arc::clone(&stopwatch));
        async move {
            let (parts, body) = request.into_parts();
            if parts.method == Method::POST && parts.uri.path().ends_with("/virtualmachines") {
                let mut stopwatch = stopwatch.lock().expect("no panic");
                let delay = stopwatch.event.take().map(|event| event.elapsed());
                stopwatch.delays.extend(delay);
            }
            let is_watched = parts.uri.path().ends_with("/v1alpha1/machines");
            let bytes = body.collect().await?.to_bytes();
            let answer = client
                .send(Request::from_parts(parts, bytes.into()))
                .await
                .map_err(BoxError::from)?;
            Ok::<_, BoxError>(answer.map(|body| {
                body.map_frame(move |frame| {
                    if is_watched && frame.data_ref().is_some_and(has_added_event) {
                        stopwatch.lock().expect("no panic").event = Some(Instant::now());
                    }
                    frame
                })
            }))
        }
    });
    Transport::new(service, "default")
}

fn has_added_event(data: &Bytes) -> bool {
    let added: &[u8] = br#""type":"ADDED""#;
    data.windows(added.len()).any(|window| window == added)
}

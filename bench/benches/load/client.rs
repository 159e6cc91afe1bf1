//! Client that creates, resizes and deletes Machines, with a bounded number of requests in flight.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use http::Request;
use kube::Client;
use serde_json::{Value, json};

use crate::observed::Observed;

const MACHINES: &str = "/apis/vitistack.io/v1alpha1/namespaces/default/machines";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

pub struct Load {
    pub client: Client,
    pub in_flight: usize,
    pub machines: usize,
}

impl Load {
    /// Small writes per second that the server accepts from this client while nothing else runs.
    pub async fn raw_write_rate(&self) -> f64 {
        let count = (self.machines * 5).clamp(50, 5_000);
        let start = Instant::now();
        self.each(count, |number| {
            let name = format!("raw-{number}");
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
                "data": { "key": "value" },
            });
            self.send("POST", CONFIG_MAPS.to_owned(), object)
        })
        .await;
        let elapsed = start.elapsed();
        self.send("DELETE", CONFIG_MAPS.to_owned(), Value::Null)
            .await;
        count as f64 / elapsed.as_secs_f64()
    }

    /// Creates the Machines. Returns when the last one was created.
    pub async fn create(&self, observed: &Observed) -> Instant {
        self.each(self.machines, async |number| {
            let name = name(number);
            let machine = json!({
                "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
                "metadata": { "name": name }, "spec": { "template": "small" },
            });
            self.send("POST", MACHINES.to_owned(), machine).await;
            let now = Instant::now();
            observed.times().posted.insert(name, now);
        })
        .await;
        Instant::now()
    }

    /// Gives each Machine another size.
    pub async fn resize(&self) {
        self.each(self.machines, async |number| {
            let path = format!("{MACHINES}/{}", name(number));
            self.send("PATCH", path, json!({ "spec": { "memory": "3Gi" } }))
                .await;
        })
        .await;
    }

    pub async fn delete(&self) {
        self.each(self.machines, async |number| {
            let path = format!("{MACHINES}/{}", name(number));
            self.send("DELETE", path, Value::Null).await;
        })
        .await;
    }

    async fn each<F: Future>(&self, count: usize, request: impl Fn(usize) -> F) {
        stream::iter(0..count)
            .map(request)
            .buffer_unordered(self.in_flight)
            .for_each(async |_| {})
            .await;
    }

    async fn send(&self, method: &str, path: String, body: Value) {
        let media = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media)
            .body(body.into_bytes())
            .expect("the request is valid");
        let answer = self.client.request_text(request).await;
        answer.expect("the API server accepts the request");
    }
}

fn name(number: usize) -> String {
    format!("load-{number:06}")
}

/// The value below which this share of the durations lies.
pub fn percentile(durations: &mut [Duration], share: f64) -> Duration {
    durations.sort_unstable();
    let last = durations.len().saturating_sub(1);
    let place = (last as f64 * share).round() as usize;
    durations.get(place).copied().unwrap_or_default()
}

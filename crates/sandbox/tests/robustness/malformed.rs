//! Malformed and meaningless requests.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt as _, Full};
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use crate::client::{CONFIG_MAPS, Server, config_map};

const METHODS: [Method; 7] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::OPTIONS,
];

const MEDIA: [&str; 9] = [
    "",
    "application/json",
    "application/yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/vnd.kubernetes.protobuf",
    "nonsense;;;=",
];

/// Path segments.
const WORDS: &str = "api apis v1 apps namespaces default configmaps deployments pods known status \
    scale log eviction binding token customresourcedefinitions apiextensions.k8s.io openapi v3 \
    healthz watch proxy events.k8s.io events authorization.k8s.io selfsubjectaccessreviews .. . %00 \
    %ff %2f";
const OPTIONS: &str = "watch limit continue resourceVersion resourceVersionMatch labelSelector \
    fieldSelector sendInitialEvents allowWatchBookmarks timeoutSeconds dryRun fieldManager \
    fieldValidation force gracePeriodSeconds propagationPolicy orphanDependents includeObject";
const VALUES: &str = "true false 0 1 -1 99999999999999999999 All Strict Exact NotOlderThan Foreground \
    a%20in%20( a%20notin%20(b),!c metadata.name%3Dknown %3D !%3D \
    eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIifQ";
const FIELDS: &str = "apiVersion kind metadata spec status data name namespace labels annotations \
    ownerReferences finalizers managedFields fieldsV1 uid resourceVersion generation \
    deletionTimestamp creationTimestamp generateName replicas selector template containers op path \
    value $patch $setElementOrder/ports $deleteFromPrimitiveList/finalizers f:metadata k:{\"a\":1} v: \
    ports items preconditions target";
const TEXTS: &str = "known default v1 apps/v1 ConfigMap Deployment add replace test /metadata \
    /data/value replace delete 2026-01-01T00:00:00Z FieldsV1 Apply 1e999 -0 \u{0} \u{202e}";
const HEADERS: &str = "accept authorization impersonate-user impersonate-group impersonate-extra-x \
    user-agent content-encoding content-length accept-encoding";

fn one_of(words: &'static str) -> impl Strategy<Value = &'static str> {
    prop::sample::select(words.split_ascii_whitespace().collect::<Vec<_>>())
}

/// A path segment: one with a meaning, or any escaped bytes.
fn segment() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => one_of(WORDS).prop_map(str::to_owned),
        1 => prop::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| escaped(&bytes)),
    ]
}

fn escaped(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "%{byte:02x}");
        text
    })
}

fn path() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => prop::collection::vec(segment(), 0..9).prop_map(|parts| format!("/{}", parts.join("/"))),
        1 => Just(CONFIG_MAPS.to_owned()),
        1 => Just(format!("{CONFIG_MAPS}/known")),
        1 => Just("/apis/apps/v1/namespaces/default/deployments/known/scale".to_owned()),
        1 => Just("/api/v1/namespaces/default/pods/known/status".to_owned()),
    ]
}

fn query() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        3 => one_of(VALUES).prop_map(str::to_owned),
        1 => prop::collection::vec(any::<u8>(), 0..30).prop_map(|bytes| escaped(&bytes)),
    ];
    prop::collection::vec((one_of(OPTIONS), value), 0..5).prop_map(|pairs| {
        let pairs: Vec<String> = pairs
            .into_iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        pairs.join("&")
    })
}

/// JSON with known keys in arbitrary places.
fn document() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        one_of(TEXTS).prop_map(Into::into),
        ".*".prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        let key = one_of(FIELDS).prop_map(str::to_owned);
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            3 => prop::collection::btree_map(key, inner, 0..6)
                .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        1 => prop::collection::vec(any::<u8>(), 0..200),
        4 => document().prop_map(|value| value.to_string().into_bytes()),
        // Starts like a valid object.
        2 => document().prop_map(|value| {
            let mut object = config_map("known", "1");
            object["metadata"]["annotations"] = value.clone();
            object["data"] = value;
            object.to_string().into_bytes()
        }),
        1 => (document(), 0..100_usize).prop_map(|(value, cut)| {
            let mut bytes = value.to_string().into_bytes();
            bytes.truncate(bytes.len().saturating_sub(cut));
            bytes
        }),
    ]
}

fn headers() -> impl Strategy<Value = Vec<(&'static str, Vec<u8>)>> {
    let value = prop_oneof![
        prop::collection::vec(0x20_u8..=0xff, 0..30),
        Just(b"application/json;as=Table;v=v1;g=meta.k8s.io".to_vec()),
        Just(b"application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io".to_vec()),
        Just(b"system:serviceaccount:default:default".to_vec()),
        Just(b"Bearer nonsense.nonsense.nonsense".to_vec()),
    ];
    prop::collection::vec((one_of(HEADERS), value), 0..3)
}

/// Runs the same cases every time.
fn runner(cases: u32) -> TestRunner {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]))
}

#[test]
fn every_request_gets_a_response() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let server = runtime.block_on(async {
        let server = Server::start();
        let answer = server.post(CONFIG_MAPS, &config_map("known", "0")).await;
        answer.ok();
        server
    });
    let request = (
        prop::sample::select(&METHODS[..]),
        path(),
        query(),
        prop::sample::select(&MEDIA[..]),
        headers(),
        body(),
    );
    let mut answers = std::collections::BTreeMap::<u16, u32>::new();
    let answered = std::cell::RefCell::new(&mut answers);
    runner(3000)
        .run(&request, |(method, path, query, media, headers, body)| {
            let Ok(uri) = Uri::try_from(format!("{path}?{query}")) else {
                return Ok(());
            };
            let mut request = Request::new(Full::new(Bytes::from(body)));
            *request.method_mut() = method;
            *request.uri_mut() = uri;
            let headers = headers
                .into_iter()
                .chain([("content-type", media.as_bytes().to_vec())]);
            for (name, value) in headers {
                if let Ok(value) = HeaderValue::from_bytes(&value) {
                    request
                        .headers_mut()
                        .append(HeaderName::from_static(name), value);
                }
            }
            let status = runtime.block_on(async {
                let response = server.request(request).await;
                let status = response.status();
                // A watch does not end; the start of its response suffices.
                let read = response.into_body().collect();
                let _ = tokio::time::timeout(Duration::from_millis(1), read).await;
                status
            });
            *answered.borrow_mut().entry(status.as_u16()).or_default() += 1;
            Ok(())
        })
        .unwrap();
    // Some requests must get past parsing, or the test proves nothing.
    for status in [200, 400, 404, 405, 422] {
        assert!(answers.contains_key(&status), "{answers:?}");
    }
    let after = runtime.block_on(server.get("/readyz"));
    assert_eq!(after.status, 200);
}

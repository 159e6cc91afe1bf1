//! Memory that the webhooks of both operators need for malicious bodies.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use kube::{Client, client::Body};
use rstest::rstest;
use runtime::tls::{Handler, MAX_BODY_BYTES};

use crate::{kubevirt, machine};

/// Maximum memory as a multiple of the body. Its longest string is decoded, kept and quoted in the
/// answer.
const TIMES: usize = 10;

/// Maximum memory of the largest object that is decoded.
const DECODED: usize = 8 << 20;

/// Client of an API server that fails every request.
fn client() -> Client {
    let service = tower::service_fn(|_: Request<Body>| {
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        std::future::ready(Ok::<_, Infallible>(answer))
    });
    Client::new(service, "default")
}

fn machines() -> Handler {
    let clock = Arc::new(|| jiff::Timestamp::UNIX_EPOCH);
    let operator = machine::Operator::alone(client(), machine::Options::default(), clock);
    operator.webhook().handler()
}

fn kubevirts() -> Handler {
    kubevirt::webhook::Webhook::new(client(), plan::kubevirt::Operator::default()).handler()
}

/// Peak of allocated bytes while a body is answered.
fn peak(webhook: fn() -> Handler, path: &str, body: String) -> usize {
    let body = Bytes::from(body);
    let counted = allocation_counter::measure(|| {
        let request = Request::post(path).body(body).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        drop(runtime.block_on(async { webhook()(request).await }));
    });
    usize::try_from(counted.bytes_max).unwrap()
}

/// Body of maximum size: `begin`, as many of `each` as fit, `end`.
fn full(begin: &str, each: &str, end: &str) -> String {
    let room = MAX_BODY_BYTES - begin.len() - end.len();
    let mut body = String::with_capacity(MAX_BODY_BYTES);
    body.push_str(begin);
    body.push_str(&each.repeat((room - 1) / each.len()));
    // A comma may not be the last.
    if body.ends_with(',') {
        body.pop();
    }
    body.push_str(end);
    body
}

/// Webhook with request paths.
type WebhookPaths = (fn() -> Handler, [&'static str; 2]);

const WEBHOOKS: [WebhookPaths; 2] = [
    (machines, ["/validate/machines", "/"]),
    (
        kubevirts,
        ["/kubevirt-validate-update", "/kubevirt-validate-delete"],
    ),
];

#[rstest]
#[case::instead_of_a_review("[", r#"{"":0},"#, "]")]
#[case::beside_the_request(r#"{"x":["#, r#"{"":0},"#, r#"],"request":{"uid":"7"}}"#)]
#[case::in_the_request(r#"{"request":{"uid":"7","x":["#, r#"{"":0},"#, "]}}")]
#[case::of_the_user(r#"{"request":{"uid":"7","userInfo":{"extra":["#, r#"{"":0},"#, "]}}}")]
#[case::in_the_object(
    r#"{"request":{"uid":"7","operation":"CREATE","object":["#,
    r#"{"":0},"#,
    "]}}"
)]
#[case::in_the_old_object(
    r#"{"request":{"uid":"7","operation":"DELETE","oldObject":["#,
    r#"{"":0},"#,
    "]}}"
)]
#[case::in_the_spec(
    r#"{"request":{"uid":"7","operation":"CREATE","object":{"metadata":{},"spec":{"configuration":["#,
    r#"{"":0},"#,
    "]}}}}"
)]
#[case::disks(
    r#"{"request":{"uid":"7","operation":"CREATE","object":{"metadata":{},"spec":{"disks":["#,
    r#"{"name":""},"#,
    "]}}}}"
)]
#[case::managed_fields(
    r#"{"request":{"uid":"7","operation":"CREATE","object":{"metadata":{"managedFields":["#,
    "{},",
    r#"]},"spec":{}}}}"#
)]
#[case::nesting(r#"{"request":{"uid":"7","operation":"CREATE","object":"#, "[", "")]
#[case::a_long_uid(r#"{"request":{"uid":""#, r"\n", r#""}}"#)]
#[case::a_long_string(
    r#"{"request":{"uid":"7","operation":"CREATE","object":{"metadata":{"name":"a"},"spec":""#,
    r"\n",
    r#""}}}"#
)]
#[case::a_long_name(
    r#"{"request":{"uid":"7","operation":"CREATE","object":{"apiVersion":"","kind":"","metadata":{"name":"a","namespace":"b"},"spec":{"disks":[{"name":""#,
    "x",
    r#""}]}}}}"#
)]
#[case::long_user_data(
    r#"{"request":{"uid":"7","operation":"CREATE","object":{"apiVersion":"","kind":"","metadata":{"name":"a","namespace":"b"},"spec":{"cloudInit":{"userData":""#,
    r"\n",
    r#""}}}}}"#
)]
#[case::a_long_key(
    r#"{"request":{"uid":"7","operation":"CREATE","object":{"metadata":{"name":"a"},"spec":{""#,
    r"\n",
    r#"":0}}}}"#
)]
fn memory_is_a_small_multiple_of_the_body(
    #[case] begin: &str,
    #[case] each: &str,
    #[case] end: &str,
) {
    let body = full(begin, each, end);
    for (webhook, paths) in WEBHOOKS {
        for path in paths {
            let peak = peak(webhook, path, body.clone());
            assert!(peak <= TIMES * MAX_BODY_BYTES, "{path}: {peak} bytes");
        }
    }
}

/// As many values as an object may have, of those that take the most memory.
#[rstest]
#[case::trees(r#""configuration":["#, r#"{"":0},"#, "]")]
#[case::disks(r#""disks":["#, r#"{"name":""},"#, "]")]
#[case::networks(r#""networks":["#, r#"{"name":"","networkName":""},"#, "]")]
fn memory_of_a_decoded_object_is_bounded(
    #[case] begin: &str,
    #[case] each: &str,
    #[case] end: &str,
) {
    let values = each.matches(':').count() + 1;
    let many = each.repeat((super::MAX_VALUES - 10) / values);
    let many = many.trim_end_matches(',');
    let metadata = r#""apiVersion":"","kind":"","metadata":{"name":"a","namespace":"b"}"#;
    let object = format!(r#"{{{metadata},"spec":{{{begin}{many}{end}}}}}"#);
    let old = format!(r#"{{{metadata},"spec":{{"name":"b",{begin}{many}{end}}}}}"#);
    let body = format!(
        r#"{{"request":{{"uid":"7","operation":"UPDATE","object":{object},"oldObject":{old}}}}}"#
    );
    for (webhook, paths) in WEBHOOKS {
        for path in paths {
            let peak = peak(webhook, path, body.clone());
            assert!(peak <= DECODED, "{path}: {peak} bytes");
        }
    }
}

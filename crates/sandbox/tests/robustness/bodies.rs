//! Large, deeply nested and long bodies.

use allocation_counter::measure;
use http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};

use crate::client::{CONFIG_MAPS, JSON, MERGE, Server, config_map};

const LIMIT: usize = 3 * 1024 * 1024;

fn on_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(work)
}

#[tokio::test]
async fn a_body_of_more_than_three_megabytes_is_refused() {
    let server = Server::start();
    let large = vec![b' '; LIMIT + 1];
    let answer = server.send(Method::POST, CONFIG_MAPS, JSON, large).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(answer.reason(), "RequestEntityTooLarge");
}

#[rstest]
#[case::lists("[", "]")]
#[case::objects(r#"{"a":"#, "}")]
#[tokio::test]
async fn excessive_nesting_is_refused(
    #[case] open: &str,
    #[case] close: &str,
    #[values(JSON, "application/yaml", "application/apply-patch+yaml", MERGE)] media: &str,
) {
    let server = Server::start();
    server.post(CONFIG_MAPS, &config_map("a", "1")).await.ok();
    let depth = 100_000;
    let deep = format!(
        r#"{{"metadata":{{"name":"a","annotations":{}1{}}}}}"#,
        open.repeat(depth),
        close.repeat(depth)
    );
    let path = format!("{CONFIG_MAPS}/a");
    let (method, query) = match media {
        JSON | "application/yaml" => (Method::PUT, ""),
        MERGE => (Method::PATCH, ""),
        _ => (Method::PATCH, "?fieldManager=x"),
    };
    let answer = server
        .send(method, &format!("{path}{query}"), media, deep)
        .await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{answer:?}");
}

#[rstest]
#[case::unknown(1_000_000, r#"{"metadata":{"name":"a"},"nonsense":["#, "0", "]}")]
#[case::data(1_000_000, r#"{"metadata":{"name":"a"},"data":["#, "0", "]}")]
#[case::finalizers(100_000, r#"{"metadata":{"name":"a","finalizers":["#, r#""""#, "]}}")]
#[case::owners(100_000, r#"{"metadata":{"name":"a","ownerReferences":["#, "{}", "]}}")]
#[case::controllers(
    10_000,
    r#"{"metadata":{"name":"a","ownerReferences":["#,
    r#"{"controller":true}"#,
    "]}}"
)]
#[case::managers(100_000, r#"{"metadata":{"name":"a","managedFields":["#, "{}", "]}}")]
fn a_very_long_list_gets_a_response(
    #[case] count: usize,
    #[case] before: &str,
    #[case] item: &str,
    #[case] after: &str,
) {
    let items = format!("{item},").repeat(count);
    let body = format!("{before}{}{after}", items.trim_end_matches(','));
    assert!(body.len() <= LIMIT);
    let mut status = StatusCode::OK;
    let counted = measure(|| {
        status = on_runtime(async {
            let server = Server::start();
            let answer = server.send(Method::POST, CONFIG_MAPS, JSON, body).await;
            answer.status
        });
    });
    assert!(
        status.is_client_error() || status == StatusCode::CREATED,
        "{status}"
    );
    assert!(counted.bytes_max < 256 << 20, "{} bytes", counted.bytes_max);
}

#[tokio::test]
async fn a_json_patch_that_repeatedly_doubles_an_object_is_refused() {
    let server = Server::start();
    server
        .post(CONFIG_MAPS, &config_map("a", &"x".repeat(1000)))
        .await
        .ok();
    let copies: Vec<Value> = (0..64)
        .map(|number| json!({"op": "copy", "from": "/data", "path": format!("/data/n{number}")}))
        .collect();
    let answer = server
        .send(
            Method::PATCH,
            &format!("{CONFIG_MAPS}/a"),
            "application/json-patch+json",
            Value::from(copies).to_string(),
        )
        .await;
    assert!(answer.status.is_client_error(), "{}", answer.status);
}

#[tokio::test]
async fn an_object_may_have_ten_thousand_labels() {
    let server = Server::start();
    let labels: serde_json::Map<String, Value> = (0..10_000)
        .map(|number| (format!("label-{number}"), "x".into()))
        .collect();
    let object = json!({"metadata": {"name": "a", "labels": labels}});
    server.post(CONFIG_MAPS, &object).await.ok();
    let list = server
        .get(&format!("{CONFIG_MAPS}?labelSelector=label-9999%3Dx"))
        .await
        .ok();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn names_are_limited_to_253_characters() {
    let server = Server::start();
    let longest = "a".repeat(253);
    server
        .post(CONFIG_MAPS, &config_map(&longest, "1"))
        .await
        .ok();
    for length in [254, 100_000] {
        let name = "a".repeat(length);
        let answer = server.post(CONFIG_MAPS, &config_map(&name, "1")).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
        let path = format!("{CONFIG_MAPS}/{}", "a".repeat(length.min(60_000)));
        assert_eq!(server.get(&path).await.status, StatusCode::NOT_FOUND);
    }
}

#[rstest]
#[case::requirements(format!("a in ({})", vec!["b"; 10_000].join(",")))]
#[case::many(vec!["a!=b"; 5_000].join(","))]
#[case::brackets("(".repeat(20_000))]
#[case::spaces(" ".repeat(20_000))]
#[tokio::test]
async fn a_long_selector_gets_a_response(#[case] selector: String) {
    let server = Server::start();
    let escaped: String = selector
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' => char::from(byte).to_string(),
            byte => format!("%{byte:02x}"),
        })
        .collect();
    // Longer paths are not valid URIs.
    let query: String = escaped.chars().take(65_000 / 3 * 3).collect();
    let answer = server
        .get(&format!("{CONFIG_MAPS}?labelSelector={query}"))
        .await;
    assert!(
        matches!(answer.status.as_u16(), 200 | 400),
        "{}",
        answer.status
    );
}

//! OpenAPI v2 document.

use http_body_util::BodyExt as _;
use rstest::rstest;

use super::*;

/// Status, media type and body for an Accept header.
async fn answer(accept: Option<&str>) -> (u16, Option<String>, Vec<u8>) {
    let mut headers = HeaderMap::new();
    if let Some(accept) = accept {
        headers.insert(header::ACCEPT, accept.parse().unwrap());
    }
    let response = version_2(&headers);
    let status = response.status().as_u16();
    let media = response.headers().get(header::CONTENT_TYPE);
    let media = media.map(|media| media.to_str().unwrap().to_owned());
    let content = response.into_body().collect().await.unwrap();
    (status, media, content.to_bytes().to_vec())
}

#[rstest]
#[case::nothing_said(None)]
#[case::kubectl_get_raw(Some("application/json, */*"))]
#[case::unknown_first(Some("text/html, application/json"))]
#[tokio::test]
async fn v2_is_an_empty_document_that_points_to_v3(#[case] accept: Option<&str>) {
    let (status, media, content) = answer(accept).await;
    assert_eq!((status, media.as_deref()), (200, Some("application/json")));
    let document: Value = serde_json::from_slice(&content).unwrap();
    assert_eq!(document, frame());
    assert_eq!(document["paths"], json!({}));
}

#[rstest]
#[case::of_client_go("application/com.github.proto-openapi.spec.v2@v1.0+protobuf")]
#[case::valid("application/com.github.proto-openapi.spec.v2.v1.0+protobuf, application/json")]
#[tokio::test]
async fn v2_is_also_served_as_protobuf(#[case] accept: &str) {
    let (status, media, content) = answer(Some(accept)).await;
    assert_eq!((status, media.as_deref()), (200, Some(PROTOBUF)));
    let info = b"\x0a\x0aKubernetes\x12\x07sandbox\
        \x1a\x2fPaths and definitions are in /openapi/v3 alone.";
    let mut expected = b"\x0a\x032.0\x12".to_vec();
    expected.push(u8::try_from(info.len()).unwrap());
    expected.extend_from_slice(info);
    expected.extend_from_slice(b"\x42\x00");
    assert_eq!(content, expected);
}

#[tokio::test]
async fn v2_refuses_other_media_types() {
    assert_eq!(answer(Some("text/html")).await, (406, None, Vec::new()));
}

#[test]
fn long_content_has_a_length_of_several_bytes() {
    let field = message_field(1, &[b'x'; 300]);
    assert_eq!(field.get(..4), Some(b"\x0a\xac\x02x".as_slice()));
    assert_eq!(field.len(), 303);
}

//! Client that sends raw requests, unlike a client library.

use apiserver::{ApiServer, Body, InProcess, Options, User};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::ServiceExt as _;

pub const JSON: &str = "application/json";
pub const MERGE: &str = "application/merge-patch+json";
pub const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[derive(Clone)]
pub struct Server {
    pub api: ApiServer,
    service: InProcess,
}

/// A complete response.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("answers are JSON")
    }

    /// Asserts success and returns the body.
    pub fn ok(self) -> Value {
        assert!(self.status.is_success(), "{self:?}");
        self.json()
    }

    pub fn reason(&self) -> String {
        self.json()["reason"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

impl Server {
    pub fn start() -> Self {
        Self::with(Options::seeded(1))
    }

    pub fn with(options: Options) -> Self {
        let api = ApiServer::start(options);
        let service = api.as_user(User::admin());
        Self { api, service }
    }

    pub async fn request(&self, request: Request<Full<Bytes>>) -> Response<Body> {
        match self.service.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    pub async fn send(
        &self,
        method: Method,
        path: &str,
        media: &str,
        body: impl Into<Bytes>,
    ) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, media)
            .body(Full::new(body.into()))
            .unwrap();
        let response = self.request(request).await;
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        Answer { status, body }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, JSON, "").await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, JSON, body.to_string()).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::PUT, path, JSON, body.to_string()).await
    }

    pub async fn patch(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::PATCH, path, MERGE, body.to_string())
            .await
    }

    /// Body of a response that does not end.
    pub async fn open(&self, path: &str) -> Body {
        let request = Request::get(path).body(Full::default()).unwrap();
        let response = self.request(request).await;
        assert_eq!(response.status(), StatusCode::OK);
        response.into_body()
    }

    /// Creates a CustomResourceDefinition and waits until it is served.
    pub async fn define(&self, definition: &Value) -> Answer {
        let answer = self.post(DEFINITIONS, definition).await;
        if answer.status == StatusCode::CREATED {
            let text = |pointer: &str| definition.pointer(pointer).unwrap().as_str().unwrap();
            let path = format!(
                "/apis/{}/v1/{}",
                text("/spec/group"),
                text("/spec/names/plural")
            );
            for _ in 0..1000 {
                if self.get(&path).await.status == StatusCode::OK {
                    return answer;
                }
                tokio::task::yield_now().await;
            }
            panic!("{path} is not served");
        }
        answer
    }
}

/// Events of a watch that are available at once.
pub async fn events(body: &mut Body) -> Option<Vec<Value>> {
    let data = body.frame().await?.unwrap().into_data().unwrap();
    Some(
        data.split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect(),
    )
}

pub fn config_map(name: &str, data: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"value": data}})
}

/// A CustomResourceDefinition with this schema of the spec.
pub fn definition(plural: &str, spec: &Value) -> Value {
    let kind = format!("Kind{plural}");
    json!({
        "metadata": {"name": format!("{plural}.robust.example.com")},
        "spec": {
            "group": "robust.example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": spec},
                }},
            }],
        },
    })
}

//! Raw requests and responses, without additions of a typed client.

use std::collections::BTreeMap;

use futures::StreamExt;
use futures::stream::BoxStream;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::Value;

use crate::wait;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("invalid request: {0}")]
    Request(#[from] http::Error),
    #[error("no response: {0}")]
    Client(#[from] kube::Error),
    #[error("truncated response: {0}")]
    Body(String),
    #[error("no response in {} s", wait::RESPONSE_TIMEOUT.as_secs())]
    Timeout,
}

#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    pub method: String,
    pub target: String,
    pub headers: BTreeMap<String, String>,
    pub body: Option<String>,
}

impl Outgoing {
    pub(crate) fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: BTreeMap::new(),
            body: None,
        }
    }

    pub(crate) fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    pub(crate) fn post(target: &str, body: &Value) -> Self {
        Self {
            body: Some(body.to_string()),
            ..Self::new("POST", target)
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    fn into_request(self) -> Result<http::Request<Body>, http::Error> {
        let mut request = http::Request::builder()
            .method(self.method.as_str())
            .uri(self.target);
        let mut given = HeaderMap::new();
        for (name, value) in &self.headers {
            let name: http::HeaderName = name.parse()?;
            given.insert(name, value.parse()?);
        }
        // Servers derive the field manager from the user agent.
        let defaults = [
            (USER_AGENT, "conformance/1"),
            (ACCEPT, "application/json"),
            (ACCEPT_ENCODING, "identity"),
        ];
        for (name, value) in defaults {
            if !given.contains_key(&name) {
                request = request.header(name, value);
            }
        }
        if self.body.is_some() && !given.contains_key(CONTENT_TYPE) {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        for (name, value) in given {
            // A header with an empty value is left out.
            if let Some(name) = name.filter(|_| !value.is_empty()) {
                request = request.header(name, value);
            }
        }
        request.body(Body::from(self.body.unwrap_or_default().into_bytes()))
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Incoming {
    pub code: u16,
    pub content_type: Option<String>,
    pub warnings: Vec<String>,
    /// Body as JSON, or as text if it is not JSON.
    pub body: Value,
}

/// Sends a request and reads the complete response.
pub(crate) async fn send(client: &Client, request: Outgoing) -> Result<Incoming, Error> {
    let exchange = async {
        let response = client.send(request.into_request()?).await?;
        incoming(response).await
    };
    tokio::time::timeout(wait::RESPONSE_TIMEOUT, exchange)
        .await
        .map_err(|_| Error::Timeout)?
}

async fn incoming(response: Response<Body>) -> Result<Incoming, Error> {
    let code = response.status().as_u16();
    let header = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let content_type = response
        .headers()
        .get(CONTENT_TYPE)
        .map(header)
        .filter(|kind| kind != "application/json");
    let warnings = response
        .headers()
        .get_all(http::header::WARNING)
        .iter()
        .map(|value| warning(&header(value)))
        .collect();
    let bytes = response.into_body().collect().await?.to_bytes();
    let body = serde_json::from_slice(&bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
    Ok(Incoming {
        code,
        content_type,
        warnings,
        body,
    })
}

/// The text of `299 - "text"`.
fn warning(header: &str) -> String {
    header
        .split_once('"')
        .and_then(|(_, rest)| rest.rsplit_once('"'))
        .map_or(header, |(text, _)| text)
        .replace("\\\"", "\"")
}

/// Lines of JSON as they arrive.
pub(crate) struct Lines {
    stream: BoxStream<'static, Result<Vec<u8>, String>>,
    buffer: Vec<u8>,
}

impl Lines {
    /// The next line; `None` once the server has closed the watch.
    pub(crate) async fn next(&mut self) -> Result<Option<Value>, Error> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return serde_json::from_slice(&line)
                    .map(Some)
                    .map_err(|error| Error::Body(error.to_string()));
            }
            match tokio::time::timeout(wait::RESPONSE_TIMEOUT, self.stream.next()).await {
                Err(_) => return Err(Error::Timeout),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(Error::Body(error)),
                Ok(Some(Ok(bytes))) => self.buffer.extend(bytes),
            }
        }
    }
}

/// Opens a watch: its lines, or the response that refuses it.
pub(crate) async fn open(
    client: &Client,
    request: Outgoing,
) -> Result<Result<Lines, Incoming>, Error> {
    let response =
        tokio::time::timeout(wait::RESPONSE_TIMEOUT, client.send(request.into_request()?))
            .await
            .map_err(|_| Error::Timeout)??;
    if response.status() != http::StatusCode::OK {
        return Ok(Err(incoming(response).await?));
    }
    let stream = response
        .into_body()
        .into_data_stream()
        .map(|bytes| {
            bytes
                .map(|bytes| bytes.to_vec())
                .map_err(|error| error.to_string())
        })
        .boxed();
    Ok(Ok(Lines {
        stream,
        buffer: Vec::new(),
    }))
}

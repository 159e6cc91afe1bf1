//! List and watch requests of a reflector, and their failures.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Response, header};
use http_body_util::{BodyExt, Collected, Limited};
use kube::{
    Client,
    api::{ListParams, WatchParams},
    client::Body,
    core::Request,
};
use serde::Deserialize;
use tokio::time::timeout;

use crate::client::from_headers;

/// Timeout of a list page, and of the start of a watch.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// Above what any API server sends: objects are limited to a few megabytes.
const MAX_LINE_BYTES: usize = 32 * 1024 * 1024;
const MAX_ERROR_BYTES: usize = 64 * 1024;
const MAX_SUMMARY_CHARS: usize = 300;

/// Failure of a list or watch request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchFailure {
    /// HTTP status code, if there was a response.
    pub code: Option<u16>,
    /// Message of the API server, or the connection error; one line.
    pub summary: String,
    pub retry_after: Option<Duration>,
}

impl WatchFailure {
    /// A failure that the API server did not report.
    pub(super) fn local(summary: &str) -> Self {
        Self {
            code: None,
            summary: one_line(summary),
            retry_after: None,
        }
    }

    /// The failure in a `Status` object.
    pub(super) fn of_status(status: &[u8]) -> Self {
        match ::decode::from_slice::<Status>(status) {
            Ok(status) => Self {
                code: Some(status.code).filter(|code| *code != 0),
                summary: one_line(&status.message),
                retry_after: status.retry_after(),
            },
            Err(_) => Self::local("the watch ended with an error that does not decode"),
        }
    }

    async fn of_response(response: Response<Body>) -> Self {
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_ERROR_BYTES).collect().await;
        let body = body.map(Collected::to_bytes).unwrap_or_default();
        let status = ::decode::from_slice::<Status>(&body).unwrap_or_default();
        let summary = if status.message.is_empty() {
            // Proxies and the API server's filters respond with plain text, or with HTML.
            let text = std::str::from_utf8(&body).unwrap_or_default().trim();
            match text {
                "" => head.status.to_string(),
                html if html.starts_with('<') => head.status.to_string(),
                text => text.to_owned(),
            }
        } else {
            status.message.clone()
        };
        Self {
            code: Some(head.status.as_u16()),
            summary: one_line(&summary),
            retry_after: from_headers(&head.headers).or(status.retry_after()),
        }
    }

    fn of_client(error: &kube::Error) -> Self {
        // The innermost cause is the informative one: refused, reset, name not found.
        let mut innermost: &dyn std::error::Error = error;
        while let Some(source) = innermost.source() {
            innermost = source;
        }
        Self::local(&innermost.to_string())
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    message: String,
    code: u16,
    details: Option<Details>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Details {
    retry_after_seconds: u64,
}

impl Status {
    fn retry_after(&self) -> Option<Duration> {
        let seconds = self.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }
}

fn one_line(text: &str) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    let line = line.join(" ");
    match line.char_indices().nth(MAX_SUMMARY_CHARS) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// Sends the requests of one reflector.
pub(super) struct Transport {
    client: Client,
    request: Request,
    metadata_only: bool,
}

impl Transport {
    pub(super) fn new(client: Client, request: Request, metadata_only: bool) -> Self {
        Self {
            client,
            request,
            metadata_only,
        }
    }

    pub(super) fn path(&self) -> &str {
        &self.request.url_path
    }

    /// Requests one page of the list.
    pub(super) async fn list(&self, params: &ListParams) -> Result<Bytes, WatchFailure> {
        let request = if self.metadata_only {
            self.request.list_metadata(params)
        } else {
            self.request.list(params)
        };
        let page = async {
            let response = self.send(request).await?;
            let body = response.into_body().collect().await;
            body.map(Collected::to_bytes)
                .map_err(|error| WatchFailure::of_client(&error))
        };
        timeout(RESPONSE_TIMEOUT, page).await.unwrap_or_else(|_| {
            Err(WatchFailure::local(
                "no response to the list request in time",
            ))
        })
    }

    /// Starts a watch after `resource_version`.
    pub(super) async fn watch(
        &self,
        params: &WatchParams,
        resource_version: &str,
    ) -> Result<Lines, WatchFailure> {
        let request = if self.metadata_only {
            self.request.watch_metadata(params, resource_version)
        } else {
            self.request.watch(params, resource_version)
        };
        timeout(RESPONSE_TIMEOUT, self.send(request))
            .await
            .unwrap_or_else(|_| {
                Err(WatchFailure::local(
                    "no response to the watch request in time",
                ))
            })
            .map(|response| Lines::new(response.into_body()))
    }

    async fn send(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Response<Body>, WatchFailure> {
        let mut request = request.map_err(|error| WatchFailure::local(&error.to_string()))?;
        // API servers from 1.37 on compress each event separately, which clients cannot decode.
        request.headers_mut().insert(
            header::ACCEPT_ENCODING,
            HeaderValue::from_static("identity"),
        );
        let sent = self.client.send(request.map(Body::from)).await;
        let response = sent.map_err(|error| WatchFailure::of_client(&error))?;
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(WatchFailure::of_response(response).await)
        }
    }
}

/// Lines of a watch response.
pub(super) struct Lines {
    body: Body,
    buffer: BytesMut,
    /// Length of the buffer's prefix that has no newline.
    searched: usize,
}

impl Lines {
    fn new(body: Body) -> Self {
        Self {
            body,
            buffer: BytesMut::new(),
            searched: 0,
        }
    }

    /// The next non-empty line. `None` at the end of the response; an unfinished line is dropped.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, WatchFailure> {
        loop {
            let rest = self.buffer.get(self.searched..).unwrap_or_default();
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(self.searched + end + 1).freeze();
                self.searched = 0;
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return Ok(Some(line));
            }
            self.searched = self.buffer.len();
            if self.searched > MAX_LINE_BYTES {
                return Err(WatchFailure::local(
                    "a line of the watch response is too long",
                ));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.buffer.extend_from_slice(data);
                    }
                }
                Some(Err(error)) => return Err(WatchFailure::of_client(&error)),
            }
        }
    }
}

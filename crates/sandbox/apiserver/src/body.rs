//! Request bodies with a size limit, and response bodies, which may be streams.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use futures::Stream;
use http::StatusCode;
use http_body::Frame;
use http_body_util::BodyExt as _;

use crate::ApiError;

/// Size limit of request bodies, as in kube-apiserver.
pub const LIMIT: usize = 3 * 1024 * 1024;

/// Response body.
pub enum Body {
    Full(Option<Bytes>),
    /// Produced on demand: a slow reader costs no memory.
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl Body {
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self::Full(Some(bytes.into()))
    }

    pub fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::Stream(Box::pin(stream))
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full(bytes) => f.debug_tuple("Full").field(bytes).finish(),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(stream) => stream
                .as_mut()
                .poll_next(context)
                .map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Full(None))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Self::Full(bytes) => {
                http_body::SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            Self::Stream(_) => http_body::SizeHint::default(),
        }
    }
}

/// Reads a request body up to [`LIMIT`].
pub async fn read<B>(mut body: B) -> Result<Bytes, ApiError>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| ApiError::bad_request(format!("reading the body: {error}")))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let length = first.as_ref().map_or(0, Bytes::len) + rest.len() + data.len();
        if length > LIMIT {
            return Err(ApiError::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "RequestEntityTooLarge",
                format!("Request entity too large: limit is {LIMIT}"),
            ));
        }
        match &first {
            None => first = Some(data),
            Some(_) => rest.extend_from_slice(&data),
        }
    }
    match first {
        None => Ok(Bytes::new()),
        Some(first) if rest.is_empty() => Ok(first),
        Some(first) => {
            let mut whole = BytesMut::with_capacity(first.len() + rest.len());
            whole.extend_from_slice(&first);
            whole.extend_from_slice(&rest);
            Ok(whole.freeze())
        }
    }
}

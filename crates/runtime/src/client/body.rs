//! Request body that can only be read while the fence allows writes.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tower::BoxError;

use super::Fenced;
use crate::election::Fence;

/// Body of a request that is sent by a transport.
///
/// A transport polls the body when it has a connection and is about to send the head, so a body that
/// fails then prevents the whole request.
pub struct Body {
    inner: kube::client::Body,
    fence: Option<Fence>,
    refused: Refused,
    polled: bool,
}

/// Whether the fence refused the body.
#[derive(Clone, Debug, Default)]
pub(super) struct Refused(Arc<AtomicBool>);

impl Refused {
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Body {
    pub(super) fn new(inner: kube::client::Body, fence: Option<Fence>) -> (Self, Refused) {
        let refused = Refused::default();
        let body = Self {
            inner,
            fence,
            refused: refused.clone(),
            polled: false,
        };
        (body, refused)
    }

    /// Transports do not poll an empty body, so the body of a write must not be reported as empty before.
    fn must_be_polled(&self) -> bool {
        self.fence.is_some() && !self.polled
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the content, which may be secret.
        f.debug_struct("Body").finish_non_exhaustive()
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.polled = true;
        if self
            .fence
            .as_ref()
            .is_some_and(|fence| !fence.allows_writes())
        {
            self.refused.0.store(true, Ordering::Release);
            return Poll::Ready(Some(Err(Fenced.into())));
        }
        Pin::new(&mut self.inner)
            .poll_frame(context)
            .map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        !self.must_be_polled() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.must_be_polled() && self.inner.is_end_stream() {
            SizeHint::default()
        } else {
            self.inner.size_hint()
        }
    }
}

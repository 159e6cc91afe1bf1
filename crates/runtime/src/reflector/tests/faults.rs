//! Transport with injected faults.

use std::{
    convert::Infallible,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use apiserver::{ApiServer, User};
use bytes::Bytes;
use futures::{StreamExt, future, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyDataStream, BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use tokio::{sync::watch, time::Instant};
use tower::{ServiceExt, service_fn};

/// Fault of every request.
#[derive(Clone, Copy)]
pub enum Fault {
    /// Connections are refused.
    Refuse,
    /// There is no answer.
    Hang,
    /// Status code and `Retry-After` of every answer.
    Status(u16, Option<u32>),
    /// Watches end immediately.
    EmptyWatch,
    /// Watches deliver nothing.
    SilentWatch,
}

/// Connections to a server that can be cut.
#[derive(Clone)]
pub struct Faults {
    fault: Arc<Mutex<Option<Fault>>>,
    requests: Arc<Mutex<Vec<Instant>>>,
    cut: watch::Sender<()>,
    open: Arc<AtomicUsize>,
}

type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

impl Faults {
    pub fn none() -> Self {
        Self {
            fault: Arc::default(),
            requests: Arc::default(),
            cut: watch::Sender::new(()),
            open: Arc::default(),
        }
    }

    pub fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = Some(fault);
    }

    pub fn clear(&self) {
        *self.fault.lock().unwrap() = None;
    }

    /// Breaks all open connections.
    pub fn cut(&self) {
        self.cut.send_replace(());
    }

    /// Times of the requests.
    pub fn requests(&self) -> Vec<Instant> {
        self.requests.lock().unwrap().clone()
    }

    /// Number of responses that have not ended.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    pub fn client(&self, server: &ApiServer) -> kube::Client {
        let faults = self.clone();
        let server = server.as_user(User::admin());
        let service = service_fn(move |request: Request<Body>| {
            let (faults, server) = (faults.clone(), server.clone());
            async move {
                faults.requests.lock().unwrap().push(Instant::now());
                let fault = *faults.fault.lock().unwrap();
                let watch = request
                    .uri()
                    .query()
                    .is_some_and(|q| q.contains("watch=true"));
                match fault {
                    Some(Fault::Refuse) => Err(io::Error::from(io::ErrorKind::ConnectionRefused)),
                    Some(Fault::Hang) => future::pending().await,
                    Some(Fault::Status(code, retry_after)) => Ok(refusal(code, retry_after)),
                    Some(Fault::EmptyWatch) if watch => Ok(answer(stream::empty())),
                    Some(Fault::SilentWatch) if watch => Ok(answer(stream::pending())),
                    _ => {
                        let answer: Result<_, Infallible> = server.oneshot(request).await;
                        let Ok(answer) = answer;
                        Ok(faults.breakable(answer))
                    }
                }
            }
        });
        kube::Client::new(service, "default")
    }

    fn breakable(&self, response: Response<apiserver::Body>) -> Answer {
        self.open.fetch_add(1, Ordering::SeqCst);
        let open = Open(self.open.clone());
        let mut cut = self.cut.subscribe();
        let broken = stream::once(async move {
            // The sender lives as long as the test.
            let _ = cut.changed().await;
            Err(io::Error::from(io::ErrorKind::ConnectionReset))
        });
        response.map(|body| {
            let data = BodyDataStream::new(body).map(move |data| {
                let _ = &open;
                data.map(Frame::data).map_err(io::Error::other)
            });
            // Ends with the response, or with an error when the connection is cut.
            let data = stream::select(data.map(Some).chain(stream::iter([None])), broken.map(Some))
                .take_while(|data| future::ready(data.is_some()))
                .filter_map(future::ready);
            StreamBody::new(data).boxed_unsync()
        })
    }
}

/// Counts a response until it ends.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn answer(
    frames: impl futures::Stream<Item = Result<Frame<Bytes>, io::Error>> + Send + 'static,
) -> Answer {
    Response::new(StreamBody::new(frames).boxed_unsync())
}

fn refusal(code: u16, retry_after: Option<u32>) -> Answer {
    let mut response = Response::builder().status(code);
    if let Some(seconds) = retry_after {
        response = response.header("retry-after", seconds);
    }
    let text = "Too many requests, please try again later.\n";
    let body = Full::from(text)
        .map_err(|never| match never {})
        .boxed_unsync();
    response.body(body).unwrap()
}

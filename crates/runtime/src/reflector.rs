//! Reflector: lists a collection, then watches it from the list's resourceVersion.
//!
//! The stream never ends by itself; dropping it closes the connection.
//!
//! - A connection that breaks, times out or is closed is reopened at the last resourceVersion. When
//!   that has expired (`410 Gone`), the collection is listed again.
//! - Failures are reported once, as [`WatchEvent::Failing`], and retried with a backoff of up to half
//!   a minute; `Retry-After` is honoured. [`WatchEvent::Recovered`] reports the end of the failure.
//! - An object that does not decode is reported by name; the others are delivered.
//!
//! Lists are paged and objects are decoded one by one, so that memory is bounded by one page of text.
//! The caller's function trims each object before it is delivered.
//!
//! kube's watcher is not used: it decodes whole pages, fails on a single bad object, hides
//! `Retry-After`, reopens a watch that ends immediately without delay, and retries forever a
//! resourceVersion whose watch was refused with status 410. No content of objects is logged.

mod decode;
mod request;

use std::{collections::VecDeque, marker::PhantomData, time::Duration};

use bytes::Bytes;
use futures::{Stream, stream};
use kube::{
    Api, Client, Resource,
    api::{ListParams, WatchParams},
    core::Request,
};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until};

pub use decode::Identity;
use decode::{Line, Page};
pub use request::WatchFailure;
use request::{Lines, Transport};

use crate::{
    backoff::{Random, Schedule},
    client::MAX_RETRY_AFTER,
};

const MAX_PAGE_SIZE: u32 = 500;
/// Small, since all objects may be as large as an API server allows.
const FIRST_PAGE_SIZE: u32 = 20;
/// Target size of the next page, estimated from the objects of the last one.
const TARGET_PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Bounds of the timeout that is requested for a watch. It is drawn at random, so that watches do not
/// all reconnect at once.
const MIN_WATCH_TIMEOUT: Duration = Duration::from_secs(240);
const MAX_WATCH_TIMEOUT: Duration = Duration::from_secs(300);
/// Time after its timeout at which a watch that did not end is given up.
const WATCH_TIMEOUT_GRACE: Duration = Duration::from_secs(10);
/// A watch that lasted this long has worked, even without events.
const MIN_WATCH_DURATION: Duration = Duration::from_secs(30);

/// Which objects of a collection are watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    pub label_selector: Option<String>,
    pub field_selector: Option<String>,
    /// Metadata only: for `Api<PartialObjectMeta<K>>`.
    pub metadata_only: bool,
}

/// An event of a reflector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent<T> {
    /// A list starts; every object is delivered. It may follow a list that was not completed.
    ListStarted,
    /// An object of the list.
    Listed(T),
    /// The list is complete. Objects that were not listed do not exist.
    ListCompleted { resource_version: String },
    /// An object was created or changed.
    Applied(T),
    /// An object was deleted, or is no longer selected.
    Deleted(Identity),
    /// An object was listed, created or changed, and does not decode.
    Undecodable {
        /// Without a name if the metadata does not decode either.
        identity: Identity,
        /// The field and the problem, without any value.
        error: String,
    },
    /// The watch failed and is retried. Reported once per consecutive status code.
    Failing(WatchFailure),
    /// The watch works again.
    Recovered,
}

impl<T: Resource> WatchEvent<T> {
    /// The event for a cache that has only selected objects: an object that is not selected any more
    /// counts as deleted.
    pub fn select(self, is_selected: impl FnOnce(&T) -> bool) -> Option<Self> {
        match self {
            Self::Listed(object) => is_selected(&object).then_some(Self::Listed(object)),
            Self::Applied(object) if !is_selected(&object) => {
                let metadata = object.meta();
                let text = |field: &Option<String>| field.clone().unwrap_or_default();
                Some(Self::Deleted(Identity {
                    namespace: text(&metadata.namespace),
                    name: text(&metadata.name),
                    uid: text(&metadata.uid),
                    resource_version: text(&metadata.resource_version),
                }))
            }
            event => Some(event),
        }
    }
}

impl<T> WatchEvent<T> {
    /// Logs failures, recoveries and objects that do not decode.
    pub fn log(&self, kind: &str) {
        match self {
            Self::Failing(failure) => {
                tracing::warn!(kind, "cannot watch {kind}: {}", failure.summary);
            }
            Self::Recovered => tracing::info!(kind, "watching {kind} again"),
            Self::Undecodable { identity, error } => {
                let (name, namespace) = (&identity.name, &identity.namespace);
                tracing::warn!(
                    kind,
                    name,
                    namespace,
                    "cannot decode an object of {kind}, using its last known state: {error}"
                );
            }
            Self::ListStarted
            | Self::Listed(_)
            | Self::ListCompleted { .. }
            | Self::Applied(_)
            | Self::Deleted(_) => {}
        }
    }

    /// Whether the watch failed or works again, if the event says so.
    pub fn health(&self) -> Option<Result<(), &WatchFailure>> {
        match self {
            Self::Failing(failure) => Some(Err(failure)),
            Self::Recovered => Some(Ok(())),
            _ => None,
        }
    }

    /// Maps the object.
    pub fn map<S>(self, map: impl FnOnce(T) -> S) -> WatchEvent<S> {
        match self {
            Self::Listed(object) => WatchEvent::Listed(map(object)),
            Self::Applied(object) => WatchEvent::Applied(map(object)),
            Self::ListStarted => WatchEvent::ListStarted,
            Self::ListCompleted { resource_version } => {
                WatchEvent::ListCompleted { resource_version }
            }
            Self::Deleted(identity) => WatchEvent::Deleted(identity),
            Self::Undecodable { identity, error } => WatchEvent::Undecodable { identity, error },
            Self::Failing(failure) => WatchEvent::Failing(failure),
            Self::Recovered => WatchEvent::Recovered,
        }
    }
}

/// Reflector of the objects that `api` and `config` select. `trim` keeps what the caller needs of an
/// object. Each reflector has its own `random`, so that they do not all retry at once.
pub fn reflector<T, S, F>(
    api: Api<T>,
    config: Config,
    random: Random,
    trim: F,
) -> impl Stream<Item = WatchEvent<S>> + Send + use<T, S, F>
where
    T: Resource + DeserializeOwned,
    S: Send,
    F: FnMut(T) -> S + Send,
{
    let path = api.resource_url().to_owned();
    let mut trim = trim;
    let decode = move |object: &[u8]| match ::decode::from_slice(object) {
        Ok(object) => Ok(trim(object)),
        Err(_) => Err(decode::explain::<T>(object)),
    };
    untyped_reflector(api.into_client(), path, config, random, decode)
}

/// Reflector of the collection at `path`, for objects without a Rust type. `decode` turns the JSON of
/// an object into what the caller needs, or returns the problem without any value.
pub fn untyped_reflector<S, F>(
    client: Client,
    path: String,
    config: Config,
    random: Random,
    decode: F,
) -> impl Stream<Item = WatchEvent<S>> + Send + use<S, F>
where
    S: Send,
    F: FnMut(&[u8]) -> Result<S, String> + Send,
{
    let reflector = Reflector {
        transport: Transport::new(client, Request::new(path), config.metadata_only),
        config,
        decode,
        random,
        failures: 0,
        reported: None,
        retry_at: None,
        page_size: FIRST_PAGE_SIZE,
        items: VecDeque::new(),
        state: State::Begin,
        types: PhantomData,
    };
    stream::unfold(reflector, |mut reflector| async move {
        let event = reflector.next().await;
        Some((event, reflector))
    })
}

struct Reflector<S, F> {
    transport: Transport,
    config: Config,
    decode: F,
    random: Random,
    /// Failures since the watch last worked.
    failures: u32,
    /// The failure that was reported and still lasts.
    reported: Option<WatchFailure>,
    retry_at: Option<Instant>,
    page_size: u32,
    /// Objects of the current page that were not delivered yet, as JSON.
    items: VecDeque<Bytes>,
    state: State,
    types: PhantomData<fn() -> S>,
}

enum State {
    Begin,
    List {
        continue_token: Option<String>,
    },
    Listed {
        resource_version: String,
    },
    Open {
        resource_version: String,
    },
    Watch {
        resource_version: String,
        lines: Lines,
        opened: Instant,
        deadline: Instant,
    },
}

impl<S, F> Reflector<S, F>
where
    F: FnMut(&[u8]) -> Result<S, String>,
{
    async fn next(&mut self) -> WatchEvent<S> {
        loop {
            if let Some(item) = self.items.pop_front() {
                return self.decode(&item, WatchEvent::Listed);
            }
            if let Some(time) = self.retry_at.take() {
                sleep_until(time).await;
            }
            let (state, event) = match std::mem::replace(&mut self.state, State::Begin) {
                State::Begin => (
                    State::List {
                        continue_token: None,
                    },
                    Some(WatchEvent::ListStarted),
                ),
                State::List { continue_token } => self.list(continue_token).await,
                State::Listed { resource_version } => (
                    State::Open {
                        resource_version: resource_version.clone(),
                    },
                    Some(WatchEvent::ListCompleted { resource_version }),
                ),
                State::Open { resource_version } => self.open(resource_version).await,
                State::Watch {
                    resource_version,
                    lines,
                    opened,
                    deadline,
                } => self.follow(resource_version, lines, opened, deadline).await,
            };
            self.state = state;
            if let Some(event) = event {
                return event;
            }
        }
    }

    async fn list(&mut self, continue_token: Option<String>) -> (State, Option<WatchEvent<S>>) {
        let params = ListParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            limit: Some(self.page_size),
            continue_token: continue_token.clone(),
            ..ListParams::default()
        };
        match self
            .transport
            .list(&params)
            .await
            .and_then(|body| Page::parse(&body))
        {
            Ok(page) => {
                let bytes = page.items.iter().map(Bytes::len).sum();
                self.page_size = next_page_size(page.items.len(), bytes, self.page_size);
                self.items = page.items.into();
                let state = match page.continue_token {
                    Some(token) => State::List {
                        continue_token: Some(token),
                    },
                    None => State::Listed {
                        resource_version: page.resource_version,
                    },
                };
                (state, None)
            }
            Err(failure) if failure.code == Some(410) => {
                self.delay(None);
                (State::Begin, None)
            }
            Err(failure) => (State::List { continue_token }, self.failed(failure)),
        }
    }

    async fn open(&mut self, resource_version: String) -> (State, Option<WatchEvent<S>>) {
        let watch_timeout = self.random.between(MIN_WATCH_TIMEOUT, MAX_WATCH_TIMEOUT);
        let params = WatchParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            timeout: u32::try_from(watch_timeout.as_secs()).ok(),
            ..WatchParams::default()
        };
        match self.transport.watch(&params, &resource_version).await {
            Ok(lines) => {
                let opened = Instant::now();
                let state = State::Watch {
                    resource_version,
                    lines,
                    opened,
                    deadline: opened + watch_timeout + WATCH_TIMEOUT_GRACE,
                };
                (state, self.reported.take().map(|_| WatchEvent::Recovered))
            }
            Err(failure) => self.refused(failure, resource_version),
        }
    }

    async fn follow(
        &mut self,
        resource_version: String,
        mut lines: Lines,
        opened: Instant,
        deadline: Instant,
    ) -> (State, Option<WatchEvent<S>>) {
        let line = match tokio::time::timeout_at(deadline, lines.next()).await {
            Ok(Ok(Some(line))) => line,
            Ok(Ok(None)) | Err(_) if opened.elapsed() >= MIN_WATCH_DURATION => {
                self.failures = 0;
                return (State::Open { resource_version }, None);
            }
            Ok(Ok(None)) | Err(_) => {
                let failure = WatchFailure::local("the API server ends the watch immediately");
                return (
                    State::Open { resource_version },
                    self.interrupted(failure, opened),
                );
            }
            Ok(Err(failure)) => {
                return (
                    State::Open { resource_version },
                    self.interrupted(failure, opened),
                );
            }
        };
        let (version, event) = match Line::parse(&line) {
            Ok(Line::Applied { identity, object }) => (
                identity.resource_version.clone(),
                Some(self.decode_as(identity, object, WatchEvent::Applied)),
            ),
            Ok(Line::Deleted(identity)) => (
                identity.resource_version.clone(),
                Some(WatchEvent::Deleted(identity)),
            ),
            Ok(Line::Bookmark(identity)) => (identity.resource_version, None),
            Ok(Line::Unknown) => (resource_version, None),
            Ok(Line::Error(failure)) => return self.refused(failure, resource_version),
            // A line that does not parse may have been any event.
            Err(failure) => return (State::Begin, self.failed(failure)),
        };
        if version.is_empty() {
            let failure =
                WatchFailure::local("a watch event has an object without a resourceVersion");
            return (State::Begin, self.failed(failure));
        }
        self.failures = 0;
        let state = State::Watch {
            resource_version: version,
            lines,
            opened,
            deadline,
        };
        (state, event)
    }

    /// The API server refused or ended the watch with an error.
    fn refused(
        &mut self,
        failure: WatchFailure,
        resource_version: String,
    ) -> (State, Option<WatchEvent<S>>) {
        match failure.code {
            Some(410) => {
                self.delay(None);
                (State::Begin, None)
            }
            // The same request may succeed later.
            None | Some(401 | 403 | 408 | 429 | 500..) => {
                (State::Open { resource_version }, self.failed(failure))
            }
            Some(_) => (State::Begin, self.failed(failure)),
        }
    }

    /// The connection of a watch broke, as it does now and then. Reported only if it breaks again
    /// before the watch has worked.
    fn interrupted(&mut self, failure: WatchFailure, opened: Instant) -> Option<WatchEvent<S>> {
        if opened.elapsed() >= MIN_WATCH_DURATION {
            self.failures = 0;
        }
        if self.failures == 0 {
            self.delay(None);
            return None;
        }
        self.failed(failure)
    }

    fn failed(&mut self, failure: WatchFailure) -> Option<WatchEvent<S>> {
        self.delay(failure.retry_after);
        tracing::debug!(
            path = self.transport.path(),
            code = failure.code,
            failures = self.failures,
            message = failure.summary,
            "watch failed"
        );
        let reported = self.reported.as_ref();
        if reported.is_some_and(|reported| reported.code == failure.code) {
            return None;
        }
        self.reported = Some(failure.clone());
        Some(WatchEvent::Failing(failure))
    }

    fn delay(&mut self, retry_after: Option<Duration>) {
        let retry_after = retry_after.map(|retry_after| retry_after.min(MAX_RETRY_AFTER));
        let delay = Schedule::WATCH.delay_after(self.failures, retry_after, &mut self.random);
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(Instant::now() + delay);
    }

    fn decode(&mut self, item: &[u8], event: fn(S) -> WatchEvent<S>) -> WatchEvent<S> {
        self.decode_as(Identity::of(item), item, event)
    }

    fn decode_as(
        &mut self,
        identity: Identity,
        object: &[u8],
        event: fn(S) -> WatchEvent<S>,
    ) -> WatchEvent<S> {
        match (self.decode)(object) {
            Ok(object) => event(object),
            Err(error) => WatchEvent::Undecodable { identity, error },
        }
    }
}

/// Size of the page after one of `last` size with these `objects` and `bytes`. It grows at most
/// tenfold, since the next objects may be larger.
fn next_page_size(objects: usize, bytes: usize, last: u32) -> u32 {
    let Some(size) = bytes.checked_div(objects) else {
        return last;
    };
    let fitting = TARGET_PAGE_BYTES.checked_div(size).unwrap_or(usize::MAX);
    let fitting = u32::try_from(fitting).unwrap_or(u32::MAX);
    fitting.clamp(1, last.saturating_mul(10).min(MAX_PAGE_SIZE))
}

#[cfg(test)]
mod null_fields;
#[cfg(test)]
mod tests;

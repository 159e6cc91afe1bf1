//! Watches that go on whatever happens.
//!
//! A [`watch`] lists what there is and then says what changes, for as long as its stream is held.
//! It never ends by itself:
//!
//! - A connection that breaks, times out or is closed is opened again where it ended. When the
//!   server no longer knows that place (`410 Gone`), everything is listed again.
//! - Errors of the server are reported once, as [`WatchEvent::Failing`], and tried again after a delay
//!   that grows up to half a minute; `Retry-After` is honoured. [`WatchEvent::Recovered`] says
//!   that it is over.
//! - An object that does not fit its type is reported by name and harms no other.
//!
//! Lists come in pages, and an object is decoded when it is asked for: what is in memory is one
//! page of text, not the whole list. Each object is trimmed by the caller's function before it is
//! handed out. Dropping the stream closes the connection.
//!
//! The watcher of kube is not used because it decodes whole pages, fails as a whole on one object,
//! hides `Retry-After`, opens a watch that ends at once again without delay, and asks forever for a
//! version whose watch was refused with the status 410. Nothing here logs what the server sent.

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
use decode::{Event, Page};
pub use request::WatchFailure;
use request::{Lines, Transport};

use crate::{
    backoff::{Random, Schedule},
    client::MAX_RETRY_AFTER,
};

/// How many objects a page of a list has, at most.
const LARGEST_PAGE: u32 = 500;
/// How many objects the first page has: they may all be as large as an API server stores them.
const FIRST_PAGE: u32 = 20;
/// How many bytes the next page is to have, if its objects are as large as those of the last one.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// The shortest time after which the server is to end a watch.
const SHORTEST_WATCH: Duration = Duration::from_secs(240);
/// The longest. Each watch has a time of its own, so that they do not all begin anew together.
const LONGEST_WATCH: Duration = Duration::from_secs(300);
/// How long after its time a watch is taken for dead.
const GRACE: Duration = Duration::from_secs(10);
/// A watch that lasted that long has worked, whether or not it had anything to say.
const STEADY: Duration = Duration::from_secs(30);

/// What is watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Only objects with these labels.
    pub label_selector: Option<String>,
    /// Only objects with these fields.
    pub field_selector: Option<String>,
    /// Only the metadata of objects: for `Api<PartialObjectMeta<K>>`.
    pub metadata_only: bool,
}

/// What a watch says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent<T> {
    /// A list begins: all objects will be told of. A list that was not ended may begin anew.
    ListStarted,
    /// An object of the list.
    Listed(T),
    /// The list is complete. What was not listed does not exist.
    ListCompleted {
        /// The version of the cluster that the list shows.
        resource_version: String,
    },
    /// An object was created or changed.
    Applied(T),
    /// An object was deleted, or is no longer selected.
    Deleted(Identity),
    /// An object was listed, created or changed, and does not fit its type.
    Undecodable {
        /// Which object; without a name if not even that could be read.
        identity: Identity,
        /// Where and how it does not fit, without what it contains.
        error: String,
    },
    /// The watch does not work and is tried again. Told once for each status code in a row.
    Failing(WatchFailure),
    /// The watch works again.
    Recovered,
}

impl<T> WatchEvent<T> {
    /// Tells in the log that the watch of that kind does not work, or works again, or has told of
    /// something that is not understood.
    pub fn log(&self, kind: &str) {
        match self {
            Self::Failing(failure) => {
                tracing::warn!(kind, "the watch does not work: {}", failure.summary);
            }
            Self::Recovered => tracing::info!(kind, "the watch works again"),
            Self::Undecodable { identity, error } => {
                let (name, namespace) = (&identity.name, &identity.namespace);
                tracing::warn!(
                    kind,
                    name,
                    namespace,
                    "is not understood, and taken for what it last was: {error}"
                );
            }
            Self::ListStarted
            | Self::Listed(_)
            | Self::ListCompleted { .. }
            | Self::Applied(_)
            | Self::Deleted(_) => {}
        }
    }

    /// The same of what `map` makes of the object.
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

/// Watches what `api` and `config` select. Delays are drawn from `random`, of which each watch
/// has its own, so that they do not all come back at the same moment. `slim` makes of an object what is kept.
pub fn reflector<T, S, F>(
    api: Api<T>,
    config: Config,
    random: Random,
    slim: F,
) -> impl Stream<Item = WatchEvent<S>> + Send + use<T, S, F>
where
    T: Resource + DeserializeOwned,
    S: Send,
    F: FnMut(T) -> S + Send,
{
    let path = api.resource_url().to_owned();
    let mut slim = slim;
    let decode = move |object: &[u8]| match ::decode::from_slice(object) {
        Ok(object) => Ok(slim(object)),
        Err(_) => Err(decode::explain::<T>(object)),
    };
    untyped_reflector(api.into_client(), path, config, random, decode)
}

/// Watches the objects of the collection at `path`, which need no type: `decode` makes of the JSON
/// of one what is kept, or says how it does not fit, without what it contains.
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
    let watcher = Watcher {
        transport: Transport::new(client, Request::new(path), config.metadata_only),
        config,
        decode,
        random,
        failures: 0,
        reported: None,
        wait_until: None,
        page: FIRST_PAGE,
        items: VecDeque::new(),
        state: State::Begin,
        types: PhantomData,
    };
    stream::unfold(watcher, |mut watcher| async move {
        let change = watcher.next().await;
        Some((change, watcher))
    })
}

struct Watcher<S, F> {
    transport: Transport,
    config: Config,
    decode: F,
    random: Random,
    /// Failures since the watch last worked.
    failures: u32,
    /// The failure that was told and is not over.
    reported: Option<WatchFailure>,
    wait_until: Option<Instant>,
    /// How many objects the next page is to have.
    page: u32,
    /// What is left of the page, as the server sent it.
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

impl<S, F> Watcher<S, F>
where
    F: FnMut(&[u8]) -> Result<S, String>,
{
    async fn next(&mut self) -> WatchEvent<S> {
        loop {
            if let Some(item) = self.items.pop_front() {
                return self.decode(&item, WatchEvent::Listed);
            }
            if let Some(time) = self.wait_until.take() {
                sleep_until(time).await;
            }
            let (state, change) = match std::mem::replace(&mut self.state, State::Begin) {
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
            if let Some(change) = change {
                return change;
            }
        }
    }

    async fn list(&mut self, continue_token: Option<String>) -> (State, Option<WatchEvent<S>>) {
        let params = ListParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            limit: Some(self.page),
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
                self.page = next_page(page.items.len(), bytes, self.page);
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
        let time = self.random.between(SHORTEST_WATCH, LONGEST_WATCH);
        let params = WatchParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            timeout: u32::try_from(time.as_secs()).ok(),
            ..WatchParams::default()
        };
        match self.transport.watch(&params, &resource_version).await {
            Ok(lines) => {
                let opened = Instant::now();
                let state = State::Watch {
                    resource_version,
                    lines,
                    opened,
                    deadline: opened + time + GRACE,
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
            Ok(Ok(None)) | Err(_) if opened.elapsed() >= STEADY => {
                self.failures = 0;
                return (State::Open { resource_version }, None);
            }
            Ok(Ok(None)) | Err(_) => {
                let failure = WatchFailure::local("the watch ends as soon as it begins");
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
        let (version, change) = match Event::parse(&line) {
            Ok(Event::Applied { identity, object }) => (
                identity.resource_version.clone(),
                Some(self.decode_as(identity, object, WatchEvent::Applied)),
            ),
            Ok(Event::Deleted(identity)) => (
                identity.resource_version.clone(),
                Some(WatchEvent::Deleted(identity)),
            ),
            Ok(Event::Bookmark(identity)) => (identity.resource_version, None),
            Ok(Event::Unknown) => (resource_version, None),
            Ok(Event::Error(failure)) => return self.refused(failure, resource_version),
            // What cannot be read may have been anything.
            Err(failure) => return (State::Begin, self.failed(failure)),
        };
        if version.is_empty() {
            let failure =
                WatchFailure::local("the watch shows an object without a resourceVersion");
            return (State::Begin, self.failed(failure));
        }
        self.failures = 0;
        let state = State::Watch {
            resource_version: version,
            lines,
            opened,
            deadline,
        };
        (state, change)
    }

    /// The server will not go on with this watch.
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
            // The same request may be answered later.
            None | Some(401 | 403 | 408 | 429 | 500..) => {
                (State::Open { resource_version }, self.failed(failure))
            }
            Some(_) => (State::Begin, self.failed(failure)),
        }
    }

    /// A watch broke off. That happens to every watch now and then and is told only if it happens
    /// again before the watch has worked.
    fn interrupted(&mut self, failure: WatchFailure, opened: Instant) -> Option<WatchEvent<S>> {
        if opened.elapsed() >= STEADY {
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
        let told = self.reported.as_ref();
        if told.is_some_and(|told| told.code == failure.code) {
            return None;
        }
        self.reported = Some(failure.clone());
        Some(WatchEvent::Failing(failure))
    }

    fn delay(&mut self, retry_after: Option<Duration>) {
        let delay = Schedule::WATCH.delay(self.failures, &mut self.random);
        self.failures = self.failures.saturating_add(1);
        let wished = retry_after.unwrap_or_default().min(MAX_RETRY_AFTER);
        // On top of what the server wishes, or all whom it told the same come back together.
        let delay = if wished > delay {
            wished + delay
        } else {
            delay
        };
        self.wait_until = Some(Instant::now() + delay);
    }

    fn decode(&mut self, item: &[u8], change: fn(S) -> WatchEvent<S>) -> WatchEvent<S> {
        self.decode_as(Identity::of(item), item, change)
    }

    fn decode_as(
        &mut self,
        identity: Identity,
        object: &[u8],
        change: fn(S) -> WatchEvent<S>,
    ) -> WatchEvent<S> {
        match (self.decode)(object) {
            Ok(object) => change(object),
            Err(error) => WatchEvent::Undecodable { identity, error },
        }
    }
}

/// How many objects the next page is to have, after one of so many objects and bytes. A page is at most
/// ten times as long as the one before it, since the next objects may be larger.
fn next_page(objects: usize, bytes: usize, last: u32) -> u32 {
    let Some(size) = bytes.checked_div(objects) else {
        return last;
    };
    let fitting = PAGE_BYTES.checked_div(size).unwrap_or(usize::MAX);
    let fitting = u32::try_from(fitting).unwrap_or(u32::MAX);
    fitting.clamp(1, last.saturating_mul(10).min(LARGEST_PAGE))
}

#[cfg(test)]
mod answers;
#[cfg(test)]
mod tests;

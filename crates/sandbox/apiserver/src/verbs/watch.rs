//! Watch.
//!
//! A watch reads the events of its table at its own speed; nothing is queued for it. When a slow
//! watch falls behind the retained events it ends with `410 Gone`, and clients list again.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    Call,
    list::{Selection, forbidden, parse_version, too_new},
};
use crate::{
    ApiError, ApiResult,
    body::Body,
    object,
    output::{self, Output},
    registry::Resource,
    request::Query,
    server::Shared,
    store::{Change, Event, RevisionUnavailable, Stored},
    table_convertor,
};

const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// Minimum duration; up to as much again is added at random, so that watches do not end together.
const MIN_WATCH_DURATION: Duration = Duration::from_secs(1800);
/// Events per read: a stalled watch retains at most these.
const EVENT_BATCH: usize = 128;
/// Size of a response chunk.
const CHUNK_BYTES: usize = 64 * 1024;

#[derive(Clone, Copy)]
enum Start {
    /// Current objects first.
    InitialEvents {
        /// Whether a bookmark ends the initial events.
        with_bookmark: bool,
    },
    After(u64),
}

struct Watch {
    server: Arc<Shared>,
    resource: Arc<Resource>,
    prefix: String,
    selection: Selection,
    output: Output,
    /// Revision up to which events were read.
    revision: u64,
    changed: watch::Receiver<u64>,
    deadline: Instant,
    bookmark: Option<Instant>,
    pending: VecDeque<Pending>,
    columns_sent: bool,
    ended: bool,
}

/// Event that is not serialized yet.
enum Pending {
    Event(&'static str, Arc<Stored>, u64),
    Bookmark { revision: u64, initial_end: bool },
    Error(ApiError),
}

pub fn watch(call: &Call<'_>) -> ApiResult {
    let start = start(call.query)?;
    let selection = Selection::parse(call.resource, call.query)?;
    let server = call.server.clone();
    let changed = server.store.open(&call.resource.table);
    let timeout = match call.query.number("timeoutSeconds")? {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs()),
        _ => {
            let spread = server.random.next() % MIN_WATCH_DURATION.as_secs();
            MIN_WATCH_DURATION + Duration::from_secs(spread)
        }
    };
    let now = Instant::now();
    let mut watch = Watch {
        resource: call.resource.clone(),
        prefix: match call.namespace() {
            "" => String::new(),
            namespace => format!("{namespace}/"),
        },
        selection,
        output: call.output,
        revision: 0,
        changed,
        deadline: now.checked_add(timeout).unwrap_or(now + MIN_WATCH_DURATION),
        bookmark: call
            .query
            .flag("allowWatchBookmarks")
            .then(|| now + BOOKMARK_INTERVAL),
        pending: VecDeque::new(),
        columns_sent: false,
        ended: false,
        server,
    };
    watch.begin(start);
    Ok(call.respond(
        StatusCode::OK,
        Body::stream(stream::unfold(watch, |mut watch| async move {
            let chunk = watch.next().await?;
            Some((chunk, watch))
        })),
    ))
}

fn start(query: &Query) -> Result<Start, ApiError> {
    let version = query.get("resourceVersion");
    let parse_version = |text: &str| {
        parse_version(text)
            .map_err(|error| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", error.message))
    };
    let matching = query.get("resourceVersionMatch");
    if query.has("sendInitialEvents") {
        if matching != "NotOlderThan" {
            return Err(unmatched_initial_events(matching));
        }
        let revision = parse_version(version)?;
        return Ok(if query.flag("sendInitialEvents") {
            Start::InitialEvents {
                with_bookmark: query.flag("allowWatchBookmarks"),
            }
        } else if revision == 0 {
            Start::After(u64::MAX)
        } else {
            Start::After(revision)
        });
    }
    if !matching.is_empty() {
        return Err(forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ));
    }
    Ok(match parse_version(version)? {
        0 => Start::InitialEvents {
            with_bookmark: false,
        },
        revision => Start::After(revision),
    })
}

fn unmatched_initial_events(matching: &str) -> ApiError {
    let mut violations = vec![schema::Violation::at(
        "resourceVersionMatch",
        schema::Problem::Forbidden {
            detail: "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
                .to_owned(),
        },
    )];
    if !matching.is_empty() {
        violations.push(schema::Violation::at(
            "resourceVersionMatch",
            schema::Problem::Unsupported {
                value: matching.into(),
                supported: vec!["NotOlderThan".into()],
            },
        ));
    }
    ApiError::invalid("meta.k8s.io", "ListOptions", "", &violations)
}

impl Watch {
    fn begin(&mut self, start: Start) {
        match start {
            Start::InitialEvents { with_bookmark } => {
                let snapshot = self.server.store.list(&self.resource.table, &self.prefix);
                self.revision = snapshot.revision;
                for stored in snapshot.objects {
                    if self.matches(&stored) {
                        let revision = stored.revision;
                        self.pending
                            .push_back(Pending::Event("ADDED", stored, revision));
                    }
                }
                if with_bookmark {
                    self.pending.push_back(Pending::Bookmark {
                        revision: self.revision,
                        initial_end: true,
                    });
                }
            }
            // The newest revision.
            Start::After(u64::MAX) => self.revision = self.server.store.revision(),
            Start::After(revision) => {
                let newest = self.server.store.revision();
                self.revision = revision;
                if revision > newest {
                    self.pending
                        .push_back(Pending::Error(too_new(revision, newest)));
                    self.ended = true;
                }
            }
        }
    }

    fn matches(&self, stored: &Stored) -> bool {
        stored.key.starts_with(&self.prefix) && self.selection.matches(&self.resource, stored)
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if !self.pending.is_empty() {
                return Some(self.write());
            }
            if self.ended {
                return None;
            }
            self.fetch_events();
            if !self.pending.is_empty() || self.ended {
                continue;
            }
            let bookmark = self.bookmark.unwrap_or(self.deadline).min(self.deadline);
            tokio::select! {
                biased;
                changed = self.changed.changed() => {
                    // The table is no longer served.
                    self.ended = changed.is_err();
                }
                () = self.server.stopping.cancelled() => self.ended = true,
                () = sleep_until(bookmark) => self.push_bookmark(),
            }
        }
    }

    /// Reads the next batch of events.
    fn fetch_events(&mut self) {
        self.changed.mark_unchanged();
        match self
            .server
            .store
            .events_after(&self.resource.table, self.revision, EVENT_BATCH)
        {
            Ok(batch) => {
                if batch.events.len() == EVENT_BATCH {
                    // More events may be available without another change.
                    self.changed.mark_changed();
                }
                for event in batch.events {
                    self.push_event(event);
                }
                self.revision = batch.revision;
                self.ended = batch.closed;
            }
            Err(RevisionUnavailable::TooOld(floor) | RevisionUnavailable::TooNew(floor)) => {
                let expired = ApiError::expired(format!(
                    "too old resource version: {} ({floor})",
                    self.revision
                ));
                self.pending.push_back(Pending::Error(expired));
                self.ended = true;
            }
        }
    }

    /// Maps an event to this watch: objects may start or stop to match its selectors.
    fn push_event(&mut self, event: Event) {
        let revision = event.object.revision;
        let before = event.previous.filter(|previous| self.matches(previous));
        let after = event.change != Change::Deleted && self.matches(&event.object);
        let pending = match (before, after) {
            (None, false) => return,
            (None, true) => Pending::Event("ADDED", event.object, revision),
            (Some(_), true) => Pending::Event("MODIFIED", event.object, revision),
            (Some(_), false) if event.change == Change::Deleted => {
                Pending::Event("DELETED", event.object, revision)
            }
            (Some(previous), false) => Pending::Event("DELETED", previous, revision),
        };
        self.pending.push_back(pending);
    }

    fn push_bookmark(&mut self) {
        let now = Instant::now();
        self.ended = now >= self.deadline;
        if let Some(bookmark) = &mut self.bookmark {
            *bookmark = now + BOOKMARK_INTERVAL;
            self.pending.push_back(Pending::Bookmark {
                revision: self.revision,
                initial_end: false,
            });
        }
    }

    fn write(&mut self) -> Bytes {
        let mut chunk = BytesMut::new();
        while chunk.len() < CHUNK_BYTES {
            let Some(pending) = self.pending.pop_front() else {
                break;
            };
            match pending {
                Pending::Event(event_type, stored, revision) => {
                    self.write_event(event_type, &stored, revision, &mut chunk);
                }
                Pending::Bookmark {
                    revision,
                    initial_end,
                } => {
                    let object = self.bookmark_object(revision, initial_end);
                    write_line(&mut chunk, "BOOKMARK", &output::to_bytes(&object));
                }
                Pending::Error(error) => {
                    write_line(&mut chunk, "ERROR", &output::to_bytes(&error.to_status()));
                }
            }
        }
        chunk.freeze()
    }

    fn write_event(
        &mut self,
        event_type: &str,
        stored: &Stored,
        revision: u64,
        chunk: &mut BytesMut,
    ) {
        if self.output == Output::Json && revision == stored.revision {
            write_line(chunk, event_type, &output::json(&self.resource, stored));
            return;
        }
        let mut value = output::value(&self.resource, stored);
        object::set_meta(&mut value, "resourceVersion", revision.to_string().into());
        let value = match self.output {
            Output::Json | Output::Yaml => value,
            Output::Metadata => output::partial(&value),
            Output::Table(include) => self.table(&[value], include, revision),
        };
        write_line(chunk, event_type, &output::to_bytes(&value));
    }

    fn table(
        &mut self,
        objects: &[Value],
        include: table_convertor::IncludeObject,
        revision: u64,
    ) -> Value {
        let now = self.server.clock.now();
        let metadata = json!({"resourceVersion": revision.to_string()});
        let first = !std::mem::replace(&mut self.columns_sent, true);
        table_convertor::convert(&self.resource, objects, include, now, &metadata, first)
    }

    fn bookmark_object(&mut self, revision: u64, initial_end: bool) -> Value {
        let mut object = match self.resource.built_in_kind() {
            Some(kind) => kinds::empty(kind),
            None => json!({
                "kind": self.resource.kind,
                "apiVersion": self.resource.api_version(),
            }),
        };
        object["metadata"] = json!({"resourceVersion": revision.to_string()});
        if self.resource.as_custom().is_none() {
            object::set_meta(&mut object, "creationTimestamp", Value::Null);
        }
        if initial_end {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        match self.output {
            Output::Json | Output::Yaml => object,
            Output::Metadata => output::partial(&object),
            Output::Table(include) => self.table(&[object], include, revision),
        }
    }
}

fn write_line(chunk: &mut BytesMut, event_type: &str, object: &[u8]) {
    chunk.put_slice(b"{\"type\":\"");
    chunk.put_slice(event_type.as_bytes());
    chunk.put_slice(b"\",\"object\":");
    chunk.put_slice(object);
    chunk.put_slice(b"}\n");
}

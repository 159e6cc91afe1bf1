//! Correlator that decides which Events are sent. Pure: callers pass the time.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use super::{Event, lru::Lru};
use crate::text::prefix;

/// An equal Event within this time is a repetition.
pub const REPEAT_WINDOW: Duration = Duration::from_secs(600);

/// The count of an Event is updated at most once in this time.
pub const COUNT_INTERVAL: Duration = Duration::from_secs(60);

/// Token bucket of one object.
pub const BURST: u32 = 25;

/// Time in which an object gets another token.
pub const REFILL_INTERVAL: Duration = Duration::from_secs(300);

/// Number of Events, and of objects, that are remembered.
const CACHE_CAPACITY: usize = 4096;

/// Longest name of an object.
const MAX_NAME_BYTES: usize = 253;

/// The object and a digest of type, reason and message.
pub(super) type Key = (String, u64);

/// What to send for an Event.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Counted, or over the rate limit.
    Nothing,
    Create(Series),
    IncrementCount(Series),
}

/// An Event in the cluster and its repetitions.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) first: Timestamp,
    pub(super) count: i32,
    last_recorded: Instant,
    last_sent: Instant,
}

#[derive(Debug)]
pub(super) struct Correlator {
    series: Lru<Key, Series>,
    buckets: Lru<String, Bucket>,
}

impl Default for Correlator {
    fn default() -> Self {
        Self {
            series: Lru::new(CACHE_CAPACITY),
            buckets: Lru::new(CACHE_CAPACITY),
        }
    }
}

impl Correlator {
    /// What to send for `event`, which was recorded `at` this time, and the key to
    /// [`forget`](Self::forget) if that fails.
    pub(super) fn correlate(&mut self, event: &Event, at: Instant, time: Timestamp) -> (Step, Key) {
        let object = identity(&event.object);
        let parts = [event.event_type.as_str(), &event.reason, &event.message];
        let digest = parts
            .iter()
            .fold(SEED, |digest, part| fnv(digest, part.as_bytes()));
        let key = (object.clone(), digest);
        if let Some(series) = self.series.get_mut(&key)
            && at.saturating_duration_since(series.last_recorded) <= REPEAT_WINDOW
        {
            series.count = series.count.saturating_add(1);
            series.last_recorded = at;
            let is_due = at.saturating_duration_since(series.last_sent) >= COUNT_INTERVAL;
            if !is_due || !try_acquire_token(&mut self.buckets, object, at) {
                return (Step::Nothing, key);
            }
            series.last_sent = at;
            return (Step::IncrementCount(series.clone()), key);
        }
        if !try_acquire_token(&mut self.buckets, object, at) {
            return (Step::Nothing, key);
        }
        let series = Series {
            namespace: namespace(&event.object),
            name: name(
                &event.object,
                fnv(digest, &time.as_nanosecond().to_be_bytes()),
            ),
            first: time,
            count: 1,
            last_recorded: at,
            last_sent: at,
        };
        self.series.insert(key.clone(), series.clone());
        (Step::Create(series), key)
    }

    /// Treats the next equal Event as new, after a failure to create it.
    pub(super) fn forget(&mut self, key: &Key) {
        self.series.remove(key);
    }
}

fn try_acquire_token(buckets: &mut Lru<String, Bucket>, object: String, at: Instant) -> bool {
    if let Some(bucket) = buckets.get_mut(&object) {
        return bucket.try_acquire(at);
    }
    let mut bucket = Bucket::full(at);
    let acquired = bucket.try_acquire(at);
    buckets.insert(object, bucket);
    acquired
}

/// Token bucket of one object.
#[derive(Debug)]
struct Bucket {
    tokens: u32,
    filled: Instant,
}

impl Bucket {
    const fn full(at: Instant) -> Self {
        Self {
            tokens: BURST,
            filled: at,
        }
    }

    fn try_acquire(&mut self, at: Instant) -> bool {
        let elapsed = at.saturating_duration_since(self.filled);
        let earned = elapsed.as_secs() / REFILL_INTERVAL.as_secs();
        let missing = u64::from(BURST.saturating_sub(self.tokens));
        if earned >= missing {
            *self = Self::full(at);
        } else {
            self.tokens = self
                .tokens
                .saturating_add(u32::try_from(earned).unwrap_or(BURST));
            self.filled += Duration::from_secs(earned * REFILL_INTERVAL.as_secs());
        }
        match self.tokens.checked_sub(1) {
            Some(tokens) => {
                self.tokens = tokens;
                true
            }
            None => false,
        }
    }
}

/// The object's UID, or else its kind, namespace and name.
fn identity(object: &ObjectReference) -> String {
    let field = |field: &Option<String>| field.clone().unwrap_or_default();
    match &object.uid {
        Some(uid) => uid.clone(),
        None => [&object.kind, &object.namespace, &object.name]
            .map(field)
            .join("/"),
    }
}

/// Events of cluster-scoped objects are in `default`.
fn namespace(object: &ObjectReference) -> String {
    match object.namespace.as_deref() {
        None | Some("") => "default".to_owned(),
        Some(namespace) => namespace.to_owned(),
    }
}

fn name(object: &ObjectReference, digest: u64) -> String {
    let suffix = format!(".{digest:016x}");
    let name = prefix(
        object.name.as_deref().unwrap_or_default(),
        MAX_NAME_BYTES - suffix.len(),
    );
    format!("{}{suffix}", name.trim_end_matches(['.', '-']))
}

const SEED: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, stable across builds. The separator distinguishes ("ab", "c") from ("a", "bc").
fn fnv(digest: u64, bytes: &[u8]) -> u64 {
    bytes.iter().chain(&[0xff]).fold(digest, |digest, byte| {
        (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

//! Which Events are worth a request. Pure: times are handed in.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use super::{Event, lru::Lru};
use crate::text::start;

/// What is said again within this time is the same Event.
pub const AGAIN: Duration = Duration::from_secs(600);

/// An Event's count is sent at most once in this time.
pub const QUIET: Duration = Duration::from_secs(60);

/// How many Events of one object are sent one right after the other.
pub const BURST: u32 = 25;

/// After that, one in this time.
pub const REFILL: Duration = Duration::from_secs(300);

/// How many Events, and how many objects, are remembered.
const REMEMBERED: usize = 4096;

/// The longest name of an object.
const NAME: usize = 253;

/// What is said of an object, by the object and a digest of the rest.
pub(super) type Key = (String, u64);

/// What to do with an event.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// It is counted, or there were too many.
    Nothing,
    /// It is new.
    Create(Series),
    /// It is there, and was said again.
    Raise(Series),
}

/// An Event of the cluster, and how often it was said.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) first: Timestamp,
    pub(super) count: i32,
    said: Instant,
    sent: Instant,
}

/// What was said lately.
#[derive(Debug)]
pub(super) struct Correlator {
    series: Lru<Key, Series>,
    buckets: Lru<String, Bucket>,
}

impl Default for Correlator {
    fn default() -> Self {
        Self {
            series: Lru::new(REMEMBERED),
            buckets: Lru::new(REMEMBERED),
        }
    }
}

impl Correlator {
    /// What to do with `event`, which was recorded `at` this moment, and what to
    /// [`forget`](Self::forget) if that fails.
    pub(super) fn take(&mut self, event: &Event, at: Instant, time: Timestamp) -> (Step, Key) {
        let object = identity(&event.object);
        let parts = [event.event_type.as_str(), &event.reason, &event.message];
        let digest = parts
            .iter()
            .fold(SEED, |digest, part| fnv(digest, part.as_bytes()));
        let key = (object.clone(), digest);
        if let Some(series) = self.series.get_mut(&key)
            && at.saturating_duration_since(series.said) <= AGAIN
        {
            series.count = series.count.saturating_add(1);
            series.said = at;
            let is_due = at.saturating_duration_since(series.sent) >= QUIET;
            if !is_due || !take_token(&mut self.buckets, object, at) {
                return (Step::Nothing, key);
            }
            series.sent = at;
            return (Step::Raise(series.clone()), key);
        }
        if !take_token(&mut self.buckets, object, at) {
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
            said: at,
            sent: at,
        };
        self.series.insert(key.clone(), series.clone());
        (Step::Create(series), key)
    }

    /// What is said next is new: the last attempt to say it failed.
    pub(super) fn forget(&mut self, key: &Key) {
        self.series.remove(key);
    }
}

fn take_token(buckets: &mut Lru<String, Bucket>, object: String, at: Instant) -> bool {
    if let Some(bucket) = buckets.get_mut(&object) {
        return bucket.take(at);
    }
    let mut bucket = Bucket::full(at);
    let taken = bucket.take(at);
    buckets.insert(object, bucket);
    taken
}

/// Tokens of one object.
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

    fn take(&mut self, at: Instant) -> bool {
        let passed = at.saturating_duration_since(self.filled);
        let earned = passed.as_secs() / REFILL.as_secs();
        let missing = u64::from(BURST.saturating_sub(self.tokens));
        if earned >= missing {
            *self = Self::full(at);
        } else {
            self.tokens = self
                .tokens
                .saturating_add(u32::try_from(earned).unwrap_or(BURST));
            self.filled += Duration::from_secs(earned * REFILL.as_secs());
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

/// The object's uid; without one, what else tells it from others.
fn identity(object: &ObjectReference) -> String {
    let field = |field: &Option<String>| field.clone().unwrap_or_default();
    match &object.uid {
        Some(uid) => uid.clone(),
        None => [&object.kind, &object.namespace, &object.name]
            .map(field)
            .join("/"),
    }
}

/// Events of objects without a namespace are kept in `default`.
fn namespace(object: &ObjectReference) -> String {
    match object.namespace.as_deref() {
        None | Some("") => "default".to_owned(),
        Some(namespace) => namespace.to_owned(),
    }
}

fn name(object: &ObjectReference, digest: u64) -> String {
    let suffix = format!(".{digest:016x}");
    let name = start(
        object.name.as_deref().unwrap_or_default(),
        NAME - suffix.len(),
    );
    format!("{}{suffix}", name.trim_end_matches(['.', '-']))
}

const SEED: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, which is the same in every build. A separator keeps ("ab", "c") from being ("a", "bc").
fn fnv(digest: u64, bytes: &[u8]) -> u64 {
    bytes.iter().chain(&[0xff]).fold(digest, |digest, byte| {
        (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

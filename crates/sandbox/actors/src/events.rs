//! Recorder of Kubernetes Events: repeated ones are counted.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    Kind,
    actor::reference,
    clock::elapsed,
    object::{name, namespace, seconds, uid},
};

/// Number of distinct Events whose count is kept.
const MAX_COUNTED: usize = 4096;
/// Equal Events within this interval count once.
const DEDUPLICATION_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct Recorder(Mutex<EventCounts>);

#[derive(Debug, Default)]
struct EventCounts {
    counts: BTreeMap<u64, (u32, Timestamp)>,
    order: VecDeque<u64>,
}

/// Write that records an Event.
#[derive(Debug, PartialEq)]
pub(crate) enum Record {
    Create {
        namespace: String,
        event: Value,
    },
    /// Raises the count of an existing Event.
    Count {
        namespace: String,
        name: String,
        patch: Value,
    },
}

impl Recorder {
    /// The write for an Event; `None` if an equal one was recorded within the interval.
    pub fn record(
        &self,
        (kind, regarding): (Kind, &Value),
        component: &str,
        (of_type, reason, message): (&str, &str, &str),
        now: Timestamp,
    ) -> Option<Record> {
        let id = digest(&[uid(regarding), component, reason, message]);
        let namespace = if kind.namespaced {
            namespace(regarding)
        } else {
            "default"
        }
        .to_owned();
        let stem: String = name(regarding).chars().take(220).collect();
        let event_name = format!("{stem}.{id:016x}");
        let mut recorded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((count, last)) = recorded.counts.get_mut(&id) {
            if elapsed(*last, now) < DEDUPLICATION_INTERVAL {
                return None;
            }
            *count = count.saturating_add(1);
            *last = now;
            return Some(Record::Count {
                namespace,
                name: event_name,
                patch: json!({"count": *count, "lastTimestamp": seconds(now)}),
            });
        }
        if recorded.order.len() >= MAX_COUNTED
            && let Some(oldest) = recorded.order.pop_front()
        {
            recorded.counts.remove(&oldest);
        }
        recorded.counts.insert(id, (1, now));
        recorded.order.push_back(id);
        let event = json!({
            "metadata": {"name": event_name, "namespace": namespace},
            "involvedObject": reference(kind, regarding),
            "type": of_type,
            "reason": reason,
            "message": message,
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": "",
            "firstTimestamp": seconds(now),
            "lastTimestamp": seconds(now),
            "count": 1,
        });
        Some(Record::Create { namespace, event })
    }
}

/// FNV-1a: the same event has the same name in every run.
fn digest(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{NODE, POD};

    fn record(recorder: &Recorder, message: &str, second: i64) -> Option<Record> {
        let pod = json!({"metadata": {"namespace": "a", "name": "p", "uid": "u"}});
        let now = Timestamp::from_second(second).unwrap();
        recorder.record((POD, &pod), "kubelet", ("Normal", "Started", message), now)
    }

    #[test]
    fn a_repeated_event_is_counted() {
        let recorder = Recorder::default();
        assert!(matches!(
            record(&recorder, "m", 0),
            Some(Record::Create { .. })
        ));
        assert_eq!(record(&recorder, "m", 5), None);
        match record(&recorder, "m", 20) {
            Some(Record::Count { patch, .. }) => assert_eq!(patch["count"], 2),
            other => panic!("{other:?}"),
        }
        assert!(matches!(
            record(&recorder, "other", 20),
            Some(Record::Create { .. })
        ));
    }

    #[test]
    fn the_number_of_counted_events_is_bounded() {
        let recorder = Recorder::default();
        for n in 0..MAX_COUNTED + 10 {
            record(&recorder, &n.to_string(), 0);
        }
        assert_eq!(recorder.0.lock().unwrap().counts.len(), MAX_COUNTED);
    }

    #[test]
    fn events_of_nodes_are_in_the_namespace_default() {
        let node = json!({"metadata": {"name": "n"}});
        let record = Recorder::default().record(
            (NODE, &node),
            "kubelet",
            ("Normal", "NodeReady", "ready"),
            Timestamp::UNIX_EPOCH,
        );
        assert!(matches!(record, Some(Record::Create { namespace, .. }) if namespace == "default"));
    }
}

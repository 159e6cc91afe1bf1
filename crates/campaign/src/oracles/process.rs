//! Oracles of requests: leadership and bodies.

use serde_json::Value;

use super::Violation;
use crate::{
    decision::Subject,
    history::{History, Moment},
};

pub(super) fn judge(subject: Subject, history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    let lease = format!("{}/{}", subject.account().0, subject.lease());
    history.replay(|objects, moment| {
        let Moment::Sent(sent) = moment else {
            return;
        };
        if !sent.is_write() || sent.is_of_lease() {
            return;
        }
        let at = sent.at.duration_since(history.start_time);
        let holder = objects
            .get("leases", &lease)
            .map_or(&Value::Null, |lease| &lease["spec"]["holderIdentity"]);
        // Access reviews change nothing.
        let changes = !sent.path().contains("authorization.k8s.io/v1/selfsubject");
        if changes && *holder != sent.identity.as_str() {
            violations.push(Violation {
                oracle: "no-write-without-the-lease",
                at,
                text: format!(
                    "{} {} by {} while {holder} has the Lease",
                    sent.method, sent.uri, sent.identity
                ),
            });
        }
        if let Some(path) = null(&sent.body, "") {
            violations.push(Violation {
                oracle: "no-null-in-a-body",
                at,
                text: format!("{} {} has null at {path}", sent.method, sent.uri),
            });
        }
    });
    violations
}

/// The path of a null in a body. In metadata a merge patch removes finalizers and owners with it.
fn null(value: &Value, path: &str) -> Option<String> {
    match value {
        Value::Null if path.is_empty() => None,
        Value::Null if path.starts_with("/metadata/") => None,
        Value::Null => Some(path.to_owned()),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| null(item, &format!("{path}/{index}"))),
        Value::Object(fields) => fields
            .iter()
            .find_map(|(name, field)| null(field, &format!("{path}/{name}"))),
        _ => None,
    }
}

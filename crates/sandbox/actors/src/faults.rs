//! Injection of faults.
//!
//! An annotation on an object, or a fault file, says which object fails, how and when:
//!
//! ```yaml
//! metadata:
//!   annotations:
//!     sandbox.vitistack.io/fail: CrashLoopBackOff@10s*3
//! ```
//!
//! The annotation is a comma-separated list of faults of the form `fault[=argument][@after][*times]`.
//! `after` (`90s`, `1m30s`, `500ms`) counts from the creation of the object; `times` is the number of
//! attempts that fail before one succeeds (by default all fail).
//!
//! A fault file is a YAML list. `namespace` and `name` may contain the wildcards `*` and `?`, and match
//! everything if they are left out:
//!
//! ```yaml
//! - kind: Pod
//!   namespace: default
//!   name: importer-*
//!   fault: Exit=1
//!   after: 5s
//!   times: 2
//! ```
//!
//! A Pod fault of a Deployment, ReplicaSet, DaemonSet, StatefulSet or Job applies to its pods. With a
//! part of an image name as argument, as in `CrashLoopBackOff=virt-handler:v1.9.1`, it applies only to
//! pods with such an image. [`VOCABULARY`] lists the faults.

mod wildcard;

use apimachinery::duration;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use self::wildcard::matches;
use crate::{
    Kind,
    clock::elapsed,
    object::{annotation, list, name, namespace, text, time},
};

pub const ANNOTATION: &str = "sandbox.vitistack.io/fail";

/// Kinds whose faults apply to their pods.
pub const WORKLOADS: &[&str] = &[
    "Deployment",
    "ReplicaSet",
    "DaemonSet",
    "StatefulSet",
    "Job",
];

/// Kind, name of the fault, and its effect.
pub const VOCABULARY: &[(&str, &str, &str)] = &[
    (
        "Node",
        "NotReady",
        "the kubelet stops reporting; the Ready condition becomes Unknown",
    ),
    ("Pod", "Unschedulable", "no node fits"),
    ("Pod", "ImagePullBackOff", "the images cannot be pulled"),
    (
        "Pod",
        "CrashLoopBackOff",
        "the containers exit with 1 soon after each start",
    ),
    (
        "Pod",
        "NeverReady",
        "the containers run, but their readiness probes fail",
    ),
    (
        "Pod",
        "Exit",
        "the containers exit with the given code, as in Exit=137",
    ),
    (
        "PersistentVolumeClaim",
        "ProvisioningFailed",
        "no volume can be provisioned",
    ),
    (
        "PersistentVolumeClaim",
        "ResizeFailed",
        "the volume cannot be resized",
    ),
    (
        "DataVolume",
        "ImportFailed",
        "the importer exits with an error and is restarted",
    ),
    (
        "VirtualMachineInstance",
        "CrashLoopBackOff",
        "the guest crashes soon after each start",
    ),
    (
        "VirtualMachineInstance",
        "Unschedulable",
        "no node fits its virt-launcher pod",
    ),
    (
        "VirtualMachineInstance",
        "NeverReady",
        "the guest runs, but its readiness probe fails",
    ),
    (
        "VirtualMachineInstance",
        "MigrationFailed",
        "live migrations fail",
    ),
    (
        "VirtualMachineInstance",
        "Crash",
        "the guest crashes once it runs",
    ),
    (
        "VirtualMachineInstance",
        "Shutdown",
        "the guest shuts itself down once it runs",
    ),
    (
        "CustomResourceDefinition",
        "WebhookUnavailable",
        "of virtualmachines.kubevirt.io: virt-api is unreachable, with its webhooks and subresources",
    ),
    (
        "VirtualMachineSnapshot",
        "NeverReady",
        "the snapshot is never ready to use",
    ),
    (
        "VirtualMachineRestore",
        "Failed",
        "the VM cannot be restored",
    ),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// A fault of [`VOCABULARY`].
    pub what: String,
    /// Text after `=`: the exit code in `Exit=137`; for other faults of pods, a part of an image
    /// name.
    pub argument: Option<String>,
    /// Time from the object's creation to the fault.
    pub after: Duration,
    /// Number of attempts that fail; all if absent.
    pub times: Option<u32>,
}

impl Fault {
    /// Whether the fault applies to a pod: with an argument, one of the pod's images must contain
    /// it.
    pub(crate) fn affects(&self, pod: &Value) -> bool {
        let Some(part) = self.argument.as_deref().filter(|_| self.what != "Exit") else {
            return true;
        };
        ["/spec/containers", "/spec/initContainers"]
            .into_iter()
            .flat_map(|containers| list(pod, containers))
            .any(|container| text(container, "/image").contains(part))
    }

    /// Whether this attempt fails; the first is 0.
    pub fn fails_attempt(&self, attempt: i64) -> bool {
        self.times.is_none_or(|times| attempt < i64::from(times))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct FaultError {
    pub field: String,
    /// What is wrong, and the remedy.
    pub problem: String,
}

/// The rules of a fault file. Annotations are read from the objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    kind: String,
    namespace: String,
    name: String,
    fault: Fault,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    kind: String,
    #[serde(default = "anything")]
    namespace: String,
    #[serde(default = "anything")]
    name: String,
    fault: String,
    after: Option<String>,
    times: Option<u32>,
}

fn anything() -> String {
    "*".to_owned()
}

impl Faults {
    pub fn from_yaml(yaml: &str) -> Result<Self, FaultError> {
        let raw: Option<Vec<RawRule>> =
            serde_saphyr::from_str(yaml).map_err(|error| FaultError {
                field: "fault file".to_owned(),
                problem: format!(
                    "{error}: write a list of rules with kind, fault and, optionally, namespace, \
                     name, after and times"
                ),
            })?;
        let rules = raw.unwrap_or_default().into_iter().enumerate();
        rules
            .map(|(index, rule)| rule.resolve(&format!("[{index}]")))
            .collect::<Result<_, _>>()
            .map(|rules| Self { rules })
    }

    /// The fault `what` of an object, once it is due.
    pub fn due(&self, kind: Kind, object: &Value, what: &str, now: Timestamp) -> Option<Fault> {
        let fault = self.find(kind, object, what)?;
        let created = time(object, "/metadata/creationTimestamp").unwrap_or(now);
        (elapsed(created, now) >= fault.after).then_some(fault)
    }

    /// The fault `what` of an object, from its annotation or from the fault file.
    pub fn find(&self, kind: Kind, object: &Value, what: &str) -> Option<Fault> {
        self.find_where(kind, object, |fault| fault.what == what)
    }

    /// The first fault of an object that satisfies a predicate.
    pub fn find_where(
        &self,
        kind: Kind,
        object: &Value,
        predicate: impl Fn(&Fault) -> bool,
    ) -> Option<Fault> {
        from_annotation(kind, object, &predicate).or_else(|| {
            let rule = self.rules.iter().find(|rule| {
                rule.kind == kind.kind
                    && predicate(&rule.fault)
                    && matches(&rule.namespace, namespace(object))
                    && matches(&rule.name, name(object))
            });
            rule.map(|rule| rule.fault.clone())
        })
    }
}

fn from_annotation(
    kind: Kind,
    object: &Value,
    predicate: impl Fn(&Fault) -> bool,
) -> Option<Fault> {
    let value = annotation(object, ANNOTATION)?;
    match parse(kind.kind, value, ANNOTATION) {
        Ok(faults) => faults.into_iter().find(|fault| predicate(fault)),
        Err(error) => {
            tracing::warn!(kind = kind.kind, name = name(object), %error, "ignoring an invalid fault annotation");
            None
        }
    }
}

impl RawRule {
    fn resolve(self, path: &str) -> Result<Rule, FaultError> {
        let kinds = || {
            VOCABULARY
                .iter()
                .map(|(kind, ..)| *kind)
                .chain(WORKLOADS.iter().copied())
        };
        if !kinds().any(|kind| kind == self.kind) {
            return Err(FaultError {
                field: format!("{path}.kind"),
                problem: format!(
                    "{:?} has no faults: use one of {}",
                    self.kind,
                    listed(kinds())
                ),
            });
        }
        let mut faults = parse(&self.kind, &self.fault, &format!("{path}.fault"))?;
        let (Some(mut fault), true) = (faults.pop(), faults.is_empty()) else {
            return Err(FaultError {
                field: format!("{path}.fault"),
                problem: "has more than one fault: write one rule for each".to_owned(),
            });
        };
        if let Some(after) = self.after {
            fault.after = duration::parse_unsigned(&after)
                .ok_or_else(|| not_a_duration(format!("{path}.after"), &after))?;
        }
        fault.times = self.times.or(fault.times);
        Ok(Rule {
            kind: self.kind,
            namespace: self.namespace,
            name: self.name,
            fault,
        })
    }
}

/// Parses a comma-separated list of `fault[=argument][@after][*times]`.
fn parse(kind: &str, value: &str, field: &str) -> Result<Vec<Fault>, FaultError> {
    let parts = value
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    parts.map(|part| parse_one(kind, part, field)).collect()
}

fn parse_one(kind: &str, part: &str, field: &str) -> Result<Fault, FaultError> {
    let (rest, times) = match part.rsplit_once('*') {
        Some((rest, times)) => match times.trim().parse() {
            Ok(times) => (rest, Some(times)),
            Err(_) => {
                return Err(FaultError {
                    field: field.to_owned(),
                    problem: format!(
                        "{times:?} is not a number of attempts: write it as in {rest}*3"
                    ),
                });
            }
        },
        None => (part, None),
    };
    let (rest, after) = match rest.split_once('@') {
        Some((rest, after)) => (
            rest,
            duration::parse_unsigned(after.trim())
                .ok_or_else(|| not_a_duration(field.to_owned(), after))?,
        ),
        None => (rest, Duration::ZERO),
    };
    let (what, argument) = match rest.split_once('=') {
        Some((what, argument)) => (what.trim(), Some(argument.trim().to_owned())),
        None => (rest.trim(), None),
    };
    let known = || {
        VOCABULARY
            .iter()
            .filter(|(of, ..)| *of == kind || (*of == "Pod" && WORKLOADS.contains(&kind)))
            .map(|(_, what, _)| *what)
    };
    if !known().any(|name| name == what) {
        return Err(FaultError {
            field: field.to_owned(),
            problem: format!(
                "{what:?} is not a fault of a {kind}: use one of {}",
                listed(known())
            ),
        });
    }
    Ok(Fault {
        what: what.to_owned(),
        argument,
        after,
        times,
    })
}

fn not_a_duration(field: String, text: &str) -> FaultError {
    FaultError {
        field,
        problem: format!("{text:?} is not a duration: write it as in 90s, 1m30s or 500ms"),
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut unique: Vec<&str> = Vec::new();
    for name in names {
        if !unique.contains(&name) {
            unique.push(name);
        }
    }
    unique.join(", ")
}

#[cfg(test)]
mod tests;

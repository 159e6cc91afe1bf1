//! Failures on request.
//!
//! An annotation on an object, or a fault file, says which object fails, how and when:
//!
//! ```yaml
//! metadata:
//!   annotations:
//!     sandbox.vitistack.io/fail: CrashLoopBackOff@10s*3
//! ```
//!
//! The annotation holds one or more faults, separated by commas, each of the form
//! `word[=argument][@after][*times]`: `after` (`90s`, `1m30s`, `500ms`) counts from the creation of
//! the object, `times` is how many attempts fail before it goes well (without it: all of them).
//!
//! A fault file is a list in YAML; `namespace` and `name` may hold `*` and `?`, and match everything
//! when they are left out:
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
//! What is asked for a Deployment, ReplicaSet, DaemonSet, StatefulSet or Job with a word of Pod
//! holds for its pods. With a part of an image's name behind the word, as in
//! `CrashLoopBackOff=virt-handler:v1.9.1`, it holds for pods that have such an image. The words are listed in [`VOCABULARY`].

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

/// The annotation that asks for faults of the object that has it.
pub const ANNOTATION: &str = "sandbox.vitistack.io/fail";

/// Kinds whose pods take over what is asked of them.
pub const WORKLOADS: &[&str] = &[
    "Deployment",
    "ReplicaSet",
    "DaemonSet",
    "StatefulSet",
    "Job",
];

/// The faults that can be asked for: kind, word, and what happens.
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
        "the containers run, and their readiness probes fail",
    ),
    (
        "Pod",
        "Exit",
        "the containers exit with the code that is given, as in Exit=137",
    ),
    (
        "PersistentVolumeClaim",
        "ProvisioningFailed",
        "no volume can be made",
    ),
    (
        "PersistentVolumeClaim",
        "ResizeFailed",
        "the volume cannot grow",
    ),
    (
        "DataVolume",
        "ImportFailed",
        "the importer exits with an error, and is started again",
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
        "the guest runs, and its readiness probe fails",
    ),
    (
        "VirtualMachineInstance",
        "MigrationFailed",
        "it cannot be moved to another node",
    ),
    (
        "VirtualMachineInstance",
        "Crash",
        "the guest runs, and crashes",
    ),
    (
        "VirtualMachineInstance",
        "Shutdown",
        "the guest runs, and shuts itself down",
    ),
    (
        "CustomResourceDefinition",
        "WebhookUnavailable",
        "of virtualmachines.kubevirt.io: virt-api is away, with its webhooks and subresources",
    ),
    (
        "VirtualMachineSnapshot",
        "NeverReady",
        "the snapshot is never ready to use",
    ),
    (
        "VirtualMachineRestore",
        "Failed",
        "the VM cannot be put back",
    ),
];

/// A failure that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// How the object fails: a word of [`VOCABULARY`].
    pub what: String,
    /// What follows the word: 137 in `Exit=137`, a part of an image's name for the other words of a
    /// pod.
    pub argument: Option<String>,
    /// How long after its creation the object begins to fail.
    pub after: Duration,
    /// How many attempts fail; all of them when absent.
    pub times: Option<u32>,
}

impl Fault {
    /// Whether a pod is hit: one that has an image with the given part in its name, where one is
    /// given.
    pub(crate) fn hits(&self, pod: &Value) -> bool {
        let Some(part) = self.argument.as_deref().filter(|_| self.what != "Exit") else {
            return true;
        };
        ["/spec/containers", "/spec/initContainers"]
            .into_iter()
            .flat_map(|containers| list(pod, containers))
            .any(|container| text(container, "/image").contains(part))
    }

    /// Whether an attempt fails, counted from zero.
    pub fn strikes(&self, attempt: i64) -> bool {
        self.times.is_none_or(|times| attempt < i64::from(times))
    }
}

/// Why a fault file or an annotation cannot be used: names the field and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct FaultError {
    /// Where the mistake is.
    pub field: String,
    /// What is wrong, and the remedy.
    pub problem: String,
}

/// The faults of a fault file. Those of annotations are found with the objects.
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
    /// Reads a fault file.
    pub fn from_yaml(yaml: &str) -> Result<Self, FaultError> {
        let raw: Option<Vec<RawRule>> =
            serde_saphyr::from_str(yaml).map_err(|error| FaultError {
                field: "fault file".to_owned(),
                problem: format!(
                    "{error}: write a list of rules with kind, fault and, if wanted, namespace, \
                     name, after and times"
                ),
            })?;
        let rules = raw.unwrap_or_default().into_iter().enumerate();
        rules
            .map(|(index, rule)| rule.resolve(&format!("[{index}]")))
            .collect::<Result<_, _>>()
            .map(|rules| Self { rules })
    }

    /// The fault of this kind that was asked for an object, once its time has come.
    pub fn due(&self, kind: Kind, object: &Value, what: &str, now: Timestamp) -> Option<Fault> {
        let fault = self.find(kind, object, what)?;
        let created = time(object, "/metadata/creationTimestamp").unwrap_or(now);
        (elapsed(created, now) >= fault.after).then_some(fault)
    }

    /// The fault of this kind that was asked for an object, by its annotation or by the file.
    pub fn find(&self, kind: Kind, object: &Value, what: &str) -> Option<Fault> {
        self.find_where(kind, object, |fault| fault.what == what)
    }

    /// The first fault that was asked for an object and is one that is looked for.
    pub fn find_where(
        &self,
        kind: Kind,
        object: &Value,
        is_wanted: impl Fn(&Fault) -> bool,
    ) -> Option<Fault> {
        asked_by_annotation(kind, object, &is_wanted).or_else(|| {
            let rule = self.rules.iter().find(|rule| {
                rule.kind == kind.kind
                    && is_wanted(&rule.fault)
                    && matches(&rule.namespace, namespace(object))
                    && matches(&rule.name, name(object))
            });
            rule.map(|rule| rule.fault.clone())
        })
    }
}

fn asked_by_annotation(
    kind: Kind,
    object: &Value,
    is_wanted: impl Fn(&Fault) -> bool,
) -> Option<Fault> {
    let asked = annotation(object, ANNOTATION)?;
    match parse(kind.kind, asked, ANNOTATION) {
        Ok(faults) => faults.into_iter().find(|fault| is_wanted(fault)),
        Err(error) => {
            tracing::warn!(kind = kind.kind, name = name(object), %error, "fault not understood");
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
                    "{:?} cannot fail: use one of {}",
                    self.kind,
                    listed(kinds())
                ),
            });
        }
        let mut faults = parse(&self.kind, &self.fault, &format!("{path}.fault"))?;
        let (Some(mut fault), true) = (faults.pop(), faults.is_empty()) else {
            return Err(FaultError {
                field: format!("{path}.fault"),
                problem: "give one fault a rule, and further ones in rules of their own".to_owned(),
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

/// Reads `word[=argument][@after][*times]`, separated by commas.
fn parse(kind: &str, asked: &str, field: &str) -> Result<Vec<Fault>, FaultError> {
    let parts = asked
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
                    problem: format!("{times:?} is not a number of times: write it as in {rest}*3"),
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
    let (word, argument) = match rest.split_once('=') {
        Some((word, argument)) => (word.trim(), Some(argument.trim().to_owned())),
        None => (rest.trim(), None),
    };
    let words = || {
        VOCABULARY
            .iter()
            .filter(|(of, ..)| *of == kind || (*of == "Pod" && WORKLOADS.contains(&kind)))
            .map(|(_, word, _)| *word)
    };
    if !words().any(|known| known == word) {
        return Err(FaultError {
            field: field.to_owned(),
            problem: format!(
                "{word:?} is not a fault of a {kind}: use one of {}",
                listed(words())
            ),
        });
    }
    Ok(Fault {
        what: word.to_owned(),
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

fn listed<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for word in words {
        if !seen.contains(&word) {
            seen.push(word);
        }
    }
    seen.join(", ")
}

#[cfg(test)]
mod tests;

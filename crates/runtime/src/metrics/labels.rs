//! Labels, and how many there may be.

use std::collections::BTreeSet;

use prometheus_client::encoding::EncodeLabelSet;

use super::{DISTINCT, OTHER};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub(super) struct Machine {
    pub(super) phase: String,
    pub(super) template: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub(super) struct VirtualMachine {
    pub(super) status: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Controller {
    pub(super) controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ControllerError {
    pub(super) controller: &'static str,
    pub(super) error_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ControllerResult {
    pub(super) controller: &'static str,
    pub(super) result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub(super) struct StorageClass {
    pub(super) storage_class: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Network {
    pub(super) network_name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ApiRequest {
    pub(super) verb: &'static str,
    pub(super) resource: String,
    pub(super) code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub(super) struct Certificate {
    pub(super) secret: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Admission {
    pub(super) resource: &'static str,
    pub(super) verdict: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Verb {
    pub(super) verb: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Build {
    pub(super) version: &'static str,
}

/// Names that have a series of their own: those that came first.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    /// The name that `name` is counted under.
    pub(super) fn shown(&mut self, name: &str) -> String {
        if self.0.contains(name) {
            return name.to_owned();
        }
        if self.0.len() >= DISTINCT {
            return OTHER.to_owned();
        }
        self.0.insert(name.to_owned());
        name.to_owned()
    }

    /// Makes room: a gauge's series may go when there is nothing left to show.
    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.0.retain(|name| keep(name));
    }
}

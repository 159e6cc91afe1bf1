//! Classification of API server refusals: error type, message for the status, and whether they last.

use api::labels;
use kube::{Error, core::Status};
use plan::{
    machine::{ErrorType, Kind, Part, Refusal},
    upstream_messages::RefusalCause,
};

use crate::requests::{in_one_line, status_message};

/// Cause of the refusal to create an object in a namespace that is being deleted.
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

const CLONE_REMEDY: &str = "allow this user to create datavolumes/source of cdi.kubevirt.io in \
                            that namespace, with a Role and a RoleBinding";

/// Object of a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    pub(super) part: Part,
    pub(super) kind: &'a str,
    pub(super) name: &'a str,
}

impl<'a> Subject<'a> {
    pub(super) fn new(kind: Kind, name: &'a str) -> Self {
        let part = match kind {
            Kind::PersistentVolumeClaim | Kind::DataVolume => Part::Storage,
            Kind::VirtualMachine | Kind::VirtualMachineInstance => Part::VirtualMachine,
            Kind::NetworkAttachmentDefinition | Kind::NetworkConfiguration => Part::Network,
        };
        Self {
            part,
            kind: kind.as_str(),
            name,
        }
    }

    fn is_kubevirt_api(self) -> bool {
        self.part == Part::VirtualMachine && self.kind != "Secret" || self.kind == "DataVolume"
    }

    pub(super) fn refused(self, error: &Error) -> Refusal {
        let Self { part, kind, name } = self;
        let Error::Api(status) = error else {
            return Refusal {
                error_type: ErrorType::ApiError,
                part,
                message: format!(
                    "the API server did not answer: {}",
                    in_one_line(&error.to_string())
                ),
                is_persistent: false,
            };
        };
        let cause = RefusalCause::parse(&status.message);
        let error_type = self.error_type(&cause);
        let mut message = format!("{kind} {name:?} was refused: {}", status_message(status));
        if let Some(namespace) = missing_namespace(status) {
            message = format!(
                "{kind} {name:?} was refused: namespace {namespace} does not exist: create it in the cluster of \
                 the virtual machine"
            );
        }
        if cause == RefusalCause::CloneForbidden {
            message.push_str(": ");
            message.push_str(CLONE_REMEDY);
        }
        Refusal {
            error_type,
            part,
            message,
            is_persistent: !is_transient(status),
        }
    }

    /// Refusal to change a foreign object.
    pub(super) fn foreign(self) -> Refusal {
        let Self { part, kind, name } = self;
        Refusal {
            error_type: ErrorType::ForeignObject,
            part,
            message: format!(
                "{kind} {name:?} exists and does not belong to this Machine: give one of them another name"
            ),
            is_persistent: true,
        }
    }

    /// Refusal to change a child of an earlier resource of the same name, which is about to be deleted.
    pub(super) fn of_predecessor(self) -> Refusal {
        let Self { kind, name, .. } = self;
        Refusal {
            message: format!(
                "{kind} {name:?} belongs to an earlier resource of this name and is about to be deleted"
            ),
            is_persistent: false,
            ..self.foreign()
        }
    }

    /// Refusal to use a disk without an owner, which the user may want the Machine to adopt.
    pub(super) fn unclaimed(self, machine: &str) -> Refusal {
        let Self { kind, name, .. } = self;
        let message = format!(
            "{kind} {name:?} exists and does not belong to this Machine: to let the Machine adopt it, label it {}={machine} and {}={}, and annotate the Machine with {}: \"true\"; otherwise rename one of them",
            labels::MACHINE,
            labels::MANAGED_BY,
            labels::MANAGER,
            labels::ADOPT_DISKS,
        );
        Refusal {
            message,
            ..self.foreign()
        }
    }

    fn error_type(self, cause: &RefusalCause) -> ErrorType {
        match cause {
            RefusalCause::QuotaExceeded { .. } => ErrorType::InsufficientResources,
            _ if self.is_kubevirt_api() => ErrorType::KubeVirtApiError,
            _ => ErrorType::ApiError,
        }
    }
}

/// The namespace that an object was to be created in and that does not exist. That of a Machine exists in the
/// Machine's own cluster.
fn missing_namespace(status: &Status) -> Option<&str> {
    let details = status.details.as_ref()?;
    let is_namespace = status.code == 404 && details.kind == "namespaces";
    is_namespace.then_some(details.name.as_str())
}

/// Whether a refusal is transient: it is retried before it is reported.
fn is_transient(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    let is_terminating = causes.any(|cause| cause.reason == NAMESPACE_TERMINATING);
    matches!(status.code, 408 | 409 | 429 | 503 | 504) || is_terminating
}

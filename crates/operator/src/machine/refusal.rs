//! What an API server's refusal means for a Machine.

use api::labels;
use kube::{Error, core::Status};
use plan::machine::{ErrorType, Kind, Part, Refusal};

use crate::requests::{in_one_line, words};

/// CDI's words for a copy from a namespace in which whoever creates the DataVolume has no rights.
const CLONE_REFUSED: &str = "has insufficient permissions in clone source namespace";
const CLONE_REMEDY: &str =
    "let this user create datavolumes/source of cdi.kubevirt.io there, by a Role and a RoleBinding";

/// What a write was about.
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
            Kind::NetworkAttachmentDefinition => Part::Network,
        };
        Self {
            part,
            kind: kind.as_str(),
            name,
        }
    }

    fn is_kubevirts(self) -> bool {
        self.part == Part::VirtualMachine && self.kind != "Secret" || self.kind == "DataVolume"
    }

    /// The refusal that an error is.
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
        let error_type = self.error_type(status);
        let mut message = format!("{kind} {name:?} was refused: {}", words(status));
        if status.message.contains(CLONE_REFUSED) {
            message.push_str(": ");
            message.push_str(CLONE_REMEDY);
        }
        Refusal {
            error_type,
            part,
            message,
            is_persistent: !passes(status),
        }
    }

    /// The refusal to touch what is not ours.
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

    /// The refusal to touch what belongs to an earlier resource of the name. It is deleted with that.
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

    /// The refusal to touch a disk that nobody owns, and that a Machine may have been given.
    pub(super) fn unclaimed(self, machine: &str) -> Refusal {
        let Self { kind, name, .. } = self;
        let message = format!(
            "{kind} {name:?} exists and does not belong to this Machine: to have it taken over, label it {}={machine} and {}={}, and annotate the Machine with {}: \"true\"; if it is another's, rename one of them",
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

    fn error_type(self, status: &Status) -> ErrorType {
        if status.message.contains("exceeded quota") {
            ErrorType::InsufficientResources
        } else if self.is_kubevirts() {
            ErrorType::KubeVirtApiError
        } else {
            ErrorType::ApiError
        }
    }
}

/// Whether a refusal is over by itself before a person could do anything: it is tried again first.
fn passes(status: &Status) -> bool {
    let terminating = status.message.contains("because it is being terminated");
    matches!(status.code, 408 | 409 | 429 | 503 | 504) || terminating
}

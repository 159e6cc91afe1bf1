//! Error types of Machines, and errors of their specs.

use std::fmt;

/// Type of an error: label of a metric and reason of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorType {
    /// The named template, instance type or MachineClass does not exist.
    TemplateNotFound,
    NetworkConfigurationNotFound,
    /// The named StorageClass does not exist, or none is the default.
    StorageClassNotFound,
    /// No node has room, or a quota is exceeded.
    InsufficientResources,
    /// KubeVirt is missing, unreachable, or refuses a request.
    KubeVirtApiError,
    /// A foreign object has a name that the operator needs.
    ForeignObject,
    /// A VirtualMachine or instance uses a disk that is to be deleted.
    DiskInUse,
    /// The claim that contained a disk's data was deleted.
    DataLost,
    /// The Kubernetes API refuses a request.
    ApiError,
    /// The spec contradicts itself, or cannot become a virtual machine.
    InvalidSpec,
}

impl ErrorType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TemplateNotFound => "TemplateNotFound",
            Self::NetworkConfigurationNotFound => "NetworkConfigurationNotFound",
            Self::StorageClassNotFound => "StorageClassNotFound",
            Self::InsufficientResources => "InsufficientResources",
            Self::KubeVirtApiError => "KubeVirtApiError",
            Self::ForeignObject => "ForeignObject",
            Self::DiskInUse => "DiskInUse",
            Self::DataLost => "DataLost",
            Self::ApiError => "ApiError",
            Self::InvalidSpec => "InvalidSpec",
        }
    }
}

impl fmt::Display for ErrorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One error of a Machine: where, what is wrong, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    pub error_type: ErrorType,
    /// Such as `spec.disks[1].size`.
    pub path: String,
    /// The problem and its remedy. Never contains the content of a Secret.
    pub message: String,
    /// False if the missing object may exist outside of what is known, as in offline commands.
    pub certain: bool,
    /// True if the error is in an object that the Machine refers to: it can be fixed without changing
    /// the Machine.
    pub in_reference: bool,
}

impl SpecError {
    pub(super) fn new(
        error_type: ErrorType,
        path: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            error_type,
            path: path.into(),
            message: message.into(),
            certain: true,
            in_reference: false,
        }
    }

    /// Marks an error of an object that the Machine refers to.
    pub(super) fn in_reference(self) -> Self {
        Self {
            in_reference: true,
            ..self
        }
    }

    pub(super) fn invalid(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ErrorType::InvalidSpec, path, message)
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.path, self.error_type, self.message)
    }
}

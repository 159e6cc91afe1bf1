use std::fmt;

/// What kind of error it is: a label of a metric, a reason of a condition, a word to search for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorType {
    /// The size that is named is not known.
    TemplateNotFound,
    /// A network that is named does not exist.
    NetworkConfigurationNotFound,
    /// A class of storage that is named does not exist, or no class is the default.
    StorageClassNotFound,
    /// No node has room, or a quota is exceeded.
    InsufficientResources,
    /// KubeVirt is not there, does not answer, or refuses.
    KubeVirtApiError,
    /// An object that is not ours has a name that we need.
    ForeignObject,
    /// A disk that is to be deleted is used by a VirtualMachine or an instance.
    DiskInUse,
    /// The claim that held the data of a disk is gone.
    DataLost,
    /// The Kubernetes API refuses.
    ApiError,
    /// The spec contradicts itself, or cannot become a virtual machine.
    InvalidSpec,
}

impl ErrorType {
    /// The name in the reference.
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

/// One thing that is wrong with a Machine, where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// What kind of error it is.
    pub error_type: ErrorType,
    /// The field, such as `spec.disks[1].size`.
    pub path: String,
    /// What is wrong and what to do. Never holds the content of a Secret.
    pub message: String,
    /// False when what was looked for may well exist where we could not look.
    pub certain: bool,
    /// True when what is missing or wrong is something that the Machine refers to: it becomes right
    /// without a change of the Machine.
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

    /// The same, of something that the Machine refers to.
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

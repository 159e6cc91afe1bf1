//! Errors and exit codes of the commands.

use kube::core::Status;

/// Exit code of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExitCode {
    Done,
    Failed,
    /// The command worked, and found something that scripts may want to act on.
    Found,
}

impl ExitCode {
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Found => 2,
        }
    }
}

/// Why a command failed, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("cannot {verb} {what}: {reason}")]
    Api {
        verb: &'static str,
        what: String,
        reason: String,
        /// Status code of the response; none without one.
        code: Option<u16>,
    },
    #[error("cannot write the output: {0}")]
    Output(#[from] std::io::Error),
    #[error("{0}")]
    Other(String),
}

impl Failure {
    pub(crate) fn api(verb: &'static str, what: &str, error: kube::Error) -> Self {
        let (reason, code) = match error {
            kube::Error::Api(status) => (reason(&status), Some(status.code)),
            other => (
                format!(
                    "the API server did not answer: {other}: check that it is running and that the \
                     kubeconfig points to it"
                ),
                None,
            ),
        };
        Self::Api {
            verb,
            what: what.to_owned(),
            reason,
            code,
        }
    }

    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Api { code, .. } => *code,
            Self::Output(_) | Self::Other(_) => None,
        }
    }
}

/// A refusal of a request that has no typed response.
pub(crate) fn status_failure(verb: &'static str, what: &str, status: &Status) -> Failure {
    Failure::Api {
        verb,
        what: what.to_owned(),
        reason: reason(status),
        code: Some(status.code),
    }
}

fn reason(status: &Status) -> String {
    let message = status.message.trim();
    match (status.code, message) {
        (401, _) => {
            "the API server rejects the credentials: renew them in the kubeconfig".to_owned()
        }
        (code, "") => format!("the API server answers with status {code}"),
        (_, message) => message.to_owned(),
    }
}

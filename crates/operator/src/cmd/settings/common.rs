//! The settings that both operators have.

use std::{ffi::OsString, path::PathBuf};

use runtime::logs::{Format, Level};

use super::{Reader, boolean, parsed};

/// What flags and environment say. None has a default here: clap would take an empty variable for
/// given, and templates of charts leave them empty.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct GivenCommon {
    /// Kubeconfig of the cluster to act on; without one, the cluster it runs in
    #[arg(long, env = "KUBECONFIG", hide_env_values = true, value_name = "PATH")]
    kubeconfig: Option<OsString>,

    /// Whether to act only while holding the lease, so that replicas can stand by [default: true]
    #[arg(
        long,
        env = "LEADER_ELECTION",
        hide_env_values = true,
        value_name = "true|false",
        num_args = 0..=1,
        default_missing_value = "true"
    )]
    leader_election: Option<String>,

    /// How much is logged: error, warn, info, debug or trace [default: info]
    #[arg(long, env = "LOG_LEVEL", hide_env_values = true, value_name = "LEVEL")]
    log_level: Option<String>,

    /// What a line of the log is: json or text [default: json]
    #[arg(
        long,
        env = "LOG_FORMAT",
        hide_env_values = true,
        value_name = "json|text"
    )]
    log_format: Option<String>,
}

/// What the settings mean.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Common {
    /// Files to merge, the first wins; none: the cluster that the process runs in.
    pub(crate) kubeconfig: Vec<PathBuf>,
    pub(crate) leader_election: bool,
    pub(crate) log_level: Level,
    pub(crate) log_format: Format,
}

impl GivenCommon {
    pub(crate) fn resolve(self, reader: &mut Reader) -> Common {
        let Self {
            kubeconfig,
            leader_election,
            log_level,
            log_format,
        } = self;
        Common {
            kubeconfig: kubeconfig
                .iter()
                .flat_map(std::env::split_paths)
                .filter(|path| !path.as_os_str().is_empty())
                .collect(),
            leader_election: reader
                .read("LEADER_ELECTION", leader_election, boolean)
                .unwrap_or(true),
            log_level: reader
                .read("LOG_LEVEL", log_level, parsed)
                .unwrap_or_default(),
            log_format: reader
                .read("LOG_FORMAT", log_format, parsed)
                .unwrap_or_default(),
        }
    }
}

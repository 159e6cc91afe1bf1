//! Settings of both operators.

use std::{ffi::OsString, path::PathBuf};

use runtime::logs::{Format, Level};

use super::{Reader, boolean, parsed};

/// Values of flags and environment variables, without defaults (see [`super`]).
#[derive(Debug, Default, clap::Args)]
pub(crate) struct CommonFlags {
    /// Path of a kubeconfig; without it, the in-cluster configuration is used
    #[arg(long, env = "KUBECONFIG", value_name = "PATH")]
    kubeconfig: Option<OsString>,

    /// Whether to use leader election, so that only one replica is active [default: true]
    #[arg(
        long,
        env = "LEADER_ELECTION",
        value_name = "true|false",
        num_args = 0..=1,
        default_missing_value = "true"
    )]
    leader_election: Option<String>,

    /// Log level: error, warn, info, debug or trace [default: info]
    #[arg(long, env = "LOG_LEVEL", value_name = "LEVEL")]
    log_level: Option<String>,

    /// Log format: json or text [default: json]
    #[arg(long, env = "LOG_FORMAT", value_name = "json|text")]
    log_format: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Common {
    /// Files to merge, the first takes precedence; empty: in-cluster configuration.
    pub(crate) kubeconfig: Vec<PathBuf>,
    pub(crate) leader_election: bool,
    pub(crate) log_level: Level,
    pub(crate) log_format: Format,
}

impl CommonFlags {
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

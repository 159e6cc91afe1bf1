//! The cluster that a controller serves.

use std::{collections::BTreeMap, sync::Arc};

use api::KubevirtConfig;
use kube::Client;
use plan::machine::RemoteCluster;
use tokio::sync::watch;

use crate::machine::{
    config_status::ConfigStatus, home::Home, reachability::Reachability, sweep::Sweep,
};

/// The cluster of virtual machines that a controller serves.
pub(in crate::machine) enum Site {
    /// The cluster of the Machines. The KubevirtConfigs of the others are published.
    Local {
        configs: watch::Sender<Configs>,
    },
    Remote(Box<RemoteSite>),
}

/// Another cluster.
pub(in crate::machine) struct RemoteSite {
    pub(in crate::machine) config: KubevirtConfig,
    /// None: its configuration cannot be used.
    pub(in crate::machine) client: Option<Client>,
    pub(in crate::machine) reachability: Reachability,
    pub(in crate::machine) configs: watch::Receiver<Configs>,
}

/// KubevirtConfigs by name.
pub(in crate::machine) type Configs = Arc<BTreeMap<String, Arc<KubevirtConfig>>>;

/// Controller state of another cluster.
pub(super) struct Remote {
    pub(super) config: KubevirtConfig,
    pub(super) reachability: Reachability,
    pub(super) status: ConfigStatus,
    /// Whether the state of the cluster has been reported.
    pub(super) is_reported: bool,
    pub(super) sweep: Sweep,
    /// The current KubevirtConfigs, whose annotations may change.
    pub(super) configs: watch::Receiver<Configs>,
}

/// What a controller starts with.
pub(super) struct Opened {
    pub(super) home: Home,
    pub(super) workload: Option<Client>,
    pub(super) remote: Option<Remote>,
    pub(super) configs: Option<watch::Sender<Configs>>,
}

impl Site {
    /// `default` is the KubevirtConfig of Machines that name none.
    pub(super) fn open(self, client: &Client, default: Option<&str>) -> Opened {
        match self {
            Self::Local { configs } => Opened {
                home: Home::local(default),
                workload: Some(client.clone()),
                remote: None,
                configs: Some(configs),
            },
            Self::Remote(site) => {
                let RemoteSite {
                    config,
                    client,
                    reachability,
                    configs,
                } = *site;
                let name = config.metadata.name.as_deref().unwrap_or_default();
                let cluster = RemoteCluster {
                    name: name.into(),
                    managed_from: None,
                };
                let written = config.status.clone().unwrap_or_default();
                Opened {
                    home: Home::remote_cluster(cluster, default),
                    workload: client,
                    remote: Some(Remote {
                        status: ConfigStatus::new(name, written),
                        reachability,
                        config,
                        is_reported: false,
                        sweep: Sweep::default(),
                        configs,
                    }),
                    configs: None,
                }
            }
        }
    }
}

//! The cluster that a Machine controller serves, and which Machines are its own.
//!
//! The controller of the local cluster caches all Machines, since networks and names concern them wherever
//! their virtual machines are. It also reports on those whose cluster is not known. A controller of another
//! cluster caches only its own.

use std::{collections::BTreeSet, sync::Arc};

use api::Machine;
use plan::machine::{RemoteCluster, VmCluster};

#[derive(Clone, Debug, Default)]
pub(super) struct Home {
    /// None: the cluster of the Machines.
    cluster: Option<RemoteCluster>,
    /// Cluster of Machines that name none.
    default: Option<Arc<str>>,
    /// The clusters that have a controller; none until they are known.
    served: Option<BTreeSet<String>>,
    /// Whether Machines of other clusters are not cached, as in a preview.
    is_strict: bool,
}

/// What a controller does with a Machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role<'a> {
    Reconcile,
    /// The cluster is not known: report that.
    Report(&'a str),
    /// Another controller reconciles it.
    Leave,
}

impl Home {
    pub(super) fn local(default: Option<&str>) -> Self {
        Self {
            default: default.map(Into::into),
            ..Self::default()
        }
    }

    pub(super) fn remote_cluster(cluster: RemoteCluster, default: Option<&str>) -> Self {
        Self {
            cluster: Some(cluster),
            ..Self::local(default)
        }
    }

    /// Caches only the Machines whose virtual machines are in this cluster.
    pub(super) fn strict(self) -> Self {
        Self {
            is_strict: true,
            ..self
        }
    }

    pub(super) fn remote(&self) -> Option<&RemoteCluster> {
        self.cluster.as_ref()
    }

    /// Sets the UID by which objects in another cluster show from where they are managed. It stays: the UID
    /// changes only together with those of all Machines.
    pub(super) fn set_managed_from(&mut self, uid: &str) {
        if let Some(cluster) = &mut self.cluster
            && cluster.managed_from.is_none()
        {
            cluster.managed_from = Some(uid.into());
        }
    }

    pub(super) fn serves(&self, clusters: &BTreeSet<String>) -> bool {
        self.served.as_ref() == Some(clusters)
    }

    pub(super) fn set_served(&mut self, clusters: BTreeSet<String>) {
        self.served = Some(clusters);
    }

    /// Whether a Machine is cached.
    pub(super) fn keeps(&self, machine: &Machine) -> bool {
        match &self.cluster {
            None => !self.is_strict || self.placement(machine) == VmCluster::Local,
            Some(cluster) => self.placement(machine) == VmCluster::Remote(&cluster.name),
        }
    }

    pub(super) fn role<'a>(&'a self, machine: &'a Machine) -> Role<'a> {
        match (self.placement(machine), &self.cluster) {
            (VmCluster::Local, None) => Role::Reconcile,
            (VmCluster::Remote(name), Some(cluster)) if name == &*cluster.name => Role::Reconcile,
            (VmCluster::Remote(name), None)
                if self.served.as_ref().is_some_and(|it| !it.contains(name)) =>
            {
                Role::Report(name)
            }
            (VmCluster::Local | VmCluster::Remote(_), _) => Role::Leave,
        }
    }

    pub(super) fn placement<'a>(&'a self, machine: &'a Machine) -> VmCluster<'a> {
        VmCluster::of(machine, self.default.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn machine(cluster: Option<&str>) -> Machine {
        let mut machine = json!({
            "apiVersion": "", "kind": "", "spec": {}, "metadata": { "name": "web" },
        });
        if let Some(cluster) = cluster {
            let annotations = json!({ api::labels::KUBEVIRT_CONFIG: cluster });
            machine["metadata"]["annotations"] = annotations;
        }
        serde_json::from_value(machine).unwrap()
    }

    fn remote(name: &str) -> Home {
        let cluster = RemoteCluster {
            name: name.into(),
            managed_from: None,
        };
        Home::remote_cluster(cluster, None)
    }

    #[rstest]
    #[case::own(None, Role::Reconcile)]
    #[case::of_another(Some("east"), Role::Leave)]
    #[case::of_none(Some("south"), Role::Report("south"))]
    fn each_machine_is_reconciled_by_one_controller(
        #[case] cluster: Option<&str>,
        #[case] local: Role<'_>,
    ) {
        let machine = machine(cluster);
        let mut home = Home::local(None);
        home.set_served(["east".to_owned()].into());
        assert_eq!(home.role(&machine), local);
        assert!(home.keeps(&machine), "networks concern all Machines");
        let east = remote("east");
        assert_eq!(east.keeps(&machine), cluster == Some("east"));
        assert_eq!(
            east.role(&machine) == Role::Reconcile,
            cluster == Some("east")
        );
    }

    #[test]
    fn nothing_is_reported_before_the_clusters_are_known() {
        let machine = machine(Some("south"));
        assert_eq!(Home::local(None).role(&machine), Role::Leave);
    }

    #[test]
    fn the_uid_of_the_management_cluster_stays() {
        let mut east = remote("east");
        east.set_managed_from("a");
        east.set_managed_from("b");
        let cluster = east.remote().unwrap();
        assert_eq!(cluster.managed_from.as_deref(), Some("a"));
    }
}

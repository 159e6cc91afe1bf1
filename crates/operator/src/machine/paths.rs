//! API paths of the kinds that the Machine controller writes.

use plan::machine::Kind;

/// Kind of resource that the operator reconciles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Owner {
    Machine,
    Network,
}

impl Owner {
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Machine => "Machine",
            Self::Network => "NetworkConfiguration",
        }
    }

    pub(super) fn finalizer(self) -> &'static str {
        match self {
            Self::Machine => api::labels::FINALIZER,
            Self::Network => api::labels::NETWORK_FINALIZER,
        }
    }

    pub(super) fn collection(self, namespace: &str) -> String {
        let resource = match self {
            Self::Machine => "machines",
            Self::Network => "networkconfigurations",
        };
        format!("/apis/vitistack.io/v1alpha1/namespaces/{namespace}/{resource}")
    }

    pub(super) fn path(self, namespace: &str, name: &str) -> String {
        format!("{}/{name}", self.collection(namespace))
    }
}

pub(crate) fn collection(kind: Kind, namespace: &str) -> String {
    let (group, resource) = match kind {
        Kind::PersistentVolumeClaim => ("/api/v1", "persistentvolumeclaims"),
        Kind::DataVolume => ("/apis/cdi.kubevirt.io/v1beta1", "datavolumes"),
        Kind::VirtualMachine => ("/apis/kubevirt.io/v1", "virtualmachines"),
        Kind::VirtualMachineInstance => ("/apis/kubevirt.io/v1", "virtualmachineinstances"),
        Kind::NetworkAttachmentDefinition => {
            ("/apis/k8s.cni.cncf.io/v1", "network-attachment-definitions")
        }
        Kind::NetworkConfiguration => ("/apis/vitistack.io/v1alpha1", "networkconfigurations"),
    };
    format!("{group}/namespaces/{namespace}/{resource}")
}

pub(crate) fn object(kind: Kind, namespace: &str, name: &str) -> String {
    format!("{}/{name}", collection(kind, namespace))
}

pub(super) fn config_maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

pub(crate) fn secrets(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/secrets")
}

/// Path of a subresource call to a running instance.
pub(super) fn instance_call(namespace: &str, name: &str, call: &str) -> String {
    format!(
        "/apis/subresources.kubevirt.io/v1/namespaces/{namespace}/virtualmachineinstances/{name}/{call}"
    )
}

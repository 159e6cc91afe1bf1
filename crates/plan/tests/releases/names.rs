//! Kinds and names of the objects of releases.

use std::collections::{BTreeMap, BTreeSet};

use Part::{Monitoring, Plugins, Since, Templates};

use super::Inventory;

/// A release and a variant of its strategy.
pub(super) struct Release<'a> {
    pub(super) version: &'a str,
    pub(super) minor: u32,
    variant: &'a str,
}

impl<'a> Release<'a> {
    pub(super) fn of(version: &'a str, variant: &'a str) -> Self {
        let minor = version
            .split('.')
            .nth(1)
            .and_then(|minor| minor.parse().ok());
        Self {
            version,
            minor: minor.unwrap(),
            variant,
        }
    }

    pub(super) fn has(&self, part: Part) -> bool {
        let has_all_gates = self.variant == "allgates";
        match part {
            Since(minor) => self.minor >= minor,
            Templates => self.minor >= 9 || self.minor == 8 && has_all_gates,
            Plugins => self.minor >= 9 && has_all_gates,
            Monitoring => self.variant != "default",
        }
    }
}

/// Condition for an object to be in a strategy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// From this minor release on.
    Since(u32),
    /// Virtual machine templates: with a feature gate in 1.8, always from 1.9 on.
    Templates,
    /// Policies for plugins: with a feature gate from 1.9 on.
    Plugins,
    /// Prometheus objects.
    Monitoring,
}

const ALL: Part = Since(7);

#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) api_version: &'static str,
    /// Value of `apiVersion` in strategies, where it is wrong.
    pub(super) written: Option<&'static str>,
    pub(super) is_namespaced: bool,
}

const fn kind(name: &'static str, api_version: &'static str, is_namespaced: bool) -> Kind {
    Kind {
        name,
        api_version,
        written: None,
        is_namespaced,
    }
}

const fn with_defect(written: &'static str, kind: Kind) -> Kind {
    Kind {
        written: Some(written),
        ..kind
    }
}

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const ADMISSION: &str = "admissionregistration.k8s.io/v1";
const MONITORING: &str = "monitoring.coreos.com/v1";
const INSTANCETYPE: &str = "instancetype.kubevirt.io/v1beta1";

/// In the order of a strategy.
pub(super) const KINDS: [Kind; 22] = [
    kind("ServiceAccount", "v1", true),
    kind("ClusterRole", RBAC, false),
    kind("ClusterRoleBinding", RBAC, false),
    kind("Role", RBAC, true),
    kind("RoleBinding", RBAC, true),
    kind("CustomResourceDefinition", "apiextensions.k8s.io/v1", false),
    kind("Service", "v1", true),
    kind("Secret", "v1", true),
    kind("ValidatingWebhookConfiguration", ADMISSION, false),
    kind("MutatingWebhookConfiguration", ADMISSION, false),
    with_defect(
        "v1",
        kind("ValidatingAdmissionPolicyBinding", ADMISSION, false),
    ),
    with_defect("v1", kind("ValidatingAdmissionPolicy", ADMISSION, false)),
    kind("APIService", "apiregistration.k8s.io/v1", false),
    kind("Deployment", "apps/v1", true),
    kind("DaemonSet", "apps/v1", true),
    kind(
        "SecurityContextConstraints",
        "security.openshift.io/v1",
        false,
    ),
    with_defect(
        "monitoring.coreos.com",
        kind("ServiceMonitor", MONITORING, true),
    ),
    kind("PrometheusRule", MONITORING, true),
    kind("ConfigMap", "v1", true),
    kind("Route", "route.openshift.io/v1", true),
    kind("VirtualMachineClusterInstancetype", INSTANCETYPE, false),
    kind("VirtualMachineClusterPreference", INSTANCETYPE, false),
];

/// Names of objects by kind; those of another namespace than KubeVirt's with that namespace.
const NAMES: &[(&str, Part, &str)] = &[
    (
        "ServiceAccount",
        ALL,
        "kubevirt-apiserver kubevirt-controller kubevirt-handler kubevirt-exportproxy \
         kubevirt-synchronization-controller",
    ),
    (
        "ServiceAccount",
        Templates,
        "virt-template-apiserver virt-template-controller-manager",
    ),
    (
        "ClusterRole",
        ALL,
        "kubevirt.io:default kubevirt.io:admin kubevirt.io:edit kubevirt.io:view \
         instancetype.kubevirt.io:view kubevirt.io:migrate kubevirt-apiserver kubevirt-controller \
         kubevirt-handler kubevirt-exportproxy kubevirt-synchronization-controller",
    ),
    (
        "ClusterRole",
        Templates,
        "virt-template-apiserver-role virt-template-manager-role virt-template-metrics-auth-role \
         virt-template-metrics-reader virt-template-virtualmachinetemplate-admin-role \
         virt-template-virtualmachinetemplate-editor-role \
         virt-template-virtualmachinetemplate-viewer-role \
         virt-template-virtualmachinetemplaterequest-admin-role \
         virt-template-virtualmachinetemplaterequest-editor-role \
         virt-template-virtualmachinetemplaterequest-source-role \
         virt-template-virtualmachinetemplaterequest-viewer-role",
    ),
    (
        "ClusterRoleBinding",
        ALL,
        "kubevirt.io:default instancetype.kubevirt.io:view kubevirt-apiserver \
         kubevirt-apiserver-auth-delegator kubevirt-controller kubevirt-handler \
         kubevirt-exportproxy kubevirt-synchronization-controller",
    ),
    (
        "ClusterRoleBinding",
        Templates,
        "virt-template-apiserver-rolebinding virt-template-apiserver:system:auth-delegator \
         virt-template-manager-rolebinding virt-template-metrics-auth-rolebinding",
    ),
    (
        "Role",
        ALL,
        "kubevirt-apiserver kubevirt-controller kubevirt-handler kubevirt-exportproxy \
         kubevirt-synchronization-controller",
    ),
    ("Role", Monitoring, "kubevirt-monitoring"),
    ("Role", Templates, "virt-template-leader-election-role"),
    (
        "RoleBinding",
        ALL,
        "kubevirt-apiserver kubevirt-controller kubevirt-handler kubevirt-exportproxy \
         kubevirt-synchronization-controller",
    ),
    ("RoleBinding", Monitoring, "kubevirt-monitoring"),
    (
        "RoleBinding",
        Templates,
        "kube-system/virt-template-apiserver-auth-reader virt-template-leader-election-rolebinding",
    ),
    (
        "CustomResourceDefinition",
        ALL,
        "virtualmachineinstances.kubevirt.io virtualmachineinstancepresets.kubevirt.io \
         virtualmachineinstancereplicasets.kubevirt.io virtualmachines.kubevirt.io \
         virtualmachineinstancemigrations.kubevirt.io virtualmachinesnapshots.snapshot.kubevirt.io \
         virtualmachinesnapshotcontents.snapshot.kubevirt.io \
         virtualmachinerestores.snapshot.kubevirt.io \
         virtualmachineinstancetypes.instancetype.kubevirt.io \
         virtualmachineclusterinstancetypes.instancetype.kubevirt.io \
         virtualmachinepools.pool.kubevirt.io migrationpolicies.migrations.kubevirt.io \
         virtualmachinepreferences.instancetype.kubevirt.io \
         virtualmachineclusterpreferences.instancetype.kubevirt.io \
         virtualmachineexports.export.kubevirt.io virtualmachineclones.clone.kubevirt.io",
    ),
    (
        "CustomResourceDefinition",
        Since(8),
        "virtualmachinebackups.backup.kubevirt.io virtualmachinebackuptrackers.backup.kubevirt.io",
    ),
    (
        "CustomResourceDefinition",
        Since(9),
        "plugins.plugin.kubevirt.io",
    ),
    (
        "CustomResourceDefinition",
        Templates,
        "virtualmachinetemplaterequests.template.kubevirt.io \
         virtualmachinetemplates.template.kubevirt.io",
    ),
    (
        "Service",
        ALL,
        "kubevirt-prometheus-metrics virt-api kubevirt-operator-webhook virt-exportproxy",
    ),
    (
        "Service",
        Templates,
        "virt-template-api-service virt-template-controller-manager-metrics-service \
         virt-template-webhook-service",
    ),
    (
        "Secret",
        ALL,
        "kubevirt-virt-api-certs kubevirt-controller-certs kubevirt-exportproxy-certs \
         kubevirt-virt-handler-server-certs kubevirt-virt-handler-migration-client-certs \
         kubevirt-virt-handler-vsock-client-certs kubevirt-virt-handler-certs \
         kubevirt-synchronization-controller-certs \
         kubevirt-synchronization-controller-server-certs kubevirt-operator-certs kubevirt-ca \
         kubevirt-export-ca",
    ),
    ("Secret", Since(8), "kubevirt-backup-ca"),
    (
        "Secret",
        Since(9),
        "kubevirt-virt-handler-monitoring-client-certs",
    ),
    (
        "Secret",
        Templates,
        "kubevirt-virt-template-api-certs kubevirt-virt-template-webhook-certs \
         kubevirt-virt-template-controller-metrics-certs",
    ),
    (
        "ValidatingWebhookConfiguration",
        ALL,
        "virt-operator-validator virt-api-validator",
    ),
    (
        "ValidatingWebhookConfiguration",
        Templates,
        "virt-template-validating-webhook-configuration",
    ),
    ("MutatingWebhookConfiguration", ALL, "virt-api-mutator"),
    (
        "MutatingWebhookConfiguration",
        Since(8),
        "virt-launcher-pod-mutator",
    ),
    (
        "ValidatingAdmissionPolicyBinding",
        ALL,
        "kubevirt-node-restriction-binding",
    ),
    (
        "ValidatingAdmissionPolicyBinding",
        Plugins,
        "kubevirt-plugin-validation-binding kubevirt-plugin-warning-binding \
         kubevirt-plugin-sidecar-subpath-binding kubevirt-plugin-socket-path-binding",
    ),
    (
        "ValidatingAdmissionPolicyBinding",
        Templates,
        "virt-template-vmtr-authz",
    ),
    (
        "ValidatingAdmissionPolicy",
        ALL,
        "kubevirt-node-restriction-policy",
    ),
    (
        "ValidatingAdmissionPolicy",
        Plugins,
        "kubevirt-plugin-validation-policy kubevirt-plugin-warning-policy \
         kubevirt-plugin-sidecar-subpath-policy kubevirt-plugin-socket-path-policy",
    ),
    (
        "ValidatingAdmissionPolicy",
        Templates,
        "virt-template-vmtr-authz",
    ),
    (
        "APIService",
        ALL,
        "v1.subresources.kubevirt.io v1alpha3.subresources.kubevirt.io",
    ),
    (
        "APIService",
        Templates,
        "v1alpha1.subresources.template.kubevirt.io",
    ),
    (
        "APIService",
        Since(9),
        "v1beta1.subresources.template.kubevirt.io",
    ),
    (
        "Deployment",
        ALL,
        "virt-api virt-controller virt-exportproxy virt-synchronization-controller",
    ),
    (
        "Deployment",
        Templates,
        "virt-template-apiserver virt-template-controller",
    ),
    ("DaemonSet", ALL, "virt-handler"),
    (
        "SecurityContextConstraints",
        ALL,
        "kubevirt-handler kubevirt-controller",
    ),
    (
        "ServiceMonitor",
        Monitoring,
        "monitoring/prometheus-kubevirt-rules",
    ),
    ("PrometheusRule", Monitoring, "prometheus-kubevirt-rules"),
    (
        "ConfigMap",
        ALL,
        "kubevirt-ca kubevirt-export-ca kubevirt-external-ca",
    ),
    ("ConfigMap", Since(8), "kubevirt-backup-ca"),
    ("Route", ALL, "virt-exportproxy"),
    (
        "VirtualMachineClusterPreference",
        ALL,
        "alpine centos.stream10 centos.stream10.desktop centos.stream9 centos.stream9.desktop \
         centos.stream9.dpdk cirros debian fedora fedora.arm64 fedora.s390x legacy linux linux.efi \
         linux.virtiotransitional opensuse.leap opensuse.tumbleweed oraclelinux rhel.10 \
         rhel.10.arm64 rhel.10.s390x rhel.7 rhel.7.desktop rhel.8 rhel.8.desktop rhel.8.dpdk \
         rhel.9 rhel.9.arm64 rhel.9.desktop rhel.9.dpdk rhel.9.realtime rhel.9.s390x sles ubuntu \
         windows.10 windows.10.virtio windows.11 windows.11.virtio windows.2k12 \
         windows.2k12.virtio windows.2k16 windows.2k16.virtio windows.2k19 windows.2k19.virtio \
         windows.2k22 windows.2k22.virtio windows.2k25 windows.2k25.virtio windows.2k3 \
         windows.2k8 windows.2k8.virtio windows.7 windows.7.virtio windows.xp",
    ),
];

const LARGE: [&str; 5] = ["large", "xlarge", "2xlarge", "4xlarge", "8xlarge"];

/// Families of instance types, and their sizes besides [`LARGE`].
const INSTANCE_TYPES: [(&str, Part, &[&str]); 7] = [
    ("cx1", ALL, &["medium"]),
    (
        "d1",
        Since(8),
        &["nano", "micro", "small", "medium", "2xmedium"],
    ),
    ("m1", ALL, &[]),
    ("n1", ALL, &["medium"]),
    ("o1", ALL, &["nano", "micro", "small", "medium"]),
    ("rt1", ALL, &["micro", "small", "medium"]),
    ("u1", ALL, &["nano", "micro", "small", "medium", "2xmedium"]),
];

/// Families whose sizes also exist with huge pages of 1 GiB.
const WITH_HUGE_PAGES: [&str; 2] = ["cx1", "m1"];

/// Namespace, or none, and name of the objects of a kind.
pub(super) fn names(release: &Release<'_>, kind: &Kind) -> Vec<(&'static str, String, Part)> {
    let mut names = Vec::new();
    for (of, part, listed) in NAMES {
        if *of == kind.name && release.has(*part) {
            for name in listed.split_whitespace() {
                let own = if kind.is_namespaced { "kubevirt" } else { "" };
                let (namespace, name) = name.split_once('/').unwrap_or((own, name));
                names.push((namespace, name.to_owned(), *part));
            }
        }
    }
    if kind.name == "VirtualMachineClusterInstancetype" {
        for (family, part, sizes) in INSTANCE_TYPES {
            for size in LARGE.iter().chain(sizes).filter(|_| release.has(part)) {
                names.push(("", format!("{family}.{size}"), part));
                if WITH_HUGE_PAGES.contains(&family) {
                    names.push(("", format!("{family}.{size}1gi"), part));
                }
            }
        }
    }
    names
}

pub(super) fn inventory(release: &Release<'_>) -> Inventory {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let (mut documents, mut duplicates) = (0, 0);
    for kind in &KINDS {
        for (namespace, name, _) in names(release, kind) {
            let name = match namespace {
                "" => name,
                namespace => format!("{namespace}/{name}"),
            };
            all.entry(kind.name.to_owned()).or_default().insert(name);
            documents += 1;
            if kind.name == "ConfigMap" {
                documents += 1;
                duplicates += 1;
            }
        }
    }
    let api_versions = KINDS.iter();
    let api_versions = api_versions.map(|kind| (kind.name.to_owned(), kind.api_version.to_owned()));
    Inventory {
        names: all,
        api_versions: api_versions.collect(),
        documents,
        duplicates,
    }
}

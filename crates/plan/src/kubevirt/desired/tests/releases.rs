//! Desired objects of whole releases.

use std::collections::BTreeMap;

use rstest::rstest;
use serde_json::{Value, json};

use super::{World, target, world};
use crate::kubevirt::{desired::Handlers, releases::Source, strategy::Strategy};

fn release(source: Source, version: &str, variant: &str, spec: Value) -> World {
    let mut world = world(spec);
    world.strategy = Strategy::parse(&source.strategy(version, variant)).unwrap();
    world.target = target(version);
    world.serves(&[
        ("monitoring.coreos.com", "ServiceMonitor"),
        ("monitoring.coreos.com", "PrometheusRule"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
        (
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicyBinding",
        ),
    ])
}

fn counts(world: &World) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for object in world.desired().objects {
        *counts.entry(object.id.kind.to_string()).or_default() += 1;
    }
    counts
}

const V1_9: &[(&str, usize)] = &[
    ("APIService", 4),
    ("ClusterRole", 22),
    ("ClusterRoleBinding", 12),
    ("CustomResourceDefinition", 21),
    ("DaemonSet", 1),
    ("Deployment", 5),
    ("MutatingWebhookConfiguration", 1),
    ("PodDisruptionBudget", 3),
    ("Role", 6),
    ("RoleBinding", 7),
    ("Service", 7),
    ("ServiceAccount", 7),
    ("ValidatingAdmissionPolicy", 2),
    ("ValidatingAdmissionPolicyBinding", 2),
    ("ValidatingWebhookConfiguration", 3),
    ("VirtualMachineClusterInstancetype", 65),
    ("VirtualMachineClusterPreference", 54),
];

/// Releases before templates.
const V1_8: &[(&str, usize)] = &[
    ("APIService", 2),
    ("ClusterRole", 11),
    ("ClusterRoleBinding", 8),
    ("CustomResourceDefinition", 18),
    ("Deployment", 3),
    ("Role", 5),
    ("RoleBinding", 5),
    ("Service", 4),
    ("ServiceAccount", 5),
    ("ValidatingAdmissionPolicy", 1),
    ("ValidatingAdmissionPolicyBinding", 1),
    ("ValidatingWebhookConfiguration", 2),
];

const V1_7: &[(&str, usize)] = &[
    ("CustomResourceDefinition", 16),
    ("VirtualMachineClusterInstancetype", 55),
];

const MONITORED: &[(&str, usize)] = &[
    ("PrometheusRule", 1),
    ("Role", 7),
    ("RoleBinding", 8),
    ("ServiceMonitor", 1),
];

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn a_release_has_the_expected_objects(
    #[case] source: Source,
    #[values("v1.7.4", "v1.8.4", "v1.9.0", "v1.9.0 monitoring")] of: &str,
) {
    let (version, variant) = of.split_once(' ').unwrap_or((of, "default"));
    let differences: &[&[(&str, usize)]] = match of {
        "v1.7.4" => &[V1_8, V1_7],
        "v1.8.4" => &[V1_8],
        "v1.9.0" => &[],
        _ => &[MONITORED],
    };
    let world = release(source, version, variant, json!({}));
    let expected = V1_9.iter().chain(differences.iter().copied().flatten());
    let expected = expected.map(|(kind, count)| ((*kind).to_owned(), *count));
    assert_eq!(counts(&world), expected.collect());
}

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn every_object_of_a_release_is_labelled_once(
    #[case] source: Source,
    #[values(("v1.7.4", 4, 12), ("v1.8.4", 6, 16), ("v1.9.0", 6, 17))] expected: (
        &str,
        usize,
        usize,
    ),
) {
    let (version, deployments, secrets) = expected;
    let gates = json!({"configuration": {"developerConfiguration": {"featureGates": [
        "Template", "ContainerPathVolumes", "DecentralizedLiveMigration", "Plugins",
    ]}}});
    let world = release(source, version, "allgates", gates);
    let desired = world.desired();
    let ids: std::collections::BTreeSet<_> =
        desired.objects.iter().map(|object| &object.id).collect();
    assert_eq!(ids.len(), desired.objects.len());
    assert_eq!(desired, world.desired());
    for object in &desired.objects {
        let value = object.value();
        let marked = |metadata: &Value| {
            assert_eq!(
                metadata["annotations"]["kubevirt.io/install-strategy-version"],
                version
            );
            assert_eq!(
                metadata["annotations"]["kubevirt.io/install-strategy-registry"],
                "registry.example/kubevirt"
            );
            assert_eq!(
                metadata["annotations"]["kubevirt.io/install-strategy-identifier"],
                "0123"
            );
            assert_eq!(
                metadata["labels"]["app.kubernetes.io/managed-by"],
                "virt-operator"
            );
        };
        marked(&value["metadata"]);
        if ["Deployment", "DaemonSet"].contains(&&*object.id.kind) {
            marked(&value["spec"]["template"]["metadata"]);
        }
    }
    let found = desired.objects.iter();
    let found = found.filter(|object| &*object.id.kind == "Deployment");
    assert_eq!(found.count(), deployments);
    assert_eq!(desired.secrets.len(), secrets);
    assert!(desired.config_maps.contains(&"kubevirt-ca".to_owned()));
}

/// Removes the operator's additions.
fn as_released(value: &mut Value) {
    fn remove_labels(metadata: &mut Value) {
        for (field, added) in [
            (
                "labels",
                [
                    "app.kubernetes.io/managed-by",
                    "app.kubernetes.io/component",
                ]
                .as_slice(),
            ),
            (
                "annotations",
                &[
                    "kubevirt.io/install-strategy-version",
                    "kubevirt.io/install-strategy-registry",
                    "kubevirt.io/install-strategy-identifier",
                    "kubevirt.io/generation",
                    "kubevirt.io/customizer-identifier",
                ],
            ),
        ] {
            let fields = metadata[field].as_object_mut().unwrap();
            fields.retain(|name, _| !added.contains(&name.as_str()));
            if fields.is_empty() {
                metadata.as_object_mut().unwrap().remove(field);
            }
        }
    }
    remove_labels(&mut value["metadata"]);
    remove_labels(&mut value["spec"]["template"]["metadata"]);
    let pod = value["spec"]["template"]["spec"].as_object_mut().unwrap();
    assert_eq!(
        pod.remove("nodeSelector"),
        Some(json!({"kubernetes.io/os": "linux"}))
    );
}

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn components_equal_the_release_except_for_additions(#[case] source: Source) {
    let spec = json!({"infra": {"nodePlacement": {}}});
    let mut world = release(source, "v1.9.0", "default", spec);
    world.handlers = Handlers::Mixed;
    let desired = world.desired();
    let mut compared = 0;
    for mut released in source.components() {
        let [kind, name] = ["/kind", "/metadata/name"].map(|field| {
            released
                .pointer(field)
                .unwrap()
                .as_str()
                .unwrap()
                .to_owned()
        });
        let Some(object) = desired.find(&kind, &name) else {
            assert_eq!(name, "virt-synchronization-controller");
            continue;
        };
        let mut value = object.value();
        as_released(&mut value);
        let is_template = name.starts_with("virt-template-");
        for (at, container) in released["spec"]["template"]["spec"]["containers"]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .enumerate()
        {
            let wanted = &mut value["spec"]["template"]["spec"]["containers"][at];
            // Of duplicate ports one is kept.
            if let Some(ports) = container.get_mut("ports").and_then(Value::as_array_mut) {
                let metrics: Vec<_> = ports
                    .iter()
                    .filter(|port| port["name"] == "metrics")
                    .map(|port| port["containerPort"].clone())
                    .collect();
                ports.retain(|port| {
                    port["name"] == "metrics" || !metrics.contains(&port["containerPort"])
                });
            }
            if is_template {
                let args = wanted["args"].as_array_mut().unwrap();
                assert_eq!(
                    args.split_off(args.len() - 2),
                    ["--tls-min-version", "VersionTLS12"]
                );
            }
        }
        assert_eq!(value, released, "{kind} {name}");
        compared += 1;
    }
    assert_eq!(compared, 6);
}

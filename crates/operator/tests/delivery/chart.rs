//! Chart: it renders the same objects as config/.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    helm::Helm,
    objects::{Objects, containers, pod},
    pods::assert_restricted,
};

/// Labels that the chart adds.
const HELM_LABELS: [&str; 5] = [
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/name",
    "app.kubernetes.io/version",
    "helm.sh/chart",
];

/// Objects without the metadata that Helm adds, and without those that only config/ has.
fn strip_helm_metadata(objects: &Objects) -> Objects {
    let mut objects = objects.clone();
    objects.0.remove("Namespace /kubevirt-operator-system");
    for object in objects.0.values_mut() {
        let metadata = object["metadata"].as_object_mut().unwrap();
        for (field, added) in [
            (
                "labels",
                &[&HELM_LABELS[..], &["app.kubernetes.io/component"]].concat()[..],
            ),
            ("annotations", &["helm.sh/resource-policy"]),
        ] {
            if let Some(entries) = metadata.get_mut(field).and_then(Value::as_object_mut) {
                entries.retain(|key, _| !added.contains(&key.as_str()));
                if entries.is_empty() {
                    metadata.remove(field);
                }
            }
        }
    }
    objects
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn the_chart_lints() {
    Helm::alone().ok("lint --strict CHART");
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn the_chart_renders_what_the_command_prints() {
    let helm = Helm::alone();
    let on = || json!({ "enabled": true });
    let monitored = || {
        json!({
            "metrics": { "serviceMonitor": on() }, "prometheusRule": on(), "dashboards": on(),
        })
    };
    for (args, values) in [
        (&[][..], json!({})),
        (
            &["--without-webhook"],
            json!({ "webhook": { "enabled": false } }),
        ),
        (&["--network-policy"], json!({ "networkPolicy": on() })),
        (&["--virt-operator"], json!({ "virtOperator": on() })),
        (&["--prometheus"], monitored()),
        (&["--prometheus", "--virt-operator"], {
            let mut values = monitored();
            values["virtOperator"] = on();
            values
        }),
        (
            &["--without-webhook", "--network-policy"],
            json!({ "webhook": { "enabled": false }, "networkPolicy": on() }),
        ),
        (
            &["--image=registry.example/operator:1"],
            json!({ "image": { "repository": "registry.example/operator", "tag": "1" } }),
        ),
    ] {
        let rendered = strip_helm_metadata(&helm.template(&values));
        rendered.assert_same_as(
            &strip_helm_metadata(&Objects::of_command(args)),
            &values.to_string(),
        );
    }
}

/// Values that enable everything.
pub fn everything() -> Value {
    let on = || json!({ "enabled": true });
    json!({
        "podDisruptionBudget": on(), "prometheusRule": on(), "dashboards": on(),
        "networkPolicy": on(), "virtOperator": on(),
        "webhook": { "certManager": on() },
        "metrics": { "serviceMonitor": on() },
        "watchNamespaces": ["team-a", "team-b"],
        "cloneSourceNamespaces": ["images"],
        "passedOnLabels": ["team"],
        "passedOnAnnotations": ["example.com/*"],
        "machineProvider": "kubevirt-east",
    })
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn all_rendered_pods_meet_the_restricted_standard_and_have_the_image_of_the_chart() {
    let rendered = Helm::alone().template(&everything());
    assert_restricted(&rendered);
    let image = concat!(
        "ghcr.io/vitistack/kubevirt-operator:",
        env!("CARGO_PKG_VERSION")
    );
    let pods: Vec<_> = rendered.0.values().filter_map(pod).collect();
    assert_eq!(pods.len(), 2);
    for container in pods.into_iter().flat_map(containers) {
        assert_eq!(container["image"], image);
    }
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn every_object_is_labelled_and_in_its_namespace() {
    for (key, object) in &Helm::alone().template(&everything()).0 {
        let labels = object["metadata"]["labels"].as_object().unwrap();
        for label in HELM_LABELS {
            assert!(labels.contains_key(label), "{key}: {label}");
        }
        let namespaces = [
            "",
            "kubevirt",
            "kubevirt-operator-system",
            "team-a",
            "team-b",
        ];
        let (_, name) = key.split_once(' ').unwrap();
        let (namespace, _) = name.split_once('/').unwrap();
        assert!(namespaces.contains(&namespace), "{key}");
    }
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn without_definitions_the_chart_renders_everything_else() {
    let helm = Helm::alone();
    let mut values = everything();
    let mut all = helm.template(&values);
    values["crds"] = json!({ "install": false });
    let rendered = helm.template(&values);
    let before = all.0.len();
    all.0
        .retain(|_, object| object["kind"] != "CustomResourceDefinition");
    assert_eq!(before - all.0.len(), 3);
    assert_eq!(rendered.keys(), all.keys());
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn objects_kept_at_uninstall_are_annotated() {
    let rendered = Helm::alone().template(&everything());
    let kept = rendered.0.iter().filter(|(_, object)| {
        object["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    });
    let kept: BTreeSet<&str> = kept.map(|(key, _)| key.as_str()).collect();
    let expected = [
        "CustomResourceDefinition /machineclasses.vitistack.io",
        "CustomResourceDefinition /machines.vitistack.io",
        "CustomResourceDefinition /networkconfigurations.vitistack.io",
        "Namespace /kubevirt",
        "PriorityClass /kubevirt-cluster-critical",
    ];
    assert_eq!(kept, BTreeSet::from(expected));
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn a_name_override_applies_everywhere() {
    let mut values = everything();
    values["fullnameOverride"] = "vms".into();
    let rendered = Helm::alone().template(&values);
    for (key, object) in &rendered.0 {
        let is_own = key.contains("kubevirt-operator") && !key.contains("-system/");
        let account = key == "ServiceAccount kubevirt/kubevirt-operator";
        assert!(!is_own || account, "{key}");
        if !key.contains(" kubevirt/") && object["kind"] != "CustomResourceDefinition" {
            let text = object.to_string();
            for name in ["kubevirt-operator-webhook", "kubevirt-operator-controller"] {
                assert!(!text.contains(name), "{key}: {name}: {text}");
            }
        }
    }
}

/// The chart grants the rights for some namespaces of docs/operator-reference.md, with which another
/// test runs the operator.
#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn rights_for_some_namespaces_match_the_documentation() {
    let document = crate::text("docs/operator-reference.md");
    let block = document
        .split("```yaml\n")
        .find(|block| block.contains("namespace: team-a"))
        .unwrap();
    let documented = Objects::read(block.split("```").next().unwrap());
    let rendered =
        strip_helm_metadata(&Helm::alone().template(&json!({ "watchNamespaces": ["team-a"] })));
    for (key, object) in &documented.0 {
        assert_eq!(rendered.0.get(key), Some(object), "{key}");
    }
    let all = rendered.find(
        "ClusterRoleBinding",
        "kubevirt-operator-manager-rolebinding",
    );
    assert!(all.is_none());
}

/// Parent charts disable defaults of values.yaml with null.
#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn a_null_value_is_treated_as_empty_or_refused() {
    let helm = Helm::alone();
    let mut paths = BTreeSet::new();
    for row in crate::values::rows() {
        let ends = row.path.match_indices('.').map(|(end, _)| end);
        for end in ends.chain([row.path.len()]) {
            paths.insert(row.path.get(..end).unwrap().to_owned());
        }
    }
    for path in paths {
        let mut values = everything();
        crate::toggles::set(&mut values, &path, Value::Null);
        let file = helm.file(&values);
        let output = helm.run(&format!("template any CHART --namespace a --values {file}"));
        let printed = crate::kubectl::both(&output);
        assert!(
            output.status.success() || printed.contains(" is required\n"),
            "{path}: {printed}"
        );
    }
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn an_image_tag_of_the_kubevirt_operator_overrides_a_digest() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let image = |of: Value| {
        let values = json!({
            "image": { "repository": "r.example/a", "digest": digest },
            "virtOperator": { "enabled": true, "image": of },
        });
        let rendered = Helm::alone().template(&values);
        let pod = pod(rendered.find("Deployment", "virt-operator").unwrap()).unwrap();
        pod["spec"]["containers"][0]["image"].clone()
    };
    assert_eq!(image(json!({})), format!("r.example/a@{digest}"));
    // The digest also identifies the image in a mirror.
    assert_eq!(
        image(json!({ "repository": "r.example/b" })),
        format!("r.example/b@{digest}")
    );
    assert_eq!(image(json!({ "tag": "7" })), "r.example/a:7");
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn pod_selectors_do_not_depend_on_values() {
    let strip_helm_metadata = Helm::alone().template(&json!({}));
    let named =
        json!({ "nameOverride": "vms", "metrics": { "serviceMonitor": { "enabled": true } } });
    let named = Helm::alone().template(&named);
    let of = |objects: &Objects, kind: &str, name: &str, place: &str| {
        objects.find(kind, name).unwrap().pointer(place).cloned()
    };
    for (kind, name, place) in [
        (
            "Deployment",
            "kubevirt-operator-controller-manager",
            "/spec/selector",
        ),
        ("Service", "kubevirt-operator-webhook", "/spec/selector"),
    ] {
        assert_eq!(
            of(&strip_helm_metadata, kind, name, place),
            of(&named, kind, name, place),
            "{kind}"
        );
    }
    let service = of(
        &named,
        "Service",
        "kubevirt-operator-metrics",
        "/metadata/labels",
    )
    .unwrap();
    let place = "/spec/selector/matchLabels";
    let monitor = of(&named, "ServiceMonitor", "kubevirt-operator", place).unwrap();
    for (label, value) in monitor.as_object().unwrap() {
        assert_eq!(service.get(label), Some(value), "{label}");
    }
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn a_parent_chart_can_disable_it() {
    let helm = Helm::alone();
    helm.ok("create above");
    let folder = helm.folder().join("above");
    std::fs::remove_dir_all(folder.join("templates")).unwrap();
    let dependency = format!(
        "\ndependencies:\n- name: kubevirt-operator\n  version: {}\n  repository: file://{}\n  \
         condition: kubevirt-operator.enabled\n",
        env!("CARGO_PKG_VERSION"),
        crate::helm::chart().canonicalize().unwrap().display()
    );
    let chart = folder.join("Chart.yaml");
    let text = std::fs::read_to_string(&chart).unwrap() + &dependency;
    std::fs::write(&chart, text).unwrap();
    std::fs::write(folder.join("values.yaml"), "kubevirt-operator: {}\n").unwrap();
    helm.ok("dependency update ./above");
    for (enabled, deployments) in [(true, 1), (false, 0)] {
        let set = format!("--set kubevirt-operator.enabled={enabled}");
        let printed = helm.ok(&format!("template any ./above {set}"));
        let found = printed.matches("\nkind: Deployment\n").count();
        assert_eq!(found, deployments, "{printed}");
    }
    let set = "--set kubevirt-operator.watchNamespaces=null --set kubevirt-operator.logLevel=debug";
    let printed = helm.ok(&format!("template any ./above {set}"));
    assert!(printed.contains("value: debug"), "{printed}");
}

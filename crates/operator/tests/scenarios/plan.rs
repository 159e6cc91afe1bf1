//! Preview of changes: `kubevirt-operator plan`.

use std::{collections::BTreeMap, sync::Arc};

use api::Time;
use kubevirt_operator::{
    documents,
    machine::preview::{Documents, preview},
};
use plan::machine::Provider;
use runtime::{
    client::{CallCounter, Limits, layered},
    election::Fence,
};
use sandbox::Component;
use serde_json::json;

use crate::{digests, runner::run_scenario_alone, scenario::Scenario};

/// Output of `kubevirt-operator plan`, and the requests that it cost.
struct PlanOutput {
    text: String,
    errors: Vec<String>,
    notes: Vec<String>,
    has_changes: bool,
    calls: BTreeMap<String, u64>,
}

async fn plan(scenario: &Scenario, yaml: &str) -> PlanOutput {
    plan_as(scenario, scenario.client.clone(), yaml).await
}

async fn plan_as(scenario: &Scenario, client: kube::Client, yaml: &str) -> PlanOutput {
    let counter = Arc::new(CallCounter::default());
    let client = layered(
        client,
        Fence::open(),
        Limits::UNLIMITED,
        Arc::clone(&counter) as _,
    );
    let documents = documents::parse(&"given".into(), yaml.as_bytes()).unwrap();
    let documents = documents.into_iter().map(Result::unwrap).collect();
    let documents = Documents::classify(documents, "default");
    assert_eq!(documents.errors, [""; 0]);
    let now = Time(scenario.cluster.clock()());
    let found = preview(client, &documents, Provider::default(), now)
        .await
        .unwrap();
    let mut text = anstream::StripStream::new(Vec::new());
    found.print(&mut text).unwrap();
    let mut calls = BTreeMap::new();
    for ((verb, resource, _), count) in counter.take() {
        *calls.entry(format!("{verb} {resource}")).or_default() += count;
    }
    PlanOutput {
        text: String::from_utf8(text.into_inner()).unwrap(),
        has_changes: found.has_changes(),
        errors: found.errors,
        notes: found.notes,
        calls,
    }
}

impl PlanOutput {
    #[track_caller]
    fn is(&self, expected: &str) {
        assert_eq!(self.errors, [""; 0], "{}", self.text);
        assert_eq!(self.text, expected, "{}", self.text);
    }
}

fn machine(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: vitistack.io/v1alpha1\nkind: Machine\nmetadata: {{name: {name}}}\nspec: {spec}\n"
    )
}

/// Starts a scenario in which this Machine runs.
async fn running(name: &str, spec: &str) -> Scenario {
    let scenario = Scenario::start().await;
    scenario.apply(&machine(name, spec)).await;
    scenario.until_phase(name, "Running").await;
    scenario.wait(10).await;
    scenario
}

const NOTHING: &str = "No changes.\n";

#[test]
fn the_plan_of_a_new_machine_lists_all_its_children() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::start().await;
        let network = "apiVersion: vitistack.io/v1alpha1\nkind: NetworkConfiguration\nmetadata: {name: lan}\nspec: {bridge: br0, vlan: 7}\n---\n";
        let web = machine(
            "web",
            "{template: small, networks: [{name: lan, networkName: lan}], cloudInit: {userData: hunter2}}",
        );
        let output = plan(&scenario, &format!("{network}{web}")).await;
        output.is("\
NetworkConfiguration default/lan: 2 to create, 0 to change, 0 to delete
  + NetworkConfiguration lan
  + NetworkAttachmentDefinition lan (bridge br0, VLAN 7)

Machine default/web: 4 to create, 0 to change, 0 to delete
  + Machine web
  + PersistentVolumeClaim web-root (20Gi, standard)
  + Secret web-cloud-init (cloud-init data)
  + VirtualMachine web (1 CPU, 2Gi)

Plan: 6 to create, 0 to change, 0 to delete.
");
        assert!(output.has_changes);
        assert!(scenario.list("Machine").await.is_empty());
    });
}

#[test]
fn the_plan_of_an_unchanged_machine_is_empty() {
    run_scenario_alone(&[], async {
        let scenario = running("web", "{template: small}").await;
        let output = plan(&scenario, &machine("web", "{template: small}")).await;
        output.is(NOTHING);
        assert!(!output.has_changes);
    });
}

#[test]
fn the_plan_of_a_hot_pluggable_change_has_no_restart() {
    run_scenario_alone(&[], async {
        let scenario = running("web", "{cpu: {sockets: 1}}").await;
        let output = plan(&scenario, &machine("web", "{cpu: {sockets: 2}}")).await;
        output.is("\
Machine default/web: 0 to create, 2 to change, 0 to delete
  ~ Machine web
      spec.cpu.sockets: 1 -> 2
  ~ VirtualMachine web
      spec.template.spec.domain.cpu.sockets: 1 -> 2

Plan: 0 to create, 2 to change, 0 to delete.
");
    });
}

#[test]
fn the_plan_of_a_cores_change_names_a_restart() {
    run_scenario_alone(&[], async {
        let scenario = running("web", "{template: small}").await;
        let output = plan(&scenario, &machine("web", "{template: medium}")).await;
        output.is("\
Machine default/web: 0 to create, 3 to change, 0 to delete, restart needed
  ~ Machine web
      spec.template: small -> medium
  ~ PersistentVolumeClaim web-root
      spec.resources.requests.storage: 20Gi -> 40Gi
  ~ VirtualMachine web
      spec.template.spec.domain.cpu.cores: 1 -> 2
      spec.template.spec.domain.memory.guest: 2Gi -> 4Gi
  ! takes effect at the next restart of the guest: spec.template.spec.domain.cpu.cores, spec.template.spec.domain.memory.guest

Plan: 0 to create, 3 to change, 0 to delete, 1 to restart manually.
");
        let requested = machine(
            "web",
            "{template: medium, restartedAt: \"2030-01-01T00:00:00Z\"}",
        );
        let output = plan(&scenario, &requested).await;
        assert!(output.text.contains(", restarts\n"), "{}", output.text);
        assert!(!output.text.contains("restart needed"), "{}", output.text);
    });
}

#[test]
fn the_plan_of_a_stopped_machine_has_no_restart() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::start().await;
        scenario
            .apply(&machine("web", "{template: small, powerState: Stopped}"))
            .await;
        scenario.until_phase("web", "Stopped").await;
        let output = plan(
            &scenario,
            &machine("web", "{template: medium, powerState: Stopped}"),
        )
        .await;
        assert!(output.text.contains("cpu.cores: 1 -> 2"), "{}", output.text);
        assert!(!output.text.contains("restart"), "{}", output.text);
    });
}

#[test]
fn the_plan_of_a_removed_disk_follows_the_deletion_policy() {
    run_scenario_alone(&[], async {
        let disks = |extra: &str| {
            format!(
                "{{template: small, deletionPolicy: Delete, disks: [{{name: root, size: 20Gi}}{extra}]}}"
            )
        };
        let scenario = running("web", &disks(", {name: data, size: 1Gi}")).await;
        let output = plan(&scenario, &machine("web", &disks(""))).await;
        assert_eq!(output.errors, [""; 0]);
        assert!(
            output.text.starts_with(
                "Machine default/web: 0 to create, 2 to change, 1 to delete, restart needed\n"
            ),
            "{}",
            output.text
        );
        assert!(
        output.text.contains("- PersistentVolumeClaim web-data (the disk was removed while the policy was Delete, once it is detached)\n"),
        "{}",
        output.text
    );
        // The same after a client-side apply, which records what it applied.
        let last = "kubectl.kubernetes.io/last-applied-configuration";
        let config = json!({ "spec": {
        "template": "small", "deletionPolicy": "Delete",
        "disks": [{ "name": "root", "size": "20Gi" }, { "name": "data", "size": "1Gi" }],
    } });
        let note = json!({ "metadata": { "annotations": { last: config.to_string() } } });
        scenario.patch("Machine", "web", note).await;
        let again = plan(&scenario, &machine("web", &disks(""))).await;
        assert_eq!(again.text, output.text);
    });
}

#[test]
fn schema_errors_are_reported_verbatim() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::start().await;
        let bad = machine("web", "{template: small, instanceType: small}");
        let good = machine("ok", "{template: small}");
        let output = plan(&scenario, &format!("{bad}---\n{good}")).await;
        assert_eq!(output.errors.len(), 1, "{:?}", output.errors);
        assert!(
            output.errors[0].starts_with("given:1: the API server refuses the document: ")
                && output.errors[0].contains("give at most one of"),
            "{:?}",
            output.errors
        );
        assert!(
            output.text.contains("+ VirtualMachine ok"),
            "{}",
            output.text
        );
    });
}

#[test]
fn a_missing_class_is_reported() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::start().await;
        let output = plan(&scenario, &machine("web", "{machineClass: gigantic}")).await;
        assert_eq!(output.errors.len(), 1, "{:?}", output.errors);
        assert!(
            output.errors[0].starts_with("given:1: spec.machineClass: TemplateNotFound: "),
            "{:?}",
            output.errors
        );
    });
}

#[test]
fn a_missing_namespace_is_reported() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::start().await;
        let web = machine("web", "{}").replace("{name: web}", "{name: web, namespace: nowhere}");
        let output = plan(&scenario, &web).await;
        assert_eq!(
            output.errors,
            ["given:1: namespace \"nowhere\" does not exist: create it first"]
        );
    });
}

fn class(cores: u32) -> String {
    format!(
        "apiVersion: vitistack.io/v1alpha1\nkind: MachineClass\nmetadata: {{name: big}}\nspec: {{cpu: {{cores: {cores}}}, memory: {{quantity: 4Gi}}, disks: [{{name: root, size: 20Gi}}]}}\n"
    )
}

#[test]
fn the_plan_of_a_class_change_lists_affected_and_unaffected_machines() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::start().await;
        scenario.apply(&class(2)).await;
        for (name, spec) in [
            ("keeps", "{machineClass: big}"),
            ("stopped", "{machineClass: big, powerState: Stopped}"),
            ("other", "{template: small}"),
        ] {
            scenario.apply(&machine(name, spec)).await;
        }
        scenario.until_phase("keeps", "Running").await;
        scenario.until_phase("stopped", "Stopped").await;
        scenario.wait(10).await;
        plan(&scenario, &class(2)).await.is(NOTHING);
        let output = plan(&scenario, &class(4)).await;
        output.is("\
MachineClass big: 0 to create, 1 to change, 0 to delete
  ~ MachineClass big
      spec.cpu.cores: 2 -> 4

Machine default/keeps: 0 to create, 0 to change, 0 to delete
  ! MachineClass big has changed since the Machine was sized: restart the Machine, or annotate it with vitistack.io/follow-machine-class: \"true\", to apply the new size

Machine default/stopped: 0 to create, 1 to change, 0 to delete
  ~ VirtualMachine stopped
      spec.template.spec.domain.cpu.cores: 2 -> 4

Plan: 0 to create, 2 to change, 0 to delete.
");
    });
}

#[test]
fn the_plan_of_a_network_unblocks_a_waiting_machine() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::start().await;
        scenario
            .apply(&machine(
                "web",
                "{networks: [{name: lan, networkName: lan}]}",
            ))
            .await;
        scenario.wait(10).await;
        let network = "apiVersion: vitistack.io/v1alpha1\nkind: NetworkConfiguration\nmetadata: {name: lan}\nspec: {bridge: br0}\n";
        let output = plan(&scenario, network).await;
        assert_eq!(output.errors, [""; 0]);
        assert!(
            output.text.contains("+ VirtualMachine web"),
            "{}",
            output.text
        );
    });
}

#[test]
fn without_kubevirt_the_plan_says_that_nothing_would_run() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::start_with(|setup| {
            setup.without = [Component::KubeVirt].into();
        })
        .await;
        let output = plan(&scenario, &machine("web", "{template: small}")).await;
        assert_eq!(
            output.errors,
            [
                "given:1: KubeVirtApiError: KubeVirt is not installed in this cluster: install it, and the operator continues with the Machine"
            ]
        );
        assert!(output.text.contains("+ Machine web"), "{}", output.text);
    });
}

#[test]
fn user_data_is_never_shown_but_its_change_is() {
    run_scenario_alone(&[], async {
        let with = |data: &str| format!("{{template: small, cloudInit: {{userData: {data}}}}}");
        let scenario = running("web", &with("hunter2")).await;
        plan(&scenario, &machine("web", &with("hunter2")))
            .await
            .is(NOTHING);
        let output = plan(&scenario, &machine("web", &with("hunter3"))).await;
        output.is("\
Machine default/web: 0 to create, 3 to change, 0 to delete, restart needed
  ~ Machine web
      spec.cloudInit.userData: (not shown)
  ~ Secret web-cloud-init (cloud-init data)
  ~ VirtualMachine web (cloud-init data)
  ! takes effect at the next restart of the guest: cloud-init's data

Plan: 0 to create, 3 to change, 0 to delete, 1 to restart manually.
");
        let output = plan(&scenario, &machine("web", "{template: small}")).await;
        assert!(!output.text.contains("hunter"), "{}", output.text);
    });
}

#[test]
fn a_change_of_cloud_init_data_is_shown_without_the_key_of_its_digest() {
    run_scenario_alone(&[], async {
        let with = |data: &str| format!("{{template: small, cloudInit: {{userData: {data}}}}}");
        let mut scenario = Scenario::without_operator().await;
        scenario.start_operator_with(digests::keyed_by(&scenario.namespace, || Some([1; 32])));
        scenario.apply(&machine("web", &with("hunter2"))).await;
        scenario.until_phase("web", "Running").await;
        scenario.wait(10).await;
        let preview = plan(&scenario, &machine("web", &with("hunter2"))).await;
        preview.is(NOTHING);
        assert_eq!(preview.calls["get secrets"], 1);
        let preview = plan(&scenario, &machine("web", &with("hunter3"))).await;
        let needed = "takes effect at the next restart of the guest: cloud-init's data";
        assert!(preview.text.contains(needed), "{}", preview.text);
        assert!(
            preview.text.contains("~ Secret web-cloud-init"),
            "{}",
            preview.text
        );

        scenario.apply(VIEWER).await;
        let viewer = scenario.cluster.client_of("default", "viewer");
        let preview = plan_as(&scenario, viewer, &machine("web", &with("hunter2"))).await;
        preview.is(NOTHING);
        let note = "cannot read Secret default/web-cloud-init";
        assert!(preview.notes[0].starts_with(note), "{:?}", preview.notes);
    });
}

#[test]
fn a_plan_costs_one_list_per_kind_and_one_dry_run_per_document() {
    run_scenario_alone(&[], async {
        let scenario = running("m0", "{template: small}").await;
        let documents: Vec<String> = (0..40)
            .map(|n| machine(&format!("m{n}"), "{template: medium}"))
            .collect();
        let before = versions(&scenario).await;
        let output = plan(&scenario, &documents.join("---\n")).await;
        assert_eq!(output.errors, [""; 0]);
        let expected = [
            ("list customresourcedefinitions", 1),
            ("list datavolumes", 1),
            ("list machineclasses", 1),
            ("list machines", 1),
            ("list network-attachment-definitions", 1),
            ("list networkconfigurations", 1),
            ("list persistentvolumeclaims", 1),
            ("list storageclasses", 1),
            ("list virtualmachineinstances", 1),
            ("list virtualmachines", 1),
            ("patch machines", 40),
        ];
        let expected = expected.map(|(call, count)| (call.to_owned(), count));
        assert_eq!(output.calls, BTreeMap::from(expected));
        assert_eq!(versions(&scenario).await, before);
    });
}

/// resourceVersions of all objects that a plan reads.
async fn versions(scenario: &Scenario) -> Vec<String> {
    let mut versions = Vec::new();
    for kind in [
        "Machine",
        "NetworkConfiguration",
        "VirtualMachine",
        "PersistentVolumeClaim",
        "Secret",
        "Event",
    ] {
        for object in scenario.list(kind).await {
            let metadata = &object["metadata"];
            versions.push(format!(
                "{kind} {} {}",
                metadata["name"], metadata["resourceVersion"]
            ));
        }
    }
    versions
}

#[test]
fn the_plan_of_every_applied_example_is_empty() {
    run_scenario_alone(&[], async {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
        let mut all = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path
                .extension()
                .is_some_and(|extension| extension == "yaml")
            {
                all.push((
                    path.display().to_string(),
                    std::fs::read_to_string(&path).unwrap(),
                ));
            }
        }
        all.sort();
        assert!(all.len() > 10);
        let scenario = Scenario::start().await;
        let standard = scenario.get("StorageClass", "standard").await;
        for name in ["fast-ssd", "replicated", "replicated-fast"] {
            let mut class = standard.clone();
            class["metadata"] = json!({ "name": name });
            sandbox::apply(&scenario.client, class).await.unwrap();
        }
        // DataSources that examples clone disks from.
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "golden-images" },
        });
        sandbox::apply(&scenario.client, namespace).await.unwrap();
        for name in ["tools", "tools-iso"] {
            let source = json!({
                "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataSource",
                "metadata": { "name": name, "namespace": "golden-images" },
                "spec": { "source": { "pvc": { "name": name, "namespace": "golden-images" } } },
            });
            sandbox::apply(&scenario.client, source).await.unwrap();
        }
        scenario.allow_clones_from("golden-images").await;
        for (_, text) in &all {
            for document in documents::parse(&"example".into(), text.as_bytes()).unwrap() {
                let value = document.unwrap().value;
                sandbox::apply(&scenario.client, value).await.unwrap();
            }
        }
        scenario.wait(30).await;
        for (path, text) in all {
            let output = plan(&scenario, &text).await;
            assert_eq!(output.errors, [""; 0], "{path}: {}", output.text);
            assert_eq!(output.text, NOTHING, "{path}: {}", output.text);
        }
    });
}

#[test]
fn an_unreadable_secret_is_a_note_and_no_change() {
    run_scenario_alone(&[], async {
        let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: boot}\nstringData: {userdata: hunter2}\n";
        let spec = |template: &str| {
            format!("{{template: {template}, cloudInit: {{secretRef: {{name: boot}}}}}}")
        };
        let scenario = Scenario::start().await;
        scenario.apply(secret).await;
        scenario.apply(&machine("web", &spec("small"))).await;
        scenario.until_phase("web", "Running").await;
        scenario.wait(10).await;
        plan(&scenario, &machine("web", &spec("small")))
            .await
            .is(NOTHING);
        scenario.apply(VIEWER).await;
        let viewer = || scenario.cluster.client_of("default", "viewer");
        let output = plan_as(&scenario, viewer(), &machine("web", &spec("small"))).await;
        output.is(NOTHING);
        assert!(
            output.notes[0].starts_with("cannot read Secret default/boot"),
            "{:?}",
            output.notes
        );
        let output = plan_as(&scenario, viewer(), &machine("web", &spec("medium"))).await;
        assert!(output.text.contains("cpu.cores: 1 -> 2"), "{}", output.text);
        assert!(!output.text.contains("cloud-init"), "{}", output.text);
    });
}

/// Role with all rights that a plan needs, except for Secrets.
const VIEWER: &str = "\
apiVersion: v1
kind: ServiceAccount
metadata: {name: viewer, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: viewer}
rules:
- apiGroups: [vitistack.io]
  resources: [machines, machineclasses, networkconfigurations]
  verbs: [list, create, patch]
- apiGroups: ['', storage.k8s.io, apiextensions.k8s.io, kubevirt.io, cdi.kubevirt.io, k8s.cni.cncf.io]
  resources: [persistentvolumeclaims, storageclasses, customresourcedefinitions, virtualmachines, virtualmachineinstances, datavolumes, network-attachment-definitions]
  verbs: [list]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: viewer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: viewer}
subjects: [{kind: ServiceAccount, name: viewer, namespace: default}]
";

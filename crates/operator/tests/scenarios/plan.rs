//! What people are told before they apply.

use std::{collections::BTreeMap, sync::Arc};

use api::Time;
use kubevirt_operator::{
    documents,
    machine::preview::{Documents, preview},
};
use runtime::{
    client::{CallCounter, Limits, layered},
    election::Fence,
};
use sandbox::Component;
use serde_json::json;

use crate::{digests, ground::tell_alone, story::Story};

/// What `kubevirt-operator plan` says to documents.
struct Told {
    text: String,
    errors: Vec<String>,
    notes: Vec<String>,
    has_changes: bool,
    calls: BTreeMap<String, u64>,
}

async fn plan(story: &Story, yaml: &str) -> Told {
    plan_as(story, story.client.clone(), yaml).await
}

async fn plan_as(story: &Story, client: kube::Client, yaml: &str) -> Told {
    let counter = Arc::new(CallCounter::default());
    let client = layered(
        client,
        Fence::open(),
        Limits::UNLIMITED,
        Arc::clone(&counter) as _,
    );
    let documents = documents::parse(&"given".into(), yaml.as_bytes()).unwrap();
    let documents = documents.into_iter().map(Result::unwrap).collect();
    let documents = Documents::sort(documents, "default");
    assert_eq!(documents.wrong, [""; 0]);
    let now = Time(story.ground.clock()());
    let found = preview(client, &documents, now).await.unwrap();
    let mut text = anstream::StripStream::new(Vec::new());
    found.print(&mut text).unwrap();
    let mut calls = BTreeMap::new();
    for ((verb, resource, _), count) in counter.take() {
        *calls.entry(format!("{verb} {resource}")).or_default() += count;
    }
    Told {
        text: String::from_utf8(text.into_inner()).unwrap(),
        has_changes: found.has_changes(),
        errors: found.errors,
        notes: found.notes,
        calls,
    }
}

impl Told {
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

/// A story in which this Machine runs.
async fn running(name: &str, spec: &str) -> Story {
    let story = Story::begin().await;
    story.apply(&machine(name, spec)).await;
    story.until_phase(name, "Running").await;
    story.wait(10).await;
    story
}

const NOTHING: &str = "Nothing would change.\n";

#[test]
fn a_new_machine_is_told_with_all_that_is_made_for_it() {
    tell_alone(&[], async {
        let story = Story::begin().await;
        let network = "apiVersion: vitistack.io/v1alpha1\nkind: NetworkConfiguration\nmetadata: {name: lan}\nspec: {bridge: br0, vlan: 7}\n---\n";
        let web = machine(
            "web",
            "{template: small, networks: [{name: lan, networkName: lan}], cloudInit: {userData: hunter2}}",
        );
        let told = plan(&story, &format!("{network}{web}")).await;
        told.is("\
NetworkConfiguration default/lan: 2 to create, 0 to change, 0 to delete
  + NetworkConfiguration lan
  + NetworkAttachmentDefinition lan (bridge br0, VLAN 7)

Machine default/web: 4 to create, 0 to change, 0 to delete
  + Machine web
  + PersistentVolumeClaim web-root (20Gi, standard)
  + Secret web-cloud-init (cloud-init data)
  + VirtualMachine web (1 CPU, 2Gi)

In all: 6 to create, 0 to change, 0 to delete.
");
        assert!(told.has_changes);
        assert!(story.list("Machine").await.is_empty());
    });
}

#[test]
fn what_runs_as_it_was_written_needs_nothing() {
    tell_alone(&[], async {
        let story = running("web", "{template: small}").await;
        let told = plan(&story, &machine("web", "{template: small}")).await;
        told.is(NOTHING);
        assert!(!told.has_changes);
    });
}

#[test]
fn a_guest_that_can_grow_while_it_runs_needs_no_restart() {
    tell_alone(&[], async {
        let story = running("web", "{cpu: {sockets: 1}}").await;
        let told = plan(&story, &machine("web", "{cpu: {sockets: 2}}")).await;
        told.is("\
Machine default/web: 0 to create, 2 to change, 0 to delete
  ~ Machine web
      spec.cpu.sockets: 1 -> 2
  ~ VirtualMachine web
      spec.template.spec.domain.cpu.sockets: 1 -> 2

In all: 0 to create, 2 to change, 0 to delete.
");
    });
}

#[test]
fn cores_wait_for_a_restart() {
    tell_alone(&[], async {
        let story = running("web", "{template: small}").await;
        let told = plan(&story, &machine("web", "{template: medium}")).await;
        told.is("\
Machine default/web: 0 to create, 3 to change, 0 to delete, restart needed
  ~ Machine web
      spec.template: small -> medium
  ~ PersistentVolumeClaim web-root
      spec.resources.requests.storage: 20Gi -> 40Gi
  ~ VirtualMachine web
      spec.template.spec.domain.cpu.cores: 1 -> 2
      spec.template.spec.domain.memory.guest: 2Gi -> 4Gi
  ! waits for a restart of the guest: spec.template.spec.domain.cpu.cores, spec.template.spec.domain.memory.guest

In all: 0 to create, 3 to change, 0 to delete, 1 to restart by hand.
");
        let asked = machine(
            "web",
            "{template: medium, restartedAt: \"2030-01-01T00:00:00Z\"}",
        );
        let told = plan(&story, &asked).await;
        assert!(told.text.contains(", restarts\n"), "{}", told.text);
        assert!(!told.text.contains("restart needed"), "{}", told.text);
    });
}

#[test]
fn a_stopped_machine_needs_no_restart() {
    tell_alone(&[], async {
        let story = Story::begin().await;
        story
            .apply(&machine("web", "{template: small, powerState: Stopped}"))
            .await;
        story.until_phase("web", "Stopped").await;
        let told = plan(
            &story,
            &machine("web", "{template: medium, powerState: Stopped}"),
        )
        .await;
        assert!(told.text.contains("cpu.cores: 1 -> 2"), "{}", told.text);
        assert!(!told.text.contains("restart"), "{}", told.text);
    });
}

#[test]
fn a_removed_disk_is_deleted_where_the_policy_says_so() {
    tell_alone(&[], async {
        let disks = |extra: &str| {
            format!(
                "{{template: small, deletionPolicy: Delete, disks: [{{name: root, size: 20Gi}}{extra}]}}"
            )
        };
        let story = running("web", &disks(", {name: data, size: 1Gi}")).await;
        let told = plan(&story, &machine("web", &disks(""))).await;
        assert_eq!(told.errors, [""; 0]);
        assert!(
            told.text.starts_with(
                "Machine default/web: 0 to create, 2 to change, 1 to delete, restart needed\n"
            ),
            "{}",
            told.text
        );
        assert!(
        told.text.contains("- PersistentVolumeClaim web-data (the disk was removed while the policy was Delete, once it is detached)\n"),
        "{}",
        told.text
    );
        // The same after kubectl's own apply, which notes what it applied.
        let last = "kubectl.kubernetes.io/last-applied-configuration";
        let config = json!({ "spec": {
        "template": "small", "deletionPolicy": "Delete",
        "disks": [{ "name": "root", "size": "20Gi" }, { "name": "data", "size": "1Gi" }],
    } });
        let note = json!({ "metadata": { "annotations": { last: config.to_string() } } });
        story.patch("Machine", "web", note).await;
        let again = plan(&story, &machine("web", &disks(""))).await;
        assert_eq!(again.text, told.text);
    });
}

#[test]
fn what_the_schema_refuses_is_told_in_the_servers_words() {
    tell_alone(&[], async {
        let story = Story::begin().await;
        let bad = machine("web", "{template: small, instanceType: small}");
        let good = machine("ok", "{template: small}");
        let told = plan(&story, &format!("{bad}---\n{good}")).await;
        assert_eq!(told.errors.len(), 1, "{:?}", told.errors);
        assert!(
            told.errors[0].starts_with("given:1: the API server refuses it: ")
                && told.errors[0].contains("give at most one of"),
            "{:?}",
            told.errors
        );
        assert!(told.text.contains("+ VirtualMachine ok"), "{}", told.text);
    });
}

#[test]
fn a_class_that_is_not_there_is_told() {
    tell_alone(&[], async {
        let story = Story::begin().await;
        let told = plan(&story, &machine("web", "{machineClass: gigantic}")).await;
        assert_eq!(told.errors.len(), 1, "{:?}", told.errors);
        assert!(
            told.errors[0].starts_with("given:1: spec.machineClass: TemplateNotFound: "),
            "{:?}",
            told.errors
        );
    });
}

#[test]
fn a_namespace_that_is_not_there_is_told() {
    tell_alone(&[], async {
        let story = Story::begin().await;
        let web = machine("web", "{}").replace("{name: web}", "{name: web, namespace: nowhere}");
        let told = plan(&story, &web).await;
        assert_eq!(
            told.errors,
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
fn a_class_that_changes_tells_who_keeps_its_size_and_who_does_not() {
    tell_alone(&[], async {
        let story = Story::begin().await;
        story.apply(&class(2)).await;
        for (name, spec) in [
            ("keeps", "{machineClass: big}"),
            ("stopped", "{machineClass: big, powerState: Stopped}"),
            ("other", "{template: small}"),
        ] {
            story.apply(&machine(name, spec)).await;
        }
        story.until_phase("keeps", "Running").await;
        story.until_phase("stopped", "Stopped").await;
        story.wait(10).await;
        plan(&story, &class(2)).await.is(NOTHING);
        let told = plan(&story, &class(4)).await;
        told.is("\
MachineClass big: 0 to create, 1 to change, 0 to delete
  ~ MachineClass big
      spec.cpu.cores: 2 -> 4

Machine default/keeps: 0 to create, 0 to change, 0 to delete
  ! MachineClass big has changed since the Machine was sized: restart the Machine, or annotate it with vitistack.io/follow-machine-class: \"true\", to apply the new size

Machine default/stopped: 0 to create, 1 to change, 0 to delete
  ~ VirtualMachine stopped
      spec.template.spec.domain.cpu.cores: 2 -> 4

In all: 0 to create, 2 to change, 0 to delete.
");
    });
}

#[test]
fn a_network_that_comes_lets_a_waiting_machine_go_on() {
    tell_alone(&[], async {
        let story = Story::begin().await;
        story
            .apply(&machine(
                "web",
                "{networks: [{name: lan, networkName: lan}]}",
            ))
            .await;
        story.wait(10).await;
        let network = "apiVersion: vitistack.io/v1alpha1\nkind: NetworkConfiguration\nmetadata: {name: lan}\nspec: {bridge: br0}\n";
        let told = plan(&story, network).await;
        assert_eq!(told.errors, [""; 0]);
        assert!(told.text.contains("+ VirtualMachine web"), "{}", told.text);
    });
}

#[test]
fn without_kubevirt_it_is_told_that_nothing_would_run() {
    tell_alone(&[], async {
        let story = Story::begin_with(|setup| {
            setup.without = [Component::KubeVirt].into();
        })
        .await;
        let told = plan(&story, &machine("web", "{template: small}")).await;
        assert_eq!(
            told.errors,
            [
                "given:1: KubeVirtApiError: KubeVirt is not installed in this cluster: install it, and the operator continues with the Machine"
            ]
        );
        assert!(told.text.contains("+ Machine web"), "{}", told.text);
    });
}

#[test]
fn user_data_is_never_shown_and_a_change_of_it_is() {
    tell_alone(&[], async {
        let with = |data: &str| format!("{{template: small, cloudInit: {{userData: {data}}}}}");
        let story = running("web", &with("hunter2")).await;
        plan(&story, &machine("web", &with("hunter2")))
            .await
            .is(NOTHING);
        let told = plan(&story, &machine("web", &with("hunter3"))).await;
        told.is("\
Machine default/web: 0 to create, 3 to change, 0 to delete, restart needed
  ~ Machine web
      spec.cloudInit.userData: (not shown)
  ~ Secret web-cloud-init (cloud-init data)
  ~ VirtualMachine web (cloud-init data)
  ! waits for a restart of the guest: cloud-init's data

In all: 0 to create, 3 to change, 0 to delete, 1 to restart by hand.
");
        let told = plan(&story, &machine("web", "{template: small}")).await;
        assert!(!told.text.contains("hunter"), "{}", told.text);
    });
}

#[test]
fn a_change_of_cloud_init_data_is_shown_without_the_key_of_its_digest() {
    tell_alone(&[], async {
        let with = |data: &str| format!("{{template: small, cloudInit: {{userData: {data}}}}}");
        let mut story = Story::without_operator().await;
        story.start_operator_with(digests::keyed_by(&story.namespace, || Some([1; 32])));
        story.apply(&machine("web", &with("hunter2"))).await;
        story.until_phase("web", "Running").await;
        story.wait(10).await;
        let preview = plan(&story, &machine("web", &with("hunter2"))).await;
        preview.is(NOTHING);
        assert_eq!(preview.calls["get secrets"], 1);
        let preview = plan(&story, &machine("web", &with("hunter3"))).await;
        let needed = "waits for a restart of the guest: cloud-init's data";
        assert!(preview.text.contains(needed), "{}", preview.text);
        assert!(
            preview.text.contains("~ Secret web-cloud-init"),
            "{}",
            preview.text
        );

        story.apply(VIEWER).await;
        let viewer = story.ground.client_of("default", "viewer");
        let preview = plan_as(&story, viewer, &machine("web", &with("hunter2"))).await;
        preview.is(NOTHING);
        let note = "Secret default/web-cloud-init cannot be read";
        assert!(preview.notes[0].starts_with(note), "{:?}", preview.notes);
    });
}

#[test]
fn a_plan_costs_a_list_a_kind_and_a_dry_run_a_document_and_writes_nothing() {
    tell_alone(&[], async {
        let story = running("m0", "{template: small}").await;
        let documents: Vec<String> = (0..40)
            .map(|n| machine(&format!("m{n}"), "{template: medium}"))
            .collect();
        let before = versions(&story).await;
        let told = plan(&story, &documents.join("---\n")).await;
        assert_eq!(told.errors, [""; 0]);
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
        assert_eq!(told.calls, BTreeMap::from(expected));
        assert_eq!(versions(&story).await, before);
    });
}

/// The versions of everything that a plan is about.
async fn versions(story: &Story) -> Vec<String> {
    let mut versions = Vec::new();
    for kind in [
        "Machine",
        "NetworkConfiguration",
        "VirtualMachine",
        "PersistentVolumeClaim",
        "Secret",
        "Event",
    ] {
        for object in story.list(kind).await {
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
fn every_example_needs_nothing_once_it_is_applied() {
    tell_alone(&[], async {
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
        let story = Story::begin().await;
        let standard = story.get("StorageClass", "standard").await;
        for name in ["fast-ssd", "replicated", "replicated-fast"] {
            let mut class = standard.clone();
            class["metadata"] = json!({ "name": name });
            sandbox::apply(&story.client, class).await.unwrap();
        }
        // The DataSources that examples copy disks from.
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "golden-images" },
        });
        sandbox::apply(&story.client, namespace).await.unwrap();
        for name in ["tools", "tools-iso"] {
            let source = json!({
                "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataSource",
                "metadata": { "name": name, "namespace": "golden-images" },
                "spec": { "source": { "pvc": { "name": name, "namespace": "golden-images" } } },
            });
            sandbox::apply(&story.client, source).await.unwrap();
        }
        story.allow_clones_from("golden-images").await;
        for (_, text) in &all {
            for document in documents::parse(&"example".into(), text.as_bytes()).unwrap() {
                let value = document.unwrap().value;
                sandbox::apply(&story.client, value).await.unwrap();
            }
        }
        story.wait(30).await;
        for (path, text) in all {
            let told = plan(&story, &text).await;
            assert_eq!(told.errors, [""; 0], "{path}: {}", told.text);
            assert_eq!(told.text, NOTHING, "{path}: {}", told.text);
        }
    });
}

#[test]
fn a_secret_that_cannot_be_read_is_a_note_and_no_change() {
    tell_alone(&[], async {
        let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: boot}\nstringData: {userdata: hunter2}\n";
        let spec = |template: &str| {
            format!("{{template: {template}, cloudInit: {{secretRef: {{name: boot}}}}}}")
        };
        let story = Story::begin().await;
        story.apply(secret).await;
        story.apply(&machine("web", &spec("small"))).await;
        story.until_phase("web", "Running").await;
        story.wait(10).await;
        plan(&story, &machine("web", &spec("small")))
            .await
            .is(NOTHING);
        story.apply(VIEWER).await;
        let viewer = || story.ground.client_of("default", "viewer");
        let told = plan_as(&story, viewer(), &machine("web", &spec("small"))).await;
        told.is(NOTHING);
        assert!(
            told.notes[0].starts_with("Secret default/boot cannot be read"),
            "{:?}",
            told.notes
        );
        let told = plan_as(&story, viewer(), &machine("web", &spec("medium"))).await;
        assert!(told.text.contains("cpu.cores: 1 -> 2"), "{}", told.text);
        assert!(!told.text.contains("cloud-init"), "{}", told.text);
    });
}

/// Somebody who may see and write everything that a plan is about, but no Secret.
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

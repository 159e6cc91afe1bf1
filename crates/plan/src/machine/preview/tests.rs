use api::core::StorageClass;
use serde_json::json;

use super::*;
use crate::machine::{
    Installed, Kind, Known, Provider,
    simulation::{child, machine},
};

fn now() -> Time {
    serde_json::from_value(json!("2026-01-02T03:04:05Z")).unwrap()
}

fn cluster(objects: impl IntoIterator<Item = (Id, Value)>) -> Cluster {
    let class: StorageClass = serde_json::from_value(json!({ "metadata": { "name": "fast",
        "annotations": { "storageclass.kubernetes.io/is-default-class": "true" } } }))
    .unwrap();
    let classes = Known::all([("fast".to_owned(), Arc::new(class))]);
    let installed = Installed {
        kubevirt: true,
        kubevirt_is_removed: false,
        cdi: true,
        multus: true,
    };
    Cluster {
        simulation: Simulation::new(
            objects.into_iter().collect(),
            classes,
            installed,
            Provider::default(),
        ),
        secrets: Secrets::default(),
        references: BTreeMap::new(),
    }
}

fn resource(spec: &Value) -> Value {
    json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
        "metadata": { "name": "web", "namespace": "shop", "uid": "uid-web", "generation": 1 },
        "spec": spec,
    })
}

fn document(before: Option<&Value>, after: &Value) -> Document {
    Document {
        id: machine("shop", "web"),
        origin: "web.yaml:1".to_owned(),
        before: before.cloned(),
        after: Some(after.clone()),
        cached: Some(after.clone()),
    }
}

fn preview_of(cluster: Cluster, document: Document) -> Preview {
    let affected = BTreeSet::from([document.id.clone()]);
    preview(cluster, &[document], &affected, &now())
}

fn lines(preview: &Preview) -> Vec<String> {
    let effects = preview.forecasts.iter().flat_map(|it| &it.effects);
    effects
        .map(
            |Effect {
                 verb, id, reason, ..
             }| format!("{verb:?} {} {} ({reason})", id.kind, id.name),
        )
        .collect()
}

#[test]
fn a_new_machine_comes_with_its_children() {
    let disks = json!([{ "name": "data", "size": "10Gi" }]);
    // As large as the data that the controller does not cache.
    let cloud_init = json!({ "userData": "u".repeat(20_000) });
    let new = resource(&json!({ "template": "small", "disks": disks, "cloudInit": cloud_init }));
    let preview = preview_of(cluster([]), document(None, &new));
    assert_eq!(preview.problems, Vec::<String>::new());
    assert_eq!(
        lines(&preview),
        [
            "Create Machine web ()",
            "Create PersistentVolumeClaim web-root (20Gi, fast)",
            "Create PersistentVolumeClaim web-data (10Gi, fast)",
            "Create Secret web-cloud-init (cloud-init data)",
            "Create VirtualMachine web (1 CPU, 2Gi)",
        ]
    );
}

#[test]
fn a_document_that_does_not_resolve_is_a_problem_at_its_origin() {
    let new = resource(&json!({ "template": "missing" }));
    let preview = preview_of(cluster([]), document(None, &new));
    assert_eq!(lines(&preview), ["Create Machine web ()"]);
    assert!(
        preview.problems[0].starts_with("web.yaml:1: "),
        "{preview:?}"
    );
}

#[test]
fn applying_a_document_again_changes_nothing() {
    let new = resource(&json!({ "template": "small" }));
    let id = machine("shop", "web");
    let Cluster {
        simulation,
        secrets,
        references,
    } = cluster([(id.clone(), new.clone())]);
    let now = now();
    let mut recorder = Recorder::new(simulation, secrets, references, &now);
    recorder.run(&BTreeSet::from([id.clone()]));
    let cluster = Cluster {
        simulation: recorder.simulation,
        secrets: Secrets::default(),
        references: BTreeMap::new(),
    };
    let vm = child(Kind::VirtualMachine, "shop", "web");
    assert!(cluster.simulation.get(&vm).is_some());
    let same = cluster.simulation.get(&id).cloned().unwrap();
    let preview = preview_of(cluster, document(Some(&same), &same));
    assert!(preview.forecasts.is_empty(), "{preview:?}");
}

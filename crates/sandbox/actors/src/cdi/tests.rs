use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::{
    Key,
    faults::ANNOTATION,
    kind::{CLAIM, DATA_SOURCE, DATA_VOLUME, STORAGE_CLASS},
    object::{condition, is_true, text},
    testing::{Scene, reasons},
};

fn volume(source: &Value) -> Value {
    json!({
        "metadata": {"namespace": "a", "name": "dv", "uid": "u"},
        "spec": {"source": source, "storage": {"resources": {"requests": {"storage": "10Gi"}}}},
    })
}

fn key() -> Key {
    Key::new("a", "dv")
}

fn scene(volume: Value) -> Scene {
    let mut scene = Scene::of([]);
    for class in crate::storage::classes() {
        scene.put(STORAGE_CLASS, class);
    }
    scene.put(DATA_VOLUME, volume);
    scene
}

fn bind(scene: &mut Scene) {
    let mut claim = Value::clone(&scene.get(CLAIM, "a", "dv"));
    claim["status"] = json!({"phase": "Bound"});
    scene.put(CLAIM, claim);
}

fn phase(scene: &Scene) -> String {
    text(&scene.get(DATA_VOLUME, "a", "dv"), "/status/phase").to_owned()
}

#[test]
fn an_import_shows_its_progress_and_succeeds() {
    let mut scene = scene(volume(&json!({"http": {"url": "http://images/disk"}})));
    scene.speed = crate::Speed::Real;
    scene.settle(&DataVolumes, &key());
    assert_eq!(phase(&scene), "Pending");
    bind(&mut scene);
    scene.settle(&DataVolumes, &key());
    assert_eq!(phase(&scene), "ImportScheduled");
    let mut seen = Vec::new();
    for _ in 0..12 {
        scene.pass(Duration::from_secs(1));
        scene.settle(&DataVolumes, &key());
        seen.push(text(&scene.get(DATA_VOLUME, "a", "dv"), "/status/progress").to_owned());
    }
    assert_eq!(seen[..3], ["N/A", "10.00%", "20.00%"]);
    let done = scene.get(DATA_VOLUME, "a", "dv");
    assert_eq!(text(&done, "/status/phase"), "Succeeded");
    assert_eq!(text(&done, "/status/progress"), "100.0%");
    assert!(is_true(&done, "Ready") && is_true(&done, "Bound") && !is_true(&done, "Running"));
}

#[test]
fn what_the_storage_leaves_open_is_filled_in_by_the_class() {
    let mut shared = scene(volume(&json!({"blank": {}})));
    shared.settle(&DataVolumes, &key());
    let spec = shared.get(CLAIM, "a", "dv")["spec"].clone();
    assert_eq!(spec["storageClassName"], "standard");
    assert_eq!(spec["volumeMode"], "Block");
    assert_eq!(spec["accessModes"], json!(["ReadWriteMany"]));
    assert_eq!(spec["resources"]["requests"]["storage"], "10Gi");
}

#[test]
fn a_file_system_has_room_for_more_than_the_disk() {
    let mut local = volume(&json!({"blank": {}}));
    local["spec"]["storage"]["storageClassName"] = json!("local");
    let mut scene = scene(local);
    scene.settle(&DataVolumes, &key());
    let spec = scene.get(CLAIM, "a", "dv")["spec"].clone();
    assert_eq!(spec["volumeMode"], "Filesystem");
    // Ten gibibytes and six percent.
    assert_eq!(spec["resources"]["requests"]["storage"], "11381663335");
    assert_eq!(phase(&scene), "WaitForFirstConsumer");
}

#[test]
fn a_claim_spec_is_taken_as_it_is() {
    let given =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let mut plain = volume(&json!({"blank": {}}));
    plain["spec"] = json!({"source": {"blank": {}}, "pvc": given});
    let mut scene = scene(plain);
    scene.settle(&DataVolumes, &key());
    assert_eq!(scene.get(CLAIM, "a", "dv")["spec"], given);
}

#[test]
fn a_claim_has_the_labels_and_annotations_of_its_data_volume() {
    let mut marked = volume(&json!({"blank": {}}));
    marked["metadata"]["labels"] = json!({"team": "blue", "app": "shop"});
    marked["metadata"]["annotations"] = json!({"note": "x", ANNOTATION: "ImportFailed*1"});
    let mut scene = scene(marked);
    scene.settle(&DataVolumes, &key());
    let metadata = scene.get(CLAIM, "a", "dv")["metadata"].clone();
    assert_eq!(metadata["labels"]["team"], "blue");
    assert_eq!(metadata["labels"]["app"], "shop");
    assert_eq!(metadata["annotations"]["note"], "x");
    assert!(metadata["annotations"].get(ANNOTATION).is_none());
}

#[test]
fn a_clone_waits_for_its_source() {
    let mut scene = scene(volume(&json!({"pvc": {"namespace": "b", "name": "gold"}})));
    let writes = scene.settle(&DataVolumes, &key());
    assert_eq!(reasons(&writes).first(), Some(&"CloneWithoutSource"));
    assert_eq!(phase(&scene), "Pending");
    scene.put(
        CLAIM,
        json!({"metadata": {"namespace": "b", "name": "gold"}}),
    );
    scene.settle(&DataVolumes, &key());
    bind(&mut scene);
    scene.settle(&DataVolumes, &key());
    assert_eq!(phase(&scene), "Succeeded");
}

#[test]
fn a_named_source_is_looked_up() {
    let mut named = volume(&json!({}));
    named["spec"]["source"] = Value::Null;
    named["spec"]["sourceRef"] = json!({"kind": "DataSource", "name": "fedora"});
    let mut scene = scene(named);
    scene.settle(&DataVolumes, &key());
    assert_eq!(phase(&scene), "Pending");
    assert!(scene.caches.find(CLAIM, "a", "dv").is_none());
    scene.put(
        CLAIM,
        json!({"metadata": {"namespace": "a", "name": "gold"}}),
    );
    scene.put(
        DATA_SOURCE,
        json!({
            "metadata": {"namespace": "a", "name": "fedora"},
            "spec": {"source": {"pvc": {"namespace": "a", "name": "gold"}}},
        }),
    );
    scene.settle(&DataVolumes, &key());
    bind(&mut scene);
    scene.settle(&DataVolumes, &key());
    assert_eq!(phase(&scene), "Succeeded");
}

#[test]
fn an_import_that_fails_is_started_again_and_counted() {
    let mut asked = volume(&json!({"registry": {"url": "docker://images/disk"}}));
    asked["metadata"]["annotations"] = json!({ANNOTATION: "ImportFailed*2"});
    let mut scene = scene(asked);
    scene.settle(&DataVolumes, &key());
    bind(&mut scene);
    scene.settle(&DataVolumes, &key());
    let failing = scene.get(DATA_VOLUME, "a", "dv");
    assert_eq!(text(&failing, "/status/phase"), "ImportInProgress");
    assert_eq!(
        text(condition(&failing, "Running").unwrap(), "/reason"),
        "Error"
    );
    for _ in 0..3 {
        scene.pass(Duration::from_secs(1));
        scene.settle(&DataVolumes, &key());
    }
    let done = scene.get(DATA_VOLUME, "a", "dv");
    assert_eq!(done["status"]["restartCount"], 2);
    assert_eq!(text(&done, "/status/phase"), "Succeeded");
}

#[test]
fn a_foreign_claim_in_the_way_is_left_alone() {
    let mut scene = scene(volume(&json!({"blank": {}})));
    scene.put(
        CLAIM,
        json!({"metadata": {"namespace": "a", "name": "dv"}, "status": {"phase": "Bound"}}),
    );
    let writes = scene.settle(&DataVolumes, &key());
    assert_eq!(reasons(&writes).first(), Some(&"ErrResourceExists"));
    assert_eq!(phase(&scene), "Pending");
}

#[test]
fn an_upload_stays_ready() {
    let mut scene = scene(volume(&json!({"upload": {}})));
    scene.settle(&DataVolumes, &key());
    bind(&mut scene);
    scene.settle(&DataVolumes, &key());
    assert_eq!(phase(&scene), "UploadReady");
}

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::{
    Key,
    faults::ANNOTATION,
    kind::{CLAIM, DATA_SOURCE, DATA_VOLUME, STORAGE_CLASS},
    object::{condition, is_true, text},
    testing::{Fixture, reasons},
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

fn fixture(volume: Value) -> Fixture {
    let mut fixture = Fixture::of([]);
    for class in crate::storage::classes() {
        fixture.put(STORAGE_CLASS, class);
    }
    fixture.put(DATA_VOLUME, volume);
    fixture
}

fn bind(fixture: &mut Fixture) {
    let mut claim = Value::clone(&fixture.get(CLAIM, "a", "dv"));
    claim["status"] = json!({"phase": "Bound"});
    fixture.put(CLAIM, claim);
}

fn phase(fixture: &Fixture) -> String {
    text(&fixture.get(DATA_VOLUME, "a", "dv"), "/status/phase").to_owned()
}

#[test]
fn an_import_shows_its_progress_and_succeeds() {
    let mut fixture = fixture(volume(&json!({"http": {"url": "http://images/disk"}})));
    fixture.speed = crate::Speed::Real;
    fixture.settle(&DataVolumes, &key());
    assert_eq!(phase(&fixture), "Pending");
    bind(&mut fixture);
    fixture.settle(&DataVolumes, &key());
    assert_eq!(phase(&fixture), "ImportScheduled");
    let mut progress = Vec::new();
    for _ in 0..12 {
        fixture.advance(Duration::from_secs(1));
        fixture.settle(&DataVolumes, &key());
        progress.push(text(&fixture.get(DATA_VOLUME, "a", "dv"), "/status/progress").to_owned());
    }
    assert_eq!(progress[..3], ["N/A", "10.00%", "20.00%"]);
    let done = fixture.get(DATA_VOLUME, "a", "dv");
    assert_eq!(text(&done, "/status/phase"), "Succeeded");
    assert_eq!(text(&done, "/status/progress"), "100.0%");
    assert!(is_true(&done, "Ready") && is_true(&done, "Bound") && !is_true(&done, "Running"));
}

#[test]
fn storage_defaults_come_from_the_class() {
    let mut shared = fixture(volume(&json!({"blank": {}})));
    shared.settle(&DataVolumes, &key());
    let spec = shared.get(CLAIM, "a", "dv")["spec"].clone();
    assert_eq!(spec["storageClassName"], "standard");
    assert_eq!(spec["volumeMode"], "Block");
    assert_eq!(spec["accessModes"], json!(["ReadWriteMany"]));
    assert_eq!(spec["resources"]["requests"]["storage"], "10Gi");
}

#[test]
fn a_file_system_claim_includes_the_overhead() {
    let mut local = volume(&json!({"blank": {}}));
    local["spec"]["storage"]["storageClassName"] = json!("local");
    let mut fixture = fixture(local);
    fixture.settle(&DataVolumes, &key());
    let spec = fixture.get(CLAIM, "a", "dv")["spec"].clone();
    assert_eq!(spec["volumeMode"], "Filesystem");
    // Ten gibibytes and six percent.
    assert_eq!(spec["resources"]["requests"]["storage"], "11381663335");
    assert_eq!(phase(&fixture), "WaitForFirstConsumer");
}

#[test]
fn a_pvc_spec_is_used_unchanged() {
    let given =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let mut plain = volume(&json!({"blank": {}}));
    plain["spec"] = json!({"source": {"blank": {}}, "pvc": given});
    let mut fixture = fixture(plain);
    fixture.settle(&DataVolumes, &key());
    assert_eq!(fixture.get(CLAIM, "a", "dv")["spec"], given);
}

#[test]
fn a_claim_has_the_labels_and_annotations_of_its_data_volume() {
    let mut labelled = volume(&json!({"blank": {}}));
    labelled["metadata"]["labels"] = json!({"team": "blue", "app": "shop"});
    labelled["metadata"]["annotations"] = json!({"note": "x", ANNOTATION: "ImportFailed*1"});
    let mut fixture = fixture(labelled);
    fixture.settle(&DataVolumes, &key());
    let metadata = fixture.get(CLAIM, "a", "dv")["metadata"].clone();
    assert_eq!(metadata["labels"]["team"], "blue");
    assert_eq!(metadata["labels"]["app"], "shop");
    assert_eq!(metadata["annotations"]["note"], "x");
    assert!(metadata["annotations"].get(ANNOTATION).is_none());
}

#[test]
fn a_clone_waits_for_its_source() {
    let mut fixture = fixture(volume(&json!({"pvc": {"namespace": "b", "name": "gold"}})));
    let writes = fixture.settle(&DataVolumes, &key());
    assert_eq!(reasons(&writes).first(), Some(&"CloneWithoutSource"));
    assert_eq!(phase(&fixture), "Pending");
    fixture.put(
        CLAIM,
        json!({"metadata": {"namespace": "b", "name": "gold"}}),
    );
    fixture.settle(&DataVolumes, &key());
    bind(&mut fixture);
    fixture.settle(&DataVolumes, &key());
    assert_eq!(phase(&fixture), "Succeeded");
}

#[test]
fn a_data_source_is_resolved() {
    let mut named = volume(&json!({}));
    named["spec"]["source"] = Value::Null;
    named["spec"]["sourceRef"] = json!({"kind": "DataSource", "name": "fedora"});
    let mut fixture = fixture(named);
    fixture.settle(&DataVolumes, &key());
    assert_eq!(phase(&fixture), "Pending");
    assert!(fixture.caches.find(CLAIM, "a", "dv").is_none());
    fixture.put(
        CLAIM,
        json!({"metadata": {"namespace": "a", "name": "gold"}}),
    );
    fixture.put(
        DATA_SOURCE,
        json!({
            "metadata": {"namespace": "a", "name": "fedora"},
            "spec": {"source": {"pvc": {"namespace": "a", "name": "gold"}}},
        }),
    );
    fixture.settle(&DataVolumes, &key());
    bind(&mut fixture);
    fixture.settle(&DataVolumes, &key());
    assert_eq!(phase(&fixture), "Succeeded");
}

#[test]
fn a_failed_import_is_restarted_and_counted() {
    let mut failing = volume(&json!({"registry": {"url": "docker://images/disk"}}));
    failing["metadata"]["annotations"] = json!({ANNOTATION: "ImportFailed*2"});
    let mut fixture = fixture(failing);
    fixture.settle(&DataVolumes, &key());
    bind(&mut fixture);
    fixture.settle(&DataVolumes, &key());
    let failing = fixture.get(DATA_VOLUME, "a", "dv");
    assert_eq!(text(&failing, "/status/phase"), "ImportInProgress");
    assert_eq!(
        text(condition(&failing, "Running").unwrap(), "/reason"),
        "Error"
    );
    for _ in 0..3 {
        fixture.advance(Duration::from_secs(1));
        fixture.settle(&DataVolumes, &key());
    }
    let done = fixture.get(DATA_VOLUME, "a", "dv");
    assert_eq!(done["status"]["restartCount"], 2);
    assert_eq!(text(&done, "/status/phase"), "Succeeded");
}

#[test]
fn a_foreign_claim_of_the_same_name_is_not_changed() {
    let mut fixture = fixture(volume(&json!({"blank": {}})));
    fixture.put(
        CLAIM,
        json!({"metadata": {"namespace": "a", "name": "dv"}, "status": {"phase": "Bound"}}),
    );
    let writes = fixture.settle(&DataVolumes, &key());
    assert_eq!(reasons(&writes).first(), Some(&"ErrResourceExists"));
    assert_eq!(phase(&fixture), "Pending");
}

#[test]
fn an_upload_stays_ready() {
    let mut fixture = fixture(volume(&json!({"upload": {}})));
    fixture.settle(&DataVolumes, &key());
    bind(&mut fixture);
    fixture.settle(&DataVolumes, &key());
    assert_eq!(phase(&fixture), "UploadReady");
}

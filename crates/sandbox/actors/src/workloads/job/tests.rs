use super::*;
use crate::testing::{Scene, created, deleted, reasons};

fn key() -> Key {
    Key::new("a", "j")
}

fn scene(spec: &Value) -> Scene {
    let mut job = json!({"metadata": {"namespace": "a", "name": "j", "uid": "u"}, "spec": spec});
    job["spec"]["template"] = json!({"spec": {"containers": [{"name": "c"}]}});
    Scene::of([(JOB, job)])
}

/// All pods that still run come to this end.
fn end_all(scene: &mut Scene, phase: &str) {
    let pods: Vec<Object> = scene
        .caches
        .all(POD)
        .filter(|pod| is_active(pod))
        .cloned()
        .collect();
    for pod in pods {
        let mut ended = Value::clone(&pod);
        ended["status"] = json!({"phase": phase});
        scene.put(POD, ended);
    }
}

#[test]
fn as_many_run_beside_each_other_as_may_and_all_complete() {
    let mut scene = scene(&json!({"completions": 3, "parallelism": 2}));
    assert_eq!(created(&scene.settle(&Jobs, &key())).len(), 2);
    end_all(&mut scene, "Succeeded");
    assert_eq!(created(&scene.settle(&Jobs, &key())).len(), 1);
    end_all(&mut scene, "Succeeded");
    let writes = scene.settle(&Jobs, &key());
    let job = scene.get(JOB, "a", "j");
    assert!(is_true(&job, "SuccessCriteriaMet") && is_true(&job, "Complete"));
    assert_eq!(job["status"]["succeeded"], 3);
    assert!(job["status"]["completionTime"].is_string());
    assert!(reasons(&writes).contains(&"Completed"));
}

#[test]
fn a_job_fails_after_its_retries() {
    let mut scene = scene(&json!({"completions": 1, "backoffLimit": 1}));
    for _ in 0..2 {
        scene.settle(&Jobs, &key());
        end_all(&mut scene, "Failed");
    }
    scene.settle(&Jobs, &key());
    let job = scene.get(JOB, "a", "j");
    assert!(is_true(&job, "FailureTarget") && is_true(&job, "Failed"));
    assert_eq!(job["status"]["failed"], 2);
    assert!(job["status"]["completionTime"].is_null());
}

#[test]
fn retries_come_later_and_later() {
    let mut scene = scene(&json!({"completions": 1}));
    scene.speed = crate::Speed::Real;
    scene.settle(&Jobs, &key());
    for seconds in [10, 20] {
        end_all(&mut scene, "Failed");
        scene.settle(&Jobs, &key());
        let outcome = scene.decide(&Jobs, &key());
        assert_eq!(outcome.next, Some(Duration::from_secs(seconds)));
        scene.pass(Duration::from_secs(seconds));
        assert_eq!(created(&scene.settle(&Jobs, &key())).len(), 1);
    }
}

#[test]
fn a_job_that_runs_too_long_is_ended() {
    let spec = json!({"completions": 1, "activeDeadlineSeconds": 5, "backoffLimit": 0});
    let mut scene = scene(&spec);
    scene.settle(&Jobs, &key());
    scene.pass(Duration::from_secs(5));
    let writes = scene.settle(&Jobs, &key());
    assert_eq!(deleted(&writes).len(), 1);
    let job = scene.get(JOB, "a", "j");
    assert_eq!(
        text(condition(&job, "Failed").unwrap(), "/reason"),
        "DeadlineExceeded"
    );
    assert_eq!(job["status"]["failed"], 1);
}

#[test]
fn a_finished_job_is_deleted_when_its_time_is_up() {
    let mut scene = scene(&json!({"completions": 1, "ttlSecondsAfterFinished": 60}));
    scene.settle(&Jobs, &key());
    end_all(&mut scene, "Succeeded");
    scene.settle(&Jobs, &key());
    assert_eq!(
        scene.decide(&Jobs, &key()).next,
        Some(Duration::from_secs(60))
    );
    scene.pass(Duration::from_secs(60));
    assert_eq!(deleted(&scene.decide(&Jobs, &key()).writes), ["j"]);
}

#[test]
fn a_suspended_job_has_no_pods() {
    let mut scene = scene(&json!({"completions": 1, "suspend": true}));
    assert!(created(&scene.settle(&Jobs, &key())).is_empty());
    assert!(is_true(&scene.get(JOB, "a", "j"), "Suspended"));
}

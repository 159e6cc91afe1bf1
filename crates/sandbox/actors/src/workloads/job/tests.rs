use super::*;
use crate::testing::{Fixture, created, deleted, reasons};

fn key() -> Key {
    Key::new("a", "j")
}

fn fixture(spec: &Value) -> Fixture {
    let mut job = json!({"metadata": {"namespace": "a", "name": "j", "uid": "u"}, "spec": spec});
    job["spec"]["template"] = json!({"spec": {"containers": [{"name": "c"}]}});
    Fixture::of([(JOB, job)])
}

/// Sets all running pods to this final phase.
fn end_all(fixture: &mut Fixture, phase: &str) {
    let pods: Vec<Object> = fixture
        .caches
        .all(POD)
        .filter(|pod| is_active(pod))
        .cloned()
        .collect();
    for pod in pods {
        let mut ended = Value::clone(&pod);
        ended["status"] = json!({"phase": phase});
        fixture.put(POD, ended);
    }
}

#[test]
fn pods_run_up_to_the_parallelism_until_all_are_complete() {
    let mut fixture = fixture(&json!({"completions": 3, "parallelism": 2}));
    assert_eq!(created(&fixture.settle(&Jobs, &key())).len(), 2);
    end_all(&mut fixture, "Succeeded");
    assert_eq!(created(&fixture.settle(&Jobs, &key())).len(), 1);
    end_all(&mut fixture, "Succeeded");
    let writes = fixture.settle(&Jobs, &key());
    let job = fixture.get(JOB, "a", "j");
    assert!(is_true(&job, "SuccessCriteriaMet") && is_true(&job, "Complete"));
    assert_eq!(job["status"]["succeeded"], 3);
    assert!(job["status"]["completionTime"].is_string());
    assert!(reasons(&writes).contains(&"Completed"));
}

#[test]
fn a_job_fails_after_its_backoff_limit() {
    let mut fixture = fixture(&json!({"completions": 1, "backoffLimit": 1}));
    for _ in 0..2 {
        fixture.settle(&Jobs, &key());
        end_all(&mut fixture, "Failed");
    }
    fixture.settle(&Jobs, &key());
    let job = fixture.get(JOB, "a", "j");
    assert!(is_true(&job, "FailureTarget") && is_true(&job, "Failed"));
    assert_eq!(job["status"]["failed"], 2);
    assert!(job["status"]["completionTime"].is_null());
}

#[test]
fn failed_pods_are_replaced_with_backoff() {
    let mut fixture = fixture(&json!({"completions": 1}));
    fixture.speed = crate::Speed::Real;
    fixture.settle(&Jobs, &key());
    for seconds in [10, 20] {
        end_all(&mut fixture, "Failed");
        fixture.settle(&Jobs, &key());
        let outcome = fixture.reconcile(&Jobs, &key());
        assert_eq!(outcome.requeue_after, Some(Duration::from_secs(seconds)));
        fixture.advance(Duration::from_secs(seconds));
        assert_eq!(created(&fixture.settle(&Jobs, &key())).len(), 1);
    }
}

#[test]
fn a_job_fails_at_its_active_deadline() {
    let spec = json!({"completions": 1, "activeDeadlineSeconds": 5, "backoffLimit": 0});
    let mut fixture = fixture(&spec);
    fixture.settle(&Jobs, &key());
    fixture.advance(Duration::from_secs(5));
    let writes = fixture.settle(&Jobs, &key());
    assert_eq!(deleted(&writes).len(), 1);
    let job = fixture.get(JOB, "a", "j");
    assert_eq!(
        text(condition(&job, "Failed").unwrap(), "/reason"),
        "DeadlineExceeded"
    );
    assert_eq!(job["status"]["failed"], 1);
}

#[test]
fn a_finished_job_is_deleted_after_its_ttl() {
    let mut fixture = fixture(&json!({"completions": 1, "ttlSecondsAfterFinished": 60}));
    fixture.settle(&Jobs, &key());
    end_all(&mut fixture, "Succeeded");
    fixture.settle(&Jobs, &key());
    assert_eq!(
        fixture.reconcile(&Jobs, &key()).requeue_after,
        Some(Duration::from_secs(60))
    );
    fixture.advance(Duration::from_secs(60));
    assert_eq!(deleted(&fixture.reconcile(&Jobs, &key()).writes), ["j"]);
}

#[test]
fn a_suspended_job_has_no_pods() {
    let mut fixture = fixture(&json!({"completions": 1, "suspend": true}));
    assert!(created(&fixture.settle(&Jobs, &key())).is_empty());
    assert!(is_true(&fixture.get(JOB, "a", "j"), "Suspended"));
}

use std::time::Duration;

use super::*;
use crate::{
    object::{condition, generation, is_true},
    testing::{Fixture, reasons},
};

fn deployment(replicas: i64, image: &str) -> Value {
    json!({
        "metadata": {"namespace": "a", "name": "web", "uid": "u", "generation": 1},
        "spec": {
            "replicas": replicas,
            "progressDeadlineSeconds": 60,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
    })
}

fn key() -> Key {
    Key::new("a", "web")
}

fn change(fixture: &mut Fixture, change: impl Fn(&mut Value)) {
    let mut object = Value::clone(&fixture.get(DEPLOYMENT, "a", "web"));
    change(&mut object);
    object["metadata"]["generation"] = (generation(&object) + 1).into();
    fixture.put(DEPLOYMENT, object);
}

/// Name and desired replicas of each ReplicaSet, oldest first.
fn sets(fixture: &Fixture) -> Vec<(String, i64)> {
    let rollout = observe(&fixture.caches, &fixture.get(DEPLOYMENT, "a", "web"));
    let pairs = rollout.sets().map(|set| {
        (
            name(set).to_owned(),
            number(set, "/spec/replicas").unwrap_or_default(),
        )
    });
    pairs.collect()
}

/// Makes all desired pods of all ReplicaSets available.
fn catch_up(fixture: &mut Fixture) {
    let all: Vec<Object> = fixture.caches.all(REPLICA_SET).cloned().collect();
    for set in all {
        let mut set = Value::clone(&set);
        let wanted = set["spec"]["replicas"].clone();
        set["status"] =
            json!({"replicas": wanted, "readyReplicas": wanted, "availableReplicas": wanted});
        fixture.put(REPLICA_SET, set);
    }
}

fn rolled_out(replicas: i64) -> Fixture {
    let mut fixture = Fixture::of([(DEPLOYMENT, deployment(replicas, "1"))]);
    fixture.settle(&Deployments, &key());
    catch_up(&mut fixture);
    fixture.settle(&Deployments, &key());
    fixture
}

#[test]
fn a_new_deployment_gets_a_replica_set_and_is_complete_once_its_pods_are() {
    let fixture = rolled_out(3);
    assert_eq!(sets(&fixture).len(), 1);
    let object = fixture.get(DEPLOYMENT, "a", "web");
    assert!(is_true(&object, "Available"));
    assert_eq!(
        text(condition(&object, "Progressing").unwrap(), "/reason"),
        "NewReplicaSetAvailable"
    );
    assert_eq!(annotation(&object, REVISION), Some("1"));
}

#[test]
fn a_rolling_update_keeps_its_bounds_at_every_step() {
    let mut fixture = rolled_out(4);
    change(&mut fixture, |object| {
        object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("2");
    });
    let mut steps = Vec::new();
    for _ in 0..20 {
        fixture.settle(&Deployments, &key());
        let now: Vec<i64> = sets(&fixture)
            .iter()
            .map(|(_, replicas)| *replicas)
            .collect();
        assert!(now.iter().sum::<i64>() <= 5, "{now:?}");
        assert!(now.iter().sum::<i64>() >= 3, "{now:?}");
        if steps.last() == Some(&now) {
            break;
        }
        steps.push(now);
        catch_up(&mut fixture);
    }
    assert_eq!(steps.last(), Some(&vec![0, 4]));
    assert!(steps.len() > 2, "{steps:?}");
    assert_eq!(
        annotation(&fixture.get(DEPLOYMENT, "a", "web"), REVISION),
        Some("2")
    );
}

#[test]
fn old_pods_stay_while_new_ones_are_unavailable() {
    let mut fixture = rolled_out(4);
    change(&mut fixture, |object| {
        object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("2");
    });
    fixture.settle(&Deployments, &key());
    for _ in 0..3 {
        fixture.settle(&Deployments, &key());
    }
    let now: Vec<i64> = sets(&fixture)
        .iter()
        .map(|(_, replicas)| *replicas)
        .collect();
    assert_eq!(now, [3, 2]);
}

#[test]
fn a_rollout_without_progress_times_out() {
    let mut fixture = rolled_out(2);
    change(&mut fixture, |object| {
        object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("2");
    });
    fixture.settle(&Deployments, &key());
    let outcome = fixture.reconcile(&Deployments, &key());
    assert_eq!(outcome.requeue_after, Some(Duration::from_secs(60)));
    fixture.advance(Duration::from_secs(61));
    fixture.settle(&Deployments, &key());
    let object = fixture.get(DEPLOYMENT, "a", "web");
    let progressing = condition(&object, "Progressing").unwrap();
    assert_eq!(
        (text(progressing, "/status"), text(progressing, "/reason")),
        ("False", "ProgressDeadlineExceeded")
    );
}

#[test]
fn a_rollback_reuses_the_old_replica_set() {
    let mut fixture = rolled_out(1);
    let first = sets(&fixture)[0].0.clone();
    change(&mut fixture, |object| {
        object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("2");
    });
    for _ in 0..6 {
        fixture.settle(&Deployments, &key());
        catch_up(&mut fixture);
    }
    change(&mut fixture, |object| {
        object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("1");
    });
    for _ in 0..6 {
        fixture.settle(&Deployments, &key());
        catch_up(&mut fixture);
    }
    let now = sets(&fixture);
    assert_eq!(now.last(), Some(&(first, 1)));
    assert_eq!(
        annotation(&fixture.get(DEPLOYMENT, "a", "web"), REVISION),
        Some("3")
    );
}

#[test]
fn recreate_waits_until_the_old_pods_are_deleted() {
    let mut fixture = rolled_out(1);
    let old = fixture.caches.all(REPLICA_SET).next().unwrap().clone();
    fixture.put(POD, json!({"metadata": {"namespace": "a", "name": "p", "ownerReferences": [controlled_by(REPLICA_SET, &old)]}}));
    change(&mut fixture, |object| {
        object["spec"]["strategy"] = json!({"type": "Recreate"});
        object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("2");
    });
    fixture.settle(&Deployments, &key());
    assert_eq!(
        sets(&fixture)
            .iter()
            .map(|(_, replicas)| *replicas)
            .collect::<Vec<_>>(),
        [0]
    );
    fixture.caches.forget(POD, &Key::new("a", "p"));
    fixture.settle(&Deployments, &key());
    assert_eq!(
        sets(&fixture)
            .iter()
            .map(|(_, replicas)| *replicas)
            .collect::<Vec<_>>(),
        [0, 1]
    );
}

#[test]
fn a_paused_deployment_only_scales() {
    let mut fixture = rolled_out(2);
    change(&mut fixture, |object| {
        object["spec"]["paused"] = json!(true);
        object["spec"]["replicas"] = json!(5);
        object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("2");
    });
    let writes = fixture.settle(&Deployments, &key());
    assert_eq!(
        sets(&fixture)
            .iter()
            .map(|(_, replicas)| *replicas)
            .collect::<Vec<_>>(),
        [5]
    );
    assert_eq!(reasons(&writes), ["ScalingReplicaSet"]);
}

#[test]
fn old_replica_sets_are_kept_up_to_the_history_limit() {
    let mut fixture = rolled_out(1);
    change(&mut fixture, |object| {
        object["spec"]["revisionHistoryLimit"] = json!(1);
    });
    for image in ["2", "3", "4"] {
        change(&mut fixture, |object| {
            object["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        });
        for _ in 0..6 {
            fixture.settle(&Deployments, &key());
            catch_up(&mut fixture);
        }
    }
    fixture.settle(&Deployments, &key());
    assert_eq!(sets(&fixture).len(), 2);
}

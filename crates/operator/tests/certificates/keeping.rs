//! What the replica that leads does.

use std::{collections::BTreeSet, time::Duration};

use runtime::certificates::parse_bundle;
use serde_json::{Value, json};

use crate::ground::{
    CA, CERTS, Ground, HOUR, Kind, configuration, configuration_path, secret_path, tell,
    tell_of_days, until,
};

#[test]
fn the_first_certificate_takes_one_write_an_object_and_then_nothing_is_asked() {
    tell(async {
        let ground = Ground::begin().await;
        let replica = ground.replica(Kind::default());
        ground.until_trusted().await;
        ground.wait(Duration::from_secs(5)).await;
        let asked = replica.asked();
        let expected = [
            ("create secrets 201", 2),
            ("get secrets 200", 1),
            ("list secrets 200", 2),
            ("list validatingwebhookconfigurations 200", 1),
            ("patch validatingwebhookconfigurations 200", 1),
        ];
        assert_eq!(asked, expected.map(|(call, n)| (call.to_owned(), n)).into());
        assert_eq!(replica.probe(), "[+]webhook ok");
        for secret in [CA, CERTS] {
            let found = ground.secret(secret).await.unwrap();
            assert_eq!(
                found["metadata"]["labels"],
                json!({ "vitistack.io/managed-by": "kubevirt-operator" })
            );
            assert_eq!(found["type"], "kubernetes.io/tls");
            let shown = replica.metrics.expose();
            for end in ["not_before", "expiry"] {
                let series = format!(
                    "kubevirt_operator_certificate_{end}_timestamp_seconds{{secret=\"{secret}\"}}"
                );
                assert!(shown.contains(&series), "{shown}");
            }
        }
        ground.wait(HOUR).await;
        assert_eq!(replica.asked(), [].into());
        replica.stop().await;
    });
}

#[test]
fn only_the_bundle_of_the_configuration_is_ours() {
    tell(async {
        let ground = Ground::begin().await;
        let before = ground.configured().await.unwrap();
        let _replica = ground.replica(Kind::default());
        ground.until_trusted().await;
        let mut after = ground.configured().await.unwrap();
        let fields = after["metadata"]["managedFields"].as_array().unwrap();
        let ours: Vec<&Value> = fields
            .iter()
            .filter(|entry| entry["manager"] == "kubevirt-operator")
            .collect();
        let bundle = json!({ "f:clientConfig": { "f:caBundle": {} } });
        let resources = ["machines", "machineclasses", "networkconfigurations"];
        let webhooks = resources.map(|resource| {
            let key = format!("k:{{\"name\":\"{resource}.vitistack.io\"}}");
            (key, bundle.clone())
        });
        let webhooks: serde_json::Map<_, _> = webhooks.into_iter().collect();
        assert_eq!(ours.len(), 1);
        assert_eq!(ours[0]["fieldsV1"], json!({ "f:webhooks": webhooks }));
        for webhook in after["webhooks"].as_array_mut().unwrap() {
            let client = webhook["clientConfig"].as_object_mut().unwrap();
            client.remove("caBundle");
        }
        assert_eq!(after["webhooks"], before["webhooks"]);
        // Who installs it may go on doing so.
        ground.apply(configuration()).await;
        ground.until_trusted().await;
    });
}

#[test]
fn a_restart_and_a_new_leader_write_nothing() {
    tell(async {
        let ground = Ground::begin().await;
        let first = ground.replica(Kind::default());
        ground.until_trusted().await;
        first.stop().await;
        let lists = [
            ("list secrets 200", 2),
            ("list validatingwebhookconfigurations 200", 1),
        ];
        let second = ground.replica(Kind::default());
        ground.wait(HOUR).await;
        assert_eq!(
            second.asked(),
            lists.map(|(call, n)| (call.to_owned(), n)).into()
        );
        second.kill().await;
    });
}

#[test]
fn who_does_not_lead_serves_and_writes_nothing() {
    tell(async {
        let ground = Ground::begin().await;
        let standby = || Kind {
            leads: false,
            ..Kind::default()
        };
        let (one, other) = (ground.replica(standby()), ground.replica(standby()));
        ground.wait(HOUR).await;
        assert!(ground.secret(CERTS).await.is_none());
        // The leader may be one without a webhook, which a rollout ends when this one is ready.
        assert_eq!(one.probe(), "[+]webhook ok");
        one.leads.send(true).unwrap();
        ground.until_trusted().await;
        let known = format!("certificate_expiry_timestamp_seconds{{secret=\"{CERTS}\"}}");
        until("the other to serve it", async || {
            other.metrics.expose().contains(&known)
        })
        .await;
        let writes = other.asked();
        assert!(
            writes.keys().all(|call| call.starts_with("list ")),
            "{writes:?}"
        );
        assert_eq!(one.probe(), "[+]webhook ok");
    });
}

#[test]
fn a_configuration_may_come_later_and_be_emptied_and_replaced() {
    tell(async {
        let ground = Ground::without_configuration().await;
        let replica = ground.replica(Kind::default());
        until("the certificate", async || {
            ground.secret(CERTS).await.is_some()
        })
        .await;
        ground.wait(HOUR).await;
        assert_eq!(replica.probe(), "[+]webhook ok");
        ground.apply(configuration()).await;
        ground.until_trusted().await;
        replica.asked();

        let mut emptied = configuration();
        emptied["webhooks"][0]["clientConfig"]["caBundle"] = "".into();
        ground
            .merge(
                &configuration_path(),
                &json!({ "webhooks": emptied["webhooks"] }),
            )
            .await;
        until("the bundle", async || ground.is_trusted().await).await;
        assert_eq!(
            replica.asked(),
            [("patch validatingwebhookconfigurations 200".to_owned(), 1)].into()
        );

        ground.delete(&configuration_path()).await;
        ground.wait(Duration::from_secs(60)).await;
        ground.apply(configuration()).await;
        ground.until_trusted().await;
    });
}

#[test]
fn a_secret_that_is_deleted_or_spoilt_is_made_again_at_once() {
    tell(async {
        let ground = Ground::begin().await;
        let replica = ground.replica(Kind::default());
        ground.until_trusted().await;
        for secret in [CERTS, CA] {
            let before = ground.part(CERTS, "tls.crt").await;
            ground.delete(&secret_path(secret)).await;
            until("another", async || ground.secret(secret).await.is_some()).await;
            ground.until_trusted().await;
            assert_eq!(replica.probe(), "[+]webhook ok");
            assert_eq!(before == ground.part(CERTS, "tls.crt").await, secret == CA);
            ground.wait(HOUR).await;
            ground.until_trusted().await;
        }
        for (secret, key) in [
            (CERTS, "tls.crt"),
            (CERTS, "tls.key"),
            (CA, "tls.crt"),
            (CA, "tls.key"),
        ] {
            let spoilt = json!({ "data": { key: "bm90aGluZw==" } });
            ground.merge(&secret_path(secret), &spoilt).await;
            assert_eq!(
                replica.probe(),
                "[+]webhook ok",
                "what was served is served on"
            );
            until("another", async || {
                ground.part(secret, key).await != "nothing"
            })
            .await;
            ground.wait(HOUR).await;
            ground.until_trusted().await;
        }
        assert_eq!(
            parse_bundle(&ground.bundle().await).len(),
            4,
            "one for each that was lost"
        );
    });
}

#[test]
fn a_crash_after_any_write_is_caught_up_with() {
    tell(async {
        let ground = Ground::begin().await;
        // Twenty rounds of work of a second each, in the middle of which the process is killed.
        for millis in (0..20).map(|round| round * 3) {
            let replica = ground.replica(Kind::default());
            ground.wait(Duration::from_millis(millis)).await;
            replica.kill().await;
        }
        let replica = ground.replica(Kind::default());
        ground.until_trusted().await;
        ground.wait(HOUR).await;
        assert_eq!(replica.probe(), "[+]webhook ok");
    });
}

#[test]
fn a_year_goes_by_and_the_certificate_is_always_trusted() {
    tell_of_days(async {
        let ground = Ground::begin().await;
        let (leader, standby) = (
            ground.replica(Kind::default()),
            ground.replica(Kind {
                leads: false,
                ..Kind::default()
            }),
        );
        ground.until_trusted().await;
        let (mut leaves, mut authorities) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..365 / 5 {
            ground.leap(5).await;
            assert!(ground.is_trusted().await, "at {}", ground.now());
            leaves.insert(ground.part(CERTS, "tls.crt").await);
            authorities.insert(ground.part(CA, "tls.crt").await);
            assert!(parse_bundle(&ground.bundle().await).len() <= 3);
            assert_eq!(leader.probe(), "[+]webhook ok");
            assert_eq!(standby.probe(), "[+]webhook ok");
        }
        assert_eq!(authorities.len(), 7, "every sixty days");
        assert!(
            (18..=25).contains(&leaves.len()),
            "every twenty days: {}",
            leaves.len()
        );
        let writes: u64 = leader
            .asked()
            .iter()
            .filter(|(call, _)| !call.starts_with("list "))
            .map(|(_, n)| n)
            .sum();
        assert!(writes < 150, "{writes}");
        assert!(standby.asked().keys().all(|call| call.starts_with("list ")));
    });
}

#[test]
fn what_somebody_changes_back_is_not_written_as_fast_as_can_be() {
    tell(async {
        let ground = Ground::begin().await;
        let replica = ground.replica(Kind::default());
        ground.until_trusted().await;
        replica.asked();
        let emptied = json!({ "webhooks": configuration()["webhooks"] });
        // Seconds; fewer where they are real, in which the delay has grown as well.
        let (rounds, expected) = if ground.cluster.is_real() {
            (30, 2..15)
        } else {
            (300, 8..20)
        };
        for _ in 0..rounds {
            if !ground.bundle().await.is_empty() {
                ground.merge(&configuration_path(), &emptied).await;
            }
            ground.wait(Duration::from_secs(1)).await;
        }
        let writes = replica.asked()["patch validatingwebhookconfigurations 200"];
        assert!(expected.contains(&writes), "{writes}");
        // Whoever did it has been stopped.
        if ground.cluster.is_real() {
            ground.until_trusted().await;
        } else {
            ground.wait(HOUR).await;
            assert!(ground.is_trusted().await);
        }
    });
}

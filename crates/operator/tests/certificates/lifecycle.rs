//! Certificate management by the leader.

use std::{collections::BTreeSet, time::Duration};

use runtime::certificates::parse_bundle;
use serde_json::{Value, json};

use crate::scenario::{
    CA, CERTS, CertificateScenario, HOUR, ReplicaOptions, configuration, configuration_path,
    run_scenario, run_scenario_over_days, secret_path, until,
};

#[test]
fn the_first_certificate_costs_one_write_per_object_and_then_no_requests() {
    run_scenario(async {
        let scenario = CertificateScenario::start().await;
        let replica = scenario.replica(ReplicaOptions::default());
        scenario.until_trusted().await;
        scenario.wait(Duration::from_secs(5)).await;
        let requests = replica.take_requests();
        let expected = [
            ("create secrets 201", 2),
            ("get secrets 200", 1),
            ("list secrets 200", 2),
            ("list validatingwebhookconfigurations 200", 1),
            ("patch validatingwebhookconfigurations 200", 1),
        ];
        assert_eq!(
            requests,
            expected.map(|(call, n)| (call.to_owned(), n)).into()
        );
        assert_eq!(replica.probe(), "[+]webhook ok");
        for secret in [CA, CERTS] {
            let found = scenario.secret(secret).await.unwrap();
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
        scenario.wait(HOUR).await;
        assert_eq!(replica.take_requests(), [].into());
        replica.stop().await;
    });
}

#[test]
fn only_the_ca_bundle_of_the_configuration_is_managed() {
    run_scenario(async {
        let scenario = CertificateScenario::start().await;
        let before = scenario.webhook_configuration().await.unwrap();
        let _replica = scenario.replica(ReplicaOptions::default());
        scenario.until_trusted().await;
        let mut after = scenario.webhook_configuration().await.unwrap();
        let fields = after["metadata"]["managedFields"].as_array().unwrap();
        let own_fields: Vec<&Value> = fields
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
        assert_eq!(own_fields.len(), 1);
        assert_eq!(own_fields[0]["fieldsV1"], json!({ "f:webhooks": webhooks }));
        for webhook in after["webhooks"].as_array_mut().unwrap() {
            let client = webhook["clientConfig"].as_object_mut().unwrap();
            client.remove("caBundle");
        }
        assert_eq!(after["webhooks"], before["webhooks"]);
        // The manifest can be applied again.
        scenario.apply(configuration()).await;
        scenario.until_trusted().await;
    });
}

#[test]
fn a_restart_and_a_new_leader_write_nothing() {
    run_scenario(async {
        let scenario = CertificateScenario::start().await;
        let first = scenario.replica(ReplicaOptions::default());
        scenario.until_trusted().await;
        first.stop().await;
        let lists = [
            ("list secrets 200", 2),
            ("list validatingwebhookconfigurations 200", 1),
        ];
        let second = scenario.replica(ReplicaOptions::default());
        scenario.wait(HOUR).await;
        assert_eq!(
            second.take_requests(),
            lists.map(|(call, n)| (call.to_owned(), n)).into()
        );
        second.kill().await;
    });
}

#[test]
fn a_standby_replica_serves_and_writes_nothing() {
    run_scenario(async {
        let scenario = CertificateScenario::start().await;
        let standby = || ReplicaOptions {
            leads: false,
            ..ReplicaOptions::default()
        };
        let (one, other) = (scenario.replica(standby()), scenario.replica(standby()));
        scenario.wait(HOUR).await;
        assert!(scenario.secret(CERTS).await.is_none());
        // The leader may be an old replica without a webhook, which a rollout ends once this one is
        // ready.
        assert_eq!(one.probe(), "[+]webhook ok");
        one.leads.send(true).unwrap();
        scenario.until_trusted().await;
        let known = format!("certificate_expiry_timestamp_seconds{{secret=\"{CERTS}\"}}");
        until("the other to serve it", async || {
            other.metrics.expose().contains(&known)
        })
        .await;
        let writes = other.take_requests();
        assert!(
            writes.keys().all(|call| call.starts_with("list ")),
            "{writes:?}"
        );
        assert_eq!(one.probe(), "[+]webhook ok");
    });
}

#[test]
fn the_configuration_may_be_created_later_emptied_and_replaced() {
    run_scenario(async {
        let scenario = CertificateScenario::without_configuration().await;
        let replica = scenario.replica(ReplicaOptions::default());
        until("the certificate", async || {
            scenario.secret(CERTS).await.is_some()
        })
        .await;
        scenario.wait(HOUR).await;
        assert_eq!(replica.probe(), "[+]webhook ok");
        scenario.apply(configuration()).await;
        scenario.until_trusted().await;
        replica.take_requests();

        let mut emptied = configuration();
        emptied["webhooks"][0]["clientConfig"]["caBundle"] = "".into();
        scenario
            .merge(
                &configuration_path(),
                &json!({ "webhooks": emptied["webhooks"] }),
            )
            .await;
        until("the bundle", async || scenario.is_trusted().await).await;
        assert_eq!(
            replica.take_requests(),
            [("patch validatingwebhookconfigurations 200".to_owned(), 1)].into()
        );

        scenario.delete(&configuration_path()).await;
        scenario.wait(Duration::from_secs(60)).await;
        scenario.apply(configuration()).await;
        scenario.until_trusted().await;
    });
}

#[test]
fn a_deleted_or_corrupted_secret_is_recreated_immediately() {
    run_scenario(async {
        let scenario = CertificateScenario::start().await;
        let replica = scenario.replica(ReplicaOptions::default());
        scenario.until_trusted().await;
        for secret in [CERTS, CA] {
            let before = scenario.secret_value(CERTS, "tls.crt").await;
            scenario.delete(&secret_path(secret)).await;
            until("another", async || scenario.secret(secret).await.is_some()).await;
            scenario.until_trusted().await;
            assert_eq!(replica.probe(), "[+]webhook ok");
            assert_eq!(
                before == scenario.secret_value(CERTS, "tls.crt").await,
                secret == CA
            );
            scenario.wait(HOUR).await;
            scenario.until_trusted().await;
        }
        for (secret, key) in [
            (CERTS, "tls.crt"),
            (CERTS, "tls.key"),
            (CA, "tls.crt"),
            (CA, "tls.key"),
        ] {
            let corrupted = json!({ "data": { key: "bm90aGluZw==" } });
            scenario.merge(&secret_path(secret), &corrupted).await;
            assert_eq!(
                replica.probe(),
                "[+]webhook ok",
                "what was served is served on"
            );
            until("another", async || {
                scenario.secret_value(secret, key).await != "nothing"
            })
            .await;
            scenario.wait(HOUR).await;
            scenario.until_trusted().await;
        }
        assert_eq!(
            parse_bundle(&scenario.bundle().await).len(),
            4,
            "one for each that was lost"
        );
    });
}

#[test]
fn a_crash_after_any_write_is_recovered_from() {
    run_scenario(async {
        let scenario = CertificateScenario::start().await;
        // Twenty runs of a second each, killed at different moments.
        for millis in (0..20).map(|round| round * 3) {
            let replica = scenario.replica(ReplicaOptions::default());
            scenario.wait(Duration::from_millis(millis)).await;
            replica.kill().await;
        }
        let replica = scenario.replica(ReplicaOptions::default());
        scenario.until_trusted().await;
        scenario.wait(HOUR).await;
        assert_eq!(replica.probe(), "[+]webhook ok");
    });
}

#[test]
fn the_certificate_is_trusted_throughout_a_year_of_rotations() {
    run_scenario_over_days(async {
        let scenario = CertificateScenario::start().await;
        let (leader, standby) = (
            scenario.replica(ReplicaOptions::default()),
            scenario.replica(ReplicaOptions {
                leads: false,
                ..ReplicaOptions::default()
            }),
        );
        scenario.until_trusted().await;
        let (mut leaves, mut authorities) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..365 / 5 {
            scenario.advance_days(5).await;
            assert!(scenario.is_trusted().await, "at {}", scenario.now());
            leaves.insert(scenario.secret_value(CERTS, "tls.crt").await);
            authorities.insert(scenario.secret_value(CA, "tls.crt").await);
            assert!(parse_bundle(&scenario.bundle().await).len() <= 3);
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
            .take_requests()
            .iter()
            .filter(|(call, _)| !call.starts_with("list "))
            .map(|(_, n)| n)
            .sum();
        assert!(writes < 150, "{writes}");
        assert!(
            standby
                .take_requests()
                .keys()
                .all(|call| call.starts_with("list "))
        );
    });
}

#[test]
fn a_repeatedly_reverted_write_is_repeated_with_a_delay() {
    run_scenario(async {
        let scenario = CertificateScenario::start().await;
        let replica = scenario.replica(ReplicaOptions::default());
        scenario.until_trusted().await;
        replica.take_requests();
        let emptied = json!({ "webhooks": configuration()["webhooks"] });
        // Fewer seconds in real time, where the delay is shorter as well.
        let (rounds, expected) = if scenario.cluster.is_real() {
            (30, 2..15)
        } else {
            (300, 8..20)
        };
        for _ in 0..rounds {
            if !scenario.bundle().await.is_empty() {
                scenario.merge(&configuration_path(), &emptied).await;
            }
            scenario.wait(Duration::from_secs(1)).await;
        }
        let writes = replica.take_requests()["patch validatingwebhookconfigurations 200"];
        assert!(expected.contains(&writes), "{writes}");
        scenario.wait(HOUR).await;
        scenario.until_trusted().await;
    });
}

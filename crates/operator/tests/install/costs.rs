//! Number of requests of an installation.

use std::collections::BTreeMap;

use kube::{
    Api,
    api::{DynamicObject, ListParams},
    discovery::verbs,
};
use rstest::rstest;

use crate::{
    harness::objects::list_if_served,
    inventory::{discover, is_short_lived},
    releases::Source,
    scenario::{InstallScenario, run_scenario},
};

/// Number of objects that the operator created from a strategy, by resource. Objects that controllers
/// derive from them have owners and are not counted.
async fn managed(scenario: &InstallScenario) -> BTreeMap<String, u64> {
    let client = scenario.client.clone();
    let discovery = discover(&client).await;
    let labels = ListParams::default().labels("app.kubernetes.io/managed-by=virt-operator");
    let mut found = BTreeMap::new();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            let kind = resource.kind.as_str();
            if capabilities.supports_operation(verbs::LIST)
                && kind != "Pod"
                && !is_short_lived(kind)
            {
                let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
                let objects = list_if_served(&api, &labels).await.into_iter().flatten();
                let own = objects.filter(|object| {
                    let labels = object.metadata.labels.as_ref().unwrap();
                    object.metadata.owner_references.is_none()
                        && !labels.contains_key("kubevirt.io/install-strategy")
                });
                found.insert(resource.plural, u64::try_from(own.count()).unwrap());
            }
        }
    }
    found.retain(|_, objects| *objects > 0);
    found
}

#[rstest]
#[case::fixtures(Source::Fixtures, 8, 86)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData, 9, 243)]
fn every_object_of_a_release_costs_one_write_and_then_no_requests(
    #[case] source: Source,
    #[case] max_status_writes: u64,
    #[case] expected: u64,
) {
    run_scenario(async {
        let scenario = InstallScenario::start_with(|setup| source.set_up(setup)).await;
        scenario.wait(60).await;
        scenario.take_requests();
        scenario.install("v1.9.0").await;
        scenario.until_deployed("v1.9.0").await;
        scenario.wait(60).await;
        let mut written = scenario.take_writes();
        let objects = managed(&scenario).await;
        // The finalizer, and one status write per reported step.
        assert_eq!(written.remove("patch kubevirts"), Some(1));
        let status_writes = written.remove("patch kubevirts/status").unwrap();
        assert!(
            status_writes <= max_status_writes,
            "{status_writes} writes to the status"
        );
        assert_eq!(written.remove("patch namespaces"), Some(1));
        // The Job is deleted when it has completed.
        assert_eq!(written.remove("create jobs"), Some(1));
        assert_eq!(written.remove("delete jobs"), Some(1));
        // So is the temporary webhook that refuses new kinds until the new API is up.
        let webhooks = "validatingwebhookconfigurations";
        assert_eq!(written.remove(&format!("delete {webhooks}")), Some(1));
        *written.get_mut(&format!("patch {webhooks}")).unwrap() -= 1;
        let once: BTreeMap<String, u64> = objects
            .into_iter()
            .map(|(resource, objects)| (format!("patch {resource}"), objects))
            .collect();
        assert_eq!(written, once);
        assert_eq!(written.values().sum::<u64>(), expected);

        scenario.take_requests();
        scenario.wait(3600).await;
        assert_eq!(scenario.take_requests(), [].into());
    });
}

#[test]
fn a_restart_of_the_operator_costs_the_initial_reads_only() {
    run_scenario(async {
        let mut scenario = InstallScenario::start().await;
        scenario.install("v1.9.0").await;
        scenario.until_deployed("v1.9.0").await;
        scenario.wait(60).await;
        scenario.stop_operator().await;
        scenario.calls.take();
        scenario.start_operator();
        scenario.wait(60).await;
        assert_eq!(scenario.take_writes(), [].into());
    });
}

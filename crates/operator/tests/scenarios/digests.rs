//! Digests of cloud-init data, which reveal a change but not the data.

use http::Method;
use kubevirt_operator::machine::{KeySecret, Options};
use serde_json::{Value, json};

use crate::{
    fault_injection::Fault,
    runner::{run_scenario, run_scenario_in_sandbox},
    scenario::{Scenario, condition},
};

const DIGEST: &str = "vitistack.io/cloud-init";
/// Generates a key.
type Draw = fn() -> Option<[u8; 32]>;

const FIRST: Draw = || Some([1; 32]);
const SECOND: Draw = || Some([2; 32]);

const KEY: &str = "kubevirt-operator-cloud-init-key";

/// Stores the key in the namespace of the scenario, so that scenarios on one cluster do not share it.
pub(crate) fn keyed_by(namespace: &str, draw: Draw) -> impl FnOnce(&mut Options) + use<> {
    let namespace = namespace.to_owned();
    move |options| options.key_secret = Some(KeySecret { namespace, draw })
}

fn spec(password: &str) -> Value {
    let user_data = format!("#cloud-config\npassword: {password}\n");
    json!({ "template": "small", "cloudInit": { "userData": user_data } })
}

fn digest_on(vm: &Value) -> &str {
    let annotations = &vm["spec"]["template"]["metadata"]["annotations"];
    annotations[DIGEST].as_str().unwrap()
}

async fn digest(scenario: &Scenario) -> String {
    digest_on(&scenario.get("VirtualMachine", "web").await).to_owned()
}

/// Starts a guest, with an operator that generates its key by `draw`, if given.
async fn running(draw: Option<Draw>) -> Scenario {
    let mut scenario = Scenario::without_operator().await;
    start(&mut scenario, draw);
    scenario.create_machine("web", spec("1234")).await;
    scenario.until_phase("web", "Running").await;
    scenario
}

fn start(scenario: &mut Scenario, draw: Option<Draw>) {
    match draw {
        Some(draw) => {
            let keyed = keyed_by(&scenario.namespace, draw);
            scenario.start_operator_with(keyed);
        }
        None => scenario.start_operator(),
    }
}

/// Starts the next operator, and asserts that it does not change the guest, its VirtualMachine and its
/// Secret.
async fn start_next(scenario: &mut Scenario, draw: Option<Draw>) {
    let vm = scenario.get("VirtualMachine", "web").await;
    let instance = scenario.get("VirtualMachineInstance", "web").await;
    let data = scenario.get("Secret", "web-cloud-init").await;
    scenario.stop_operator().await;
    scenario.calls.take();
    start(scenario, draw);
    scenario.until_operator_is_ready().await;
    scenario.wait(40).await;
    assert_eq!(scenario.writes("virtualmachines"), 0);
    let after = scenario.get("VirtualMachine", "web").await;
    assert_eq!(after["spec"], vm["spec"]);
    assert_eq!(
        scenario.get("Secret", "web-cloud-init").await["metadata"]["resourceVersion"],
        data["metadata"]["resourceVersion"]
    );
    assert_eq!(
        scenario.get("VirtualMachineInstance", "web").await["metadata"]["uid"],
        instance["metadata"]["uid"]
    );
    assert_no_restart(scenario).await;
}

async fn assert_no_restart(scenario: &Scenario) {
    let machine = scenario.get("Machine", "web").await;
    assert_ne!(condition(&machine, "RestartRequired")["status"], "True");
    assert_eq!(condition(&machine, "Ready")["status"], "True");
}

/// Changes the data, and asserts that the change is detected.
async fn assert_change_detected(scenario: &Scenario) {
    let before = digest(scenario).await;
    scenario.patch_spec("web", spec("1235")).await;
    scenario
        .until_condition("web", "RestartRequired", "True")
        .await;
    assert_ne!(digest(scenario).await, before);
}

#[test]
fn a_digest_is_keyed_and_the_key_is_created_once() {
    run_scenario(async {
        let mut scenario = running(Some(FIRST)).await;
        let before = digest(&scenario).await;
        assert!(before.starts_with("hmac-"), "{before}");
        let secret = scenario.get("Secret", KEY).await;
        assert_eq!(secret["immutable"], true);

        // The next operator would generate another key, but uses the existing one.
        start_next(&mut scenario, Some(SECOND)).await;
        assert_eq!(scenario.get("Secret", KEY).await["data"], secret["data"]);
        assert_change_detected(&scenario).await;
        let after = digest(&scenario).await;
        assert_eq!(
            after.rsplit_once('-').unwrap().0,
            before.rsplit_once('-').unwrap().0
        );
    });
}

#[test]
fn the_key_costs_two_requests_and_none_for_a_machine() {
    run_scenario(async {
        let mut scenario = Scenario::without_operator().await;
        start(&mut scenario, Some(FIRST));
        scenario.until_operator_is_ready().await;
        let secrets = |scenario: &Scenario| {
            let calls = scenario.calls.take().into_iter();
            let of_secrets = calls.filter(|((verb, resource, _), _)| {
                *resource == "secrets" && ["get", "create", "patch"].contains(verb)
            });
            of_secrets.map(|(_, count)| count).sum::<u64>()
        };
        scenario.wait(2).await;
        assert_eq!(secrets(&scenario), 2);
        scenario.create_machine("web", spec("1234")).await;
        scenario.until_phase("web", "Running").await;
        scenario.wait(3).await;
        // The Secret of its cloud-init data.
        assert_eq!(secrets(&scenario), 1);
        scenario.stop_operator().await;
        scenario.calls.take();
        start(&mut scenario, Some(FIRST));
        scenario.until_operator_is_ready().await;
        scenario.wait(40).await;
        assert_eq!(secrets(&scenario), 1);
    });
}

#[test]
fn unkeyed_digests_are_kept_until_the_guest_stops() {
    run_scenario(async {
        let mut scenario = running(None).await;
        let plain = digest(&scenario).await;
        assert!(!plain.starts_with("hmac-"), "{plain}");
        start_next(&mut scenario, Some(FIRST)).await;
        assert_eq!(digest(&scenario).await, plain);

        scenario
            .patch_spec("web", json!({ "powerState": "Stopped" }))
            .await;
        scenario.until_phase("web", "Stopped").await;
        scenario
            .until("VirtualMachine", "web", |vm| {
                digest_on(vm).starts_with("hmac-")
            })
            .await;
        scenario
            .patch_spec("web", json!({ "powerState": "Running" }))
            .await;
        scenario.until_phase("web", "Running").await;
        assert_no_restart(&scenario).await;
    });
}

#[test]
fn a_requested_restart_replaces_an_unkeyed_digest() {
    run_scenario(async {
        let mut scenario = running(None).await;
        start_next(&mut scenario, Some(FIRST)).await;
        let old = scenario.get("VirtualMachineInstance", "web").await;
        scenario
            .patch_spec("web", json!({ "restartedAt": "2026-01-01T00:00:00Z" }))
            .await;
        let new = scenario
            .until("VirtualMachineInstance", "web", |instance| {
                instance["status"]["phase"] == "Running"
                    && instance["metadata"]["uid"] != old["metadata"]["uid"]
            })
            .await;
        let recorded = new["metadata"]["annotations"][DIGEST].as_str().unwrap();
        assert!(recorded.starts_with("hmac-"), "{recorded}");
        assert_eq!(digest(&scenario).await, recorded);
        scenario.until_phase("web", "Running").await;
        scenario.wait(10).await;
        assert_no_restart(&scenario).await;
    });
}

#[test]
fn unkeyed_digests_are_replaced_when_the_data_changes() {
    run_scenario(async {
        let mut scenario = running(None).await;
        start_next(&mut scenario, Some(FIRST)).await;
        assert_change_detected(&scenario).await;
        assert!(digest(&scenario).await.starts_with("hmac-"));
    });
}

#[test]
fn a_lost_key_restarts_no_guest_and_changes_are_still_detected() {
    run_scenario(async {
        let mut scenario = running(Some(FIRST)).await;
        let before = digest(&scenario).await;
        scenario.delete("Secret", KEY).await;
        start_next(&mut scenario, Some(SECOND)).await;
        assert_eq!(digest(&scenario).await, before);
        assert_change_detected(&scenario).await;
        let after = digest(&scenario).await;
        let key = |digest: &str| digest.rsplit_once('-').unwrap().0.to_owned();
        assert_ne!(key(&after), key(&before));
    });
}

#[test]
fn machines_are_reconciled_without_the_right_to_read_the_key() {
    run_scenario(async {
        let mut scenario = running(Some(FIRST)).await;
        let before = digest(&scenario).await;
        let refuse = |method: &Method, path: &str| {
            let is_key = path.ends_with(KEY) && method == Method::GET;
            is_key.then_some(Fault::Status(403))
        };
        scenario.faults.inject(refuse);
        start_next(&mut scenario, Some(SECOND)).await;
        assert_eq!(digest(&scenario).await, before);
        assert_change_detected(&scenario).await;
        assert!(!digest(&scenario).await.starts_with("hmac-"));
    });
}

#[test]
fn a_later_granted_right_to_the_key_is_used_within_a_minute() {
    run_scenario_in_sandbox("it takes more than a minute", async {
        let mut scenario = Scenario::without_operator().await;
        scenario
            .faults
            .inject(|_, path| path.ends_with(KEY).then_some(Fault::Status(403)));
        start(&mut scenario, Some(FIRST));
        let mut stopped = spec("1234");
        stopped["powerState"] = "Stopped".into();
        scenario.create_machine("web", stopped).await;
        scenario.until_phase("web", "Stopped").await;
        assert!(!digest(&scenario).await.starts_with("hmac-"));
        scenario.faults.clear();
        scenario.wait(100).await;
        assert!(digest(&scenario).await.starts_with("hmac-"));
    });
}

#[test]
fn errors_reading_the_key_delay_machines_for_seconds_only() {
    run_scenario(async {
        let mut scenario = Scenario::without_operator().await;
        scenario
            .faults
            .inject(|_, path| path.ends_with(KEY).then_some(Fault::Status(500)));
        start(&mut scenario, Some(FIRST));
        scenario.create_machine("web", spec("1234")).await;
        scenario.until_phase("web", "Running").await;
        assert!(!digest(&scenario).await.starts_with("hmac-"));
    });
}

#[test]
fn a_secret_without_a_key_is_left_alone_and_recreated_after_its_deletion() {
    run_scenario_in_sandbox("it takes more than a minute", async {
        let mut scenario = Scenario::without_operator().await;
        scenario
            .create(
                "Secret",
                json!({ "metadata": { "name": KEY }, "data": { "key": "c2hvcnQ=" } }),
            )
            .await;
        start(&mut scenario, Some(FIRST));
        scenario.create_machine("web", spec("1234")).await;
        scenario.until_phase("web", "Running").await;
        assert!(!digest(&scenario).await.starts_with("hmac-"));
        assert_eq!(scenario.get("Secret", KEY).await["data"]["key"], "c2hvcnQ=");
        scenario.delete("Secret", KEY).await;
        scenario.wait(100).await;
        assert_ne!(scenario.get("Secret", KEY).await["data"]["key"], "c2hvcnQ=");
        assert_no_restart(&scenario).await;
    });
}

#[test]
fn without_a_namespace_for_the_key_digests_are_unkeyed() {
    run_scenario(async {
        let mut scenario = Scenario::without_operator().await;
        scenario.start_operator_with(keyed_by("nowhere", FIRST));
        scenario.create_machine("web", spec("1234")).await;
        scenario.until_phase("web", "Running").await;
        let digest = digest(&scenario).await;
        assert!(!digest.starts_with("hmac-"), "{digest}");
    });
}

#[test]
fn without_a_watch_on_secrets_a_lost_key_restarts_no_guest() {
    run_scenario(async {
        let mut scenario = running(Some(FIRST)).await;
        let before = digest(&scenario).await;
        scenario.delete("Secret", KEY).await;
        scenario.stop_operator().await;
        let keyed = keyed_by(&scenario.namespace, SECOND);
        scenario.start_operator_with(|options| {
            keyed(options);
            options.watch_secrets = false;
        });
        scenario.until_operator_is_ready().await;
        scenario.wait(40).await;
        assert_eq!(digest(&scenario).await, before);
        assert_no_restart(&scenario).await;
        // The Secret still has the new data for the next start.
        scenario.patch_spec("web", spec("1235")).await;
        let spec = json!({ "restartedAt": "2026-01-01T00:00:00Z" });
        scenario.patch_spec("web", spec).await;
        scenario
            .until("Secret", "web-cloud-init", |secret| {
                let data = secret["data"]["userdata"].as_str().unwrap();
                data.ends_with("MTIzNQo=")
            })
            .await;
    });
}

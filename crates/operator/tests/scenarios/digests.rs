//! Digests of cloud-init data, which show a change and not the data.

use http::Method;
use kubevirt_operator::machine::{KeySecret, Options};
use serde_json::{Value, json};

use crate::{
    ground::{tell, tell_in_sandbox},
    line::Fault,
    story::{Story, condition},
};

const DIGEST: &str = "vitistack.io/cloud-init";
/// Draws a key.
type Draw = fn() -> Option<[u8; 32]>;

const FIRST: Draw = || Some([1; 32]);
const SECOND: Draw = || Some([2; 32]);

const KEY: &str = "kubevirt-operator-cloud-init-key";

/// Keeps the key in the namespace of the story, so that stories on one cluster do not share it.
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

async fn digest(story: &Story) -> String {
    digest_on(&story.get("VirtualMachine", "web").await).to_owned()
}

/// Begins with a guest that runs, and an operator that draws its key from `draw`, if it has one.
async fn running(draw: Option<Draw>) -> Story {
    let mut story = Story::without_operator().await;
    start(&mut story, draw);
    story.machine("web", spec("1234")).await;
    story.until_phase("web", "Running").await;
    story
}

fn start(story: &mut Story, draw: Option<Draw>) {
    match draw {
        Some(draw) => {
            let keyed = keyed_by(&story.namespace, draw);
            story.start_operator_with(keyed);
        }
        None => story.start_operator(),
    }
}

/// Starts the next operator, and expects that it leaves the guest, its VirtualMachine and its Secret alone.
async fn start_next(story: &mut Story, draw: Option<Draw>) {
    let vm = story.get("VirtualMachine", "web").await;
    let instance = story.get("VirtualMachineInstance", "web").await;
    let data = story.get("Secret", "web-cloud-init").await;
    story.stop_operator().await;
    story.calls.take();
    start(story, draw);
    story.until_operator_is_ready().await;
    story.wait(40).await;
    assert_eq!(story.writes("virtualmachines"), 0);
    let after = story.get("VirtualMachine", "web").await;
    assert_eq!(after["spec"], vm["spec"]);
    assert_eq!(
        story.get("Secret", "web-cloud-init").await["metadata"]["resourceVersion"],
        data["metadata"]["resourceVersion"]
    );
    assert_eq!(
        story.get("VirtualMachineInstance", "web").await["metadata"]["uid"],
        instance["metadata"]["uid"]
    );
    expect_no_restart(story).await;
}

async fn expect_no_restart(story: &Story) {
    let machine = story.get("Machine", "web").await;
    assert_ne!(condition(&machine, "RestartRequired")["status"], "True");
    assert_eq!(condition(&machine, "Ready")["status"], "True");
}

/// Changes the data, and expects that this is noticed.
async fn expect_change_noticed(story: &Story) {
    let before = digest(story).await;
    story.change("web", spec("1235")).await;
    story
        .until_condition("web", "RestartRequired", "True")
        .await;
    assert_ne!(digest(story).await, before);
}

#[test]
fn a_digest_is_keyed_and_the_key_is_created_once() {
    tell(async {
        let mut story = running(Some(FIRST)).await;
        let before = digest(&story).await;
        assert!(before.starts_with("hmac-"), "{before}");
        let secret = story.get("Secret", KEY).await;
        assert_eq!(secret["immutable"], true);

        // The next operator would draw another key, but uses the one that is there.
        start_next(&mut story, Some(SECOND)).await;
        assert_eq!(story.get("Secret", KEY).await["data"], secret["data"]);
        expect_change_noticed(&story).await;
        let after = digest(&story).await;
        assert_eq!(
            after.rsplit_once('-').unwrap().0,
            before.rsplit_once('-').unwrap().0
        );
    });
}

#[test]
fn the_key_costs_two_requests_and_none_for_a_machine() {
    tell(async {
        let mut story = Story::without_operator().await;
        start(&mut story, Some(FIRST));
        story.until_operator_is_ready().await;
        let secrets = |story: &Story| {
            let calls = story.calls.take().into_iter();
            let of_secrets = calls.filter(|((verb, resource, _), _)| {
                *resource == "secrets" && ["get", "create", "patch"].contains(verb)
            });
            of_secrets.map(|(_, count)| count).sum::<u64>()
        };
        story.wait(2).await;
        assert_eq!(secrets(&story), 2);
        story.machine("web", spec("1234")).await;
        story.until_phase("web", "Running").await;
        story.wait(3).await;
        // Its own Secret.
        assert_eq!(secrets(&story), 1);
        story.stop_operator().await;
        story.calls.take();
        start(&mut story, Some(FIRST));
        story.until_operator_is_ready().await;
        story.wait(40).await;
        assert_eq!(secrets(&story), 1);
    });
}

#[test]
fn digests_without_a_key_are_kept_until_the_guest_stops() {
    tell(async {
        let mut story = running(None).await;
        let plain = digest(&story).await;
        assert!(!plain.starts_with("hmac-"), "{plain}");
        start_next(&mut story, Some(FIRST)).await;
        assert_eq!(digest(&story).await, plain);

        story
            .change("web", json!({ "powerState": "Stopped" }))
            .await;
        story.until_phase("web", "Stopped").await;
        story
            .until("VirtualMachine", "web", |vm| {
                digest_on(vm).starts_with("hmac-")
            })
            .await;
        story
            .change("web", json!({ "powerState": "Running" }))
            .await;
        story.until_phase("web", "Running").await;
        expect_no_restart(&story).await;
    });
}

#[test]
fn a_restart_that_is_asked_for_makes_the_digest_a_keyed_one() {
    tell(async {
        let mut story = running(None).await;
        start_next(&mut story, Some(FIRST)).await;
        let old = story.get("VirtualMachineInstance", "web").await;
        story
            .change("web", json!({ "restartedAt": "2026-01-01T00:00:00Z" }))
            .await;
        let new = story
            .until("VirtualMachineInstance", "web", |instance| {
                instance["status"]["phase"] == "Running"
                    && instance["metadata"]["uid"] != old["metadata"]["uid"]
            })
            .await;
        let recorded = new["metadata"]["annotations"][DIGEST].as_str().unwrap();
        assert!(recorded.starts_with("hmac-"), "{recorded}");
        assert_eq!(digest(&story).await, recorded);
        story.until_phase("web", "Running").await;
        story.wait(10).await;
        expect_no_restart(&story).await;
    });
}

#[test]
fn digests_without_a_key_become_keyed_when_the_data_changes() {
    tell(async {
        let mut story = running(None).await;
        start_next(&mut story, Some(FIRST)).await;
        expect_change_noticed(&story).await;
        assert!(digest(&story).await.starts_with("hmac-"));
    });
}

#[test]
fn a_lost_key_restarts_no_guest_and_changes_are_still_noticed() {
    tell(async {
        let mut story = running(Some(FIRST)).await;
        let before = digest(&story).await;
        story.delete("Secret", KEY).await;
        start_next(&mut story, Some(SECOND)).await;
        assert_eq!(digest(&story).await, before);
        expect_change_noticed(&story).await;
        let after = digest(&story).await;
        let key = |digest: &str| digest.rsplit_once('-').unwrap().0.to_owned();
        assert_ne!(key(&after), key(&before));
    });
}

#[test]
fn without_the_right_to_read_the_key_machines_go_on_until_it_is_granted() {
    tell(async {
        let mut story = running(Some(FIRST)).await;
        let before = digest(&story).await;
        let refuse = |method: &Method, path: &str| {
            let is_key = path.ends_with(KEY) && method == Method::GET;
            is_key.then_some(Fault::Status(403))
        };
        story.line.fail(refuse);
        start_next(&mut story, Some(SECOND)).await;
        assert_eq!(digest(&story).await, before);
        expect_change_noticed(&story).await;
        assert!(!digest(&story).await.starts_with("hmac-"));
    });
}

#[test]
fn a_right_to_the_key_that_is_granted_later_is_used_within_a_minute() {
    tell_in_sandbox("it takes more than a minute", async {
        let mut story = Story::without_operator().await;
        story
            .line
            .fail(|_, path| path.ends_with(KEY).then_some(Fault::Status(403)));
        start(&mut story, Some(FIRST));
        let mut stopped = spec("1234");
        stopped["powerState"] = "Stopped".into();
        story.machine("web", stopped).await;
        story.until_phase("web", "Stopped").await;
        assert!(!digest(&story).await.starts_with("hmac-"));
        story.line.mend();
        story.wait(100).await;
        assert!(digest(&story).await.starts_with("hmac-"));
    });
}

#[test]
fn a_key_that_cannot_be_read_for_errors_delays_machines_for_seconds_only() {
    tell(async {
        let mut story = Story::without_operator().await;
        story
            .line
            .fail(|_, path| path.ends_with(KEY).then_some(Fault::Status(500)));
        start(&mut story, Some(FIRST));
        story.machine("web", spec("1234")).await;
        story.until_phase("web", "Running").await;
        assert!(!digest(&story).await.starts_with("hmac-"));
    });
}

#[test]
fn a_secret_that_holds_no_key_is_left_alone_and_replaced_once_it_is_deleted() {
    tell_in_sandbox("it takes more than a minute", async {
        let mut story = Story::without_operator().await;
        story
            .create(
                "Secret",
                json!({ "metadata": { "name": KEY }, "data": { "key": "c2hvcnQ=" } }),
            )
            .await;
        start(&mut story, Some(FIRST));
        story.machine("web", spec("1234")).await;
        story.until_phase("web", "Running").await;
        assert!(!digest(&story).await.starts_with("hmac-"));
        assert_eq!(story.get("Secret", KEY).await["data"]["key"], "c2hvcnQ=");
        story.delete("Secret", KEY).await;
        story.wait(100).await;
        assert_ne!(story.get("Secret", KEY).await["data"]["key"], "c2hvcnQ=");
        expect_no_restart(&story).await;
    });
}

#[test]
fn without_a_namespace_for_the_key_machines_run_and_digests_are_not_keyed() {
    tell(async {
        let mut story = Story::without_operator().await;
        story.start_operator_with(keyed_by("nowhere", FIRST));
        story.machine("web", spec("1234")).await;
        story.until_phase("web", "Running").await;
        let digest = digest(&story).await;
        assert!(!digest.starts_with("hmac-"), "{digest}");
    });
}

#[test]
fn where_secrets_are_not_watched_a_lost_key_restarts_no_guest() {
    tell(async {
        let mut story = running(Some(FIRST)).await;
        let before = digest(&story).await;
        story.delete("Secret", KEY).await;
        story.stop_operator().await;
        let keyed = keyed_by(&story.namespace, SECOND);
        story.start_operator_with(|options| {
            keyed(options);
            options.watch_secrets = false;
        });
        story.until_operator_is_ready().await;
        story.wait(40).await;
        assert_eq!(digest(&story).await, before);
        expect_no_restart(&story).await;
        // The data that the guest finds when it starts is right all the same.
        story.change("web", spec("1235")).await;
        let spec = json!({ "restartedAt": "2026-01-01T00:00:00Z" });
        story.change("web", spec).await;
        story
            .until("Secret", "web-cloud-init", |secret| {
                let data = secret["data"]["userdata"].as_str().unwrap();
                data.ends_with("MTIzNQo=")
            })
            .await;
    });
}

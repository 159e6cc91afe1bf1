//! NetworkConfiguration planner: scenarios and properties.

use api::labels;
use k8s_openapi::jiff::Timestamp;
use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::machine::{ErrorType, Part};

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn now() -> Time {
    Time(Timestamp::from_second(1_800_000_000).unwrap())
}

/// A NetworkConfiguration and its surroundings, which execute plans.
#[derive(Clone, Debug)]
struct World {
    network: Option<NetworkConfiguration>,
    attachment: Option<NetworkAttachmentDefinition>,
    users: Vec<String>,
    multus: bool,
    served: ServedFields,
    refusal: Option<Refusal>,
}

impl World {
    fn new(users: &[&str]) -> Self {
        let network = object(json!({
            "apiVersion": "", "kind": "",
            "metadata": {"name": "prod", "namespace": "shop", "uid": "n1", "generation": 4},
            "spec": {"bridge": "br0", "vlan": 7},
        }));
        Self {
            network: Some(network),
            attachment: None,
            users: users.iter().map(ToString::to_string).collect(),
            multus: true,
            served: ServedFields::default(),
            refusal: None,
        }
    }

    fn settled(users: &[&str]) -> Self {
        let mut world = Self::new(users);
        world.settle();
        world
    }

    fn plan(&self) -> Plan {
        let observed = Observed {
            network: self.network(),
            attachment: self.attachment.as_ref().filter(|_| self.multus),
            users: self.users.clone(),
            multus: self.multus,
            served: self.served.clone(),
            refusal: self.refusal.as_ref(),
        };
        plan(&observed, &now())
    }

    /// Executes the plan. False if there was nothing to do.
    fn turn(&mut self) -> bool {
        let Plan { steps, status, .. } = self.plan();
        let written = serde_json::to_value(&status).unwrap();
        assert_eq!(crate::null::find(&written), None);
        let network = self.network.as_mut().unwrap();
        let is_status_changed = network.status.clone().unwrap_or_default() != status;
        network.status = Some(status);
        let is_done = !steps.is_empty();
        for step in steps {
            self.carry_out(step.action);
        }
        is_status_changed || is_done || self.pass()
    }

    fn carry_out(&mut self, action: Action) {
        if let Action::Create(object) | Action::Recreate(object) | Action::Apply { object, .. } =
            &action
        {
            let body = serde_json::to_value(object).unwrap();
            assert_eq!(crate::null::find(&body), None);
        }
        let network = self.network.as_mut().unwrap();
        match action {
            Action::ApplyNetwork {
                with_finalizer,
                with_provider,
            } => {
                let finalizer = || vec![labels::NETWORK_FINALIZER.to_owned()];
                network.metadata.finalizers = with_finalizer.then(finalizer);
                if with_provider {
                    network.spec.provider = Some(NETWORK_PROVIDER.to_owned());
                }
            }
            Action::RemoveFinalizer => {
                assert_eq!(self.users, [""; 0], "the finalizer stays for them");
                network.metadata.finalizers = None;
            }
            Action::Create(Object::Attachment(mut definition))
            | Action::Recreate(Object::Attachment(mut definition)) => {
                assert_eq!(self.attachment, None);
                definition.metadata.uid = Some("d1".to_owned());
                self.attachment = Some(definition);
            }
            Action::Apply {
                object: Object::Attachment(mut definition),
                uid,
                ..
            } => {
                let found = self.attachment.as_ref().unwrap();
                assert_eq!(found.metadata.uid.as_ref(), Some(&uid));
                assert_eq!(found.metadata.deletion_timestamp, None);
                definition.metadata.uid = Some(uid);
                self.attachment = Some(definition);
            }
            Action::Delete { uid, .. } => {
                assert_eq!(self.users, [""; 0], "they need it");
                assert!(network.metadata.deletion_timestamp.is_some());
                let found = self.attachment.as_mut().unwrap();
                assert_eq!(found.metadata.uid, Some(uid));
                found.metadata.deletion_timestamp = Some(now());
            }
            other => panic!("{other:?}"),
        }
    }

    /// Removes terminating objects.
    fn pass(&mut self) -> bool {
        let is_terminating = |definition: &mut NetworkAttachmentDefinition| {
            definition.metadata.deletion_timestamp.is_some()
        };
        self.attachment.take_if(is_terminating).is_some()
    }

    fn settle(&mut self) -> usize {
        for round in 0..8 {
            let metadata = &self.network().metadata;
            if metadata.deletion_timestamp.is_some() && metadata.finalizers.is_none() {
                self.network = None;
                return round;
            }
            if !self.turn() {
                return round;
            }
        }
        panic!("does not come to rest: {self:?}");
    }

    fn network(&self) -> &NetworkConfiguration {
        self.network.as_ref().unwrap()
    }

    fn delete(&mut self) {
        let network = self.network.as_mut().unwrap();
        network.metadata.deletion_timestamp = Some(now());
    }

    fn ready(&self) -> (String, String) {
        let status = self.network().status.as_ref().unwrap();
        let [ready] = status.conditions.as_deref().unwrap() else {
            panic!("one condition");
        };
        assert_eq!(ready.type_, "Ready");
        assert_eq!(ready.observed_generation, Some(4));
        let summary = format!("{} {}", ready.status, ready.reason);
        (summary, ready.message.clone())
    }

    fn actions(&self) -> Vec<Action> {
        let steps = self.plan().steps.into_iter();
        steps.map(|step| step.action).collect()
    }
}

#[test]
fn a_network_becomes_one_definition_and_lists_its_users() {
    let mut world = World::new(&["a", "b"]);
    assert_eq!(world.settle(), 2);
    assert_eq!(world.ready().0, "True NetworkConfigured");
    let status = world.network().status.as_ref().unwrap();
    assert_eq!(
        status.users.as_deref(),
        Some(&["a".to_owned(), "b".to_owned()][..])
    );
    assert_eq!(status.observed_generation, Some(4));
    assert_eq!(
        world.network().metadata.finalizers.as_deref(),
        Some(&[labels::NETWORK_FINALIZER.to_owned()][..])
    );
    assert_eq!(world.plan().events, []);
}

#[test]
fn users_that_the_api_server_orders_otherwise_are_not_written_again() {
    let mut world = World::settled(&["db", "shop", "web"]);
    let users = ["shop", "web", "db"].map(str::to_owned).to_vec();
    let status = world.network.as_mut().unwrap().status.as_mut().unwrap();
    status.users = Some(users.clone());
    assert_eq!(world.plan().status.users, Some(users));

    world.users = ["db", "shop"].map(str::to_owned).to_vec();
    assert_eq!(world.plan().status.users, Some(world.users));
}

#[test]
fn a_network_without_users_has_no_finalizer() {
    let mut world = World::settled(&["a"]);
    world.users.clear();
    assert_eq!(world.actions(), [Action::RemoveFinalizer]);
    world.settle();
    assert_eq!(world.network().status.as_ref().unwrap().users, None);
    world.delete();
    assert_eq!(world.actions(), []);
}

#[test]
fn a_network_is_marked_in_one_request_with_its_finalizer() {
    let apply = |with_finalizer, with_provider| Action::ApplyNetwork {
        with_finalizer,
        with_provider,
    };
    let first = |world: &World| world.actions().into_iter().next();
    assert_eq!(first(&World::new(&[])), Some(apply(false, true)));
    assert_eq!(first(&World::new(&["a"])), Some(apply(true, true)));
    let mut world = World::settled(&[]);
    world.users.push("a".to_owned());
    assert_eq!(
        world.actions(),
        [apply(true, true)],
        "an apply has all own fields"
    );
}

#[test]
fn a_network_of_another_provider_keeps_it() {
    let mut world = World::new(&["a"]);
    let spec = &mut world.network.as_mut().unwrap().spec;
    spec.provider = Some("kea".to_owned());
    assert!(matches!(
        world.actions()[0],
        Action::ApplyNetwork {
            with_finalizer: true,
            with_provider: false
        }
    ));
    world.settle();
    assert_eq!(world.network().spec.provider.as_deref(), Some("kea"));
}

#[test]
fn a_network_that_is_deleted_waits_for_its_users_and_then_for_its_definition() {
    let mut world = World::settled(&["a", "b"]);
    world.delete();
    world.settle();
    assert_eq!(world.ready().0, "False Deleting");
    assert!(world.ready().1.ends_with("a, b"));
    assert!(world.attachment.is_some());
    world.users.clear();
    assert!(matches!(&world.actions()[..], [Action::Delete { uid, .. }] if uid == "d1"));
    world.turn();
    assert_eq!(world.actions(), [], "it is still there");
    world.settle();
    assert_eq!((world.network, world.attachment), (None, None));
}

#[rstest]
#[case::same(|_: &mut NetworkAttachmentDefinition| {}, false)]
#[case::spelled_differently(|it: &mut NetworkAttachmentDefinition| {
    it.spec.config = it.spec.config.replace(':', " : ");
}, false)]
#[case::label_added(|it: &mut NetworkAttachmentDefinition| {
    it.metadata.labels.as_mut().unwrap().insert("team".into(), "x".into());
}, false)]
#[case::config(|it: &mut NetworkAttachmentDefinition| {
    it.spec.config = it.spec.config.replace("br0", "br1");
}, true)]
#[case::not_json(|it: &mut NetworkAttachmentDefinition| it.spec.config = "{".into(), true)]
#[case::label_removed(|it: &mut NetworkAttachmentDefinition| {
    it.metadata.labels.as_mut().unwrap().remove(labels::NETWORK_CONFIGURATION);
}, true)]
#[case::owner(|it: &mut NetworkAttachmentDefinition| {
    it.metadata.owner_references.as_mut().unwrap()[0].controller = None;
}, true)]
fn a_definition_is_restored_when_it_differs(
    #[case] change: fn(&mut NetworkAttachmentDefinition),
    #[case] differs: bool,
) {
    let mut world = World::settled(&["a"]);
    let definition = world.attachment.as_mut().unwrap();
    definition.metadata.managed_fields = Some(vec![object(
        json!({"manager": "kubevirt-operator", "operation": "Update"}),
    )]);
    change(definition);
    match &world.actions()[..] {
        [] => assert!(!differs),
        [
            Action::Apply {
                uid, created_at, ..
            },
        ] => {
            assert!(differs);
            assert_eq!((uid.as_str(), *created_at), ("d1", Some(0)));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_definition_of_an_earlier_network_of_the_name_is_left_alone() {
    let mut world = World::settled(&[]);
    let network = world.network.as_mut().unwrap();
    network.metadata.uid = Some("n2".to_owned());
    assert_eq!(world.actions(), []);
    assert_eq!(world.plan().events.len(), 1);
    world.settle();
    assert_eq!(world.ready().0, "False NetworkFailed");
    assert!(
        world
            .ready()
            .1
            .starts_with("NetworkAttachmentDefinition prod does not belong to this operator")
    );
    assert_eq!(world.plan().events, []);
}

#[test]
fn without_multus_the_network_waits_for_it() {
    let mut world = World::new(&["a"]);
    world.multus = false;
    world.settle();
    assert_eq!(world.ready().0, "False NetworkFailed");
    assert!(world.ready().1.starts_with("Multus is not installed"));
    world.multus = true;
    world.turn();
    assert_eq!(world.plan().events.len(), 1);
    world.settle();
    assert_eq!(world.ready().0, "True NetworkConfigured");
}

#[rstest]
#[case(true, "False NetworkFailed")]
#[case(false, "True NetworkConfigured")]
fn a_persistent_refusal_is_reported(#[case] is_persistent: bool, #[case] expected: &str) {
    let mut world = World::settled(&["a"]);
    world.attachment = None;
    world.refusal = Some(Refusal {
        error_type: ErrorType::ApiError,
        part: Part::Network,
        message: "NetworkAttachmentDefinition prod: denied".to_owned(),
        is_persistent,
    });
    let status = world.plan().status;
    world.network.as_mut().unwrap().status = Some(status);
    assert_eq!(world.ready().0, expected);
}

/// Every combination of states that a plan depends on.
fn states() -> Vec<World> {
    let flags = [false, true];
    let mut states = Vec::new();
    for (is_terminating, has_finalizer) in flags.iter().flat_map(|a| flags.map(|b| (*a, b))) {
        for (multus, is_settled) in flags.iter().flat_map(|a| flags.map(|b| (*a, b))) {
            for users in [&[][..], &["a"]] {
                for found in [
                    "nothing",
                    "desired",
                    "other config",
                    "terminating",
                    "foreign",
                ] {
                    let mut world = if is_settled {
                        World::settled(&["z"])
                    } else {
                        World::new(&[])
                    };
                    world.users = users.iter().map(ToString::to_string).collect();
                    world.multus = multus;
                    let mut definition = attachment_definition(world.network()).unwrap();
                    definition.metadata.uid = Some("d0".to_owned());
                    match found {
                        "other config" => definition.spec.config = "{}".to_owned(),
                        "terminating" => definition.metadata.deletion_timestamp = Some(now()),
                        "foreign" => definition.metadata.owner_references = None,
                        _ => {}
                    }
                    world.attachment = (found != "nothing").then_some(definition);
                    let metadata = &mut world.network.as_mut().unwrap().metadata;
                    metadata.deletion_timestamp = is_terminating.then(now);
                    metadata.finalizers = (has_finalizer || is_terminating)
                        .then(|| vec![labels::NETWORK_FINALIZER.to_owned()]);
                    states.push(world);
                }
            }
        }
    }
    states
}

#[test]
fn every_state_converges_within_a_few_rounds() {
    let states = states();
    assert_eq!(states.len(), 160);
    for start in states {
        let is_foreign = |definition: &NetworkAttachmentDefinition| {
            definition.metadata.owner_references.is_none()
        };
        let mut world = start.clone();
        assert!(world.settle() <= 5, "{start:?}");
        if start.attachment.as_ref().is_some_and(is_foreign) {
            assert_eq!(world.attachment, start.attachment);
        }
        let is_terminating = start.network().metadata.deletion_timestamp.is_some();
        let Some(network) = &world.network else {
            assert!(is_terminating && start.users.is_empty(), "{start:?}");
            continue;
        };
        assert!(!is_terminating || !start.users.is_empty(), "{start:?}");
        let Plan {
            steps,
            status,
            events,
            requeue_after,
        } = world.plan();
        assert_eq!(
            (&steps[..], &events[..], requeue_after),
            (&[][..], &[][..], None),
            "{start:?}"
        );
        assert_eq!(
            status,
            network.status.clone().unwrap_or_default(),
            "{start:?}"
        );
        assert_eq!(
            network.metadata.finalizers.is_some(),
            !start.users.is_empty()
        );
        if start.multus && !is_terminating && !start.attachment.as_ref().is_some_and(is_foreign) {
            assert_eq!(world.ready().0, "True NetworkConfigured");
        }
    }
}

#[test]
fn a_definition_that_was_reported_is_recreated_only_after_a_live_read() {
    let first = World::new(&[]).plan();
    let create = first.steps.last().unwrap();
    assert!(matches!(create.action, Action::Create(_)));

    let mut world = World::settled(&[]);
    world.attachment = None;
    let again = world.plan();
    assert!(matches!(again.steps[0].action, Action::Recreate(_)));
}

#[test]
fn a_record_of_addresses_is_left_alone() {
    let mut world = World::new(&["a"]);
    world.network.as_mut().unwrap().spec.bridge = None;
    let plan = world.plan();
    assert_eq!((plan.steps, plan.events), (Vec::new(), Vec::new()));
    assert_eq!(plan.status, NetworkConfigurationStatus::default());
}

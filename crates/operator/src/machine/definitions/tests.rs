use kube::core::Status;
use serde_json::json;

use super::*;

fn definition(generation: i64) -> Definition {
    serde_json::from_value(json!({
        "metadata": { "name": MACHINES, "uid": "d1", "generation": generation },
    }))
    .unwrap()
}

fn of_machines<'a>(definition: &'a Definition) -> impl Fn(&str) -> Option<&'a Definition> {
    move |name| (name == MACHINES).then_some(definition)
}

fn refused(code: u16) -> kube::Result<Value> {
    let status = Status::failure("no", "Reason").with_code(code).boxed();
    Err(Error::Api(status))
}

struct World {
    definitions: Definitions,
    served: ServedFields,
    now: Instant,
}

impl World {
    fn new() -> Self {
        Self {
            definitions: Definitions::default(),
            served: ServedFields::default(),
            now: Instant::now(),
        }
    }

    fn begins(&mut self) -> Option<DueRequest> {
        self.definitions.begin(self.now)
    }

    fn answer(&mut self, read: kube::Result<Value>) -> bool {
        let settled = Settled::Schema(MACHINES, read);
        let metrics = Metrics::new("test");
        self.definitions
            .on_settled(settled, &mut self.served, &metrics, self.now)
    }
}

#[tokio::test(start_paused = true)]
async fn a_schema_is_read_once_for_each_version_of_its_definition() {
    let mut world = World::new();
    assert!(world.definitions.is_settled(), "there is none");
    for generation in [1, 2] {
        let definition = definition(generation);
        for _ in 0..2 {
            world
                .definitions
                .on_change(of_machines(&definition), world.now);
        }
        assert!(!world.definitions.is_settled());
        assert_eq!(world.begins(), Some(DueRequest::ReadSchema(MACHINES)));
        assert_eq!(world.begins(), None);
        world.answer(Ok(json!({})));
        assert!(world.definitions.is_settled());
        world
            .definitions
            .on_change(of_machines(&definition), world.now);
        assert_eq!(world.begins(), None, "generation {generation}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_changes_during_its_read_is_read_again() {
    let mut world = World::new();
    let (first, second) = (definition(1), definition(2));
    world.definitions.on_change(of_machines(&first), world.now);
    assert!(world.begins().is_some());
    world.definitions.on_change(of_machines(&second), world.now);
    world.answer(Ok(json!({})));
    assert!(!world.definitions.is_settled());
    assert!(world.begins().is_some());
}

#[tokio::test(start_paused = true)]
async fn reconciling_waits_for_a_few_unanswered_reads_and_for_one_refused_read() {
    for (code, attempts) in [(503, ATTEMPTS), (403, 1)] {
        let mut world = World::new();
        let definition = definition(1);
        world
            .definitions
            .on_change(of_machines(&definition), world.now);
        for attempt in 0..attempts {
            assert!(!world.definitions.is_settled(), "{code}: {attempt}");
            assert!(world.begins().is_some(), "{code}: {attempt}");
            assert!(!world.answer(refused(code)));
            world.now += FIRST_RETRY_DELAY;
        }
        assert!(world.definitions.is_settled(), "{code}");
        assert_eq!(world.begins(), None);
        world.now += RETRY_DELAY;
        assert!(world.begins().is_some(), "{code}: it is read later");
    }
}

#[tokio::test(start_paused = true)]
async fn other_fields_are_reported_as_a_change() {
    let mut world = World::new();
    let definition = definition(1);
    world
        .definitions
        .on_change(of_machines(&definition), world.now);
    assert!(world.begins().is_some());
    let own = api::crds();
    let own = own
        .iter()
        .find(|own| own.metadata.name.as_deref() == Some(MACHINES));
    let own = serde_json::to_value(own).unwrap();
    assert!(!world.answer(Ok(own)), "all fields are served");
    assert!(world.answer(Ok(json!({}))));
    assert!(!world.answer(Ok(json!({}))));
}

//! Forecasts of rollouts and removals.

use std::collections::BTreeSet;

use api::kubevirt::install;
use plan::{
    kubevirt::{
        Id,
        observed::{Count, Memory},
        preview::{End, Forecast, StagePreview},
    },
    preview::{Effect, Verb},
};

use crate::{
    release::{ADDED, NEW, OBSOLETE, OLD, strategy},
    world::{Custom, World, describe, time},
};

fn forecast(world: &World) -> Forecast {
    world.observed(|observed| plan::kubevirt::preview::forecast(observed, &time(world.now)))
}

/// A cluster in which a version is installed.
fn installed(version: &str) -> World {
    let mut world = World::new(version, 20);
    world.run().unwrap();
    // The state of a restarted operator.
    world.memory = Memory::default();
    world
}

/// A cluster in which another version is requested and its strategy has been read.
fn requested(from: &str, to: &str) -> World {
    let mut world = installed(from);
    world.request(to);
    add_strategy(&mut world, to);
    world
}

/// Adds the strategy of the requested version.
fn add_strategy(world: &mut World, version: &str) {
    let target = world.observed(|observed| {
        plan::kubevirt::target(observed.kubevirt, observed.operator, observed.served)
    });
    world
        .strategies
        .insert(target.unwrap().id, strategy(version, &[]));
}

fn stages(forecast: &Forecast) -> Vec<&'static str> {
    forecast.stages.iter().map(|it| it.stage.reason()).collect()
}

/// Whether an effect is on the object of that kind and name.
fn is(effect: &Effect, verb: Verb, object: &str) -> bool {
    let Id { kind, name, .. } = &effect.id;
    effect.verb == verb && format!("{kind} {name}") == object
}

fn place(forecast: &Forecast, verb: Verb, name: &str) -> usize {
    let has = |stage: &StagePreview| stage.effects.iter().any(|effect| is(effect, verb, name));
    let place = forecast.stages.iter().position(has);
    place.unwrap_or_else(|| panic!("no effect on {name}: {:#?}", forecast.stages))
}

fn defined(name: &str) -> String {
    format!("CustomResourceDefinition {name}")
}

fn effect<'a>(forecast: &'a Forecast, verb: Verb, name: &str) -> &'a Effect {
    let stage = &forecast.stages[place(forecast, verb, name)];
    let mut effects = stage.effects.iter();
    let found = effects.find(|effect| is(effect, verb, name));
    found.unwrap()
}

#[test]
fn the_forecast_of_a_complete_installation_is_empty() {
    let forecast = forecast(&installed(OLD));
    assert_eq!(forecast.stages, []);
    assert_eq!(forecast.end, End::Deployed);
}

#[test]
fn forecasts_an_installation_from_the_api_to_the_nodes() {
    let mut world = World::new(OLD, 20);
    add_strategy(&mut world, OLD);
    let forecast = forecast(&world);
    assert_eq!(forecast.end, End::Deployed);
    let api = place(&forecast, Verb::Create, "Deployment virt-api");
    assert!(place(&forecast, Verb::Issue, "Secret kubevirt-ca") < api);
    assert!(api < place(&forecast, Verb::Create, "Deployment virt-controller"));
    let handler = place(&forecast, Verb::Create, "DaemonSet virt-handler");
    assert!(place(&forecast, Verb::Create, "Deployment virt-controller") < handler);
    let rollout = &forecast.stages[handler].rollouts[0];
    assert_eq!(
        (rollout.pods, rollout.replaced, rollout.canary),
        (20, 0, false)
    );
    assert!(
        handler
            < place(
                &forecast,
                Verb::Create,
                "VirtualMachineClusterInstancetype u1.small"
            )
    );
}

#[test]
fn the_forecast_matches_the_writes() {
    for mut world in [
        {
            let mut world = World::new(OLD, 20);
            add_strategy(&mut world, OLD);
            world
        },
        requested(OLD, NEW),
        requested(NEW, OLD),
    ] {
        let forecast = forecast(&world);
        let mut foretold: Vec<String> = forecast
            .stages
            .iter()
            .flat_map(|stage| &stage.effects)
            .map(|effect| effect.id.name.to_string())
            .collect();
        let mut done = Vec::new();
        world
            .run_with(|_, plan| {
                for step in &plan.steps {
                    let write = describe(step);
                    let name = write.rsplit([' ', '/']).next().unwrap().to_owned();
                    let is_named = !write.starts_with("count ");
                    let own = matches!(name.as_str(), "finalizers" | "annotate");
                    let name = if own { "kubevirt".to_owned() } else { name };
                    done.extend(is_named.then_some(name));
                }
            })
            .unwrap();
        for names in [&mut foretold, &mut done] {
            names.sort();
            names.dedup();
        }
        assert_eq!(foretold, done);
    }
}

#[test]
fn forecasts_an_update_from_the_nodes_to_the_api_with_canary_and_fields() {
    let forecast = forecast(&requested(OLD, NEW));
    assert_eq!(forecast.end, End::Deployed);
    let handler = place(&forecast, Verb::Change, "DaemonSet virt-handler");
    let controller = place(&forecast, Verb::Change, "Deployment virt-controller");
    let api = place(&forecast, Verb::Change, "Deployment virt-api");
    assert!(
        handler < controller && controller < api,
        "{:?}",
        stages(&forecast)
    );
    let rollout = &forecast.stages[handler].rollouts[0];
    assert_eq!(
        (rollout.pods, rollout.replaced, rollout.canary),
        (20, 20, true)
    );
    let changed = effect(&forecast, Verb::Change, "DaemonSet virt-handler");
    let image = "spec.template.spec.containers[virt-handler].image";
    let image = changed.fields.iter().find(|field| field.path == image);
    let image = image.unwrap();
    let text = |value: &Option<serde_json::Value>| value.as_ref().unwrap().to_string();
    assert!(text(&image.from).contains(OLD) && text(&image.to).contains(NEW));
    assert!(place(&forecast, Verb::Create, &defined(ADDED)) < handler);
    assert!(api < place(&forecast, Verb::Delete, "ServiceAccount kubevirt-old"));
    // Its objects have not been counted.
    assert!(forecast.uncounted.contains(OBSOLETE));
}

#[test]
fn forecasts_that_a_definition_with_objects_is_kept() {
    let mut world = requested(OLD, NEW);
    let count = Count {
        objects: 1,
        names: vec!["default/mine".to_owned()],
        deleting: false,
        finalizers: BTreeSet::new(),
        at: time(world.now),
    };
    world.counts.insert(OBSOLETE.to_owned(), count);
    let forecast = forecast(&world);
    let deleted = forecast.stages.iter().flat_map(|stage| &stage.effects);
    let mut deleted = deleted.filter(|effect| effect.verb == Verb::Delete);
    assert!(deleted.all(|effect| &*effect.id.name != OBSOLETE));
    let note = forecast.notes.iter().find(|note| note.contains(OBSOLETE));
    assert!(note.unwrap().contains("the operator keeps definition"));
    assert_eq!(forecast.end, End::Deployed);
}

#[test]
fn forecasts_a_rollback_from_the_api_to_the_nodes() {
    let mut world = installed(OLD);
    world.broken.insert(NEW.to_owned());
    world.request(NEW);
    world.run().unwrap();
    world.annotate(install::ROLLBACK, "true");
    let forecast = forecast(&world);
    assert_eq!(forecast.end, End::Deployed);
    let resource = effect(&forecast, Verb::Change, "KubeVirt kubevirt");
    assert!(resource.reason.contains(OLD), "{}", resource.reason);
    let handler = effect(&forecast, Verb::Change, "DaemonSet virt-handler");
    let images = handler
        .fields
        .iter()
        .filter(|it| it.path.ends_with("image"));
    let to: Vec<String> = images
        .map(|it| it.to.as_ref().unwrap().to_string())
        .collect();
    assert!(to.iter().all(|image| image.contains(OLD)), "{to:?}");
    assert!(
        place(&forecast, Verb::Delete, &defined(ADDED))
            > place(&forecast, Verb::Change, "DaemonSet virt-handler")
    );
}

#[test]
fn forecasts_a_removal_with_its_objects() {
    let mut world = installed(OLD);
    let definition = "virtualmachines.kubevirt.io";
    let custom = Custom {
        name: "default/web".to_owned(),
        deleting: false,
        stuck: false,
    };
    world.customs.insert(definition.to_owned(), vec![custom]);
    world.delete_resource();
    let count = Count {
        objects: 1,
        names: vec!["default/web".to_owned()],
        deleting: false,
        finalizers: BTreeSet::new(),
        at: time(world.now),
    };
    world.counts.insert(definition.to_owned(), count);
    let forecast = forecast(&world);
    assert_eq!(forecast.end, End::Deleted);
    let emptied = place(&forecast, Verb::Empty, &defined(definition));
    let reason = &effect(&forecast, Verb::Empty, &defined(definition)).reason;
    assert!(reason.contains("default/web"), "{reason}");
    let undefined = place(&forecast, Verb::Delete, &defined(definition));
    let gone = place(&forecast, Verb::Delete, "DaemonSet virt-handler");
    assert!(
        emptied < undefined && undefined < gone,
        "{:?}",
        stages(&forecast)
    );
    assert!(
        forecast
            .uncounted
            .contains("virtualmachineinstances.kubevirt.io")
    );
}

#[test]
fn forecasts_the_job_of_a_missing_strategy() {
    let forecast = forecast(&World::new(OLD, 3));
    assert_eq!(forecast.end, End::Strategy);
    assert_eq!(
        stages(&forecast),
        ["ClaimingResource", "WaitingForStrategy"]
    );
    let jobs = &forecast.stages[1].effects;
    assert_eq!(&*jobs[0].id.kind, "Job");
}

#[test]
fn forecasts_nothing_for_a_resource_that_is_not_served() {
    let mut world = World::new(OLD, 3);
    world.kubevirt.metadata.namespace = Some("elsewhere".to_owned());
    let forecast = forecast(&world);
    let End::Stuck { causes, .. } = &forecast.end else {
        panic!("{:?}", forecast.end);
    };
    assert!(
        causes[0].contains("serves only namespace kubevirt"),
        "{causes:?}"
    );
    assert_eq!(forecast.stages, []);
}

#[test]
fn forecasts_a_component_that_is_not_ready_without_writes() {
    let mut world = installed(OLD);
    world.broken.insert(OLD.to_owned());
    for pod in &mut world.pods {
        pod.ready = false;
    }
    world.run().unwrap();
    let forecast = forecast(&world);
    assert_eq!(forecast.stages, []);
    assert_eq!(forecast.end, End::Deployed);
    assert!(!forecast.waits.is_empty());
}

//! Control loop of all actors.
//!
//! An instance of [`runtime::control_loop`]. Reconciles run one at a time; writes run concurrently. On a
//! current-thread runtime with a paused clock, equal worlds give equal runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use kube::runtime::watcher::Event;
use runtime::control_loop::{self, Controller, Inputs};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    Caches, Kind, World,
    actor::{Actor, Context, Waits, Write},
    caches::{Change, is_within},
    events::Recorder,
    kind::{DEFINITION, POD},
    object::{Key, text},
    queue::{Item, Queue},
    watch::watch,
    write::{WriteError, WriteResponse, execute, is_needed},
};

const MAX_CONCURRENT_WRITES: usize = 32;

/// Runs these actors until the token is cancelled, then drains the writes in flight.
pub async fn run_with(world: World, actors: Vec<Box<dyn Actor>>, token: CancellationToken) {
    control_loop::run(Runner::new(world, actors), token).await;
}

/// Responses to the writes of one reconcile, up to the first error.
struct WritesDone {
    item: Item,
    requeue_after: Option<Duration>,
    responses: Vec<WriteResponse>,
    error: Option<WriteError>,
}

#[derive(Default)]
struct WatchState {
    /// Whether the first list is complete.
    has_synced: bool,
    /// Keys of the list in progress.
    listed: BTreeSet<Key>,
}

struct Runner {
    inputs: Inputs<Self>,
    world: World,
    actors: Vec<Box<dyn Actor>>,
    kinds: BTreeSet<Kind>,
    caches: Caches,
    queue: Queue,
    waits: BTreeMap<Item, Waits>,
    /// The API server's message to the last write of a key, where it refused it.
    refusals: BTreeMap<Item, String>,
    recorder: Arc<Recorder>,
    watched: BTreeMap<Kind, WatchState>,
}

impl Controller for Runner {
    const NAME: &'static str = "actors";

    type Watched = Kind;
    type WatchEvent = Event<Value>;
    type Completed = WritesDone;
    type Query = Infallible;

    fn inputs(&mut self) -> &mut Inputs<Self> {
        &mut self.inputs
    }

    fn start_due(&mut self, now: Instant) -> Option<Instant> {
        self.queue.enqueue_due(now);
        self.start_reconciles();
        self.queue.next_timer()
    }

    fn on_event(&mut self, kind: Kind, event: Event<Value>) {
        self.on_watch_event(kind, event);
    }

    fn on_completed(&mut self, done: WritesDone) {
        self.on_written(done);
    }

    fn on_query(&mut self, query: Infallible) {
        match query {}
    }
}

impl Runner {
    fn new(world: World, actors: Vec<Box<dyn Actor>>) -> Self {
        let mut kinds: BTreeSet<Kind> = actors
            .iter()
            .flat_map(|actor| actor.watches())
            .copied()
            .collect();
        if kinds.iter().any(|kind| kind.custom) {
            kinds.insert(DEFINITION);
        }
        let mut runner = Self {
            inputs: Inputs::default(),
            world,
            actors,
            kinds,
            caches: Caches::default(),
            queue: Queue::default(),
            waits: BTreeMap::new(),
            refusals: BTreeMap::new(),
            recorder: Arc::default(),
            watched: BTreeMap::new(),
        };
        for kind in runner.kinds.clone() {
            if !kind.custom {
                runner.start_watch(kind);
            }
        }
        for (number, actor) in runner.actors.iter().enumerate() {
            for key in actor.initial_keys() {
                runner.queue.add((number, key));
            }
        }
        runner
    }

    fn start_watch(&mut self, kind: Kind) {
        let events = watch(self.world.client.clone(), kind);
        self.inputs.watches.start(kind, events);
        self.watched.insert(kind, WatchState::default());
    }

    fn stop_watch(&mut self, kind: Kind) {
        if self.inputs.watches.stop(&kind) {
            self.watched.remove(&kind);
            self.retain_keys(kind, &BTreeSet::new());
        }
    }

    /// Whether all kinds that an actor watches have been listed. Kinds that the API server does not
    /// serve have no objects.
    fn has_synced(&self, actor: usize) -> bool {
        let kinds = self
            .actors
            .get(actor)
            .map_or(&[][..], |actor| actor.watches());
        kinds.iter().all(|kind| match self.watched.get(kind) {
            Some(watched) => watched.has_synced,
            None => self
                .watched
                .get(&DEFINITION)
                .is_some_and(|watched| watched.has_synced),
        })
    }

    fn start_reconciles(&mut self) {
        let synced: Vec<bool> = (0..self.actors.len())
            .map(|actor| self.has_synced(actor))
            .collect();
        while self.inputs.in_flight.writes() < MAX_CONCURRENT_WRITES {
            let actors = &self.actors;
            let item = self.queue.pop(|actor, is_running| {
                synced.get(actor).copied().unwrap_or_default()
                    && !(is_running && actors.get(actor).is_some_and(|actor| actor.is_serial()))
            });
            let Some(item) = item else {
                return;
            };
            self.reconcile(item);
        }
    }

    fn reconcile(&mut self, item: Item) {
        let Some(actor) = self.actors.get(item.0) else {
            return;
        };
        let waited = self.waits.remove(&item).unwrap_or_default();
        let refusal = self.refusals.get(&item).map(String::as_str);
        let now = self.world.clock.now();
        let mut ctx = Context::new(
            &item.1,
            &self.caches,
            now,
            self.world.speed,
            &self.world.faults,
            self.world.seed,
            &waited,
        )
        .after_refusal(refusal);
        actor.reconcile(&mut ctx);
        let result = ctx.finish();
        if !result.waits.is_empty() {
            self.waits.insert(item.clone(), result.waits);
        }
        let writes: Vec<Write> = result.writes.into_iter().filter(is_needed).collect();
        if writes.is_empty() {
            self.finish(item, result.requeue_after, None);
            return;
        }
        let client = self.world.client.clone();
        let recorder = Arc::clone(&self.recorder);
        let manager = actor.name();
        let requeue_after = result.requeue_after;
        self.inputs.in_flight.push_write(async move {
            let mut responses = Vec::with_capacity(writes.len());
            let mut latest = BTreeMap::new();
            for write in writes {
                match execute(&client, &recorder, manager, write, &latest, now).await {
                    Ok(response) => {
                        if let WriteResponse::Object(kind, object) = &response {
                            let version = text(object, "/metadata/resourceVersion").to_owned();
                            latest.insert((*kind, Key::of(object)), version);
                        }
                        responses.push(response);
                    }
                    Err(error) => {
                        let error = Some(error);
                        return WritesDone {
                            item,
                            requeue_after,
                            responses,
                            error,
                        };
                    }
                }
            }
            WritesDone {
                item,
                requeue_after,
                responses,
                error: None,
            }
        });
    }

    fn on_written(&mut self, done: WritesDone) {
        for response in done.responses {
            match response {
                WriteResponse::Object(kind, object) => {
                    let change = self.caches.observe_response(kind, object);
                    self.enqueue_affected(kind, change);
                }
                WriteResponse::Bound(key, node) => {
                    let change = self.caches.assume_bound(POD, &key, &node);
                    self.enqueue_affected(POD, change);
                }
                WriteResponse::Nothing => {}
            }
        }
        self.finish(done.item, done.requeue_after, done.error);
    }

    fn finish(&mut self, item: Item, requeue_after: Option<Duration>, error: Option<WriteError>) {
        match error.as_ref().and_then(WriteError::refusal) {
            Some(refusal) => self.refusals.insert(item.clone(), refusal.to_owned()),
            None => self.refusals.remove(&item),
        };
        if let Some(error) = error {
            let actor = self.actors.get(item.0).map_or("", |actor| actor.name());
            if error.is_conflict() {
                tracing::debug!(actor, key = %item.1, %error, "write conflicted, reconciling again");
            } else {
                tracing::warn!(actor, key = %item.1, %error, "write failed, retrying with backoff");
            }
            self.queue.fail(&item, Instant::now());
        } else {
            self.queue.succeed(&item);
        }
        if let Some(delay) = requeue_after {
            self.queue.add_at(item, Instant::now() + delay);
        }
    }

    fn on_watch_event(&mut self, kind: Kind, event: Event<Value>) {
        let namespaces = self.world.namespaces.as_ref();
        match event {
            Event::Init => {
                if let Some(watched) = self.watched.get_mut(&kind) {
                    watched.listed.clear();
                }
            }
            Event::InitApply(object) => {
                if is_within(namespaces, kind, &object) {
                    if let Some(watched) = self.watched.get_mut(&kind) {
                        watched.listed.insert(Key::of(&object));
                    }
                    self.observe(kind, object);
                }
            }
            Event::InitDone => {
                if let Some(watched) = self.watched.get_mut(&kind) {
                    watched.has_synced = true;
                    let listed = std::mem::take(&mut watched.listed);
                    self.retain_keys(kind, &listed);
                }
                if kind == DEFINITION {
                    self.sync_custom_watches();
                }
            }
            Event::Apply(object) => {
                if is_within(namespaces, kind, &object) {
                    self.observe(kind, object);
                }
            }
            Event::Delete(object) => {
                let change = self.caches.observe_deletion(kind, &object);
                self.enqueue_affected(kind, change);
            }
        }
    }

    fn observe(&mut self, kind: Kind, object: Value) {
        let change = self.caches.observe(kind, object);
        self.enqueue_affected(kind, change);
    }

    fn retain_keys(&mut self, kind: Kind, keep: &BTreeSet<Key>) {
        for key in self.caches.keys(kind) {
            if !keep.contains(&key) {
                let change = self.caches.forget(kind, &key);
                self.enqueue_affected(kind, change);
            }
        }
    }

    /// Adds the keys that a change affects to the work queue.
    fn enqueue_affected(&mut self, kind: Kind, change: Option<Change>) {
        let Some(Change { old, new }) = change.filter(|change| change.old != change.new) else {
            return;
        };
        for (number, actor) in self.actors.iter().enumerate() {
            if actor.watches().contains(&kind) {
                for object in old.iter().chain(&new) {
                    for key in actor.keys(kind, object, &self.caches) {
                        self.queue.add((number, key));
                    }
                }
            }
        }
        if kind == DEFINITION
            && self
                .watched
                .get(&DEFINITION)
                .is_some_and(|watched| watched.has_synced)
        {
            self.sync_custom_watches();
        }
    }

    /// Watches the custom kinds whose CustomResourceDefinition is established, and no others.
    fn sync_custom_watches(&mut self) {
        for kind in self.kinds.clone() {
            if !kind.custom {
                continue;
            }
            let is_established = self.caches.is_established(kind);
            let is_watched = self.watched.contains_key(&kind);
            if is_established && !is_watched {
                self.start_watch(kind);
            } else if !is_established && is_watched {
                self.stop_watch(kind);
            }
        }
    }
}

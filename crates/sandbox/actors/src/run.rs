//! The loop that drives the actors.
//!
//! One future holds everything: watches, caches, the queue and the writes under way. Decisions are
//! made one at a time, so they need no locks; writes go on beside each other. Nothing is polled: the
//! loop sleeps until a watch speaks, a write is answered, or a timer goes off. On a current-thread
//! runtime with a paused clock the same world gives the same run.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::{
    StreamExt,
    future::BoxFuture,
    stream::{BoxStream, FuturesUnordered, SelectAll},
};
use serde_json::Value;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    Caches, Kind, World,
    caches::{Change, is_within},
    events::Recorder,
    kind::{DEFINITION, POD},
    object::{Key, text},
    queue::{Item, Queue},
    turn::{Actor, Turn, Waits, Write},
    watch::{Told, watch},
    write::{Answer, WriteError, carry_out, is_needed},
};

/// How many keys are being written at a time.
const WRITERS: usize = 32;
/// How long the writes under way are given at the end.
const DRAIN: Duration = Duration::from_secs(5);

/// Runs these actors until the token is cancelled. Writes under way are then finished.
pub async fn run_with(world: World, actors: Vec<Box<dyn Actor>>, token: CancellationToken) {
    let mut runner = Runner::new(world, actors);
    loop {
        runner.start_work();
        let timer = runner.queue.next_timer();
        tokio::select! {
            biased;
            () = token.cancelled() => break,
            Some(done) = runner.writing.next(), if !runner.writing.is_empty() => runner.written(done),
            Some((kind, told)) = runner.streams.next() => runner.told(kind, told),
            () = sleep_until(timer.unwrap_or_else(Instant::now)), if timer.is_some() => {}
        }
        runner.queue.wake(Instant::now());
    }
    let drained = timeout(DRAIN, async {
        while runner.writing.next().await.is_some() {}
    });
    if drained.await.is_err() {
        tracing::debug!("writes were left unanswered at the end");
    }
}

/// The writes of one decision, as far as they came.
struct Done {
    item: Item,
    next: Option<Duration>,
    answers: Vec<Answer>,
    error: Option<WriteError>,
}

/// A watch of one kind.
#[derive(Default)]
struct Watched {
    stop: CancellationToken,
    /// Whether there has been a complete list.
    is_complete: bool,
    /// The keys of a list that is coming in.
    listed: BTreeSet<Key>,
}

struct Runner {
    world: World,
    actors: Vec<Box<dyn Actor>>,
    kinds: BTreeSet<Kind>,
    caches: Caches,
    queue: Queue,
    waits: BTreeMap<Item, Waits>,
    /// What the API server said to the last decision about a key, where it forbade it.
    refusals: BTreeMap<Item, String>,
    recorder: Arc<Recorder>,
    watched: BTreeMap<Kind, Watched>,
    streams: SelectAll<BoxStream<'static, (Kind, Told)>>,
    writing: FuturesUnordered<BoxFuture<'static, Done>>,
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
            world,
            actors,
            kinds,
            caches: Caches::default(),
            queue: Queue::default(),
            waits: BTreeMap::new(),
            refusals: BTreeMap::new(),
            recorder: Arc::default(),
            watched: BTreeMap::new(),
            streams: SelectAll::new(),
            writing: FuturesUnordered::new(),
        };
        for kind in runner.kinds.clone() {
            if !kind.custom {
                runner.start_watch(kind);
            }
        }
        for (number, actor) in runner.actors.iter().enumerate() {
            for key in actor.initial() {
                runner.queue.add((number, key));
            }
        }
        runner
    }

    fn start_watch(&mut self, kind: Kind) {
        let watched = Watched::default();
        let stream = watch(self.world.client.clone(), kind, watched.stop.clone());
        self.streams.push(stream.boxed());
        self.watched.insert(kind, watched);
    }

    fn stop_watch(&mut self, kind: Kind) {
        if let Some(watched) = self.watched.remove(&kind) {
            watched.stop.cancel();
            self.forget_all_but(kind, &BTreeSet::new());
        }
    }

    /// Whether all that an actor watches has been listed. Kinds that the server does not know have
    /// no objects.
    fn is_informed(&self, actor: usize) -> bool {
        let kinds = self
            .actors
            .get(actor)
            .map_or(&[][..], |actor| actor.watches());
        kinds.iter().all(|kind| match self.watched.get(kind) {
            Some(watched) => watched.is_complete,
            None => self
                .watched
                .get(&DEFINITION)
                .is_some_and(|watched| watched.is_complete),
        })
    }

    fn start_work(&mut self) {
        let informed: Vec<bool> = (0..self.actors.len())
            .map(|actor| self.is_informed(actor))
            .collect();
        while self.writing.len() < WRITERS {
            let actors = &self.actors;
            let item = self.queue.take(|actor, is_running| {
                informed.get(actor).copied().unwrap_or_default()
                    && !(is_running && actors.get(actor).is_some_and(|actor| actor.one_by_one()))
            });
            let Some(item) = item else {
                return;
            };
            self.decide(item);
        }
    }

    fn decide(&mut self, item: Item) {
        let Some(actor) = self.actors.get(item.0) else {
            return;
        };
        let waited = self.waits.remove(&item).unwrap_or_default();
        let refusal = self.refusals.get(&item).map(String::as_str);
        let now = self.world.clock.now();
        let mut turn = Turn::new(
            &item.1,
            &self.caches,
            now,
            self.world.speed,
            &self.world.faults,
            self.world.seed,
            &waited,
        )
        .after_refusal(refusal);
        actor.decide(&mut turn);
        let outcome = turn.finish();
        if !outcome.waits.is_empty() {
            self.waits.insert(item.clone(), outcome.waits);
        }
        let writes: Vec<Write> = outcome.writes.into_iter().filter(is_needed).collect();
        if writes.is_empty() {
            self.ended(item, outcome.next, None);
            return;
        }
        let client = self.world.client.clone();
        let recorder = Arc::clone(&self.recorder);
        let manager = actor.name();
        let next = outcome.next;
        self.writing.push(Box::pin(async move {
            let mut answers = Vec::with_capacity(writes.len());
            let mut latest = BTreeMap::new();
            for write in writes {
                match carry_out(&client, &recorder, manager, write, &latest, now).await {
                    Ok(answer) => {
                        if let Answer::Object(kind, object) = &answer {
                            let version = text(object, "/metadata/resourceVersion").to_owned();
                            latest.insert((*kind, Key::of(object)), version);
                        }
                        answers.push(answer);
                    }
                    Err(error) => {
                        let error = Some(error);
                        return Done {
                            item,
                            next,
                            answers,
                            error,
                        };
                    }
                }
            }
            Done {
                item,
                next,
                answers,
                error: None,
            }
        }));
    }

    fn written(&mut self, done: Done) {
        for answer in done.answers {
            match answer {
                Answer::Object(kind, object) => {
                    let change = self.caches.observe_answer(kind, object);
                    self.changed(kind, change);
                }
                Answer::Bound(key, node) => {
                    let change = self.caches.assume_bound(POD, &key, &node);
                    self.changed(POD, change);
                }
                Answer::Nothing => {}
            }
        }
        self.ended(done.item, done.next, done.error);
    }

    fn ended(&mut self, item: Item, next: Option<Duration>, error: Option<WriteError>) {
        match error.as_ref().and_then(WriteError::refusal) {
            Some(refusal) => self.refusals.insert(item.clone(), refusal.to_owned()),
            None => self.refusals.remove(&item),
        };
        if let Some(error) = error {
            let actor = self.actors.get(item.0).map_or("", |actor| actor.name());
            if error.is_conflict() {
                tracing::debug!(actor, key = %item.1, %error, "will look again");
            } else {
                tracing::warn!(actor, key = %item.1, %error, "will try again");
            }
            self.queue.failed(&item, Instant::now());
        } else {
            self.queue.done(&item);
        }
        if let Some(next) = next {
            self.queue.add_at(item, Instant::now() + next);
        }
    }

    fn told(&mut self, kind: Kind, told: Told) {
        let namespaces = self.world.namespaces.as_ref();
        match told {
            Told::ListBegins => {
                if let Some(watched) = self.watched.get_mut(&kind) {
                    watched.listed.clear();
                }
            }
            Told::Listed(object) => {
                if is_within(namespaces, kind, &object) {
                    if let Some(watched) = self.watched.get_mut(&kind) {
                        watched.listed.insert(Key::of(&object));
                    }
                    self.observed(kind, object);
                }
            }
            Told::ListEnds => {
                if let Some(watched) = self.watched.get_mut(&kind) {
                    watched.is_complete = true;
                    let listed = std::mem::take(&mut watched.listed);
                    self.forget_all_but(kind, &listed);
                }
                if kind == DEFINITION {
                    self.follow_definitions();
                }
            }
            Told::Changed(object) => {
                if is_within(namespaces, kind, &object) {
                    self.observed(kind, object);
                }
            }
            Told::Deleted(object) => {
                let change = self.caches.observe_deletion(kind, &object);
                self.changed(kind, change);
            }
        }
    }

    fn observed(&mut self, kind: Kind, object: Value) {
        let change = self.caches.observe(kind, object);
        self.changed(kind, change);
    }

    fn forget_all_but(&mut self, kind: Kind, keep: &BTreeSet<Key>) {
        for key in self.caches.keys(kind) {
            if !keep.contains(&key) {
                let change = self.caches.forget(kind, &key);
                self.changed(kind, change);
            }
        }
    }

    /// Puts the keys that a change concerns into the queue.
    fn changed(&mut self, kind: Kind, change: Option<Change>) {
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
                .is_some_and(|watched| watched.is_complete)
        {
            self.follow_definitions();
        }
    }

    /// Watches the custom kinds that are defined, and no others.
    fn follow_definitions(&mut self) {
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

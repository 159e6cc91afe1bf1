//! The director of a run: starts cluster and replicas, has the decisions take effect, heals
//! everything, waits for the end state, and has the oracles judge.

use std::{collections::VecDeque, time::Duration};

use sandbox::{Cluster, WriteLog, faults};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use crate::{
    decision::{Decision, Script, Subject, What, When},
    history::History,
    oracles::{self, Violation},
    replica::{Ended, Replica},
    user::User,
    wire::{MOST_REQUESTS, Sent, Signal, Wires},
};

/// How long after the last decision everything is healed.
const AFTER_LAST: Duration = Duration::from_secs(30);
/// Nothing is tried more seldom than that, so after it nothing is tried any more. A new CA signs
/// certificates only after ten minutes, in which its bundle reaches everybody.
const fn longest_pause(subject: Subject) -> Duration {
    Duration::from_secs(match subject {
        Subject::Machine => 6 * 60,
        Subject::Kubevirt => 11 * 60,
    })
}
/// How long the end state may take once nothing fails any more.
const LONGEST_SETTLING: Duration = Duration::from_secs(90 * 60);
/// How often remedies are applied before they are said not to help.
const ROUNDS: usize = 6;
/// A process that lost its Lease is started again by the kubelet.
const RESTART: Duration = Duration::from_secs(1);

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What was violated, the first first.
    pub violations: Vec<Violation>,
    /// A digest of every request and every write: equal for equal runs.
    pub digest: String,
    /// How many requests had a number.
    pub requests: u32,
    /// How many writes the store took.
    pub writes: usize,
    /// Everything that happened, for people.
    pub trace: Vec<String>,
}

/// Runs a script to its end, on paused time.
pub fn run(script: &Script) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut run = Run::begin(script).await;
        run.direct(script).await;
        run.conclude().await
    })
}

struct Run {
    subject: Subject,
    seed: u64,
    cluster: Cluster,
    write_log: WriteLog,
    user: User,
    wires: Wires,
    replicas: Vec<Replica>,
    signals: mpsc::UnboundedReceiver<Signal>,
    ended: mpsc::UnboundedReceiver<Ended>,
    ends: mpsc::UnboundedSender<Ended>,
    began: Instant,
    violations: Vec<Violation>,
    quiet: Duration,
}

impl Run {
    async fn begin(script: &Script) -> Self {
        let subject = script.subject;
        let cluster = subject.cluster(script.seed).await;
        let write_log = cluster.server().write_log();
        let user = User::new(cluster.client(), subject.namespace());
        for action in crate::workload::furnishings(subject) {
            user.act(&action).await.unwrap();
        }
        let (signal, signals) = mpsc::unbounded_channel();
        let (ends, ended) = mpsc::unbounded_channel();
        let armed = script.decisions.iter();
        let armed = armed.map(|decision| (decision.when, decision.what.clone()));
        let wires = Wires::new(cluster.server().clone(), user.clone(), armed, signal);
        let began = Instant::now();
        let replicas = (0..script.replicas).map(|number| Replica::new(number, began));
        Self {
            subject,
            seed: script.seed,
            write_log,
            user,
            wires,
            replicas: replicas.collect(),
            signals,
            ended,
            ends,
            began,
            violations: Vec::new(),
            quiet: script.quiet,
            cluster,
        }
    }

    /// Has all decisions take effect that have a time, and then lets the rest of the time pass.
    async fn direct(&mut self, script: &Script) {
        let mut timed: Vec<(Duration, What)> = Vec::new();
        for Decision { when, what } in &script.decisions {
            if let When::At(at) = when {
                timed.push((*at, what.clone()));
            }
        }
        timed.sort_by_key(|(at, _)| *at);
        let last = timed.last().map_or(Duration::ZERO, |(at, _)| *at);
        let mut timed = VecDeque::from(timed);
        while let Some((at, what)) = timed.pop_front() {
            self.until(self.began + at).await;
            match what {
                What::Action(action) => self.wires.act(&action).await,
                What::Fault(fault) => self.wires.strike(fault, 0),
            }
        }
        self.until(self.began + last + AFTER_LAST).await;
    }

    /// Lets time pass, during which replicas die and start.
    async fn until(&mut self, end: Instant) {
        loop {
            let now = Instant::now();
            for replica in &mut self.replicas {
                if replica.starts.is_some_and(|starts| starts <= now) {
                    let ends = self.ends.clone();
                    replica.start(self.subject, &self.cluster, &self.wires, self.seed, ends);
                }
            }
            let starts = self.replicas.iter().filter_map(|replica| replica.starts);
            let wake = starts.chain([end]).min().unwrap_or(end);
            tokio::select! {
                biased;
                Some(signal) = self.signals.recv() => self.signalled(signal).await,
                Some(ended) = self.ended.recv() => self.process_ended(ended).await,
                () = sleep_until(wake) => {
                    if Instant::now() >= end {
                        return;
                    }
                }
            }
        }
    }

    async fn signalled(&mut self, signal: Signal) {
        let now = Instant::now();
        match signal {
            Signal::Crash { replica, down } => {
                if let Some(replica) = self.replicas.get_mut(replica) {
                    replica.crash(now + down).await;
                }
            }
            Signal::Down { down } => {
                for replica in &mut self.replicas {
                    replica.crash(now + down).await;
                }
            }
        }
    }

    async fn process_ended(&mut self, ended: Ended) {
        if let Some(panic) = ended.panic {
            self.violations.push(Violation {
                oracle: "no-panic",
                at: self.began.elapsed(),
                text: panic,
            });
        }
        if let Some(replica) = self.replicas.get_mut(ended.replica)
            && replica.life() == ended.life
        {
            replica.crash(Instant::now() + RESTART).await;
        }
    }

    /// Lets time pass until nothing was asked for a while.
    async fn settle(&mut self) -> bool {
        let limit = Instant::now() + LONGEST_SETTLING;
        while Instant::now() < limit {
            let count = self.wires.count();
            self.until(Instant::now() + longest_pause(self.subject))
                .await;
            if self.wires.count() == count {
                return true;
            }
        }
        false
    }

    async fn heal(&mut self) {
        self.wires.heal();
        for kind in [
            "Node",
            "PersistentVolumeClaim",
            "DataVolume",
            "VirtualMachineInstance",
            "CustomResourceDefinition",
            "Deployment",
            "DaemonSet",
        ] {
            for object in self.user.list(kind).await {
                let metadata = &object["metadata"];
                if !metadata["annotations"][faults::ANNOTATION].is_null() {
                    let name = metadata["name"].as_str().unwrap_or_default();
                    let null = Value::Null;
                    self.user
                        .annotate(kind, name, faults::ANNOTATION, null)
                        .await;
                }
            }
        }
    }

    /// Heals everything, waits for the end state, applies remedies, and judges.
    async fn conclude(mut self) -> Outcome {
        self.heal().await;
        let mut is_settled = self.settle().await;
        for round in 0.. {
            let (unmet, remedies) = oracles::end_state(self.subject, &self.user).await;
            if round == ROUNDS || (remedies.is_empty() && !unmet.is_empty()) {
                self.violate(unmet);
                break;
            }
            if remedies.is_empty() {
                break;
            }
            for action in remedies {
                self.wires.act(&action).await;
            }
            is_settled = self.settle().await;
        }
        if is_settled {
            self.expect_quiet().await;
        } else {
            let text = format!(
                "still busy {LONGEST_SETTLING:?} after the last fault: {}",
                {
                    let sent = self.wires.sent();
                    let busy = sent.iter().rev().filter(|sent| sent.index.is_some());
                    let last: Vec<_> = busy.take(6).map(described).collect();
                    last.join("; ")
                }
            );
            self.violate(vec![("quiet", text)]);
        }
        if self.wires.count() > MOST_REQUESTS {
            let text = format!("more than {MOST_REQUESTS} requests: the rest got no answer");
            self.violate(vec![("quiet", text)]);
        }
        self.finish().await
    }

    async fn expect_quiet(&mut self) {
        let before = self.wires.count();
        self.until(Instant::now() + self.quiet).await;
        let asked = self.wires.sent();
        let asked: Vec<_> = asked
            .iter()
            .filter(|sent| sent.index.is_some_and(|index| index >= before))
            .map(described)
            .collect();
        if let Some(first) = asked.first() {
            let text = format!("{} requests when all was done, first {first}", asked.len());
            self.violate(vec![("quiet", text)]);
        }
    }

    fn violate(&mut self, all: Vec<(&'static str, String)>) {
        let at = self.began.elapsed();
        let all = all
            .into_iter()
            .map(|(oracle, text)| Violation { oracle, at, text });
        self.violations.extend(all);
    }

    async fn finish(mut self) -> Outcome {
        for replica in &mut self.replicas {
            replica.crash(Instant::now()).await;
        }
        let sent = self.wires.sent();
        let history = History::new(
            self.began,
            &self.write_log.entries(),
            sent,
            self.wires.acted(),
        );
        let mut violations = oracles::judge(self.subject, &history);
        violations.append(&mut self.violations);
        violations.sort_by_key(|violation| violation.at);
        Outcome {
            violations,
            digest: digest(&history),
            requests: self.wires.count(),
            writes: history.entries.len(),
            trace: history.describe(),
        }
    }
}

/// A request in a line.
pub fn described(sent: &Sent) -> String {
    format!(
        "{} {} {} {}",
        sent.identity, sent.method, sent.uri, sent.status
    )
}

fn digest(history: &History) -> String {
    let mut digest = Sha256::new();
    for sent in &history.sent {
        let at = sent.at.duration_since(history.began).as_nanos();
        digest.update(format!("{at} {} {}\n", described(sent), sent.after));
    }
    for entry in &history.entries {
        let at = entry.at.as_nanos();
        digest.update(format!(
            "{at} {} {} {}\n",
            entry.revision, entry.resource, entry.key
        ));
    }
    let digest = digest.finalize();
    let start = digest.first_chunk().copied().unwrap_or_default();
    format!("{:016x}", u64::from_be_bytes(start))
}

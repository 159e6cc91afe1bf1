//! One run: starts cluster and replicas, applies the decisions, ends all faults, waits for the end
//! state, and evaluates the oracles.

use std::{collections::VecDeque, time::Duration};

use sandbox::{Cluster, WriteLog, faults};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use crate::{
    decision::{Decision, Effect, Script, Subject, Trigger},
    history::History,
    network::{MAX_REQUESTS, Network, SentRequest, Signal},
    oracles::{self, Violation},
    replica::{ProcessExit, Replica},
    user::User,
};

/// Time from the last decision until all faults end.
const HEAL_DELAY: Duration = Duration::from_secs(30);
/// An operator without a request for this long is done: no retry has a longer delay. A new CA signs
/// certificates only after ten minutes, when every client has its bundle.
const fn quiet_after(subject: Subject) -> Duration {
    Duration::from_secs(match subject {
        Subject::Machine => 6 * 60,
        Subject::Kubevirt => 11 * 60,
    })
}
/// Time limit for the end state once all faults have ended.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(90 * 60);
/// Remedies that have not helped after this many rounds are a violation.
const MAX_REMEDY_ROUNDS: usize = 6;
/// The kubelet restarts a process that exits.
const RESTART_DELAY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct RunOutcome {
    /// In order of time.
    pub violations: Vec<Violation>,
    /// Digest of every request and every write: equal for equal runs.
    pub digest: String,
    /// Number of requests, without watches and Lease requests.
    pub requests: u32,
    /// Number of writes to the store.
    pub writes: usize,
    /// All actions, requests and writes, for people.
    pub trace: Vec<String>,
}

/// Runs a script on virtual time.
pub fn run(script: &Script) -> RunOutcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut run = Run::start(script).await;
        run.apply_decisions(script).await;
        run.conclude().await
    })
}

struct Run {
    subject: Subject,
    seed: u64,
    cluster: Cluster,
    write_log: WriteLog,
    user: User,
    network: Network,
    replicas: Vec<Replica>,
    signals: mpsc::UnboundedReceiver<Signal>,
    ended: mpsc::UnboundedReceiver<ProcessExit>,
    ends: mpsc::UnboundedSender<ProcessExit>,
    start_time: Instant,
    violations: Vec<Violation>,
    quiet: Duration,
}

impl Run {
    async fn start(script: &Script) -> Self {
        let subject = script.subject;
        let cluster = subject.cluster(script.seed).await;
        let write_log = cluster.server().write_log();
        let user = User::new(cluster.client(), subject.namespace());
        for action in crate::workload::seed_objects(subject) {
            user.act(&action).await.unwrap();
        }
        let (signal, signals) = mpsc::unbounded_channel();
        let (ends, ended) = mpsc::unbounded_channel();
        let scheduled = script.decisions.iter();
        let scheduled = scheduled.map(|decision| (decision.trigger, decision.effect.clone()));
        let network = Network::new(cluster.server().clone(), user.clone(), scheduled, signal);
        let start_time = Instant::now();
        let replicas = (0..script.replicas).map(|number| Replica::new(number, start_time));
        Self {
            subject,
            seed: script.seed,
            write_log,
            user,
            network,
            replicas: replicas.collect(),
            signals,
            ended,
            ends,
            start_time,
            violations: Vec::new(),
            quiet: script.quiet,
            cluster,
        }
    }

    /// Applies the decisions that have a time, and waits until all faults may end.
    async fn apply_decisions(&mut self, script: &Script) {
        let mut timed: Vec<(Duration, Effect)> = Vec::new();
        for Decision { trigger, effect } in &script.decisions {
            if let Trigger::At(at) = trigger {
                timed.push((*at, effect.clone()));
            }
        }
        timed.sort_by_key(|(at, _)| *at);
        let last = timed.last().map_or(Duration::ZERO, |(at, _)| *at);
        let mut timed = VecDeque::from(timed);
        while let Some((at, effect)) = timed.pop_front() {
            self.until(self.start_time + at).await;
            match effect {
                Effect::Action(action) => self.network.act(&action).await,
                Effect::Fault(fault) => self.network.inject(fault, 0),
            }
        }
        self.until(self.start_time + last + HEAL_DELAY).await;
    }

    /// Advances time until `end`, while replicas crash and start.
    async fn until(&mut self, end: Instant) {
        loop {
            let now = Instant::now();
            for replica in &mut self.replicas {
                if replica.starts.is_some_and(|starts| starts <= now) {
                    let ends = self.ends.clone();
                    replica.start(self.subject, &self.cluster, &self.network, self.seed, ends);
                }
            }
            let starts = self.replicas.iter().filter_map(|replica| replica.starts);
            let wake = starts.chain([end]).min().unwrap_or(end);
            tokio::select! {
                biased;
                Some(signal) = self.signals.recv() => self.on_signal(signal).await,
                Some(ended) = self.ended.recv() => self.on_exit(ended).await,
                () = sleep_until(wake) => {
                    if Instant::now() >= end {
                        return;
                    }
                }
            }
        }
    }

    async fn on_signal(&mut self, signal: Signal) {
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

    async fn on_exit(&mut self, ended: ProcessExit) {
        if let Some(panic) = ended.panic {
            self.violations.push(Violation {
                oracle: "no-panic",
                at: self.start_time.elapsed(),
                text: panic,
            });
        }
        if let Some(replica) = self.replicas.get_mut(ended.replica)
            && replica.life() == ended.life
        {
            replica.crash(Instant::now() + RESTART_DELAY).await;
        }
    }

    /// Advances time until the operator has sent no request for a while.
    async fn settle(&mut self) -> bool {
        let limit = Instant::now() + SETTLE_TIMEOUT;
        while Instant::now() < limit {
            let count = self.network.count();
            self.until(Instant::now() + quiet_after(self.subject)).await;
            if self.network.count() == count {
                return true;
            }
        }
        false
    }

    async fn heal(&mut self) {
        self.network.heal();
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

    /// Ends all faults, waits for the end state, applies remedies, and evaluates the oracles.
    async fn conclude(mut self) -> RunOutcome {
        self.heal().await;
        let mut is_settled = self.settle().await;
        for round in 0.. {
            let (unmet, remedies) = oracles::end_state(self.subject, &self.user).await;
            if round == MAX_REMEDY_ROUNDS || (remedies.is_empty() && !unmet.is_empty()) {
                self.violate(unmet);
                break;
            }
            if remedies.is_empty() {
                break;
            }
            for action in remedies {
                self.network.act(&action).await;
            }
            is_settled = self.settle().await;
        }
        if is_settled {
            self.expect_quiet().await;
        } else {
            let text = format!("still busy {SETTLE_TIMEOUT:?} after the last fault: {}", {
                let sent = self.network.sent();
                let busy = sent.iter().rev().filter(|sent| sent.index.is_some());
                let last: Vec<_> = busy.take(6).map(describe_request).collect();
                last.join("; ")
            });
            self.violate(vec![("quiet", text)]);
        }
        if self.network.count() > MAX_REQUESTS {
            let text = format!("more than {MAX_REQUESTS} requests: further ones got no answer");
            self.violate(vec![("quiet", text)]);
        }
        self.finish().await
    }

    async fn expect_quiet(&mut self) {
        let before = self.network.count();
        self.until(Instant::now() + self.quiet).await;
        let sent = self.network.sent();
        let sent: Vec<_> = sent
            .iter()
            .filter(|sent| sent.index.is_some_and(|index| index >= before))
            .map(describe_request)
            .collect();
        if let Some(first) = sent.first() {
            let text = format!("{} requests after the end state, first {first}", sent.len());
            self.violate(vec![("quiet", text)]);
        }
    }

    fn violate(&mut self, all: Vec<(&'static str, String)>) {
        let at = self.start_time.elapsed();
        let all = all
            .into_iter()
            .map(|(oracle, text)| Violation { oracle, at, text });
        self.violations.extend(all);
    }

    async fn finish(mut self) -> RunOutcome {
        for replica in &mut self.replicas {
            replica.crash(Instant::now()).await;
        }
        let sent = self.network.sent();
        let history = History::new(
            self.start_time,
            &self.write_log.entries(),
            sent,
            self.network.user_actions(),
        );
        let mut violations = oracles::judge(self.subject, &history);
        violations.append(&mut self.violations);
        violations.sort_by_key(|violation| violation.at);
        RunOutcome {
            violations,
            digest: digest(&history),
            requests: self.network.count(),
            writes: history.entries.len(),
            trace: history.describe(),
        }
    }
}

/// A request as one line.
pub fn describe_request(sent: &SentRequest) -> String {
    format!(
        "{} {} {} {}",
        sent.identity, sent.method, sent.uri, sent.status
    )
}

fn digest(history: &History) -> String {
    let mut digest = Sha256::new();
    for sent in &history.sent {
        let at = sent.at.duration_since(history.start_time).as_nanos();
        digest.update(format!("{at} {} {}\n", describe_request(sent), sent.after));
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

//! One run: create, idle, resize, restart and delete a number of Machines.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use kube::Client;
use runtime::{
    client::{CallCounter, Limits, layered, transport},
    election::Fence,
};
use serde::Serialize;

use crate::{
    arguments::Arguments,
    client::{Load, percentile},
    observed::{Observed, Times},
    process::Process,
    proxy,
    server::Server,
};

/// Time without requests after which an operator counts as converged.
const QUIET: Duration = Duration::from_secs(3);

/// Requests by verb and resource.
pub type Requests = BTreeMap<String, u64>;

/// Milliseconds below which half and 99 percent of the Machines lie.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    pub p50_ms: u64,
    pub p99_ms: u64,
}

/// Cost of a phase.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    pub name: &'static str,
    /// Until the last Machine is done.
    pub seconds: f64,
    /// Until no request was sent any more; Events may trail.
    pub quiet_after_seconds: f64,
    pub requests_per_machine: f64,
    pub requests: Requests,
    pub cpu_ms_per_machine: f64,
}

/// Figures of one run.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    pub machines: usize,
    pub server: String,
    pub operator: String,
    pub raw_writes_per_second: f64,
    /// Writes of the operator per second until each Machine has its VirtualMachine, as a share of the
    /// server's raw rate.
    pub share_of_raw_rate: f64,
    pub created_to_vm: Latency,
    pub created_to_running: Latency,
    pub ready_after_ms: u64,
    pub ready_after_restart_ms: u64,
    pub requests_of_start: Requests,
    pub requests_of_restart: Requests,
    pub idle_requests_per_minute: f64,
    pub empty_mib: f64,
    pub steady_mib: f64,
    pub peak_mib: f64,
    pub phases: Vec<Phase>,
}

/// Operator under test.
struct Operator<'a> {
    arguments: &'a Arguments,
    kubeconfig: &'a Path,
    calls: &'a CallCounter,
    process: Process,
}

impl<'a> Operator<'a> {
    /// Starts it. Returns the time until it was ready.
    async fn start(
        arguments: &'a Arguments,
        kubeconfig: &'a Path,
        calls: &'a CallCounter,
    ) -> (Self, Duration) {
        let start = Instant::now();
        let mut command;
        if let Some(peer) = &arguments.peer {
            command = Command::new("sh");
            command.args(["-c", &format!("exec {peer}")]);
        } else {
            command = Process::operator("run");
            command
                .env("METRICS_BIND_ADDRESS", "0")
                .env("HEALTH_PROBE_BIND_ADDRESS", "0")
                .env("LEADER_ELECTION", "false")
                .envs(arguments.setting.iter().cloned());
        }
        command.env("KUBECONFIG", kubeconfig);
        let mut process = Process::spawn(&mut command);
        if arguments.peer.is_none() {
            process.line("caches are synced").await;
        } else {
            process.discard_log();
        }
        let ready = start.elapsed();
        let operator = Self {
            arguments,
            kubeconfig,
            calls,
            process,
        };
        (operator, ready)
    }

    /// Ends it and starts another one.
    async fn restart(self) -> (Self, Duration) {
        let Self {
            arguments,
            kubeconfig,
            calls,
            process,
        } = self;
        drop(process);
        Self::start(arguments, kubeconfig, calls).await
    }

    /// Waits until it sends no requests. Returns them, and when the last one was counted.
    async fn until_quiet(&self) -> (Requests, Instant) {
        let mut requests = Requests::new();
        let mut last = Instant::now();
        while last.elapsed() < QUIET {
            tokio::time::sleep(Duration::from_millis(50)).await;
            if self.take(&mut requests) {
                last = Instant::now();
            }
        }
        (requests, last)
    }

    /// Adds the requests since the last call, and returns whether there were any.
    fn take(&self, requests: &mut Requests) -> bool {
        let calls = self.calls.take();
        let calls = calls
            .into_iter()
            .filter(|((verb, resource, _), _)| *verb != "watch" && resource != "leases");
        let mut any = false;
        for ((verb, resource, _), count) in calls {
            *requests.entry(format!("{verb} {resource}")).or_default() += count;
            any = true;
        }
        any
    }

    fn mib(&self, of: fn(&crate::process::Memory) -> u64) -> f64 {
        of(&self.process.memory()) as f64 / 1024.0
    }
}

/// Measures one number of Machines.
pub async fn run(arguments: &Arguments, machines: usize) -> Figures {
    let server = Server::start(&arguments.server, machines).await;
    let direct = Client::try_from(server.config().clone()).expect("the server has an address");
    let load = Load {
        client: direct.clone(),
        in_flight: arguments.clients,
        machines,
    };
    let raw = load.raw_write_rate().await;

    let calls = Arc::new(CallCounter::default());
    let counter = Arc::clone(&calls);
    let upstream = transport(server.config()).expect("the server has an address");
    let upstream = layered(upstream, Fence::open(), Limits::UNLIMITED, counter);
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let kubeconfig = folder.path().join("kubeconfig");
    proxy::start(upstream, &kubeconfig).await;

    let (operator, ready) = Operator::start(arguments, &kubeconfig, &calls).await;
    let (requests_of_start, _) = operator.until_quiet().await;
    let empty = operator.mib(|memory| memory.resident);
    let observed = Observed::start(&direct).await;
    let mut phases = Vec::new();

    let start = Instant::now();
    let cpu = operator.process.cpu_time();
    load.create(&observed).await;
    observed
        .until(|times| &times.virtual_machine, machines)
        .await;
    let mut early = Requests::new();
    operator.take(&mut early);
    let until_vms = start.elapsed();
    let is_write = |name: &str| !name.starts_with("get") && !name.starts_with("list");
    let writes: u64 = early
        .iter()
        .filter(|(name, _)| is_write(name))
        .map(|(_, n)| n)
        .sum();
    observed.until(|times| &times.running, machines).await;
    phases.push(phase("create", &operator, machines, start, cpu, early).await);

    let mut idle = Requests::new();
    operator.take(&mut idle);
    idle.clear();
    tokio::time::sleep(Duration::from_secs(arguments.idle)).await;
    operator.take(&mut idle);
    let idle: u64 = idle.values().sum();

    // Later changes of the spec by others do not count as the resize.
    observed.times().resized.clear();
    let start = Instant::now();
    let cpu = operator.process.cpu_time();
    load.resize().await;
    observed.until(|times| &times.resized, machines).await;
    phases.push(phase("resize", &operator, machines, start, cpu, Requests::new()).await);
    let steady = operator.mib(|memory| memory.resident);
    let peak = operator.mib(|memory| memory.most);

    let (operator, ready_again) = operator.restart().await;
    let (requests_of_restart, _) = operator.until_quiet().await;

    let start = Instant::now();
    let cpu = operator.process.cpu_time();
    load.delete().await;
    observed.until(|times| &times.gone, machines).await;
    phases.push(phase("delete", &operator, machines, start, cpu, Requests::new()).await);

    let times = observed.times();
    Figures {
        machines,
        server: format!("{:?}", arguments.server),
        operator: arguments
            .peer
            .clone()
            .unwrap_or_else(|| "this operator".to_owned()),
        raw_writes_per_second: raw,
        share_of_raw_rate: writes as f64 / until_vms.as_secs_f64() / raw,
        created_to_vm: latency(&times, &times.virtual_machine),
        created_to_running: latency(&times, &times.running),
        ready_after_ms: milliseconds(ready),
        ready_after_restart_ms: milliseconds(ready_again),
        requests_of_start,
        requests_of_restart,
        idle_requests_per_minute: idle as f64 * 60.0 / arguments.idle.max(1) as f64,
        empty_mib: empty,
        steady_mib: steady,
        peak_mib: peak,
        phases,
    }
}

/// Ends a phase whose last Machine is done.
async fn phase(
    name: &'static str,
    operator: &Operator<'_>,
    machines: usize,
    start: Instant,
    cpu: Duration,
    mut requests: Requests,
) -> Phase {
    let seconds = start.elapsed().as_secs_f64();
    let (late, last) = operator.until_quiet().await;
    for (request, count) in late {
        *requests.entry(request).or_default() += count;
    }
    let per_machine = |total: f64| total / machines as f64;
    let total: u64 = requests.values().sum();
    let cpu = operator.process.cpu_time().saturating_sub(cpu);
    Phase {
        name,
        seconds,
        quiet_after_seconds: last.duration_since(start).as_secs_f64(),
        requests_per_machine: per_machine(total as f64),
        requests,
        cpu_ms_per_machine: per_machine(cpu.as_secs_f64() * 1000.0),
    }
}

fn latency(times: &Times, until: &HashMap<String, Instant>) -> Latency {
    let mut durations: Vec<Duration> = times
        .posted
        .iter()
        .filter_map(|(name, posted)| Some(until.get(name)?.saturating_duration_since(*posted)))
        .collect();
    Latency {
        p50_ms: milliseconds(percentile(&mut durations, 0.5)),
        p99_ms: milliseconds(percentile(&mut durations, 0.99)),
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

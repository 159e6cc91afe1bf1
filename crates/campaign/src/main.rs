//! Command line of the campaign.

use std::{
    collections::BTreeMap,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use campaign::{
    decision::{Script, Subject},
    minimise::minimise,
    run::{RunOutcome, run},
    scenarios::{self, INJECTED},
    workload,
};
use clap::Parser;
use tracing_subscriber::EnvFilter;

/// Limit for the minimisation of one failing seed.
const RUNS_TO_MINIMISE: usize = 40;

/// Runs both operators in the sandbox with faults and interference. A seed is one run, which repeats
/// exactly.
#[derive(Parser)]
#[command(name = "campaign")]
struct Arguments {
    /// Number of seeds to run, starting with --from.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Run only this seed, and print its trace.
    #[arg(long)]
    seed: Option<u64>,
    /// Operator to run; both by default.
    #[arg(long)]
    operator: Option<Subject>,
    /// Start no seeds after this many seconds.
    #[arg(long)]
    budget: Option<u64>,
    /// Virtual seconds without a request that the end state requires.
    #[arg(long, default_value_t = 600)]
    quiet: u64,
    /// Number of concurrent runs.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Do not minimise failing seeds.
    #[arg(long)]
    no_minimise: bool,
    /// Start no seeds after the first failure, and do not minimise it.
    #[arg(long)]
    first: bool,
    /// Oracle with known violations: they are printed and do not fail the campaign.
    #[arg(long = "known")]
    known: Vec<String>,
    /// Instead of seeds: a crash, a lost answer and a stale watch at every request of every scenario.
    #[arg(long)]
    exhaustive: bool,
    /// With --exhaustive: only at every n-th request.
    #[arg(long, default_value_t = 1)]
    every: usize,
    /// With --exhaustive: only at this request, and print the trace.
    #[arg(long)]
    at: Option<u32>,
    /// With --exhaustive: only scenarios whose name contains this.
    #[arg(long, default_value = "")]
    scenario: String,
}

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(
            EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("off")),
        )
        .with_writer(std::io::stderr)
        .init();
    let arguments = Arguments::parse();
    let subjects = match arguments.operator {
        Some(subject) => vec![subject],
        None => vec![Subject::Machine, Subject::Kubevirt],
    };
    if let Some(seed) = arguments.seed {
        let failed = subjects.iter().map(|subject| show(*subject, seed)).max();
        return if failed == Some(true) {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        };
    }
    let mut failed = false;
    for subject in subjects {
        failed |= if let (true, Some(index)) = (arguments.exhaustive, arguments.at) {
            show_scenarios(subject, &arguments.scenario, index)
        } else if arguments.exhaustive {
            exhaust(subject, &arguments)
        } else {
            campaign(subject, &arguments)
        };
    }
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Runs one seed and prints its trace.
fn show(subject: Subject, seed: u64) -> bool {
    let script = workload::script(subject, seed);
    print_script(&script);
    print_outcome(&run(&script))
}

/// Runs scenarios with each fault at one request and prints their traces.
fn show_scenarios(subject: Subject, name: &str, index: u32) -> bool {
    let mut failed = false;
    for scenario in scenarios::all(subject) {
        if !scenario.name.contains(name) {
            continue;
        }
        for (fault_name, fault) in INJECTED {
            println!(
                "scenario {:?}, {fault_name} after request {index}:",
                scenario.name
            );
            failed |= print_outcome(&scenario.with(fault, index));
        }
    }
    failed
}

/// Prints the trace. Returns whether there are violations.
fn print_outcome(outcome: &RunOutcome) -> bool {
    println!("trace:");
    for line in &outcome.trace {
        println!("  {line}");
    }
    println!("digest {}, {} requests", outcome.digest, outcome.requests);
    for violation in &outcome.violations {
        println!("VIOLATED {violation}");
    }
    !outcome.violations.is_empty()
}

fn print_script(script: &Script) {
    println!(
        "{} seed {} with {} replicas:",
        script.subject, script.seed, script.replicas
    );
    for decision in &script.decisions {
        println!("  {decision}");
    }
}

struct Tally {
    runs: u64,
    requests: u64,
    writes: usize,
    failing: BTreeMap<&'static str, Vec<u64>>,
}

/// Runs all seeds of an operator. Returns whether any failed.
fn campaign(subject: Subject, arguments: &Arguments) -> bool {
    let start_time = Instant::now();
    let budget = arguments.budget.map(Duration::from_secs);
    let next = AtomicU64::new(arguments.from);
    let has_failed = AtomicBool::new(false);
    let is_known = |oracle: &str| arguments.known.iter().any(|known| known == oracle);
    let end = arguments.from + arguments.seeds;
    let tally = Mutex::new(Tally {
        runs: 0,
        requests: 0,
        writes: 0,
        failing: BTreeMap::new(),
    });
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let is_over = budget.is_some_and(|budget| start_time.elapsed() > budget);
                    if seed >= end || is_over || has_failed.load(Ordering::Relaxed) {
                        return;
                    }
                    let script = Script {
                        quiet: Duration::from_secs(arguments.quiet),
                        ..workload::script(subject, seed)
                    };
                    let outcome = run(&script);
                    let is_repeated = record(&tally, seed, &outcome);
                    let mut violations = outcome.violations.iter();
                    let is_new = violations.any(|violation| !is_known(violation.oracle));
                    has_failed.fetch_or(arguments.first && is_new, Ordering::Relaxed);
                    let skip_minimise = arguments.no_minimise || arguments.first || is_repeated;
                    report(&script, &outcome, skip_minimise);
                }
            });
        }
    });
    let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!(
        "{subject}: {} seeds, {} requests, {} writes to the store, {:.0} s",
        tally.runs,
        tally.requests,
        tally.writes,
        start_time.elapsed().as_secs_f64()
    );
    for (oracle, seeds) in &tally.failing {
        println!("{subject}: {oracle}: {} seeds: {seeds:?}", seeds.len());
    }
    !tally.failing.keys().all(|oracle| is_known(oracle))
}

/// Counts a run. Returns whether another run violated the same oracle first.
fn record(tally: &Mutex<Tally>, seed: u64, outcome: &RunOutcome) -> bool {
    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    tally.runs += 1;
    tally.requests += u64::from(outcome.requests);
    tally.writes += outcome.writes;
    let mut is_known = false;
    for (index, violation) in outcome.violations.iter().enumerate() {
        let seeds = tally.failing.entry(violation.oracle).or_default();
        is_known |= index == 0 && !seeds.is_empty();
        if seeds.last() != Some(&seed) {
            seeds.push(seed);
        }
    }
    is_known
}

fn report(script: &Script, outcome: &RunOutcome, skip_minimise: bool) {
    let Some(first) = outcome.violations.first() else {
        return;
    };
    if skip_minimise {
        println!("{} seed {}: {first}", script.subject, script.seed);
        return;
    }
    let (short, runs) = minimise(script, first.oracle, RUNS_TO_MINIMISE);
    let outcome = run(&short);
    let violation = outcome
        .violations
        .iter()
        .find(|one| one.oracle == first.oracle);
    let mut text = format!(
        "{} seed {}: {}\n  {} of {} decisions, {} replicas, after {runs} runs:\n",
        script.subject,
        script.seed,
        violation.unwrap_or(first),
        short.decisions.len(),
        script.decisions.len(),
        short.replicas,
    );
    for decision in &short.decisions {
        text.push_str("    ");
        text.push_str(&decision.to_string());
        text.push('\n');
    }
    println!("{text}");
}

/// Runs all scenarios of an operator with a fault at every request. Returns whether any failed.
fn exhaust(subject: Subject, arguments: &Arguments) -> bool {
    let start_time = Instant::now();
    let budget = arguments.budget.map(Duration::from_secs);
    let is_over = || budget.is_some_and(|budget| start_time.elapsed() > budget);
    let is_known = |oracle: &str| arguments.known.iter().any(|known| known == oracle);
    let is_new = |outcome: &RunOutcome| {
        let mut violations = outcome.violations.iter();
        violations.any(|violation| !is_known(violation.oracle))
    };
    let mut scenarios = scenarios::all(subject);
    scenarios.retain(|scenario| scenario.name.contains(&arguments.scenario));
    let (mut runs, mut failed, mut skipped) = (0, 0, 0);
    for scenario in &scenarios {
        let clean = scenario.clean();
        for violation in &clean.violations {
            println!(
                "{subject} scenario {:?} without faults: {violation}",
                scenario.name
            );
        }
        failed += usize::from(is_new(&clean));
        let mut indices: Vec<_> = (0..clean.requests)
            .step_by(arguments.every.max(1))
            .collect();
        if is_over() {
            skipped += indices.len() * INJECTED.len();
            indices.clear();
        }
        let jobs: Vec<_> = INJECTED
            .iter()
            .flat_map(|injected| indices.iter().map(move |index| (injected, *index)))
            .collect();
        let next = AtomicU64::new(0);
        let violated = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..arguments.threads.max(1) {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let job = usize::try_from(number).ok().and_then(|job| jobs.get(job));
                        let Some(((name, fault), index)) = job else {
                            return;
                        };
                        let outcome = scenario.with(*fault, *index);
                        if let Some(first) = outcome.violations.first() {
                            violated.fetch_add(u64::from(is_new(&outcome)), Ordering::Relaxed);
                            println!(
                                "{subject} scenario {:?}, {name} after request {index}: {first}",
                                scenario.name
                            );
                        }
                    }
                });
            }
        });
        let violated = usize::try_from(violated.into_inner()).unwrap_or_default();
        println!(
            "{subject} scenario {:?}: {} requests, {} runs, {violated} failed",
            scenario.name,
            clean.requests,
            jobs.len() + 1,
        );
        runs += jobs.len() + 1;
        failed += violated;
    }
    println!(
        "{subject}: {} scenarios, {runs} runs, {failed} failed, {skipped} skipped for time, {:.0} s",
        scenarios.len(),
        start_time.elapsed().as_secs_f64()
    );
    failed > 0
}

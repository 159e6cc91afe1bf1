//! Cost of a fleet of Machines: memory, CPU of a resync, and requests without changes.

use std::{
    net::Ipv4Addr,
    sync::Arc,
    time::{Duration, Instant},
};

use runtime::client::CallCounter;
use sandbox::{
    ApiServer,
    serve::{Certificates, Kubeconfig, Limits, Server},
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::{
    cluster::{self, InProcessOperator},
    copies::{self, Original},
    operator::OperatorProcess,
};

/// Shorter than the default, to shorten the measurement.
const RESYNC: Duration = Duration::from_secs(3);

pub fn run(machines: usize, resyncs: u32) {
    cluster::block_on(async {
        println!("\n{machines} Machines with one disk each:");
        let original = Original::create().await;
        let empty = create_all(&original.server().await, machines).await;
        let server = original.server().await;
        let client = server.client();
        for number in 0..machines {
            original.copy(&client, &format!("fleet-{number}")).await;
        }
        observe_all(&serve(&server).await, machines, empty, resyncs).await;
        idle(&server).await;
    });
}

/// Serves the API on the loopback interface. Returns the folder of its kubeconfig.
async fn serve(api: &ApiServer) -> TempDir {
    let certificates = Certificates::generate().expect("certificates are made");
    let address = (Ipv4Addr::LOCALHOST, 0).into();
    let server = Server::bind(address, &certificates, Limits::default())
        .await
        .expect("there is a free port");
    let folder = tempfile::tempdir().expect("there is room for a folder");
    Kubeconfig {
        address: server.address(),
        authority_pem: certificates.authority_pem(),
        token: api.admin_token(),
        namespace: "default",
    }
    .write(&folder.path().join("kubeconfig"))
    .expect("the kubeconfig is written");
    tokio::spawn(server.serve(api.by_token(), CancellationToken::new()));
    folder
}

/// A process that creates disk and VirtualMachine of each, which nothing starts. Returns its memory
/// without Machines in KiB.
async fn create_all(server: &ApiServer, machines: usize) -> u64 {
    let folder = serve(server).await;
    let mut process = OperatorProcess::start(&folder.path().join("kubeconfig"), cluster::RESYNC);
    process.synced().await;
    let empty = process.memory().resident;
    let client = server.client();
    let start = Instant::now();
    for number in 0..machines {
        cluster::create(&client, &format!("fleet-{number}")).await;
    }
    let path = "/apis/kubevirt.io/v1/virtualmachines";
    while copies::count(&client, path).await < machines as u64 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!(
        "  from their creation until each has its VM {:>10.1} s",
        start.elapsed().as_secs_f64()
    );
    process.settled().await;
    print_memory("the process that created them", &process, machines, empty);
    empty
}

/// A process that finds all Machines converged.
async fn observe_all(folder: &TempDir, machines: usize, empty: u64, resyncs: u32) {
    let start = Instant::now();
    let mut process = OperatorProcess::start(&folder.path().join("kubeconfig"), RESYNC);
    process.synced().await;
    println!(
        "  from the start until the caches are synced {:>9.1} s",
        start.elapsed().as_secs_f64()
    );
    process.settled().await;
    let before = process.cpu_time();
    tokio::time::sleep(RESYNC * resyncs).await;
    println!(
        "  a resync of all of them                   {:>10.1} ms of CPU",
        process.cpu_time().saturating_sub(before).as_secs_f64() * 1000.0 / f64::from(resyncs)
    );
    print_memory(
        "a process that was started later",
        &process,
        machines,
        empty,
    );
}

fn print_memory(label: &str, process: &OperatorProcess, machines: usize, empty: u64) {
    let memory = process.memory();
    let mib = |kib: u64| kib as f64 / 1024.0;
    println!(
        "  {label:<41} {:>10.1} MiB resident, {:.1} MiB at most; {:.1} MiB without \
         Machines; {:.0} bytes a Machine",
        mib(memory.resident),
        mib(memory.most),
        mib(empty),
        memory.resident.saturating_sub(empty) as f64 * 1024.0 / machines as f64,
    );
}

/// An hour without changes, on virtual time.
async fn idle(server: &ApiServer) {
    tokio::time::pause();
    let calls = Arc::new(CallCounter::default());
    let operator = InProcessOperator::start(server, server.client(), Arc::clone(&calls) as _);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let start: u64 = calls.take().values().sum();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let hour = calls.take();
    let watches: u64 = hour
        .iter()
        .filter(|((verb, _, _), _)| *verb == "watch")
        .map(|(_, count)| count)
        .sum();
    println!("  requests of an operator that starts       {start:>10}");
    println!(
        "  requests in an hour without changes       {:>10}, besides {watches} watches opened again",
        hour.values().sum::<u64>() - watches
    );
    operator.stop().await;
}

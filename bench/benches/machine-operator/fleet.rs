//! A fleet of Machines: what it takes to hold it, to look at it, and what it asks for when there is
//! nothing to do.

use std::{
    net::Ipv4Addr,
    sync::Arc,
    time::{Duration, Instant},
};

use runtime::client::Counter;
use sandbox::{
    Cluster,
    serve::{Certificates, Kubeconfig, Limits, Server},
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::{
    ground::{self, Running},
    process::Process,
};

/// Shorter than the default, so that the time taken to measure is.
const RESYNC: Duration = Duration::from_secs(3);

pub fn run(machines: usize, resyncs: u32) {
    ground::block_on(async {
        println!("\n{machines} Machines with one disk each:");
        let cluster = ground::cluster(machines).await;
        let folder = serve(&cluster).await;
        let kubeconfig = folder.path().join("kubeconfig");
        create_all(&cluster, &kubeconfig, machines).await;
        hold(&kubeconfig, machines, resyncs).await;
        rest(&cluster).await;
        cluster.stop().await.expect("the cluster ends in order");
    });
}

/// Puts the cluster on the loopback interface, and its kubeconfig into a folder.
async fn serve(cluster: &Cluster) -> TempDir {
    let certificates = Certificates::generate().expect("certificates are made");
    let address = (Ipv4Addr::LOCALHOST, 0).into();
    let server = Server::bind(address, &certificates, Limits::default())
        .await
        .expect("there is a free port");
    let folder = tempfile::tempdir().expect("there is room for a folder");
    Kubeconfig {
        address: server.address(),
        authority_pem: certificates.authority_pem(),
        token: cluster.server().admin_token(),
        namespace: "default",
    }
    .write(&folder.path().join("kubeconfig"))
    .expect("the kubeconfig is written");
    tokio::spawn(server.serve(cluster.server().by_token(), CancellationToken::new()));
    folder
}

/// A process that brings all Machines up.
async fn create_all(cluster: &Cluster, kubeconfig: &std::path::Path, machines: usize) {
    let mut process = Process::start(kubeconfig, ground::RESYNC);
    process.synced().await;
    let client = cluster.client();
    let began = Instant::now();
    for number in 0..machines {
        ground::create(&client, &format!("fleet-{number}")).await;
    }
    ground::until_running(&client, machines, Duration::from_secs(1)).await;
    let took = began.elapsed();
    process.settled().await;
    println!(
        "  from their creation until all run         {:>10.1} s, {:.1} s of them CPU of the operator",
        took.as_secs_f64(),
        process.busy().as_secs_f64(),
    );
    print_memory("the process that created them all", &process, machines);
}

/// A process that finds all of them as they should be.
async fn hold(kubeconfig: &std::path::Path, machines: usize, resyncs: u32) {
    let began = Instant::now();
    let mut process = Process::start(kubeconfig, RESYNC);
    process.synced().await;
    println!(
        "  from the start until the caches are synced {:>9.1} s",
        began.elapsed().as_secs_f64()
    );
    tokio::time::sleep(RESYNC).await;
    let busy = process.busy();
    tokio::time::sleep(RESYNC * resyncs).await;
    println!(
        "  a look at all of them (resync)            {:>10.1} ms of CPU",
        (process.busy() - busy).as_secs_f64() * 1000.0 / f64::from(resyncs)
    );
    print_memory("a process that was started later", &process, machines);
}

fn print_memory(what: &str, process: &Process, machines: usize) {
    let memory = process.memory();
    let mib = |kib: u64| kib as f64 / 1024.0;
    println!(
        "  {what:<41} {:>10.1} MiB resident, {:.1} MiB at most; {:.0} bytes a Machine",
        mib(memory.resident),
        mib(memory.most),
        memory.resident as f64 * 1024.0 / machines as f64,
    );
}

/// An hour without changes, on virtual time.
async fn rest(cluster: &Cluster) {
    tokio::time::pause();
    let calls = Arc::new(Counter::default());
    let operator = Running::start(cluster, cluster.client(), Arc::clone(&calls) as _);
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

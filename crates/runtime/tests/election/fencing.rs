//! Fencing: a process that does not lead does not write.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use apiserver::{ApiServer, Options};
use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Full};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use runtime::{
    backoff::Random,
    client::{self, CallCounter, Limits, is_fenced},
    election::{Election, Fence, Leadership, Loss, identity},
};
use serde_json::json;
use tokio::time::{advance, sleep};

use crate::network::{Network, SECOND, candidate, clock};

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

async fn write(client: &kube::Client, name: &str) -> kube::Result<ConfigMap> {
    Api::<ConfigMap>::namespaced(client.clone(), "default")
        .create(&PostParams::default(), &config_map(name))
        .await
}

async fn exists(server: &ApiServer, name: &str) -> bool {
    let api: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    api.get_opt(name).await.unwrap().is_some()
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_for_a_minute_does_not_write() {
    let server = ApiServer::start(Options::seeded(1));
    let network = Network::to(&server);
    let leadership = network.candidate("a").acquire().await;
    let client = network.client(leadership.fence());
    write(&client, "before").await.unwrap();

    // No task of this process runs meanwhile, so none has noticed.
    advance(60 * SECOND).await;
    let error = write(&client, "after").await.unwrap_err();
    assert!(is_fenced(&error), "{error}");
    assert!(exists(&server, "before").await && !exists(&server, "after").await);
    assert_eq!(leadership.lost().await, Loss::NotRenewed);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waited_for_its_connection_is_not_sent() {
    let server = ApiServer::start(Options::seeded(1));
    let (election, writes) = (Network::to(&server), Network::to(&server));
    let leadership = election.candidate("a").acquire().await;
    let client = writes.client(leadership.fence());

    writes.set_cut(true);
    let write = tokio::spawn(async move { write(&client, "waiting").await });
    sleep(SECOND).await;
    advance(60 * SECOND).await;
    writes.set_cut(false);
    let error = write.await.unwrap().unwrap_err();
    // Either the timeout or the fence comes first.
    assert!(is_fenced(&error) || client::is_timeout(&error), "{error}");
    sleep(60 * SECOND).await;
    assert!(!exists(&server, "waiting").await);
}

/// An event of the log, in order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    /// The process with this identity leads from its own point of view.
    Acquired(String),
    /// The API server received its write.
    Wrote(String),
}

type EventLog = Arc<Mutex<Vec<Entry>>>;

/// A process that writes while it leads, and is restarted when it has lost leadership.
async fn process(host: &'static str, network: Network, log: EventLog, mut random: Random) {
    loop {
        let name = identity(host, &mut random);
        let election = Election::new(
            network.client(Fence::open()),
            candidate(&name),
            clock(&network.server),
            random.fork(),
        );
        let (wrote, sender) = (log.clone(), name.clone());
        // A server that accepts everything: only sender and time of writes matter.
        let transport = network.route(move |request| {
            let (wrote, sender) = (wrote.clone(), sender.clone());
            async move {
                request.into_body().collect().await?;
                wrote.lock().unwrap().push(Entry::Wrote(sender));
                Ok(Response::new(Full::new(Bytes::from_static(b"{}"))))
            }
        });
        let limits = Limits::UNLIMITED;
        let client = client::layered(
            transport,
            election.fence(),
            limits,
            Arc::new(CallCounter::default()),
        );
        let leadership = election.acquire().await;
        log.lock().unwrap().push(Entry::Acquired(name.clone()));
        lead(leadership, &client, &mut random).await;
    }
}

async fn lead(leadership: Leadership, client: &kube::Client, random: &mut Random) {
    let term = random.between(SECOND, 90 * SECOND);
    let writes = async {
        loop {
            // Not awaited: writes in flight when leadership ends must not matter.
            let client = client.clone();
            tokio::spawn(async move { write(&client, "any").await });
            sleep(random.between(SECOND / 20, SECOND)).await;
        }
    };
    tokio::select! {
        _ = leadership.lost() => {}
        () = writes => {}
        () = sleep(term) => {}
    }
    // Not released, since writes may be in flight: the successor has to wait.
}

/// Whatever the network does, only the latest leader writes.
#[tokio::test(start_paused = true)]
async fn no_two_leaders_write_at_the_same_time() {
    let mut handovers = 0;
    for seed in 0..4 {
        let server = ApiServer::start(Options::seeded(seed));
        let log = EventLog::default();
        let mut random = Random::seeded(seed);
        let networks: Vec<_> = (0..3).map(|_| Network::to(&server)).collect();
        let processes: Vec<_> = ["a", "b", "c"]
            .into_iter()
            .zip(&networks)
            .map(|(host, network)| {
                let process = process(host, network.clone(), log.clone(), random.fork());
                tokio::spawn(process)
            })
            .collect();
        for _ in 0..30 {
            let drawn = usize::try_from(random.next() % 3).unwrap();
            networks[drawn].set_cut(true);
            sleep(random.between(SECOND / 10, 25 * SECOND)).await;
            // Sometimes the whole node stops.
            if random.next().is_multiple_of(4) {
                advance(random.between(SECOND, 60 * SECOND)).await;
            }
            networks[drawn].set_cut(false);
            sleep(random.between(Duration::ZERO, 10 * SECOND)).await;
        }
        processes.iter().for_each(tokio::task::JoinHandle::abort);

        let log = log.lock().unwrap();
        let mut leader = None;
        let mut writes = 0;
        for entry in log.iter() {
            match entry {
                Entry::Acquired(who) => {
                    handovers += u32::from(leader.is_some());
                    leader = Some(who);
                }
                Entry::Wrote(who) => {
                    assert_eq!(
                        leader,
                        Some(who),
                        "seed {seed}: {who} wrote after it had lost leadership"
                    );
                    writes += 1;
                }
            }
        }
        assert!(writes > 100, "seed {seed}: {writes} writes");
    }
    assert!(handovers > 20, "{handovers}");
}

//! Leader election, on an API server in memory and in virtual time: a minute takes no time, and
//! every run is the same.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use apiserver::{ApiServer, Options, User};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use runtime::{
    backoff::Random,
    client::{self, Body, Counter, Limits, Transport, is_fenced},
    election::{
        Candidate, Clock, Election, Fence, LEASE_DURATION, Leadership, Loss, RENEW_DEADLINE,
        RETRY_PERIOD, identity,
    },
};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, advance, sleep, timeout},
};
use tower::{BoxError, ServiceExt};

const SECOND: Duration = Duration::from_secs(1);

/// A network that can be cut. What is under way then arrives once it is whole again, whether or not
/// anybody still waits for it.
#[derive(Clone)]
struct Network {
    server: ApiServer,
    cut: Arc<watch::Sender<bool>>,
}

impl Network {
    fn to(server: &ApiServer) -> Self {
        Self {
            server: server.clone(),
            cut: Arc::new(watch::Sender::new(false)),
        }
    }

    fn set_cut(&self, cut: bool) {
        self.cut.send_replace(cut);
    }

    fn transport(&self) -> Transport {
        let server = self.server.as_user(User::admin());
        self.carry(move |request| {
            let answer = server.clone().oneshot(request);
            async move { Ok(answer.await?) }
        })
    }

    /// Takes requests to `server`, when it can.
    fn carry<B, F>(
        &self,
        server: impl Fn(Request<Body>) -> F + Clone + Send + Sync + 'static,
    ) -> Transport
    where
        F: Future<Output = Result<Response<B>, BoxError>> + Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let cut = self.cut.subscribe();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, mut cut) = (server.clone(), cut.clone());
            let carried = tokio::spawn(async move {
                cut.wait_for(|cut| !cut).await?;
                server(request).await
            });
            async move { carried.await? }
        });
        Transport::new(service, "default")
    }

    fn client(&self, fence: Fence) -> kube::Client {
        let calls = Arc::new(Counter::default());
        client::layered(self.transport(), fence, Limits::UNLIMITED, calls)
    }

    fn candidate(&self, name: &str) -> Election {
        Election::new(
            self.client(Fence::open()),
            wanted(name),
            clock(&self.server),
            Random::seeded(name.len() as u64),
        )
    }
}

fn wanted(identity: &str) -> Candidate {
    Candidate {
        namespace: "default".to_owned(),
        name: "operator".to_owned(),
        identity: identity.to_owned(),
    }
}

fn clock(server: &ApiServer) -> Clock {
    let server = server.clone();
    Arc::new(move || server.now())
}

fn leases(server: &ApiServer) -> Api<Lease> {
    Api::namespaced(server.client(), "default")
}

async fn lease(server: &ApiServer) -> k8s_openapi::api::coordination::v1::LeaseSpec {
    leases(server).get("operator").await.unwrap().spec.unwrap()
}

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
async fn the_first_candidate_leads_at_once_and_says_so_in_the_lease() {
    let server = ApiServer::start(Options::seeded(1));
    let election = Network::to(&server).candidate("first");
    let fence = election.fence();
    assert!(!fence.holds());
    let leadership = election.win().await;
    assert!(fence.holds() && leadership.fence().holds());

    let spec = lease(&server).await;
    assert_eq!(spec.holder_identity.as_deref(), Some("first"));
    assert_eq!(spec.lease_duration_seconds, Some(15));
    assert_eq!(spec.lease_transitions, Some(0));
    assert_eq!(spec.acquire_time, spec.renew_time);

    sleep(60 * SECOND).await;
    let later = lease(&server).await;
    assert_eq!(later.holder_identity.as_deref(), Some("first"));
    assert_eq!(later.acquire_time, spec.acquire_time);
    assert!(later.renew_time > spec.renew_time);
    assert!(fence.holds());
}

#[tokio::test(start_paused = true)]
async fn renewing_costs_one_call_every_two_seconds() {
    let server = ApiServer::start(Options::seeded(1));
    let calls = Arc::new(Counter::default());
    let client = client::layered(
        server.client(),
        Fence::open(),
        Limits::UNLIMITED,
        calls.clone(),
    );
    let election = Election::new(client, wanted("a"), clock(&server), Random::seeded(1));
    let _leadership = election.win().await;
    calls.take();
    sleep(60 * SECOND).await;
    let calls: Vec<_> = calls.take().into_iter().collect();
    let update = ("update", "leases".to_owned(), "200".to_owned());
    let [(call, count)] = calls.as_slice() else {
        panic!("{calls:?}")
    };
    assert_eq!(*call, update);
    assert!((29..=30).contains(count), "{count}");
}

#[tokio::test(start_paused = true)]
async fn a_second_candidate_waits_and_takes_over_when_the_lease_expires() {
    let server = ApiServer::start(Options::seeded(1));
    let (first, second) = (Network::to(&server), Network::to(&server));
    let leadership = first.candidate("first").win().await;
    let mut waiting = Box::pin(second.candidate("second").win());
    assert!(timeout(120 * SECOND, &mut waiting).await.is_err());

    first.set_cut(true);
    let start = Instant::now();
    let successor = waiting.await;
    let waited = start.elapsed();
    // It changed last at most one period before the cut, and was seen at most one period later.
    assert!(waited >= LEASE_DURATION - RETRY_PERIOD, "{waited:?}");
    assert!(waited <= LEASE_DURATION + 3 * RETRY_PERIOD, "{waited:?}");
    assert!(!leadership.fence().holds() && successor.fence().holds());
    assert_eq!(leadership.lost().await, Loss::NotRenewed);
    assert_eq!(lease(&server).await.lease_transitions, Some(1));
}

#[tokio::test(start_paused = true)]
async fn times_written_in_the_lease_mean_nothing() {
    let server = ApiServer::start(Options::seeded(1));
    let stale: Lease = serde_json::from_value(json!({
        "metadata": {"name": "operator"},
        "spec": {
            "holderIdentity": "dead",
            "leaseDurationSeconds": 15,
            "renewTime": "2001-01-01T00:00:00.000000Z",
            "leaseTransitions": 7,
        },
    }))
    .unwrap();
    leases(&server)
        .create(&PostParams::default(), &stale)
        .await
        .unwrap();
    let start = Instant::now();
    let _leadership = Network::to(&server).candidate("a").win().await;
    assert!(start.elapsed() >= LEASE_DURATION);
    assert_eq!(lease(&server).await.lease_transitions, Some(8));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_released_is_taken_at_the_next_look() {
    let server = ApiServer::start(Options::seeded(1));
    let network = Network::to(&server);
    let leadership = network.candidate("first").win().await;
    let fence = leadership.fence();
    let waiting = tokio::spawn(network.candidate("second").win());
    sleep(60 * SECOND).await;

    leadership.release().await.unwrap();
    assert!(!fence.holds());
    let spec = lease(&server).await;
    assert_eq!(spec.holder_identity, None);
    assert_eq!(spec.lease_duration_seconds, Some(1));

    let start = Instant::now();
    let successor = waiting.await.unwrap();
    assert!(
        start.elapsed() <= RETRY_PERIOD * 6 / 5,
        "{:?}",
        start.elapsed()
    );
    assert!(successor.fence().holds());
    let spec = lease(&server).await;
    assert_eq!(spec.holder_identity.as_deref(), Some("second"));
    assert_eq!(spec.lease_duration_seconds, Some(15));
    assert_eq!(spec.lease_transitions, Some(1));
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_renewed_until_it_is_released() {
    let server = ApiServer::start(Options::seeded(1));
    let leadership = Network::to(&server).candidate("a").win().await;
    // The writes that are under way when the shutdown begins may take their time.
    sleep(30 * SECOND).await;
    assert!(leadership.fence().holds());
    leadership.release().await.unwrap();
    assert_eq!(lease(&server).await.holder_identity, None);
}

#[tokio::test(start_paused = true)]
async fn a_release_does_not_hold_up_the_shutdown() {
    let server = ApiServer::start(Options::seeded(1));
    let network = Network::to(&server);
    let leadership = network.candidate("a").win().await;
    network.set_cut(true);
    let start = Instant::now();
    let error = leadership.release().await.unwrap_err();
    assert!(start.elapsed() <= 3 * SECOND, "{:?}", start.elapsed());
    assert_eq!(
        error.to_string(),
        "cannot release the Lease default/operator: no answer from the API server within 2 s"
    );
}

#[tokio::test(start_paused = true)]
async fn a_release_does_not_touch_a_lease_of_another() {
    let server = ApiServer::start(Options::seeded(1));
    let leadership = Network::to(&server).candidate("a").win().await;
    take_by_hand(&server, "b").await;
    leadership.release().await.unwrap();
    assert_eq!(lease(&server).await.holder_identity.as_deref(), Some("b"));
}

async fn take_by_hand(server: &ApiServer, holder: &str) {
    let patch = json!({"spec": {"holderIdentity": holder}});
    leases(server)
        .patch("operator", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn leadership_is_lost_when_the_server_does_not_answer_for_ten_seconds() {
    let server = ApiServer::start(Options::seeded(1));
    let network = Network::to(&server);
    let leadership = network.candidate("a").win().await;
    sleep(30 * SECOND).await;
    network.set_cut(true);
    let start = Instant::now();
    assert_eq!(leadership.lost().await, Loss::NotRenewed);
    let waited = start.elapsed();
    assert!(waited <= RENEW_DEADLINE, "{waited:?}");
    assert!(waited >= RENEW_DEADLINE - RETRY_PERIOD, "{waited:?}");
    assert!(!leadership.fence().holds());

    // For good: nothing brings it back.
    network.set_cut(false);
    sleep(60 * SECOND).await;
    assert!(!leadership.fence().holds());
    assert_eq!(leadership.lost().await, Loss::NotRenewed);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_for_less_costs_nothing() {
    let server = ApiServer::start(Options::seeded(1));
    let network = Network::to(&server);
    let leadership = network.candidate("a").win().await;
    for _ in 0..20 {
        network.set_cut(true);
        sleep(7 * SECOND).await;
        network.set_cut(false);
        sleep(11 * SECOND).await;
        assert!(leadership.fence().holds());
    }
    assert_eq!(lease(&server).await.lease_transitions, Some(0));
}

#[tokio::test(start_paused = true)]
async fn leadership_is_lost_at_once_when_another_has_the_lease() {
    let server = ApiServer::start(Options::seeded(1));
    let leadership = Network::to(&server).candidate("a").win().await;
    take_by_hand(&server, "b").await;
    let start = Instant::now();
    let loss = leadership.lost().await;
    assert_eq!(loss.to_string(), "the Lease was taken by b");
    assert!(start.elapsed() <= RETRY_PERIOD);
    assert!(!leadership.fence().holds());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_deletes_is_made_again_by_its_holder() {
    let server = ApiServer::start(Options::seeded(1));
    let network = Network::to(&server);
    let leadership = network.candidate("first").win().await;
    let waiting = tokio::spawn(network.candidate("second").win());
    for _ in 0..5 {
        sleep(20 * SECOND).await;
        leases(&server)
            .delete("operator", &DeleteParams::default())
            .await
            .unwrap();
    }
    sleep(20 * SECOND).await;
    assert!(leadership.fence().holds() && !waiting.is_finished());
    assert_eq!(
        lease(&server).await.holder_identity.as_deref(),
        Some("first")
    );
}

#[tokio::test(start_paused = true)]
async fn without_rights_it_waits_until_they_are_given() {
    let server = ApiServer::start(Options::seeded(1));
    let client = server.client_of("default", "operator");
    let election = Election::new(client, wanted("a"), clock(&server), Random::seeded(1));
    let mut waiting = Box::pin(election.win());
    assert!(timeout(60 * SECOND, &mut waiting).await.is_err());
    grant(&server).await;
    let start = Instant::now();
    let leadership = waiting.await;
    assert!(start.elapsed() <= 2 * RETRY_PERIOD);
    assert!(leadership.fence().holds());
}

/// The rights that the message about missing rights names, and no others.
async fn grant(server: &ApiServer) {
    use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
    let role: Role = serde_json::from_value(json!({
        "metadata": {"name": "election"},
        "rules": [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
                   "verbs": ["get", "create", "update"]}],
    }))
    .unwrap();
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "election"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "election"},
        "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": "default"}],
    }))
    .unwrap();
    let params = PostParams::default();
    Api::<Role>::namespaced(server.client(), "default")
        .create(&params, &role)
        .await
        .unwrap();
    Api::<RoleBinding>::namespaced(server.client(), "default")
        .create(&params, &binding)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn dropping_leadership_lets_the_fence_fall() {
    let server = ApiServer::start(Options::seeded(1));
    let leadership = Network::to(&server).candidate("a").win().await;
    let fence = leadership.fence();
    drop(leadership);
    assert!(!fence.holds());
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_for_a_minute_does_not_write() {
    let server = ApiServer::start(Options::seeded(1));
    let network = Network::to(&server);
    let leadership = network.candidate("a").win().await;
    let client = network.client(leadership.fence());
    write(&client, "before").await.unwrap();

    // Nothing of this process runs meanwhile, so nothing in it has noticed.
    advance(60 * SECOND).await;
    let error = write(&client, "after").await.unwrap_err();
    assert!(is_fenced(&error), "{error}");
    assert!(exists(&server, "before").await && !exists(&server, "after").await);
    assert_eq!(leadership.lost().await, Loss::NotRenewed);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waited_for_its_connection_meanwhile_is_not_sent() {
    let server = ApiServer::start(Options::seeded(1));
    let (election, writes) = (Network::to(&server), Network::to(&server));
    let leadership = election.candidate("a").win().await;
    let client = writes.client(leadership.fence());

    writes.set_cut(true);
    let write = tokio::spawn(async move { write(&client, "waiting").await });
    sleep(SECOND).await;
    advance(60 * SECOND).await;
    writes.set_cut(false);
    let error = write.await.unwrap().unwrap_err();
    // Whichever is noticed first: the time that has passed, or the fence.
    assert!(is_fenced(&error) || client::is_timeout(&error), "{error}");
    sleep(60 * SECOND).await;
    assert!(!exists(&server, "waiting").await);
}

/// What happened at the API server, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    /// A process, by its identity, believes from now on that it leads.
    Won(String),
    /// The server took a write of it.
    Wrote(String),
}

type Journal = Arc<Mutex<Vec<Entry>>>;

/// A process that writes all the time while it leads, and is restarted when it has lost.
async fn process(host: &'static str, network: Network, journal: Journal, mut random: Random) {
    loop {
        let me = identity(host, &mut random);
        let election = Election::new(
            network.client(Fence::open()),
            wanted(&me),
            clock(&network.server),
            random.fork(),
        );
        let (wrote, name) = (journal.clone(), me.clone());
        // A server that takes everything: what counts is whose writes it is given, and when.
        let transport = network.carry(move |request| {
            let (wrote, name) = (wrote.clone(), name.clone());
            async move {
                request.into_body().collect().await?;
                wrote.lock().unwrap().push(Entry::Wrote(name));
                Ok(Response::new(Full::new(Bytes::from_static(b"{}"))))
            }
        });
        let limits = Limits::UNLIMITED;
        let client = client::layered(
            transport,
            election.fence(),
            limits,
            Arc::new(Counter::default()),
        );
        let leadership = election.win().await;
        journal.lock().unwrap().push(Entry::Won(me.clone()));
        lead(leadership, &client, &mut random).await;
    }
}

async fn lead(leadership: Leadership, client: &kube::Client, random: &mut Random) {
    let term = random.between(SECOND, 90 * SECOND);
    let writes = async {
        loop {
            // Nobody waits for it: what is still under way when leadership ends must not matter.
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
    // Not released, because writes may be under way: the successor has to wait.
}

/// Whatever the network does, a write is taken only from the one that won last.
#[tokio::test(start_paused = true)]
async fn no_two_leaders_write_at_the_same_time() {
    let mut handovers = 0;
    for seed in 0..4 {
        let server = ApiServer::start(Options::seeded(seed));
        let journal = Journal::default();
        let mut random = Random::seeded(seed);
        let networks: Vec<_> = (0..3).map(|_| Network::to(&server)).collect();
        let processes: Vec<_> = ["a", "b", "c"]
            .into_iter()
            .zip(&networks)
            .map(|(host, network)| {
                let process = process(host, network.clone(), journal.clone(), random.fork());
                tokio::spawn(process)
            })
            .collect();
        for _ in 0..30 {
            let drawn = usize::try_from(random.next() % 3).unwrap();
            networks[drawn].set_cut(true);
            sleep(random.between(SECOND / 10, 25 * SECOND)).await;
            // Now and then the whole machine stands still.
            if random.next() % 4 == 0 {
                advance(random.between(SECOND, 60 * SECOND)).await;
            }
            networks[drawn].set_cut(false);
            sleep(random.between(Duration::ZERO, 10 * SECOND)).await;
        }
        processes.iter().for_each(tokio::task::JoinHandle::abort);

        let journal = journal.lock().unwrap();
        let mut leader = None;
        let mut writes = 0;
        for entry in journal.iter() {
            match entry {
                Entry::Won(who) => {
                    handovers += u32::from(leader.is_some());
                    leader = Some(who);
                }
                Entry::Wrote(who) => {
                    assert_eq!(
                        leader,
                        Some(who),
                        "seed {seed}: {who} wrote after it had lost"
                    );
                    writes += 1;
                }
            }
        }
        assert!(writes > 100, "seed {seed}: {writes} writes");
    }
    assert!(handovers > 20, "{handovers}");
}

//! Acquisition, renewal, loss and release of leadership.

use std::sync::Arc;

use apiserver::{ApiServer, Options};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use runtime::{
    backoff::Random,
    client::{self, CallCounter, Limits},
    election::{Election, Fence, LEASE_DURATION, Loss, RENEW_DEADLINE, RETRY_PERIOD},
};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::network::{Network, SECOND, candidate, clock};

fn leases(server: &ApiServer) -> Api<Lease> {
    Api::namespaced(server.client(), "default")
}

async fn lease(server: &ApiServer) -> LeaseSpec {
    leases(server).get("operator").await.unwrap().spec.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_first_candidate_leads_immediately_and_records_it_in_the_lease() {
    let server = ApiServer::start(Options::seeded(1));
    let election = Network::to(&server).candidate("first");
    let fence = election.fence();
    assert!(!fence.allows_writes());
    let leadership = election.acquire().await;
    assert!(fence.allows_writes() && leadership.fence().allows_writes());

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
    assert!(fence.allows_writes());
}

#[tokio::test(start_paused = true)]
async fn renewing_costs_one_call_every_two_seconds() {
    let server = ApiServer::start(Options::seeded(1));
    let calls = Arc::new(CallCounter::default());
    let client = client::layered(
        server.client(),
        Fence::open(),
        Limits::UNLIMITED,
        calls.clone(),
    );
    let election = Election::new(client, candidate("a"), clock(&server), Random::seeded(1));
    let _leadership = election.acquire().await;
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
async fn a_second_candidate_leads_when_the_lease_expires() {
    let server = ApiServer::start(Options::seeded(1));
    let (first, second) = (Network::to(&server), Network::to(&server));
    let leadership = first.candidate("first").acquire().await;
    let mut waiting = Box::pin(second.candidate("second").acquire());
    assert!(timeout(120 * SECOND, &mut waiting).await.is_err());

    first.set_cut(true);
    let start = Instant::now();
    let successor = waiting.await;
    let waited = start.elapsed();
    // It changed at most one period before the cut and was observed at most one period later.
    assert!(waited + RETRY_PERIOD >= LEASE_DURATION, "{waited:?}");
    assert!(waited <= LEASE_DURATION + 3 * RETRY_PERIOD, "{waited:?}");
    assert!(!leadership.fence().allows_writes() && successor.fence().allows_writes());
    assert_eq!(leadership.lost().await, Loss::NotRenewed);
    assert_eq!(lease(&server).await.lease_transitions, Some(1));
}

#[tokio::test(start_paused = true)]
async fn times_in_the_lease_are_ignored() {
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
    let _leadership = Network::to(&server).candidate("a").acquire().await;
    assert!(start.elapsed() >= LEASE_DURATION);
    assert_eq!(lease(&server).await.lease_transitions, Some(8));
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_acquired_at_the_next_retry() {
    let server = ApiServer::start(Options::seeded(1));
    let network = Network::to(&server);
    let leadership = network.candidate("first").acquire().await;
    let fence = leadership.fence();
    let waiting = tokio::spawn(network.candidate("second").acquire());
    sleep(60 * SECOND).await;

    leadership.release().await.unwrap();
    assert!(!fence.allows_writes());
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
    assert!(successor.fence().allows_writes());
    let spec = lease(&server).await;
    assert_eq!(spec.holder_identity.as_deref(), Some("second"));
    assert_eq!(spec.lease_duration_seconds, Some(15));
    assert_eq!(spec.lease_transitions, Some(1));
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_renewed_until_it_is_released() {
    let server = ApiServer::start(Options::seeded(1));
    let leadership = Network::to(&server).candidate("a").acquire().await;
    // Writes in flight at the start of shutdown may take a while.
    sleep(30 * SECOND).await;
    assert!(leadership.fence().allows_writes());
    leadership.release().await.unwrap();
    assert_eq!(lease(&server).await.holder_identity, None);
}

#[tokio::test(start_paused = true)]
async fn a_release_does_not_delay_shutdown() {
    let server = ApiServer::start(Options::seeded(1));
    let network = Network::to(&server);
    let leadership = network.candidate("a").acquire().await;
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
async fn a_release_keeps_the_lease_of_another_process() {
    let server = ApiServer::start(Options::seeded(1));
    let leadership = Network::to(&server).candidate("a").acquire().await;
    acquire_by_hand(&server, "b").await;
    leadership.release().await.unwrap();
    assert_eq!(lease(&server).await.holder_identity.as_deref(), Some("b"));
}

async fn acquire_by_hand(server: &ApiServer, holder: &str) {
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
    let leadership = network.candidate("a").acquire().await;
    sleep(30 * SECOND).await;
    network.set_cut(true);
    let start = Instant::now();
    assert_eq!(leadership.lost().await, Loss::NotRenewed);
    let waited = start.elapsed();
    assert!(waited <= RENEW_DEADLINE, "{waited:?}");
    assert!(waited + RETRY_PERIOD >= RENEW_DEADLINE, "{waited:?}");
    assert!(!leadership.fence().allows_writes());

    // Lost leadership is final.
    network.set_cut(false);
    sleep(60 * SECOND).await;
    assert!(!leadership.fence().allows_writes());
    assert_eq!(leadership.lost().await, Loss::NotRenewed);
}

#[tokio::test(start_paused = true)]
async fn a_shorter_outage_keeps_leadership() {
    let server = ApiServer::start(Options::seeded(1));
    let network = Network::to(&server);
    let leadership = network.candidate("a").acquire().await;
    for _ in 0..20 {
        network.set_cut(true);
        sleep(7 * SECOND).await;
        network.set_cut(false);
        sleep(11 * SECOND).await;
        assert!(leadership.fence().allows_writes());
    }
    assert_eq!(lease(&server).await.lease_transitions, Some(0));
}

#[tokio::test(start_paused = true)]
async fn leadership_is_lost_immediately_when_another_process_has_the_lease() {
    let server = ApiServer::start(Options::seeded(1));
    let leadership = Network::to(&server).candidate("a").acquire().await;
    acquire_by_hand(&server, "b").await;
    let start = Instant::now();
    let loss = leadership.lost().await;
    assert_eq!(loss.to_string(), "b has acquired the Lease");
    assert!(start.elapsed() <= RETRY_PERIOD);
    assert!(!leadership.fence().allows_writes());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_recreated_by_its_holder() {
    let server = ApiServer::start(Options::seeded(1));
    let network = Network::to(&server);
    let leadership = network.candidate("first").acquire().await;
    let waiting = tokio::spawn(network.candidate("second").acquire());
    for _ in 0..5 {
        sleep(20 * SECOND).await;
        leases(&server)
            .delete("operator", &DeleteParams::default())
            .await
            .unwrap();
    }
    sleep(20 * SECOND).await;
    assert!(leadership.fence().allows_writes() && !waiting.is_finished());
    assert_eq!(
        lease(&server).await.holder_identity.as_deref(),
        Some("first")
    );
}

#[tokio::test(start_paused = true)]
async fn without_permissions_it_waits_until_they_are_granted() {
    let server = ApiServer::start(Options::seeded(1));
    let client = server.client_of("default", "operator");
    let election = Election::new(client, candidate("a"), clock(&server), Random::seeded(1));
    let mut waiting = Box::pin(election.acquire());
    assert!(timeout(60 * SECOND, &mut waiting).await.is_err());
    grant(&server).await;
    let start = Instant::now();
    let leadership = waiting.await;
    assert!(start.elapsed() <= 2 * RETRY_PERIOD);
    assert!(leadership.fence().allows_writes());
}

/// The permissions that the error message names, and no others.
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
async fn dropping_leadership_closes_the_fence() {
    let server = ApiServer::start(Options::seeded(1));
    let leadership = Network::to(&server).candidate("a").acquire().await;
    let fence = leadership.fence();
    drop(leadership);
    assert!(!fence.allows_writes());
}

//! Conformance cases, recorded from a kube-apiserver, run against the sandbox's API server.

use actors::{Actor, Clock, World, workloads::Namespaces};
use apiserver::{ApiServer, Options};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn the_sandbox_responds_as_a_kube_apiserver_does() {
    let server = ApiServer::start(Options::seeded(1));
    let world = World {
        clock: Clock::starting_at(server.now()),
        ..World::new(server.client())
    };
    // The recorded server had controllers of namespaces and their ServiceAccounts.
    let controllers: Vec<Box<dyn Actor>> = vec![Box::new(Namespaces { ca: String::new() })];
    let token = CancellationToken::new();
    let running = tokio::spawn(actors::run_with(world, controllers, token.clone()));
    let options = conformance::Options {
        only: std::env::var("CONFORMANCE_ONLY").ok(),
        webhooks: true,
        ..conformance::Options::default()
    };
    let report = conformance::run(server.client(), options)
        .await
        .expect("the server can be asked for its capabilities");
    token.cancel();
    running.await.unwrap();
    println!("{report}");
    assert!(
        report.failed.is_empty(),
        "{} cases failed",
        report.failed.len()
    );
}

//! The recorded answers of a real kube-apiserver, held against the API server of the sandbox.

use apiserver::{ApiServer, Options};

#[tokio::test]
async fn the_sandbox_answers_as_a_real_api_server_does() {
    let server = ApiServer::start(Options::seeded(1));
    let options = conformance::Options {
        only: std::env::var("CONFORMANCE_ONLY").ok(),
        ..conformance::Options::default()
    };
    let report = conformance::run(server.client(), options)
        .await
        .expect("the server can be asked for its capabilities");
    println!("{report}");
    assert!(
        report.failed.is_empty(),
        "{} cases failed",
        report.failed.len()
    );
}

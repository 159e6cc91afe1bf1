//! Runner of scenarios in virtual time.

/// Runs a scenario in virtual time. With `RUST_LOG` set, prints the log when it fails.
pub(crate) fn run(scenario: impl Future<Output = ()>) {
    // Fails if another scenario of this process has installed the subscriber.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_test_writer()
        .try_init();
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(scenario);
}

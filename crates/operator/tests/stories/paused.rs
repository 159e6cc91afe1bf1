//! Stories on paused time.

/// Tells a story on paused time. With `RUST_LOG` set, the log is shown when it fails.
pub(crate) fn tell(story: impl Future<Output = ()>) {
    // Set already by another story of this process.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_test_writer()
        .try_init();
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(story);
}

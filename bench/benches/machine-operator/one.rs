//! Requests of one Machine with one disk.

use std::{sync::Arc, time::Duration};

use runtime::client::CallCounter;

use crate::cluster::{self, InProcessOperator};

pub fn run() {
    cluster::block_on(async {
        tokio::time::pause();
        let cluster = cluster::start(1).await;
        let client = cluster.client();
        let calls = Arc::new(CallCounter::default());
        let operator =
            InProcessOperator::start(cluster.server(), cluster.client(), Arc::clone(&calls) as _);
        // Until the watches are open.
        tokio::time::sleep(Duration::from_secs(60)).await;
        let opened = calls.take();
        cluster::create(&client, "one").await;
        cluster::until_running(&client, 1, Duration::from_millis(20)).await;
        // For late updates: addresses, Events.
        tokio::time::sleep(Duration::from_secs(60)).await;
        println!("requests at the start of the operator: {}", sum(&opened));
        println!("requests of a Machine with one disk, from its creation until a minute after:");
        let counted = calls.take();
        for ((verb, resource, code), count) in &counted {
            println!("  {count:>4}  {verb:<8} {resource:<28} {code}");
        }
        println!("  {:>4}  in all", sum(&counted));
        operator.stop().await;
        cluster.stop().await.expect("the cluster ends in order");
    });
}

fn sum<K>(counted: &std::collections::BTreeMap<K, u64>) -> u64 {
    counted.values().sum()
}

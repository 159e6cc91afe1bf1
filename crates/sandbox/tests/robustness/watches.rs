//! Many watches, and watches whose client does not read.

use allocation_counter::measure;
use apiserver::Options;
use serde_json::Value;

use crate::client::{CONFIG_MAPS, Server, config_map, events};

const FROM_NOW: &str = "watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";

#[tokio::test]
async fn each_of_a_thousand_watches_gets_every_event() {
    const WATCHES: usize = 1000;
    const WRITES: usize = 10;
    let server = Server::start();
    let mut watches = Vec::new();
    for _ in 0..WATCHES {
        watches.push(server.open(&format!("{CONFIG_MAPS}?{FROM_NOW}")).await);
    }
    for write in 0..WRITES {
        let object = config_map(&format!("object-{write}"), "1");
        server.post(CONFIG_MAPS, &object).await.ok();
    }
    for watch in &mut watches {
        let mut names: Vec<Value> = Vec::new();
        while names.len() < WRITES {
            let events = events(watch).await.unwrap();
            names.extend(
                events
                    .iter()
                    .map(|event| event["object"]["metadata"]["name"].clone()),
            );
        }
        let expected: Vec<Value> = (0..WRITES)
            .map(|write| format!("object-{write}").into())
            .collect();
        assert_eq!(names, expected);
    }
}

#[test]
fn a_watch_that_does_not_read_costs_no_memory_and_expires() {
    const HISTORY: usize = 100;
    const SIZE: usize = 4096;
    const MOST: i64 = 64 * 1024;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let (server, mut slow) = runtime.block_on(async {
        let server = Server::with(Options {
            history: HISTORY,
            ..Options::seeded(1)
        });
        server.post(CONFIG_MAPS, &config_map("a", "0")).await.ok();
        let mut slow = Vec::new();
        for _ in 0..10 {
            slow.push(server.open(&format!("{CONFIG_MAPS}?{FROM_NOW}")).await);
        }
        // One of them has read once, so it is already waiting.
        server.post(CONFIG_MAPS, &config_map("b", "0")).await.ok();
        assert_eq!(events(&mut slow[0]).await.unwrap().len(), 1);
        (server, slow)
    });
    let write = |from: usize| {
        runtime.block_on(async {
            for number in from..from + 20 * HISTORY {
                let object = config_map("a", &format!("{number:0SIZE$}"));
                server.put(&format!("{CONFIG_MAPS}/a"), &object).await.ok();
            }
        });
    };
    // The history is full after the first.
    write(0);
    let counted = measure(|| write(20 * HISTORY));
    assert!(
        counted.bytes_current < MOST,
        "{} bytes more are allocated",
        counted.bytes_current
    );
    runtime.block_on(async {
        for watch in &mut slow {
            let last = events(watch).await.unwrap().pop().unwrap();
            assert_eq!(last["type"], "ERROR");
            assert_eq!(last["object"]["code"], 410);
            assert_eq!(last["object"]["reason"], "Expired");
            assert!(events(watch).await.is_none(), "the watch has ended");
        }
    });
}

#[test]
fn a_history_of_large_objects_is_kept_within_bounds() {
    const SIZE: usize = 900 * 1024;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let counted = measure(|| {
        runtime.block_on(async {
            let server = Server::start();
            server.post(CONFIG_MAPS, &config_map("a", "0")).await.ok();
            for number in 100..300 {
                let object = config_map("a", &number.to_string().repeat(SIZE / 3));
                server.put(&format!("{CONFIG_MAPS}/a"), &object).await.ok();
            }
            server.api.stop().unwrap();
        });
    });
    assert!(counted.bytes_max < 128 << 20, "{} bytes", counted.bytes_max);
}

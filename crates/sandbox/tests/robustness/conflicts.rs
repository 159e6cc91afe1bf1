//! Concurrent writes.

use futures::future::join_all;
use http::StatusCode;
use serde_json::json;

use crate::client::{CONFIG_MAPS, Server, config_map};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_a_thousand_updates_of_one_version_exactly_one_succeeds() {
    let server = Server::start();
    let mut object = server.post(CONFIG_MAPS, &config_map("a", "0")).await.ok();
    for round in 0..3 {
        let tasks: Vec<_> = (0..1000)
            .map(|number| {
                let server = server.clone();
                let mut object = object.clone();
                object["data"]["value"] = format!("{round}-{number}").into();
                tokio::spawn(async move { server.put(&format!("{CONFIG_MAPS}/a"), &object).await })
            })
            .collect();
        let answers: Vec<_> = join_all(tasks)
            .await
            .into_iter()
            .map(Result::unwrap)
            .collect();
        let (won, lost): (Vec<_>, Vec<_>) = answers
            .iter()
            .partition(|answer| answer.status == StatusCode::OK);
        assert_eq!(won.len(), 1);
        assert!(
            lost.iter()
                .all(|answer| answer.status == StatusCode::CONFLICT)
        );
        object = server.get(&format!("{CONFIG_MAPS}/a")).await.ok();
        assert_eq!(object["data"], won[0].json()["data"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_concurrent_write_is_lost() {
    const WRITERS: usize = 8;
    const WRITES: usize = 25;
    let server = Server::start();
    server.post(CONFIG_MAPS, &config_map("a", "0")).await.ok();
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let server = server.clone();
            tokio::spawn(async move {
                for write in 0..WRITES {
                    let patch = json!({"data": {format!("key-{writer}-{write}"): "x"}});
                    // The server retries a patch several times, then returns a conflict.
                    loop {
                        let answer = server.patch(&format!("{CONFIG_MAPS}/a"), &patch).await;
                        if answer.status == StatusCode::OK {
                            break;
                        }
                        assert_eq!(answer.status, StatusCode::CONFLICT);
                        tokio::task::yield_now().await;
                    }
                }
            })
        })
        .collect();
    for task in join_all(tasks).await {
        task.unwrap();
    }
    let object = server.get(&format!("{CONFIG_MAPS}/a")).await.ok();
    let data = object["data"].as_object().unwrap();
    assert_eq!(data.len(), WRITERS * WRITES + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_creates_of_one_name_exactly_one_succeeds() {
    let server = Server::start();
    let tasks: Vec<_> = (0..200)
        .map(|number| {
            let server = server.clone();
            tokio::spawn(async move {
                let object = config_map("same", &number.to_string());
                server.post(CONFIG_MAPS, &object).await.status
            })
        })
        .collect();
    let answers: Vec<_> = join_all(tasks)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let count = |code| answers.iter().filter(|status| **status == code).count();
    assert_eq!(count(StatusCode::CREATED), 1);
    assert_eq!(count(StatusCode::CONFLICT), 199);
}

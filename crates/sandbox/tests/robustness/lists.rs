//! Lists of objects that change.

use serde_json::{Value, json};

use crate::client::{CONFIG_MAPS, Server};

const OBJECTS: usize = 2000;
const PAGE: usize = 100;

fn numbered(number: usize, round: usize) -> Value {
    json!({
        "metadata": {"name": format!("object-{number:05}")},
        "data": {"round": round.to_string()},
    })
}

#[tokio::test]
async fn a_paginated_list_is_consistent() {
    let server = Server::start();
    for number in 0..OBJECTS {
        server.post(CONFIG_MAPS, &numbered(number, 0)).await.ok();
    }
    let mut listed = Vec::new();
    let mut token = String::new();
    let mut revision = String::new();
    for round in 1.. {
        let page = server
            .get(&format!("{CONFIG_MAPS}?limit={PAGE}&continue={token}"))
            .await
            .ok();
        let metadata = &page["metadata"];
        if round == 1 {
            revision = metadata["resourceVersion"].to_string();
        }
        assert_eq!(metadata["resourceVersion"].to_string(), revision);
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= PAGE);
        listed.extend(
            items
                .iter()
                .filter(|item| item["metadata"]["name"] != "kube-root-ca.crt")
                .cloned(),
        );
        // Objects of later pages change before they are read.
        for step in 0..10 {
            let number = (round * 97 + step * 191) % OBJECTS;
            let path = format!("{CONFIG_MAPS}/object-{number:05}");
            match step % 3 {
                0 => {
                    let delete = http::Method::DELETE;
                    server.send(delete, &path, "application/json", "").await;
                }
                1 => {
                    server.put(&path, &numbered(number, round)).await;
                }
                _ => {
                    let new = numbered(OBJECTS + round * 10 + step, round);
                    server.post(CONFIG_MAPS, &new).await.ok();
                }
            }
        }
        match metadata["continue"].as_str() {
            None | Some("") => break,
            Some(next) => next.clone_into(&mut token),
        }
    }
    assert_eq!(listed.len(), OBJECTS);
    for (number, item) in listed.iter().enumerate() {
        assert_eq!(item["metadata"]["name"], format!("object-{number:05}"));
        assert_eq!(item["data"]["round"], "0");
    }
}

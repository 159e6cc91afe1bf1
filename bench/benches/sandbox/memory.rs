//! Memory of objects, lists and writes in the sandbox's API server:
//! `cargo bench -p bench --bench sandbox-memory`.
//!
//! Counting allocations takes time, so writes are timed elsewhere.
#![allow(
    clippy::expect_used,
    clippy::cast_precision_loss,
    reason = "figures for people, and a benchmark without its server has nothing to measure"
)]

mod load;

use http::Request;
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use load::{Load, Write};

fn main() {
    // `cargo bench` passes this, `cargo test` does not.
    let objects: usize = if std::env::args().any(|argument| argument == "--bench") {
        20_000
    } else {
        200
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime needs nothing");
    let mut load = None;
    let filled = allocation_counter::measure(|| {
        load = Some(runtime.block_on(Load::start(objects)));
    });
    let load = load.expect("the load was started");
    let mut json = 0;
    let listed = allocation_counter::measure(|| {
        json = runtime.block_on(list(&load.client));
    });
    let each = filled.bytes_current as f64 / objects as f64;
    let own = json as f64 / objects as f64;
    println!("{objects} ConfigMaps:");
    println!("  heap, with the server and its history   {each:>10.0} bytes an object");
    println!("  of it the object's own JSON             {own:>10.0} bytes");
    println!(
        "  overhead                                {:>10.0} bytes an object",
        each - own
    );
    println!(
        "  a list of all, at its peak              {:>10.1} KiB for {:.1} MiB of JSON",
        listed.bytes_max as f64 / 1024.0,
        json as f64 / 1024.0 / 1024.0,
    );
    println!("\nallocations and reallocations, with those of the client:");
    for write in Write::ALL {
        let writes = objects / 10;
        runtime.block_on(load.write(write, writes));
        let counted = allocation_counter::measure(|| runtime.block_on(load.write(write, writes)));
        println!(
            "  {:<52} {:>8.0} a write",
            write.name(),
            counted.count_total as f64 / writes as f64
        );
    }
}

/// Reads a list of all ConfigMaps frame by frame. Returns its length.
async fn list(client: &Client) -> usize {
    let request = Request::get("/api/v1/configmaps")
        .body(Body::empty())
        .expect("the request is one");
    let response = client.send(request).await.expect("there is an answer");
    let mut body = response.into_body();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.expect("the list is whole");
        length += frame.into_data().map_or(0, |data| data.len());
    }
    length
}

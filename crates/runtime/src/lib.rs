//! Effects that every operator stands on. Nothing here knows what a Machine is.

pub mod backoff;
pub mod cache;
pub mod certificates;
pub mod client;
pub mod election;
pub mod events;
pub mod logs;
pub mod metrics;
pub mod probes;
pub mod reflector;
mod text;
pub mod tls;
pub mod work_queue;

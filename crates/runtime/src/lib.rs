//! Infrastructure that every operator needs: control loop, reflectors, caches, work queue, client, leader election,
//! Events, metrics, probes and logs. Nothing here knows of Machines or KubeVirt.

pub mod backoff;
pub mod cache;
pub mod certificates;
pub mod client;
pub mod control_loop;
pub mod election;
pub mod events;
pub mod logs;
pub mod metrics;
pub mod probes;
pub mod reflector;
mod text;
pub mod tls;
pub mod work_queue;

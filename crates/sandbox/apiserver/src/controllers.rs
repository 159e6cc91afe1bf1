//! The controllers without which an API server is not a cluster: the garbage collector, the end of
//! namespaces, aggregated roles, resource quotas, and the resources that definitions add. They look only
//! at what a write brings to their attention; nothing polls.

mod clusterrole_aggregation;
pub mod crds;
mod garbage_collector;
mod loopback;
mod namespaces;
mod resource_quotas;

use std::{sync::Arc, time::Duration};

use crate::{
    ApiError,
    server::Shared,
    store::{ObjectId, WorkItem},
};

pub use loopback::LoopbackClient;

/// Before something that failed is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Runs the controllers until the server stops.
pub async fn run(server: Arc<Shared>) {
    loop {
        let item = tokio::select! {
            biased;
            () = server.stopping.cancelled() => return,
            item = server.store.next_work_item() => item,
        };
        if let Err(error) = reconcile(&server, &item).await {
            tracing::debug!(?item, message = %error.message, "looking again later");
            let server = server.clone();
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    () = server.stopping.cancelled() => {}
                    () = tokio::time::sleep(RETRY_DELAY) => server.store.requeue(item),
                }
            });
        }
    }
}

async fn reconcile(server: &Arc<Shared>, item: &WorkItem) -> Result<(), ApiError> {
    match item {
        WorkItem::DeletedOwner(uid) => garbage_collector::on_owner_deleted(server, uid).await,
        WorkItem::Object(id) => reconcile_object(server, id).await,
    }
}

async fn reconcile_object(server: &Arc<Shared>, id: &ObjectId) -> Result<(), ApiError> {
    if crds::is_crd(id) {
        crds::reconcile(server, id).await?;
        resource_quotas::requeue_all(server);
    }
    if clusterrole_aggregation::is_cluster_role(id) {
        return clusterrole_aggregation::reconcile(server).await;
    }
    if resource_quotas::is_quota(id) {
        resource_quotas::reconcile(server, id).await?;
    }
    if namespaces::is_namespace(id) {
        namespaces::reconcile(server, id).await?;
    }
    garbage_collector::reconcile(server, id).await
}

//! Built-in controllers: garbage collector, namespaces, ClusterRole aggregation, ResourceQuotas and
//! CustomResourceDefinitions.
//!
//! They reconcile only objects that a write has put into the work queue of the store; nothing
//! polls.

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

const RETRY_DELAY: Duration = Duration::from_secs(1);

pub async fn run(server: Arc<Shared>) {
    loop {
        let item = tokio::select! {
            biased;
            () = server.stopping.cancelled() => return,
            item = server.store.next_work_item() => item,
        };
        if let Err(error) = reconcile(&server, &item).await {
            tracing::debug!(?item, message = %error.message, "reconcile failed, retrying after a delay");
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

//! The controllers without which an API server is not a cluster: the garbage collector, the end of
//! namespaces, aggregated roles, resource quotas, and the resources that definitions add. They look only
//! at what a write brings to their attention; nothing polls.

pub mod definitions;
mod garbage;
mod internal;
mod namespaces;
mod quotas;
mod roles;

use std::{sync::Arc, time::Duration};

use crate::{
    ApiError,
    server::Shared,
    store::{Attention, ObjectId},
};

pub use internal::Internal;

/// Before something that failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs the controllers until the server stops.
pub async fn run(server: Arc<Shared>) {
    loop {
        let attention = tokio::select! {
            biased;
            () = server.stopping.cancelled() => return,
            attention = server.store.attention() => attention,
        };
        if let Err(error) = attend(&server, &attention).await {
            tracing::debug!(?attention, message = %error.message, "looking again later");
            let server = server.clone();
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    () = server.stopping.cancelled() => {}
                    () = tokio::time::sleep(AGAIN) => server.store.look_again(attention),
                }
            });
        }
    }
}

async fn attend(server: &Arc<Shared>, attention: &Attention) -> Result<(), ApiError> {
    match attention {
        Attention::Gone(uid) => garbage::owner_is_gone(server, uid).await,
        Attention::Written(id) => written(server, id).await,
    }
}

async fn written(server: &Arc<Shared>, id: &ObjectId) -> Result<(), ApiError> {
    if definitions::is_one(id) {
        definitions::attend(server, id).await?;
        quotas::look_at_all(server);
    }
    if roles::is_one(id) {
        return roles::attend(server).await;
    }
    if quotas::is_one(id) {
        quotas::attend(server, id).await?;
    }
    if namespaces::is_one(id) {
        namespaces::attend(server, id).await?;
    }
    garbage::attend(server, id).await
}

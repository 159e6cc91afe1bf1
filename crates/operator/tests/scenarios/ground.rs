//! Where stories are told: each on a sandbox of its own, or all on one real cluster.

use std::{future::Future, sync::Arc, time::Duration};

use kube::Client;
use kubevirt_operator::machine::Clock;
use runtime::client::Transport;
use sandbox::{ApiServer, Cluster};

use crate::{
    paused,
    real::{self, Real},
};

/// The operator's service account, and its namespace.
pub(crate) const ACCOUNT: (&str, &str) = (
    "kubevirt-operator-system",
    "kubevirt-operator-controller-manager",
);

/// Tells a story.
pub(crate) fn tell(story: impl Future<Output = ()>) {
    match real::cluster() {
        Some(cluster) => cluster.tell(story),
        None => paused::tell(story),
    }
}

/// Tells a story that a kube-apiserver with the actors beside it is not enough for.
pub(crate) fn tell_in_sandbox(because: &str, story: impl Future<Output = ()>) {
    if real::cluster().is_some() {
        real::skip(because);
    } else {
        paused::tell(story);
    }
}

/// Tells a story in which somebody has to collect garbage and to end namespaces.
pub(crate) fn tell_with_controllers(story: impl Future<Output = ()>) {
    match real::cluster() {
        Some(cluster) if !cluster.has_controllers => {
            real::skip("nobody collects garbage or ends namespaces here");
        }
        _ => tell(story),
    }
}

/// The cluster of a story.
pub(crate) enum Ground {
    Sandbox(Cluster),
    Real(&'static Real),
}

impl Ground {
    /// A client of somebody who may do everything.
    pub(crate) fn client(&self) -> Client {
        match self {
            Self::Sandbox(cluster) => cluster.client(),
            Self::Real(cluster) => cluster.client.clone(),
        }
    }

    /// A way to the API server for the operator, with the rights of its service account.
    pub(crate) fn transport(&self) -> Transport {
        match self {
            Self::Sandbox(cluster) => cluster.server().client_of(ACCOUNT.0, ACCOUNT.1).into(),
            Self::Real(cluster) => cluster.transport(),
        }
    }

    pub(crate) fn clock(&self) -> Clock {
        match self {
            Self::Sandbox(cluster) => {
                let server = cluster.server().clone();
                Arc::new(move || server.now())
            }
            Self::Real(_) => Arc::new(jiff::Timestamp::now),
        }
    }

    /// How long something may take that is to happen.
    pub(crate) fn patience(&self) -> Duration {
        match self {
            Self::Sandbox(_) => Duration::from_secs(600),
            Self::Real(_) => Duration::from_secs(60),
        }
    }

    /// How long something may take that does not wait for anything.
    pub(crate) fn soon(&self) -> Duration {
        match self {
            Self::Sandbox(_) => Duration::from_secs(2),
            // Short of the interval after which the operator looks again by itself.
            Self::Real(_) => Duration::from_secs(15),
        }
    }

    /// The sandbox's API server.
    pub(crate) fn server(&self) -> &ApiServer {
        match self {
            Self::Sandbox(cluster) => cluster.server(),
            Self::Real(_) => panic!("this story is for tell_in_sandbox"),
        }
    }
}

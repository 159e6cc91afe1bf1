//! Preview of Machines with virtual machines in several clusters.

use std::collections::BTreeMap;

use api::{KubevirtConfig, Machine, Time};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use plan::{
    Id,
    machine::{Provider, VmCluster},
};
use runtime::{
    client::{CallCounter, Limits, layered},
    election::Fence,
};
use serde_json::Value;

use super::{Documents, GivenDocument, Kind, Place, Preview, PreviewError, live::Live, preview_in};
use crate::machine::{
    controller::unknown_cluster,
    kubeconfig::{Connector, of_secret, secret_of},
};

/// Computes the preview of applying the documents. Machines that name a cluster, or whose virtual machines are in
/// one, are previewed there.
pub async fn preview_clusters(
    client: Client,
    documents: &Documents,
    provider: Provider,
    default: Option<String>,
    connect: &Connector,
    now: Time,
) -> Result<Preview, PreviewError> {
    let local = Place {
        management: client.clone(),
        workload: client.clone(),
        cluster: None,
        default: default.clone(),
    };
    let given: Vec<&GivenDocument> = documents.given.iter().collect();
    let live = Live::list(&local, super::scopes(&given), provider.clone()).await?;
    let mut here = Vec::new();
    let mut elsewhere: BTreeMap<String, Vec<&GivenDocument>> = BTreeMap::new();
    for document in given {
        match cluster_of(document, &live, default.as_deref()) {
            Some(cluster) => elsewhere.entry(cluster).or_default().push(document),
            None => here.push(document),
        }
    }
    let mut preview = super::preview_live(
        &local,
        live,
        &here,
        &documents.others,
        provider.clone(),
        now.clone(),
    )
    .await?;
    for (cluster, machines) in elsewhere {
        let workload = match open(&client, &cluster, connect).await {
            Ok(workload) => workload,
            Err(problem) => {
                let errors = machines
                    .iter()
                    .map(|it| format!("{}: {problem}", it.origin));
                preview.errors.extend(errors);
                continue;
            }
        };
        let place = Place {
            workload,
            cluster: Some(cluster.clone()),
            ..local.clone()
        };
        // Networks and classes among the documents count there, too.
        let shared = here.iter().filter(|it| it.kind != Kind::Machine);
        let of_cluster: Vec<&GivenDocument> = machines.into_iter().chain(shared.copied()).collect();
        let others = &documents.others;
        let found = preview_in(&place, &of_cluster, others, provider.clone(), now.clone()).await;
        match found {
            Ok(found) => merge(&mut preview, found),
            Err(error) => preview.errors.push(format!("cluster {cluster}: {error}")),
        }
    }
    Ok(preview)
}

/// The other cluster of a Machine.
fn cluster_of(document: &GivenDocument, live: &Live, default: Option<&str>) -> Option<String> {
    if document.kind != Kind::Machine {
        return None;
    }
    let mut merged = document.value.clone();
    if let Some(found) = live.untrimmed(document.kind, &document.key) {
        merged["metadata"]["finalizers"] = found["metadata"]["finalizers"].clone();
        merged["status"] = found["status"].clone();
        let name = api::labels::KUBEVIRT_CONFIG;
        let annotations = &document.value["metadata"]["annotations"];
        let recorded = &found["metadata"]["annotations"][name];
        if annotations[name].is_null() && recorded.is_string() {
            merged["metadata"]["annotations"][name] = recorded.clone();
        }
    }
    // The API server reports what does not decode.
    let machine: Machine = decode::from_value(without_null(merged)).ok()?;
    match VmCluster::of(&machine, default) {
        VmCluster::Local => None,
        VmCluster::Remote(cluster) => Some(cluster.to_owned()),
    }
}

fn without_null(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
    }
    value
}

/// Client of a cluster; or the problem and its remedy.
async fn open(client: &Client, cluster: &str, connect: &Connector) -> Result<Client, String> {
    let configs: Api<KubevirtConfig> = Api::all(client.clone());
    let config = match configs.get(cluster).await {
        Ok(config) => config,
        Err(kube::Error::Api(status)) if status.code == 404 => {
            return Err(unknown_cluster(cluster).message);
        }
        Err(error) => return Err(format!("cannot read KubevirtConfig {cluster}: {error}")),
    };
    let (namespace, name) = secret_of(&config)?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = secrets.get_opt(name).await;
    let secret =
        secret.map_err(|error| format!("cannot read Secret {namespace}/{name}: {error}"))?;
    let kubeconfig = of_secret(cluster, (namespace, name), secret.as_ref())?;
    let transport = connect(kubeconfig).await.map_err(|reason| {
        format!("the kubeconfig in Secret {namespace}/{name} cannot be used: {reason}")
    })?;
    let calls = std::sync::Arc::new(CallCounter::default());
    Ok(layered(transport, Fence::open(), Limits::UNLIMITED, calls))
}

/// Adds a preview of another cluster. What is the same in both is shown once.
fn merge(preview: &mut Preview, found: Preview) {
    let known = |id: &Id, preview: &Preview| preview.forecasts.iter().any(|it| it.id == *id);
    for forecast in found.forecasts {
        if !known(&forecast.id, preview) {
            preview.forecasts.push(forecast);
        }
    }
    for (all, more) in [
        (&mut preview.errors, found.errors),
        (&mut preview.notes, found.notes),
    ] {
        for message in more {
            if !all.contains(&message) {
                all.push(message);
            }
        }
    }
}

//! Removal of the objects that a case created, also on a server without controllers.

use std::collections::BTreeSet;

use kube::Client;
use serde_json::{Value, json};

use crate::exchange::{self, Incoming, Outgoing};

/// Paths of the objects that a case created.
#[derive(Debug, Default)]
pub(crate) struct Litter {
    paths: Vec<String>,
    known: BTreeSet<String>,
}

impl Litter {
    /// Records the object that a request created, if any.
    pub(crate) fn note(&mut self, method: &str, target: &str, response: &Incoming) {
        if !matches!(method, "POST" | "PUT" | "PATCH") || !(200..300).contains(&response.code) {
            return;
        }
        let path = target.split('?').next().unwrap_or(target);
        let metadata = |key| response.body.pointer(key).and_then(Value::as_str);
        let (Some(name), Some(_)) = (metadata("/metadata/name"), metadata("/metadata/uid")) else {
            return;
        };
        let path = match method {
            "POST" => format!("{path}/{name}"),
            // Subresources are not objects.
            _ if path.ends_with(name) => path.to_owned(),
            _ => return,
        };
        if self.known.insert(path.clone()) {
            self.paths.push(path);
        }
    }

    /// Deletes the objects, newest first. Errors are ignored: the next run uses other names.
    /// Without `controllers`, namespaces are finalized here.
    pub(crate) async fn remove(
        self,
        client: &Client,
        controllers: bool,
    ) -> Result<(), exchange::Error> {
        for path in self.paths.into_iter().rev() {
            let now = format!("{path}?gracePeriodSeconds=0&propagationPolicy=Background");
            let response = exchange::send(client, Outgoing::new("DELETE", &now)).await?;
            let namespace = path.strip_prefix("/api/v1/namespaces/");
            if let Some(name) = namespace.filter(|name| !controllers && !name.contains('/')) {
                finalize(client, name).await?;
                continue;
            }
            if response.body.pointer("/metadata/finalizers").is_some()
                && !path.contains("/customresourcedefinitions/")
            {
                let patch = json!({"metadata": {"finalizers": null}});
                let request = Outgoing {
                    body: Some(patch.to_string()),
                    ..Outgoing::new("PATCH", &path)
                }
                .header("content-type", "application/merge-patch+json");
                exchange::send(client, request).await?;
            }
        }
        Ok(())
    }
}

/// Finalizes a namespace on a server without a namespace controller.
pub(crate) async fn finalize(client: &Client, name: &str) -> Result<(), exchange::Error> {
    let path = format!("/api/v1/namespaces/{name}");
    let response = exchange::send(client, Outgoing::get(&path)).await?;
    if response.code != 200 {
        return Ok(());
    }
    let mut namespace = response.body;
    if let Some(spec) = namespace.get_mut("spec") {
        *spec = json!({"finalizers": []});
    }
    let body = Some(namespace.to_string());
    let request = Outgoing {
        body,
        ..Outgoing::new("PUT", &format!("{path}/finalize"))
    };
    exchange::send(client, request).await?;
    Ok(())
}

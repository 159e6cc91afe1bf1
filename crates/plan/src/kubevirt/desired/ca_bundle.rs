//! CA bundle in the objects through which the API server and OpenShift's router call KubeVirt.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use crate::kubevirt::{object::Id, tree};

/// Whether an object carries the CA bundle.
pub(super) fn needs_bundle(id: &Id) -> bool {
    matches!(
        &*id.kind,
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" | "APIService" | "Route"
    )
}

/// Adds the bundle to an object that carries it, unless it is empty. An error is the malformed field.
pub(super) fn finish(id: &Id, value: &mut Value, bundle: &str) -> Result<(), &'static str> {
    if bundle.is_empty() {
        return Ok(());
    }
    match &*id.kind {
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            let encoded = STANDARD.encode(bundle);
            for webhook in tree::items_mut(value, "/webhooks") {
                set_bundle(webhook, &["clientConfig"], "caBundle", &encoded)?;
            }
            Ok(())
        }
        "APIService" => set_bundle(value, &["spec"], "caBundle", &STANDARD.encode(bundle)),
        "Route" => set_bundle(value, &["spec", "tls"], "destinationCACertificate", bundle),
        _ => Ok(()),
    }
}

fn set_bundle(
    value: &mut Value,
    path: &[&str],
    field: &'static str,
    bundle: &str,
) -> Result<(), &'static str> {
    let fields = tree::map(value, path).ok_or(field)?;
    fields.insert(field.to_owned(), bundle.into());
    Ok(())
}

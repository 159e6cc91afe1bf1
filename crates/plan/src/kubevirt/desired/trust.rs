//! Whom the API server, and OpenShift's router, trust when they call KubeVirt.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use crate::kubevirt::{object::Id, tree};

/// Whether an object carries the bundle of CAs.
pub(super) fn needs_bundle(id: &Id) -> bool {
    matches!(
        &*id.kind,
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" | "APIService" | "Route"
    )
}

/// Puts the bundle into an object that carries it, unless it is empty. An error names the field that
/// is in the way.
pub(super) fn finish(id: &Id, value: &mut Value, bundle: &str) -> Result<(), &'static str> {
    if bundle.is_empty() {
        return Ok(());
    }
    match &*id.kind {
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            let encoded = STANDARD.encode(bundle);
            for webhook in tree::items_mut(value, "/webhooks") {
                put(webhook, &["clientConfig"], "caBundle", &encoded)?;
            }
            Ok(())
        }
        "APIService" => put(value, &["spec"], "caBundle", &STANDARD.encode(bundle)),
        "Route" => put(value, &["spec", "tls"], "destinationCACertificate", bundle),
        _ => Ok(()),
    }
}

fn put(
    value: &mut Value,
    path: &[&str],
    field: &'static str,
    bundle: &str,
) -> Result<(), &'static str> {
    let fields = tree::map(value, path).ok_or(field)?;
    fields.insert(field.to_owned(), bundle.into());
    Ok(())
}

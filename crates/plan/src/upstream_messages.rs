//! Messages of the API server, the scheduler, KubeVirt and CDI, parsed into enums.
//!
//! These facts have no other source: neither a reason, nor a code, nor a cause in the details carries
//! them. All knowledge of upstream's wording is here, and decisions match on the enums. A message in
//! another wording is `Other`, which is never wrong, only less specific.

use api::ObservedCondition;

/// Why the API server refused a write, beyond its status code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// A webhook did not answer. `k8s.io/apiserver`, `admission/plugin/webhook`: an InternalError whose
    /// details repeat the message. The endpoint is the Service if the message names it, else the host,
    /// else the webhook.
    WebhookUnavailable {
        endpoint: String,
    },
    /// `k8s.io/apiserver`, `admission/plugin/resourcequota`: a Forbidden like any other.
    QuotaExceeded {
        quota: Option<String>,
    },
    /// CDI's webhook: the creator of a DataVolume may not clone from the source namespace.
    CloneForbidden,
    /// `k8s.io/apiserver`, validation against a schema: a field is null and must not be. The causes in
    /// the details name the field, and the value only in their message.
    NullValue,
    Other,
}

impl RefusalCause {
    pub fn parse(message: &str) -> Self {
        if let Some((_, failure)) = message.split_once("failed calling webhook ") {
            let endpoint = endpoint(failure).to_owned();
            return Self::WebhookUnavailable { endpoint };
        }
        if let Some((_, rest)) = message.split_once("exceeded quota") {
            let quota = rest.strip_prefix(": ");
            let quota = quota.and_then(|quota| quota.split([',', ' ']).next());
            let quota = quota.map(str::to_owned);
            return Self::QuotaExceeded { quota };
        }
        if message.contains("has insufficient permissions in clone source namespace") {
            return Self::CloneForbidden;
        }
        if message.contains("null") {
            return Self::NullValue;
        }
        Self::Other
    }
}

fn endpoint(failure: &str) -> &str {
    let quoted = |before: &str| {
        let (_, rest) = failure.split_once(before)?;
        rest.split('"').next()
    };
    if let Some(service) = quoted("service \"") {
        return service;
    }
    if let Some(url) = quoted("\"https://") {
        let host = url.split(['/', '?']).next().unwrap_or_default();
        let name = host.split(':').next().unwrap_or_default();
        let service = name
            .strip_suffix(".svc")
            .and_then(|name| name.split('.').next());
        return service.unwrap_or(host);
    }
    failure.split('"').nth(1).unwrap_or(failure)
}

/// Why an instance does not start, from a condition of a VirtualMachine or its instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartProblem {
    /// A claim is not bound yet, which `StorageReady` reports.
    ClaimNotBound,
    /// KubeVirt quotes the API server's refusal of the pod.
    QuotaExceeded,
    Other,
}

impl StartProblem {
    pub(crate) fn of(condition: &ObservedCondition) -> Self {
        let ObservedCondition {
            reason, message, ..
        } = condition;
        // The scheduler has one reason, Unschedulable, for all causes.
        let is_unbound = message.contains("unbound immediate PersistentVolumeClaims");
        // KubeVirt also reports that the pod cannot be scheduled, with the scheduler's reason, without
        // a time, and for a moment longer than it is true.
        let is_missing = condition.last_transition_time.is_none() && message.starts_with("PVC ");
        match reason.as_str() {
            "FailedPvcNotFound" | "PVCNotReady" | "BackendStorageNotReady" => Self::ClaimNotBound,
            _ if is_unbound || is_missing => Self::ClaimNotBound,
            _ if matches!(
                RefusalCause::parse(message),
                RefusalCause::QuotaExceeded { .. }
            ) =>
            {
                Self::QuotaExceeded
            }
            _ => Self::Other,
        }
    }
}

/// Why a DataVolume has no bound claim, from its condition `Bound`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnboundCause {
    /// CDI is about to create the claim, or waits for it to be bound.
    Pending,
    SourceNotFound,
    NotCreated,
}

impl UnboundCause {
    pub(crate) fn of(bound: &ObservedCondition) -> Self {
        match (bound.reason.as_str(), bound.message.as_str()) {
            // CDI gives the reason NotFound for a missing source and for a claim that it is about to
            // create.
            ("" | "Pending", _) | (_, "No PVC found") => Self::Pending,
            ("CloneWithoutSource" | "NotFound", _) => Self::SourceNotFound,
            _ => Self::NotCreated,
        }
    }
}

#[cfg(test)]
mod tests;

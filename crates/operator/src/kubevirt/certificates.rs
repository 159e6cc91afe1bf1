//! Cache of certificates in Secrets and of CA bundles in ConfigMaps.
//!
//! Keys are read when a Secret changes, and not kept. Signers are determined again when a certificate or
//! a CA bundle changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use plan::{
    certificates::{BundleCertificate, CERTIFICATE, KEY, Pair},
    kubevirt::{
        Id, Live,
        certificates::{BUNDLE, CA},
    },
};
use runtime::{reflector::WatchEvent, tls::Certificate};

use super::slim::Secret;
use crate::certificates::{Authority, Parsed, known, pair, part};

/// Secret with the serving certificate of the operator's webhook.
const OPERATOR: &str = "kubevirt-operator-certs";

#[derive(Default)]
pub(super) struct Certificates {
    /// Parsed certificates, by name and version of their Secret.
    read: BTreeMap<(Arc<str>, Box<str>), Parsed>,
    pairs: BTreeMap<String, Pair>,
    bundles: BTreeMap<String, Vec<BundleCertificate>>,
    /// Versions of the ConfigMaps that the bundles were read from.
    sources: BTreeMap<Id, Box<str>>,
    webhook: Option<Certificate>,
    /// Whether the webhook serves the certificate in the Secret; if not, why.
    served: Option<Result<(), String>>,
}

impl Certificates {
    pub(super) fn new(webhook: Option<Certificate>) -> Self {
        Self {
            webhook,
            ..Self::default()
        }
    }

    /// By name of the Secret.
    pub(super) fn pairs(&self) -> &BTreeMap<String, Pair> {
        &self.pairs
    }

    /// By name of the ConfigMap.
    pub(super) fn bundles(&self) -> &BTreeMap<String, Vec<BundleCertificate>> {
        &self.bundles
    }

    pub(super) fn on_event(&mut self, change: &WatchEvent<Secret>) {
        if let WatchEvent::Listed(secret) | WatchEvent::Applied(secret) = change {
            self.insert(secret);
        }
    }

    pub(super) fn insert(&mut self, secret: &Secret) {
        let Secret { live, data } = secret;
        if &*live.id.name == OPERATOR
            && let Some(webhook) = &self.webhook
        {
            let replaced = webhook.replace(part(data, CERTIFICATE), part(data, KEY));
            self.served = Some(replaced.map_err(|error| {
                tracing::warn!(
                    secret = OPERATOR,
                    "the webhook cannot serve the certificate in Secret {OPERATOR}: {error}"
                );
                format!("the webhook cannot serve the certificate in Secret {OPERATOR}: {error}")
            }));
        }
        if let Some(read) = Parsed::of(data) {
            let key = (Arc::clone(&live.id.name), live.resource_version.clone());
            self.read.insert(key, read);
        }
    }

    /// Readiness of the webhook: whether it serves the certificate in the Secret, if there is one. None
    /// without webhook. `synced` says that all Secrets are cached.
    pub(super) fn webhook(&self, synced: bool) -> Option<Result<(), String>> {
        self.webhook.as_ref()?;
        let without_secret = if synced {
            Ok(())
        } else {
            Err(format!("Secret {OPERATOR} has not been listed yet"))
        };
        Some(self.served.clone().unwrap_or(without_secret))
    }

    /// Updates pairs and bundles from the cached objects. Returns whether they changed.
    pub(super) fn update(&mut self, objects: &BTreeMap<Id, Live>, namespace: &str) -> bool {
        let bundles = self.update_bundles(objects, namespace);
        let secrets = objects
            .values()
            .filter(|live| live.id.is("", "Secret") && &*live.id.namespace == namespace);
        let found: Vec<(&Live, Parsed)> = secrets
            .filter_map(|live| {
                let key = (Arc::clone(&live.id.name), live.resource_version.clone());
                Some((live, self.read.get(&key)?.clone()))
            })
            .collect();
        let versions: BTreeSet<_> = found
            .iter()
            .map(|(live, _)| (Arc::clone(&live.id.name), live.resource_version.clone()))
            .collect();
        self.read.retain(|key, _| versions.contains(key));
        let authorities = self.authorities(&found);
        let pairs: BTreeMap<String, Pair> = found
            .into_iter()
            .map(|(live, read)| {
                let before = self.pairs.get(&*live.id.name);
                let pair = pair(read, before, &authorities).annotated(&live.annotations);
                (live.id.name.to_string(), pair)
            })
            .collect();
        let changed = pairs != self.pairs;
        self.pairs = pairs;
        changed || bundles
    }

    fn update_bundles(&mut self, objects: &BTreeMap<Id, Live>, namespace: &str) -> bool {
        let maps = objects
            .values()
            .filter(|live| live.id.is("", "ConfigMap") && &*live.id.namespace == namespace);
        let sources: BTreeMap<Id, Box<str>> = maps
            .clone()
            .map(|live| (live.id.clone(), live.resource_version.clone()))
            .collect();
        if sources == self.sources {
            return false;
        }
        let bundles = maps.filter_map(|live| {
            let value = live.value();
            let text = value["data"][BUNDLE].as_str()?;
            Some((live.id.name.to_string(), known(text)))
        });
        self.bundles = bundles.collect();
        self.sources = sources;
        true
    }

    /// CAs that may have signed a certificate: the current one, the next one, and those of the bundle.
    fn authorities(&self, found: &[(&Live, Parsed)]) -> Vec<Authority> {
        let mut found = found.iter();
        let own = found.find(|(live, _)| &*live.id.name == CA);
        let own = own.into_iter().flat_map(|(_, read)| read.authorities());
        let bundle = self.bundles.get(CA).into_iter().flatten();
        let bundle = bundle.map(Authority::from);
        own.chain(bundle).collect()
    }
}

#[cfg(test)]
mod tests {
    use runtime::tls::Certificate;

    use super::Certificates;

    #[test]
    fn the_webhook_is_not_ready_before_secrets_are_synced() {
        let none = Certificates::new(None);
        assert_eq!(none.webhook(false), None);
        let certificates = Certificates::new(Some(Certificate::fallback().unwrap()));
        assert!(certificates.webhook(false).unwrap().is_err());
        assert!(certificates.webhook(true).unwrap().is_ok());
    }
}

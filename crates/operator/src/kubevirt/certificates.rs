//! What is in the Secrets with certificates and in the bundles of CAs.
//!
//! Keys are looked at when a Secret is told of, and not kept. Which CA has signed a certificate is
//! found out again when one of them or the bundle changes.

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
use crate::certificates::{Authority, Read, known, pair, part};

/// The Secret with the certificate of the operator's own webhook.
const OPERATOR: &str = "kubevirt-operator-certs";

/// What is in Secrets and bundles, as far as it may be known.
#[derive(Default)]
pub(super) struct Certificates {
    /// What was read, by the Secret's name and version.
    read: BTreeMap<(Arc<str>, Box<str>), Read>,
    pairs: BTreeMap<String, Pair>,
    bundles: BTreeMap<String, Vec<BundleCertificate>>,
    /// The ConfigMaps that the bundles were read from.
    sources: BTreeMap<Id, Box<str>>,
    /// What the webhook answers with.
    webhook: Option<Certificate>,
    /// Whether it answers with what is in the Secret; if not, why.
    served: Option<Result<(), String>>,
}

impl Certificates {
    pub(super) fn new(webhook: Option<Certificate>) -> Self {
        Self {
            webhook,
            ..Self::default()
        }
    }

    /// The pairs, by the name of their Secret.
    pub(super) fn pairs(&self) -> &BTreeMap<String, Pair> {
        &self.pairs
    }

    /// The bundles, by the name of their ConfigMap.
    pub(super) fn bundles(&self) -> &BTreeMap<String, Vec<BundleCertificate>> {
        &self.bundles
    }

    /// Takes in what a watch tells of a Secret.
    pub(super) fn told(&mut self, change: &WatchEvent<Secret>) {
        if let WatchEvent::Listed(secret) | WatchEvent::Applied(secret) = change {
            self.take(secret);
        }
    }

    /// Takes in what is in a Secret.
    pub(super) fn take(&mut self, secret: &Secret) {
        let Secret { live, data } = secret;
        if &*live.id.name == OPERATOR
            && let Some(webhook) = &self.webhook
        {
            let replaced = webhook.replace(part(data, CERTIFICATE), part(data, KEY));
            self.served = Some(replaced.map_err(|error| {
                tracing::warn!(secret = OPERATOR, "cannot be served with: {error}");
                format!("Secret {OPERATOR} cannot be served with: {error}")
            }));
        }
        if let Some(read) = Read::of(data) {
            let key = (Arc::clone(&live.id.name), live.resource_version.clone());
            self.read.insert(key, read);
        }
    }

    /// Whether the webhook answers with a certificate that others may trust, as far as there is one;
    /// None if there is no webhook. `listed` says that all Secrets were told of.
    pub(super) fn webhook(&self, listed: bool) -> Option<Result<(), String>> {
        self.webhook.as_ref()?;
        let unknown = if listed {
            Ok(())
        } else {
            Err("not looked for yet".to_owned())
        };
        Some(self.served.clone().unwrap_or(unknown))
    }

    /// Brings pairs and bundles to where the objects are. Says whether they are others than before.
    pub(super) fn follow(&mut self, objects: &BTreeMap<Id, Live>, namespace: &str) -> bool {
        let bundles = self.follow_bundles(objects, namespace);
        let secrets = objects
            .values()
            .filter(|live| live.id.is("", "Secret") && &*live.id.namespace == namespace);
        let found: Vec<(&Live, Read)> = secrets
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

    fn follow_bundles(&mut self, objects: &BTreeMap<Id, Live>, namespace: &str) -> bool {
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

    /// The CAs that may have signed a certificate: in office, next, and of the bundle.
    fn authorities(&self, found: &[(&Live, Read)]) -> Vec<Authority> {
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
    fn the_webhook_is_not_ready_before_secrets_were_looked_at() {
        let none = Certificates::new(None);
        assert_eq!(none.webhook(false), None);
        let certificates = Certificates::new(Some(Certificate::fallback().unwrap()));
        assert!(certificates.webhook(false).unwrap().is_err());
        assert!(certificates.webhook(true).unwrap().is_ok());
    }
}

//! Cache of the Secrets with certificates and of the webhook configuration.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU64,
};

use api::labels::{MANAGED_BY, MANAGER};
use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::{admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::Secret},
};
use kube::ResourceExt as _;
use plan::{
    certificates::{BundleCertificate, CERTIFICATE, KEY, Pair},
    webhook_certificate::{Names, Observed},
};
use runtime::{
    cache::{Cache, CachedObject, Key, WatchScope, parse_resource_version},
    metrics::Validity,
    reflector::WatchEvent,
    tls::Certificate,
};

use super::{Certificates, write::Answer};
use crate::certificates::{Authority, Data, Parsed, known, pair, part, validities};

/// Secret without its data.
#[derive(Debug)]
pub(super) struct ObservedSecret {
    key: Key,
    pub(super) version: ObjectVersion,
    is_managed: bool,
    annotations: BTreeMap<String, String>,
    parsed: Option<Parsed>,
}

/// Observed version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectVersion {
    pub(super) uid: String,
    pub(super) resource_version: String,
}

impl CachedObject for ObservedSecret {
    fn key(&self) -> Key {
        self.key.clone()
    }

    fn uid(&self) -> Option<&str> {
        Some(&self.version.uid)
    }

    fn version(&self) -> Option<NonZeroU64> {
        parse_resource_version(&self.version.resource_version)
    }
}

impl ObservedSecret {
    fn of(secret: &Secret) -> Self {
        let none = Data::new();
        Self {
            key: Key::of(&secret.metadata),
            version: ObjectVersion::of(secret),
            is_managed: is_managed(secret),
            annotations: secret.annotations().clone(),
            parsed: Parsed::of(secret.data.as_ref().unwrap_or(&none)),
        }
    }
}

impl ObjectVersion {
    pub(super) fn of(object: &impl kube::Resource) -> Self {
        Self {
            uid: object.meta().uid.clone().unwrap_or_default(),
            resource_version: object.resource_version().unwrap_or_default(),
        }
    }
}

/// Whether a Secret has the operator's label.
pub(super) fn is_managed(secret: &Secret) -> bool {
    secret.labels().get(MANAGED_BY).map(String::as_str) == Some(MANAGER)
}

/// Webhook of the configuration that calls the operator's Service.
#[derive(Clone, Debug)]
pub(super) struct Hook {
    pub(super) position: usize,
    pub(super) name: String,
    pub(super) bundle: String,
}

/// Validity of the served certificate; [`ALWAYS`] if it cannot be parsed.
#[derive(Clone, Copy, Debug)]
struct Served {
    not_before: Timestamp,
    not_after: Timestamp,
}

/// Assumed validity of a certificate of another issuer that cannot be parsed.
const ALWAYS: (Timestamp, Timestamp) = (Timestamp::MIN, Timestamp::MAX);

pub(super) struct CertificateCache {
    names: Names,
    certificates: Certificates,
    secret: Cache<ObservedSecret>,
    authority: Cache<ObservedSecret>,
    configuration: Cache<ValidatingWebhookConfiguration>,
    pairs: BTreeMap<String, Pair>,
    served: Option<Served>,
    /// Error that prevents the certificate in the Secret from being served.
    unserved: Option<String>,
}

/// Owner of the data that [`Observed`] borrows.
pub(super) struct ObservedState<'a> {
    pairs: &'a BTreeMap<String, Pair>,
    foreign: BTreeSet<String>,
    bundles: Vec<String>,
    known: Vec<BundleCertificate>,
}

impl ObservedState<'_> {
    pub(super) fn borrowed(&self) -> Observed<'_> {
        Observed {
            pairs: self.pairs,
            foreign: &self.foreign,
            bundles: &self.bundles,
            known: &self.known,
        }
    }
}

impl CertificateCache {
    pub(super) fn new(names: Names, certificates: Certificates) -> Self {
        Self {
            names,
            certificates,
            secret: Cache::new(),
            authority: Cache::new(),
            configuration: Cache::new(),
            pairs: BTreeMap::new(),
            served: None,
            unserved: None,
        }
    }

    /// Applies an event of the Secret with the certificate, and serves a new certificate.
    pub(super) fn on_secret(&mut self, change: WatchEvent<Secret>, certificate: &Certificate) {
        let current = match &change {
            WatchEvent::Listed(secret) | WatchEvent::Applied(secret) => Some(secret.clone()),
            _ => None,
        };
        let is_new = !self
            .secret
            .apply(
                &WatchScope::Cluster,
                change.map(|secret| ObservedSecret::of(&secret)),
            )
            .is_empty();
        if let Some(secret) = current.filter(|_| is_new) {
            self.serve(&secret, certificate);
        }
        self.update_pairs();
    }

    /// Applies an event of the Secret with the CA.
    pub(super) fn on_authority(&mut self, change: WatchEvent<Secret>) {
        self.authority.apply(
            &WatchScope::Cluster,
            change.map(|secret| ObservedSecret::of(&secret)),
        );
        self.update_pairs();
    }

    pub(super) fn on_configuration(&mut self, change: WatchEvent<ValidatingWebhookConfiguration>) {
        self.configuration.apply(&WatchScope::Cluster, change);
        self.update_pairs();
    }

    /// Applies the API server's answer to a write.
    pub(super) fn on_answer(&mut self, answer: Answer, certificate: &Certificate) {
        match answer {
            Answer::Secret(secret) if secret.name_any() == self.names.secret => {
                if self.secret.assume(ObservedSecret::of(&secret)).is_some() {
                    self.serve(&secret, certificate);
                }
            }
            Answer::Secret(secret) => {
                self.authority.assume(ObservedSecret::of(&secret));
            }
            Answer::Configuration(configuration) => {
                self.configuration.assume(configuration);
            }
        }
        self.update_pairs();
    }

    pub(super) fn is_synced(&self) -> bool {
        self.secret.synced() && self.authority.synced() && self.configuration.synced()
    }

    pub(super) fn observed(&self) -> ObservedState<'_> {
        let bundles: Vec<String> = self.hooks().into_iter().map(|hook| hook.bundle).collect();
        ObservedState {
            pairs: &self.pairs,
            foreign: self.foreign().map(str::to_owned).collect(),
            known: known(&bundles.concat()),
            bundles,
        }
    }

    pub(super) fn secret(&self, name: &str) -> Option<&ObservedSecret> {
        let key = Key::new(&self.names.namespace, name);
        let store = if name == self.names.secret {
            &self.secret
        } else {
            &self.authority
        };
        store.get(&key).map(|secret| &**secret)
    }

    /// Version of the configuration, and its webhooks that call the operator's Service.
    pub(super) fn configuration(&self) -> Option<(ObjectVersion, Vec<Hook>)> {
        let key = Key::new("", &self.names.configuration);
        let configuration = self.configuration.get(&key)?;
        Some((ObjectVersion::of(&**configuration), self.hooks()))
    }

    fn hooks(&self) -> Vec<Hook> {
        let key = Key::new("", &self.names.configuration);
        let configuration = self.configuration.get(&key);
        let hooks = configuration.and_then(|found| found.webhooks.as_ref());
        let hooks = hooks.into_iter().flatten().enumerate();
        hooks
            .filter_map(|(position, hook)| {
                let service = hook.client_config.service.as_ref()?;
                let is_managed =
                    service.name == self.names.service && service.namespace == self.names.namespace;
                let bundle = hook.client_config.ca_bundle.as_ref();
                is_managed.then(|| Hook {
                    position,
                    name: hook.name.clone(),
                    bundle: bundle.map_or_else(String::new, |ByteString(bytes)| {
                        String::from_utf8_lossy(bytes).into_owned()
                    }),
                })
            })
            .collect()
    }

    /// Secrets with the expected names and without the operator's label.
    fn foreign(&self) -> impl Iterator<Item = &str> {
        let all = self.secret.iter().chain(self.authority.iter());
        let foreign = all
            .filter(|(_, secret)| self.certificates == Certificates::Managed && !secret.is_managed);
        foreign.map(|(key, _)| &*key.name)
    }

    /// Serves the certificate in a Secret, unless the Secret is foreign.
    fn serve(&mut self, secret: &Secret, certificate: &Certificate) {
        if self.certificates == Certificates::Managed && !is_managed(secret) {
            return;
        }
        let none = Data::new();
        let data = secret.data.as_ref().unwrap_or(&none);
        let replaced = certificate.replace(part(data, CERTIFICATE), part(data, KEY));
        self.unserved = replaced.as_ref().err().map(ToString::to_string);
        if replaced.is_ok() {
            let (not_before, not_after) = Parsed::of(data).map_or(ALWAYS, |read| read.validity());
            self.served = Some(Served {
                not_before,
                not_after,
            });
        }
    }

    /// Updates the pairs from the cached objects.
    fn update_pairs(&mut self) {
        let secrets = self.secret.iter().chain(self.authority.iter());
        let secrets = secrets
            .map(|(_, secret)| secret)
            .filter(|secret| self.certificates == Certificates::External || secret.is_managed);
        let ca = self.names.authority();
        let mut authorities: Vec<Authority> = Vec::new();
        if let Some(parsed) = self.secret(&ca).and_then(|secret| secret.parsed.as_ref()) {
            authorities.extend(parsed.authorities());
        }
        let bundles: String = self.hooks().into_iter().map(|hook| hook.bundle).collect();
        authorities.extend(known(&bundles).iter().map(Authority::from));
        let pairs = secrets.filter_map(|secret| {
            let name = &*secret.key.name;
            let before = self.pairs.get(name);
            let pair = pair(secret.parsed.clone()?, before, &authorities);
            Some((name.to_owned(), pair.annotated(&secret.annotations)))
        });
        self.pairs = pairs.collect();
    }

    /// Validity of certificates, by Secret: of the served one, even if its Secret has changed since, and
    /// of the CA.
    pub(super) fn validities(&self) -> BTreeMap<String, Validity> {
        let mut shown = validities(&self.pairs);
        shown.remove(&self.names.secret);
        let served = self.served.as_ref();
        let served = served.filter(|served| (served.not_before, served.not_after) != ALWAYS);
        shown.extend(served.map(|served| {
            let validity = Validity {
                not_before: served.not_before.as_second(),
                not_after: served.not_after.as_second(),
            };
            (self.names.secret.clone(), validity)
        }));
        shown
    }

    /// Time at which the result of [`Self::is_trusted`] changes by itself.
    pub(super) fn next_validity_change(&self, now: Timestamp) -> Option<Timestamp> {
        let Served {
            not_before,
            not_after,
        } = self.served?;
        [not_before, not_after].into_iter().find(|at| *at > now)
    }

    /// Whether the Secret with the certificate has been listed; if not, why the webhook is unready.
    pub(super) fn is_listed(&self) -> Result<(), String> {
        if self.secret.synced() {
            Ok(())
        } else {
            Err(format!(
                "Secret {} has not been listed yet",
                self.names.secret
            ))
        }
    }

    /// Whether the webhook serves a certificate that API servers may trust; if not, why.
    pub(super) fn is_trusted(&self, now: Timestamp) -> Result<(), String> {
        let secret = &self.names.secret;
        match &self.served {
            Some(served) if now >= served.not_after => {
                Err(format!("the certificate in Secret {secret} has expired"))
            }
            Some(served) if now < served.not_before => Err(format!(
                "the certificate in Secret {secret} is not valid yet"
            )),
            Some(_) => Ok(()),
            None => {
                self.is_listed()?;
                let problem = self.problems().into_iter().next();
                Err(problem.unwrap_or_else(|| format!("Secret {secret} does not exist yet")))
            }
        }
    }

    /// Problems to log.
    pub(super) fn problems(&self) -> BTreeSet<String> {
        let namespace = &self.names.namespace;
        let foreign = self.foreign().map(|secret| {
            format!(
                "Secret {namespace}/{secret} does not have the label {MANAGED_BY}={MANAGER}, so the \
                 operator does not change it: delete it, set WEBHOOK_SECRET to another name, or set \
                 WEBHOOK_CERTIFICATES to external"
            )
        });
        let unserved = self.unserved.iter().map(|why| {
            let secret = &self.names.secret;
            format!(
                "the webhook cannot serve the certificate in Secret {namespace}/{secret}: {why}"
            )
        });
        let deleted = self.deleted_secrets().map(|secret| {
            let remedy = match self.certificates {
                Certificates::Managed => "the leader creates a new one",
                Certificates::External => "the issuer of the certificates must create a new one",
            };
            format!(
                "Secret {namespace}/{secret} was deleted: the webhook serves the previous \
                 certificate until it expires; {remedy}"
            )
        });
        foreign.chain(unserved).chain(deleted).collect()
    }

    /// Missing Secrets that existed before: otherwise no certificate would be served.
    fn deleted_secrets(&self) -> impl Iterator<Item = String> {
        let is_missing =
            |store: &Cache<ObservedSecret>| store.synced() && store.iter().next().is_none();
        let secret = is_missing(&self.secret).then(|| self.names.secret.clone());
        let authority = is_missing(&self.authority).then(|| self.names.authority());
        let all = [secret, authority].into_iter().flatten();
        all.filter(|_| self.served.is_some())
    }
}

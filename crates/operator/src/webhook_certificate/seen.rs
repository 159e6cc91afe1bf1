//! What is known of the Secrets and the configuration.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

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
    cache::{Cache, CachedObject, Key},
    metrics::Validity,
    reflector::WatchEvent,
    tls::Certificate,
};

use super::{Certificates, write::Answer};
use crate::certificates::{Authority, Data, Read, known, pair, part, validities};

/// A Secret, without what is in it.
#[derive(Debug)]
pub(super) struct Held {
    key: Key,
    /// Which, and in which version.
    pub(super) over: Over,
    is_ours: bool,
    annotations: BTreeMap<String, String>,
    read: Option<Read>,
}

/// An object as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Over {
    pub(super) uid: String,
    pub(super) resource_version: String,
}

impl CachedObject for Held {
    fn key(&self) -> Key {
        self.key.clone()
    }

    fn uid(&self) -> Option<&str> {
        Some(&self.over.uid)
    }

    fn version(&self) -> u64 {
        self.over.resource_version.parse().unwrap_or_default()
    }
}

impl Held {
    fn of(secret: &Secret) -> Self {
        let none = Data::new();
        Self {
            key: Key::of(&secret.metadata),
            over: Over::of(secret),
            is_ours: is_ours(secret),
            annotations: secret.annotations().clone(),
            read: Read::of(secret.data.as_ref().unwrap_or(&none)),
        }
    }
}

impl Over {
    pub(super) fn of(object: &impl kube::Resource) -> Self {
        Self {
            uid: object.meta().uid.clone().unwrap_or_default(),
            resource_version: object.resource_version().unwrap_or_default(),
        }
    }
}

/// Whether we have made a Secret.
pub(super) fn is_ours(secret: &Secret) -> bool {
    secret.labels().get(MANAGED_BY).map(String::as_str) == Some(MANAGER)
}

/// A webhook of the configuration that calls our Service.
#[derive(Clone, Debug)]
pub(super) struct Hook {
    pub(super) position: usize,
    pub(super) name: String,
    pub(super) bundle: String,
}

/// What is served, and while it may be: always, if that cannot be read.
#[derive(Clone, Copy, Debug)]
struct Served {
    not_before: Timestamp,
    not_after: Timestamp,
}

/// Of what only others can read, only they know until when it is valid.
const ALWAYS: (Timestamp, Timestamp) = (Timestamp::MIN, Timestamp::MAX);

/// What is known of the Secrets and the configuration.
pub(super) struct Seen {
    names: Names,
    certificates: Certificates,
    secret: Cache<Held>,
    authority: Cache<Held>,
    configuration: Cache<ValidatingWebhookConfiguration>,
    pairs: BTreeMap<String, Pair>,
    served: Option<Served>,
    /// Why what is in the Secret is not served.
    unserved: Option<String>,
}

/// What the plan is made from.
pub(super) struct Facts<'a> {
    pairs: &'a BTreeMap<String, Pair>,
    foreign: BTreeSet<String>,
    bundles: Vec<String>,
    known: Vec<BundleCertificate>,
}

impl Facts<'_> {
    pub(super) fn borrowed(&self) -> Observed<'_> {
        Observed {
            pairs: self.pairs,
            foreign: &self.foreign,
            bundles: &self.bundles,
            known: &self.known,
        }
    }
}

impl Seen {
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

    /// Takes in what is told of the Secret with the certificate, and serves with it.
    pub(super) fn secret(&mut self, change: WatchEvent<Secret>, certificate: &Certificate) {
        let told = match &change {
            WatchEvent::Listed(secret) | WatchEvent::Applied(secret) => Some(secret.clone()),
            _ => None,
        };
        let is_new = !self
            .secret
            .apply("", change.map(|secret| Held::of(&secret)))
            .is_empty();
        if let Some(secret) = told.filter(|_| is_new) {
            self.serve(&secret, certificate);
        }
        self.follow();
    }

    /// Takes in what is told of the Secret with the CA.
    pub(super) fn authority(&mut self, change: WatchEvent<Secret>) {
        self.authority
            .apply("", change.map(|secret| Held::of(&secret)));
        self.follow();
    }

    /// Takes in what is told of the configuration.
    pub(super) fn configuration(&mut self, change: WatchEvent<ValidatingWebhookConfiguration>) {
        self.configuration.apply("", change);
        self.follow();
    }

    /// Takes in what has come of a write.
    pub(super) fn take(&mut self, answer: Answer, certificate: &Certificate) {
        match answer {
            Answer::Secret(secret) if secret.name_any() == self.names.secret => {
                if self.secret.assume(Held::of(&secret)).is_some() {
                    self.serve(&secret, certificate);
                }
            }
            Answer::Secret(secret) => {
                self.authority.assume(Held::of(&secret));
            }
            Answer::Configuration(configuration) => {
                self.configuration.assume(configuration);
            }
        }
        self.follow();
    }

    /// Whether all is known that a plan needs.
    pub(super) fn is_complete(&self) -> bool {
        self.secret.synced() && self.authority.synced() && self.configuration.synced()
    }

    pub(super) fn observed(&self) -> Facts<'_> {
        let bundles: Vec<String> = self.hooks().into_iter().map(|hook| hook.bundle).collect();
        Facts {
            pairs: &self.pairs,
            foreign: self.foreign().map(str::to_owned).collect(),
            known: known(&bundles.concat()),
            bundles,
        }
    }

    /// A Secret as it was seen.
    pub(super) fn held(&self, name: &str) -> Option<&Held> {
        let key = Key::new(&self.names.namespace, name);
        let store = if name == self.names.secret {
            &self.secret
        } else {
            &self.authority
        };
        store.get(&key).map(|held| &**held)
    }

    /// The configuration as it was seen, and its webhooks that call our Service.
    pub(super) fn configured(&self) -> Option<(Over, Vec<Hook>)> {
        let key = Key::new("", &self.names.configuration);
        let configuration = self.configuration.get(&key)?;
        Some((Over::of(&**configuration), self.hooks()))
    }

    fn hooks(&self) -> Vec<Hook> {
        let key = Key::new("", &self.names.configuration);
        let configuration = self.configuration.get(&key);
        let hooks = configuration.and_then(|found| found.webhooks.as_ref());
        let hooks = hooks.into_iter().flatten().enumerate();
        hooks
            .filter_map(|(position, hook)| {
                let service = hook.client_config.service.as_ref()?;
                let is_ours =
                    service.name == self.names.service && service.namespace == self.names.namespace;
                let bundle = hook.client_config.ca_bundle.as_ref();
                is_ours.then(|| Hook {
                    position,
                    name: hook.name.clone(),
                    bundle: bundle.map_or_else(String::new, |ByteString(bytes)| {
                        String::from_utf8_lossy(bytes).into_owned()
                    }),
                })
            })
            .collect()
    }

    /// Secrets that have our names and not our label.
    fn foreign(&self) -> impl Iterator<Item = &str> {
        let all = self.secret.iter().chain(self.authority.iter());
        let foreign =
            all.filter(|(_, held)| self.certificates == Certificates::Managed && !held.is_ours);
        foreign.map(|(key, _)| &*key.name)
    }

    /// Serves with what is in a Secret, if it is meant for it.
    fn serve(&mut self, secret: &Secret, certificate: &Certificate) {
        if self.certificates == Certificates::Managed && !is_ours(secret) {
            return;
        }
        let none = Data::new();
        let data = secret.data.as_ref().unwrap_or(&none);
        let replaced = certificate.replace(part(data, CERTIFICATE), part(data, KEY));
        self.unserved = replaced.as_ref().err().map(ToString::to_string);
        if replaced.is_ok() {
            let (not_before, not_after) = Read::of(data).map_or(ALWAYS, |read| read.validity());
            self.served = Some(Served {
                not_before,
                not_after,
            });
        }
    }

    /// Brings what is known of certificates to where the objects are.
    fn follow(&mut self) {
        let held = self.secret.iter().chain(self.authority.iter());
        let held = held
            .map(|(_, held)| held)
            .filter(|held| self.certificates == Certificates::External || held.is_ours);
        let ca = self.names.authority();
        let mut authorities: Vec<Authority> = Vec::new();
        if let Some(read) = self.held(&ca).and_then(|held| held.read.as_ref()) {
            authorities.extend(read.authorities());
        }
        let bundles: String = self.hooks().into_iter().map(|hook| hook.bundle).collect();
        authorities.extend(known(&bundles).iter().map(Authority::from));
        let pairs = held.filter_map(|held| {
            let name = &*held.key.name;
            let before = self.pairs.get(name);
            let pair = pair(held.read.clone()?, before, &authorities);
            Some((name.to_owned(), pair.annotated(&held.annotations)))
        });
        self.pairs = pairs.collect();
    }

    /// How long certificates are valid, by their Secrets: of the one that is served, whatever has become
    /// of its Secret since, and of the CA.
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

    /// When what [`Self::is_trusted`] says changes though nothing else does.
    pub(super) fn turns(&self, now: Timestamp) -> Option<Timestamp> {
        let Served {
            not_before,
            not_after,
        } = self.served?;
        [not_before, not_after].into_iter().find(|at| *at > now)
    }

    /// Whether it was found out if there is a certificate, so that it is served with if there is; if
    /// not, why.
    pub(super) fn is_known(&self) -> Result<(), String> {
        if self.secret.synced() {
            Ok(())
        } else {
            Err(format!("Secret {} is not known yet", self.names.secret))
        }
    }

    /// Whether the webhook answers with a certificate that API servers may trust; if not, why.
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
                self.is_known()?;
                let problem = self.problems().into_iter().next();
                Err(problem.unwrap_or_else(|| format!("there is no Secret {secret} yet")))
            }
        }
    }

    /// What people should know.
    pub(super) fn problems(&self) -> BTreeSet<String> {
        let namespace = &self.names.namespace;
        let foreign = self.foreign().map(|secret| {
            format!(
                "Secret {secret} in {namespace} has no label {MANAGED_BY}={MANAGER}, so it is \
                 somebody else's and stays as it is: delete it, set WEBHOOK_SECRET to another \
                 name, or let WEBHOOK_CERTIFICATES be external"
            )
        });
        let unserved = self.unserved.iter().map(|why| {
            let secret = &self.names.secret;
            format!("the webhook cannot be served with Secret {secret} in {namespace}: {why}")
        });
        let gone = self.gone().map(|secret| {
            let who = match self.certificates {
                Certificates::Managed => "the replica that leads makes another as soon as it may",
                Certificates::External => "whoever sees to the certificates has to make another",
            };
            format!(
                "Secret {secret} in {namespace} is gone: the webhook is served with what it has until \
                 that expires, and {who}"
            )
        });
        foreign.chain(unserved).chain(gone).collect()
    }

    /// Secrets that were there: nothing is served before they are.
    fn gone(&self) -> impl Iterator<Item = String> {
        let is_gone = |store: &Cache<Held>| store.synced() && store.iter().next().is_none();
        let secret = is_gone(&self.secret).then(|| self.names.secret.clone());
        let authority = is_gone(&self.authority).then(|| self.names.authority());
        let all = [secret, authority].into_iter().flatten();
        all.filter(|_| self.served.is_some())
    }
}

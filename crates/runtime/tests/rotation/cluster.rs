//! Secrets and bundles in memory, and an operator that rotates them.

use std::collections::{BTreeMap, BTreeSet};

use api::Time;
use jiff::{SignedDuration, Timestamp};
use plan::{
    Fingerprint,
    certificates::{self as rules, Issue, NewCertificate, Pair, SecretChange, Settings},
    kubevirt::certificates::{AUTHORITIES, CA, profile},
};
use runtime::certificates::{self, Authority, BundledCertificate, Request};

use crate::{DELAY, handshake};

const SECRETS: [&str; 17] = [
    "kubevirt-ca",
    "kubevirt-export-ca",
    "kubevirt-backup-ca",
    "kubevirt-operator-certs",
    "kubevirt-virt-api-certs",
    "kubevirt-controller-certs",
    "kubevirt-exportproxy-certs",
    "kubevirt-virt-handler-server-certs",
    "kubevirt-virt-handler-certs",
    "kubevirt-virt-handler-migration-client-certs",
    "kubevirt-virt-handler-vsock-client-certs",
    "kubevirt-virt-handler-monitoring-client-certs",
    "kubevirt-synchronization-controller-certs",
    "kubevirt-synchronization-controller-server-certs",
    "kubevirt-virt-template-api-certs",
    "kubevirt-virt-template-webhook-certs",
    "kubevirt-virt-template-controller-metrics-certs",
];

/// Secrets of servers, and their DNS names.
const SERVERS: [(&str, &str); 2] = [
    ("kubevirt-virt-api-certs", "virt-api.kubevirt.svc"),
    ("kubevirt-virt-handler-server-certs", "virt-handler"),
];

const CLIENT: &str = "kubevirt-virt-handler-migration-client-certs";

pub fn hours(hours: i64) -> SignedDuration {
    SignedDuration::from_hours(hours)
}

pub fn minutes(minutes: i64) -> SignedDuration {
    SignedDuration::from_mins(minutes)
}

#[derive(Clone, Default)]
pub struct Secret {
    pub data: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

/// Values, and until when each was the newest.
pub type History<T> = Vec<(T, Option<Timestamp>)>;

/// A certificate and its key.
pub type Leaf = (String, String);

#[derive(Clone)]
pub struct Cluster {
    now: Timestamp,
    pub settings: Settings,
    pub secrets: BTreeMap<String, Secret>,
    pub bundles: BTreeMap<String, String>,
    webhook: String,
    /// Usages of the issued certificates.
    pub issued: Vec<&'static str>,
    pub handshakes: usize,
    bundle_history: History<String>,
    leaf_history: BTreeMap<String, History<Leaf>>,
    /// Earlier values were never read.
    since: Timestamp,
}

enum Write {
    Secret(Issue),
    Bundle(&'static str, String),
    Webhook(String),
}

impl Cluster {
    pub fn install(settings: Settings) -> Self {
        let now: Timestamp = "2026-01-01T00:00:00.5Z".parse().unwrap();
        let mut cluster = Self {
            now,
            settings,
            secrets: BTreeMap::new(),
            bundles: BTreeMap::new(),
            webhook: String::new(),
            issued: Vec::new(),
            handshakes: 0,
            bundle_history: Vec::new(),
            leaf_history: BTreeMap::new(),
            since: now,
        };
        cluster.reconcile();
        cluster
            .bundle_history
            .drain(..cluster.bundle_history.len() - 1);
        cluster
    }

    /// Advances time with an operator that reconciles when it is due. All clients and servers trust
    /// each other at all times.
    pub fn run(&mut self, time: SignedDuration) {
        let end = self.now + time;
        while self.now < end {
            let next = self.reconcile().unwrap().min(end);
            assert!(next > self.now, "the next reconcile is later");
            self.run_without_operator(next.duration_since(self.now))
                .unwrap();
        }
    }

    /// The same, after all readers have read the latest values.
    pub fn run_after_outage(&mut self, time: SignedDuration) {
        self.since = self.now;
        self.run(time);
    }

    /// Runs until the next CA is due, without a reconcile.
    pub fn run_until_next_ca_is_due(&mut self) {
        let due = self.pairs()[CA].not_after.0 - self.settings.ca.renew_before;
        self.run(due.duration_since(self.now) - SignedDuration::from_secs(1));
        self.now = due;
    }

    /// Advances time without an operator.
    pub fn run_without_operator(&mut self, time: SignedDuration) -> Result<(), String> {
        let (begin, end) = (self.now, self.now + time);
        // At the start most readers are behind; at the end most certificates have expired.
        for moment in [begin, end - SignedDuration::from_secs(1)] {
            self.now = moment.max(begin);
            let outcome = self.check(DELAY);
            if outcome.is_err() {
                self.now = end;
                return outcome;
            }
        }
        self.now = end;
        Ok(())
    }

    /// Whether all clients and servers trust each other, with readers that are late by `delay`.
    pub fn check(&mut self, delay: SignedDuration) -> Result<(), String> {
        let since = self.now - delay.min(self.now.duration_since(self.since));
        let bundles = recent(&self.bundle_history, since);
        let clients = recent(&self.leaf_history[CLIENT], since);
        for (secret, name) in SERVERS {
            let servers = recent(&self.leaf_history[secret], since);
            let mut count = 0;
            // Every server and every client with every bundle.
            for round in 0..servers.len().max(clients.len()) * bundles.len() {
                let of_server = &bundles[round % bundles.len()];
                let turn = round / bundles.len();
                handshake::mutual(
                    &handshake::Side {
                        leaf: &servers[turn % servers.len()],
                        bundle: &bundles[(round + turn) % bundles.len()],
                    },
                    &handshake::Side {
                        leaf: &clients[turn % clients.len()],
                        bundle: of_server,
                    },
                    name,
                    self.now,
                )
                .map_err(|why| format!("{secret} at {}: {why}", self.now))?;
                count += 1;
            }
            self.handshakes += count;
        }
        Ok(())
    }

    /// Reconciles. Returns the time of the next reconcile.
    pub fn reconcile(&mut self) -> Option<Timestamp> {
        self.reconcile_and_crash_after(usize::MAX)
    }

    /// Reconciles, and crashes after this many writes.
    pub fn reconcile_and_crash_after(&mut self, mut writes: usize) -> Option<Timestamp> {
        loop {
            let (todo, requeue_at) = self.plan();
            if todo.is_empty() {
                return requeue_at;
            }
            for write in todo {
                if writes == 0 {
                    return None;
                }
                writes -= 1;
                self.write(write);
            }
        }
    }

    /// Writes of the first stage that has any: CAs, bundles, users of bundles, other certificates.
    fn plan(&self) -> (Vec<Write>, Option<Timestamp>) {
        let pairs = self.pairs();
        let published = pairs
            .iter()
            .filter(|(name, pair)| self.is_published(name, pair))
            .map(|(name, _)| name.clone())
            .collect();
        let now = Time(self.now);
        let plan = rules::plan_certificates(
            SECRETS.map(|secret| (secret, profile(secret, "kubevirt"))),
            CA,
            &self.settings,
            &pairs,
            &published,
            &now,
        );
        let mut requeue_at: BTreeSet<Timestamp> = plan.requeue_at.iter().map(|at| at.0).collect();
        let mut bundles = Vec::new();
        for name in AUTHORITIES {
            let Some(pair) = pairs.get(name) else {
                continue;
            };
            let leaves = pairs
                .iter()
                .filter(|(leaf, _)| name == CA && !AUTHORITIES.contains(&leaf.as_str()))
                .map(|(_, leaf)| leaf);
            let old = self.bundles.get(name).map_or("", String::as_str);
            let known: Vec<_> = certificates::parse_bundle(old)
                .into_iter()
                .map(known)
                .collect();
            let bundle = rules::bundle(pair, leaves, &known, &[], &self.settings, &now);
            requeue_at.extend(bundle.requeue_at.map(|at| at.0));
            if bundle.text != old {
                bundles.push(Write::Bundle(name, bundle.text));
            }
        }
        let webhook = self.bundles.get(CA).filter(|text| **text != self.webhook);
        let webhook = webhook.cloned().map(Write::Webhook).into_iter().collect();
        let secrets = |issues: Vec<Issue>| issues.into_iter().map(Write::Secret).collect();
        let stages: [Vec<Write>; 4] = [
            secrets(plan.authorities),
            bundles,
            webhook,
            secrets(plan.leaves),
        ];
        let todo = stages.into_iter().find(|stage| !stage.is_empty());
        (todo.unwrap_or_default(), requeue_at.first().copied())
    }

    fn is_published(&self, name: &str, pair: &Pair) -> bool {
        let newest = &pair.newest().certificate;
        let bundle = self.bundles.get(name);
        bundle.is_some_and(|bundle| rules::bundle_contains(bundle, newest))
            && (name != CA || rules::bundle_contains(&self.webhook, newest))
    }

    fn pairs(&self) -> BTreeMap<String, Pair> {
        let office = self
            .secrets
            .get(CA)
            .and_then(|ca| ca.data.get(rules::CERTIFICATE));
        let bundle = self.bundles.get(CA).map_or("", String::as_str);
        let mut authorities = certificates::parse_bundle(office.map_or("", String::as_str));
        authorities.extend(certificates::parse_bundle(bundle));
        let secrets = self.secrets.iter();
        secrets
            .filter_map(|(name, secret)| Some((name.clone(), pair(secret, &authorities)?)))
            .collect()
    }

    fn write(&mut self, write: Write) {
        match write {
            Write::Secret(issue) => self.execute(&issue),
            Write::Bundle(name, text) => {
                if name == CA {
                    supersede(&mut self.bundle_history, text.clone(), self.now);
                }
                self.bundles.insert(name.to_owned(), text);
            }
            // Its readers are among those of the bundle.
            Write::Webhook(text) => self.webhook = text,
        }
    }

    fn execute(&mut self, issue: &Issue) {
        let issued = match &issue.change {
            SecretChange::New(new) => {
                self.issued.push(match new.usage {
                    rules::Usage::Ca => "ca",
                    rules::Usage::Server | rules::Usage::Client => "leaf",
                });
                Some(make(new, &self.secrets))
            }
            SecretChange::Published(_) | SecretChange::Promote(_) => None,
        };
        let secret = self.secrets.entry(issue.secret.clone()).or_default();
        issue
            .change
            .apply(&mut secret.data, &mut secret.annotations, issued);
        let leaf = (
            secret.data[rules::CERTIFICATE].clone(),
            secret.data[rules::KEY].clone(),
        );
        let history = self.leaf_history.entry(issue.secret.clone()).or_default();
        supersede(history, leaf, self.now);
    }
}

/// Issues a certificate and its key.
pub fn make(new: &NewCertificate, secrets: &BTreeMap<String, Secret>) -> (String, String) {
    let signer = new.signer.as_ref().map(|name| &secrets[name].data);
    let request = Request {
        common_name: new.common_name.clone(),
        dns_names: new.dns_names.clone(),
        usage: match new.usage {
            rules::Usage::Ca => certificates::Usage::Ca,
            rules::Usage::Server => certificates::Usage::Server,
            rules::Usage::Client => certificates::Usage::Client,
        },
        not_before: new.not_before.0,
        not_after: new.not_after.0,
    };
    let authority = signer.map(|data| Authority {
        certificate: data[rules::CERTIFICATE].as_bytes(),
        key: data[rules::KEY].as_bytes(),
    });
    let pair = certificates::issue(&request, authority).unwrap();
    (pair.certificate, pair.key.to_string())
}

/// What is in a Secret, signed by one of these.
pub fn pair(secret: &Secret, authorities: &[BundledCertificate]) -> Option<Pair> {
    let read = |certificate, key| read(secret, certificate, key, authorities);
    let next = read(rules::NEXT_CERTIFICATE, rules::NEXT_KEY);
    let pair = Pair {
        next: next.map(Box::new),
        ..read(rules::CERTIFICATE, rules::KEY)?
    };
    Some(pair.annotated(&secret.annotations))
}

fn read(
    secret: &Secret,
    certificate: &str,
    key: &str,
    authorities: &[BundledCertificate],
) -> Option<Pair> {
    let get = |name| secret.data.get(name).map_or("", String::as_str).as_bytes();
    let texts: Vec<&str> = authorities
        .iter()
        .map(|known| known.certificate.as_str())
        .collect();
    let facts = certificates::read(get(certificate), get(key), &texts).ok()?;
    let signer = facts.signed_by.and_then(|index| authorities.get(index));
    Some(Pair {
        certificate: facts.certificate,
        not_before: Time(facts.not_before),
        not_after: Time(facts.not_after),
        key_matches: facts.key_matches,
        common_name: facts.common_name,
        dns_names: facts.dns_names,
        usage: facts.usage.map(|usage| match usage {
            certificates::Usage::Ca => rules::Usage::Ca,
            certificates::Usage::Server => rules::Usage::Server,
            certificates::Usage::Client => rules::Usage::Client,
        }),
        signed_by: signer.map(|signer| rules::Signer {
            fingerprint: Fingerprint::of(&signer.certificate),
            not_after: Time(signer.not_after),
        }),
        next: None,
        duration: None,
        published: None,
        signs: None,
    })
}

pub fn known(known: BundledCertificate) -> rules::BundleCertificate {
    rules::BundleCertificate {
        certificate: known.certificate,
        not_before: Time(known.not_before),
        not_after: Time(known.not_after),
    }
}

pub fn recent<T: Clone>(history: &History<T>, since: Timestamp) -> Vec<T> {
    let recent = history
        .iter()
        .filter(|(_, until)| until.is_none_or(|until| until > since));
    recent.map(|(text, _)| text.clone()).collect()
}

pub fn supersede<T: PartialEq>(history: &mut History<T>, new: T, now: Timestamp) {
    if let Some((last, until)) = history.last_mut() {
        if *last == new {
            return;
        }
        until.get_or_insert(now);
    }
    history.push((new, None));
}

//! Secrets and bundles in memory, and what an operator does with them.

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

/// Servers, and the name they are called by.
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

/// What was the newest until when.
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
    /// What has been made.
    pub made: Vec<&'static str>,
    pub handshakes: usize,
    bundle_history: History<String>,
    leaf_history: BTreeMap<String, History<Leaf>>,
    /// Before this there was nothing to read.
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
            made: Vec::new(),
            handshakes: 0,
            bundle_history: Vec::new(),
            leaf_history: BTreeMap::new(),
            since: now,
        };
        cluster.look();
        cluster
            .bundle_history
            .drain(..cluster.bundle_history.len() - 1);
        cluster
    }

    /// Lets time pass, with an operator that looks whenever it wanted to. Everyone gets on with
    /// everyone all the time.
    pub fn live(&mut self, time: SignedDuration) {
        let end = self.now + time;
        while self.now < end {
            let next = self.look().unwrap().min(end);
            assert!(next > self.now, "it would look again at once");
            self.away(next.duration_since(self.now)).unwrap();
        }
    }

    /// The same, once everyone has read what came after a break.
    pub fn live_after_break(&mut self, time: SignedDuration) {
        self.since = self.now;
        self.live(time);
    }

    /// Lives until it is time for a next CA, and nobody has looked yet.
    pub fn live_until_next_ca_is_due(&mut self) {
        let due = self.pairs()[CA].not_after.0 - self.settings.ca.renew_before;
        self.live(due.duration_since(self.now) - SignedDuration::from_secs(1));
        self.now = due;
    }

    /// Lets time pass without an operator.
    pub fn away(&mut self, time: SignedDuration) -> Result<(), String> {
        let (begin, end) = (self.now, self.now + time);
        // At the beginning there are the most readers behind, and at the end the most expired.
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

    /// Whether everyone gets on with everyone, though some read as slowly as that.
    pub fn check(&mut self, delay: SignedDuration) -> Result<(), String> {
        let since = self.now - delay.min(self.now.duration_since(self.since));
        let bundles = recent(&self.bundle_history, since);
        let clients = recent(&self.leaf_history[CLIENT], since);
        for (secret, name) in SERVERS {
            let servers = recent(&self.leaf_history[secret], since);
            let mut met = 0;
            // Each of the servers with each of the bundles, and the same of the clients.
            for round in 0..servers.len().max(clients.len()) * bundles.len() {
                let of_server = &bundles[round % bundles.len()];
                let turn = round / bundles.len();
                handshake::between(
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
                met += 1;
            }
            self.handshakes += met;
        }
        Ok(())
    }

    /// What an operator does when it looks. Tells when it wants to look again.
    pub fn look(&mut self) -> Option<Timestamp> {
        self.look_and_die_after(usize::MAX)
    }

    /// The same, but it dies after so many writes.
    pub fn look_and_die_after(&mut self, mut writes: usize) -> Option<Timestamp> {
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

    /// The writes of the first stage that needs any: CAs, bundles, what carries bundles, the rest.
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
            Write::Secret(issue) => self.carry_out(&issue),
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

    fn carry_out(&mut self, issue: &Issue) {
        let made = match &issue.change {
            SecretChange::New(new) => {
                self.made.push(match new.usage {
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
            .apply(&mut secret.data, &mut secret.annotations, made);
        let leaf = (
            secret.data[rules::CERTIFICATE].clone(),
            secret.data[rules::KEY].clone(),
        );
        let history = self.leaf_history.entry(issue.secret.clone()).or_default();
        supersede(history, leaf, self.now);
    }
}

/// Makes a certificate and its key.
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

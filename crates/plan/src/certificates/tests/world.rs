//! Certificates of a simulated cluster, and an operator that rotates them.
//!
//! Independent of `Issue::simulate` and of `crate::simulation` on purpose: it writes the data of Secrets as
//! the operator does, and is the oracle of the rotation.

use std::collections::BTreeSet;

use super::*;

/// Secrets of a small installation.
pub(super) const SECRETS: [&str; 5] = [
    "kubevirt-ca",
    "kubevirt-export-ca",
    "kubevirt-virt-api-certs",
    "kubevirt-virt-handler-server-certs",
    "kubevirt-virt-handler-certs",
];

/// Content of a certificate.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub text: String,
    pub new: NewCertificate,
    pub signed_by: Option<String>,
    /// Stands for the key.
    pub key: String,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Secret {
    pub data: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

/// A version, and until when it was current.
pub(super) type History = Vec<(String, Option<Timestamp>)>;

pub(super) struct World {
    pub now: Timestamp,
    pub settings: Settings,
    pub secrets: BTreeMap<String, Secret>,
    pub bundles: BTreeMap<String, String>,
    /// The bundle that API servers read.
    pub webhook: String,
    pub external: Vec<BundleCertificate>,
    pub made: BTreeMap<String, Made>,
    pub writes: usize,
    pub bundle_history: History,
    pub leaf_history: BTreeMap<String, History>,
}

impl World {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            now: at(0),
            settings,
            secrets: BTreeMap::new(),
            bundles: BTreeMap::new(),
            webhook: String::new(),
            external: Vec::new(),
            made: BTreeMap::new(),
            writes: 0,
            bundle_history: Vec::new(),
            leaf_history: BTreeMap::new(),
        }
    }

    pub(super) fn find(&self, text: &str) -> Option<&Made> {
        self.made.get(text)
    }

    pub(super) fn known(&self, bundle: &str) -> Vec<BundleCertificate> {
        let found = bundle.lines().filter_map(|line| self.find(line));
        found
            .map(|made| BundleCertificate {
                certificate: made.text.clone(),
                not_before: made.new.not_before.clone(),
                not_after: made.new.not_after.clone(),
            })
            .collect()
    }

    fn read(&self, certificate: Option<&String>, key: Option<&String>) -> Option<Pair> {
        let made = self.find(certificate?)?;
        let key_matches = key == Some(&made.key);
        let bundle = self.bundles.get(CA).map_or("", String::as_str);
        let signer = made.signed_by.as_deref().and_then(|text| {
            let office = self.secrets.get(CA)?.data.get(CERTIFICATE)?;
            let known = text == office || bundle.lines().any(|line| line == text);
            let signer = self.find(text).filter(|_| known)?;
            Some(Signer {
                fingerprint: Fingerprint::of(text),
                not_after: signer.new.not_after.clone(),
            })
        });
        Some(Pair {
            certificate: made.text.clone(),
            not_before: made.new.not_before.clone(),
            not_after: made.new.not_after.clone(),
            key_matches,
            common_name: made.new.common_name.clone(),
            dns_names: made.new.dns_names.clone(),
            usage: Some(made.new.usage),
            signed_by: signer,
            next: None,
            duration: None,
            published: None,
            signs: None,
        })
    }

    pub(super) fn pairs(&self) -> BTreeMap<String, Pair> {
        let pair = |secret: &Secret| {
            let get = |name| secret.data.get(name);
            let current = self.read(get(CERTIFICATE), get(KEY))?;
            let next = self.read(get(NEXT_CERTIFICATE), get(NEXT_KEY));
            let pair = Pair {
                next: next.map(Box::new),
                ..current
            };
            Some(pair.annotated(&secret.annotations))
        };
        let pairs = self.secrets.iter();
        pairs
            .filter_map(|(name, secret)| Some((name.clone(), pair(secret)?)))
            .collect()
    }

    fn published(&self, pairs: &BTreeMap<String, Pair>) -> BTreeSet<String> {
        let is_published = |name: &String, pair: &Pair| {
            let newest = &pair.newest().certificate;
            let everywhere = [
                self.bundles.get(name),
                (name == CA).then_some(&self.webhook),
            ];
            self.bundles.contains_key(name)
                && everywhere
                    .into_iter()
                    .flatten()
                    .all(|text| bundle_contains(text, newest))
        };
        let pairs = pairs
            .iter()
            .filter(|(name, _)| AUTHORITIES.contains(&name.as_str()));
        pairs
            .filter(|(name, pair)| is_published(name, pair))
            .map(|(name, _)| name.clone())
            .collect()
    }

    pub(super) fn plan(&self) -> Certificates {
        let pairs = self.pairs();
        plan_certificates(
            SECRETS.map(|secret| (secret, profile(secret, NAMESPACE))),
            CA,
            &self.settings,
            &pairs,
            &self.published(&pairs),
            &Time(self.now),
        )
    }

    fn execute(&mut self, issue: &Issue) {
        let made = match &issue.change {
            SecretChange::New(new) => {
                let signed_by = new.signer.as_ref().map(|signer| {
                    let office = &self.secrets.get(signer).unwrap().data;
                    let office = self.find(&office[CERTIFICATE]).unwrap();
                    office.text.clone()
                });
                let number = self.made.len();
                let made = Made {
                    text: format!("<{number}>"),
                    key: format!("key {number}"),
                    signed_by: signed_by.or_else(|| Some(format!("<{number}>"))),
                    new: new.clone(),
                };
                self.made.insert(made.text.clone(), made.clone());
                Some((made.text, made.key))
            }
            SecretChange::Published(_) | SecretChange::Promote(_) => None,
        };
        let secret = self.secrets.entry(issue.secret.clone()).or_default();
        let Secret { data, annotations } = secret;
        issue.change.apply(data, annotations, made);
        if !AUTHORITIES.contains(&issue.secret.as_str()) {
            let text = data[CERTIFICATE].clone();
            let history = self.leaf_history.entry(issue.secret.clone()).or_default();
            supersede(history, text, self.now);
        }
        self.writes += 1;
    }

    /// Runs an operator that crashes after so many writes. Returns its requeue time; None if it
    /// crashed.
    pub(super) fn run(&mut self, mut writes: usize) -> Option<Timestamp> {
        for _ in 0..100 {
            let plan = self.plan();
            let mut requeue_at = plan.requeue_at.as_ref().map(|next| next.0);
            let mut write = plan.authorities.first().cloned().map(Write::Secret);
            let pairs = self.pairs();
            for name in AUTHORITIES {
                let Some(pair) = pairs.get(name) else {
                    continue;
                };
                let leaves = pairs
                    .iter()
                    .filter(|(leaf, _)| name == CA && !AUTHORITIES.contains(&leaf.as_str()));
                let old = self.bundles.get(name).cloned().unwrap_or_default();
                let external = if name == CA { &*self.external } else { &[] };
                let wanted = bundle(
                    pair,
                    leaves.map(|(_, pair)| pair),
                    &self.known(&old),
                    external,
                    &self.settings,
                    &Time(self.now),
                );
                requeue_at = requeue_at
                    .into_iter()
                    .chain(wanted.requeue_at.map(|at| at.0))
                    .min();
                if wanted.text != old {
                    write = write.or(Some(Write::Bundle(name, wanted.text)));
                } else if name == CA && self.webhook != old {
                    write = write.or(Some(Write::Webhook(old)));
                }
            }
            let write = write.or(plan.leaves.first().cloned().map(Write::Secret));
            let Some(write) = write else {
                return requeue_at;
            };
            if writes == 0 {
                return None;
            }
            writes -= 1;
            match write {
                Write::Secret(issue) => self.execute(&issue),
                Write::Bundle(name, text) => {
                    self.writes += 1;
                    if name == CA {
                        supersede(&mut self.bundle_history, text.clone(), self.now);
                    }
                    self.bundles.insert(name.to_owned(), text);
                }
                Write::Webhook(text) => {
                    self.writes += 1;
                    supersede(&mut self.bundle_history, text.clone(), self.now);
                    self.webhook = text;
                }
            }
        }
        panic!("it does not converge: {:?}", self.plan());
    }

    /// Runs the operator at each requeue time until `end`.
    pub(super) fn run_until(&mut self, end: Timestamp) {
        loop {
            let next = self.run(usize::MAX).unwrap();
            assert!(next > self.now, "it would plan again at once");
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
        }
    }

    /// Checks that every client with any bundle that was current within `delay` trusts every server with
    /// any certificate that was current within `delay`.
    pub(super) fn verify(&self, delay: SignedDuration) -> Result<(), String> {
        let recent = |history: &History| -> Vec<String> {
            let since = self.now - delay;
            let recent = history
                .iter()
                .filter(|(_, until)| until.is_none_or(|until| until > since));
            recent.map(|(text, _)| text.clone()).collect()
        };
        for (secret, history) in &self.leaf_history {
            for leaf in recent(history) {
                let leaf = self.find(&leaf).unwrap();
                self.valid(leaf).map_err(|why| format!("{secret}: {why}"))?;
                let signer = leaf.signed_by.as_deref().unwrap();
                self.valid(self.find(signer).unwrap())
                    .map_err(|why| format!("the CA of {secret}: {why}"))?;
                for bundle in recent(&self.bundle_history) {
                    if !bundle.lines().any(|line| line == signer) {
                        let leaf = &leaf.text;
                        return Err(format!(
                            "{secret} {leaf}, signed by {signer}, is not trusted by {bundle:?}"
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    fn valid(&self, made: &Made) -> Result<(), String> {
        let NewCertificate {
            not_before,
            not_after,
            ..
        } = &made.new;
        if self.now < not_before.0 || self.now >= not_after.0 {
            return Err(format!(
                "{} is valid from {} to {}, and it is {}",
                made.text, not_before.0, not_after.0, self.now
            ));
        }
        Ok(())
    }

    pub(super) fn active(&self, secret: &str) -> &str {
        &self.secrets[secret].data[CERTIFICATE]
    }

    pub(super) fn signer(&self, secret: &str) -> &str {
        let leaf = self.find(self.active(secret)).unwrap();
        leaf.signed_by.as_deref().unwrap()
    }
}

enum Write {
    Secret(Issue),
    Bundle(&'static str, String),
    Webhook(String),
}

/// Adds a version. Clients of webhooks and of ConfigMaps share a history: any may have any version.
fn supersede(history: &mut History, text: String, now: Timestamp) {
    if let Some((last, until)) = history.last_mut() {
        if *last == text {
            return;
        }
        until.get_or_insert(now);
    }
    history.push((text, None));
}

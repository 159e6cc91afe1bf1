//! Rotation of the webhook's certificate over years. Its bundle is only in the configuration that API
//! servers read.

use std::collections::{BTreeMap, BTreeSet};

use api::Time;
use jiff::{SignedDuration, Timestamp};
use plan::{
    certificates::{CERTIFICATE, Issue, KEY, Pair, SecretChange},
    webhook_certificate::{Names, Observed, Write, plan},
};
use runtime::certificates::parse_bundle;

use crate::{
    DELAY,
    cluster::{History, Leaf, Secret, hours, known, make, pair, recent, supersede},
    handshake,
};

const CERTS: &str = "kubevirt-operator-webhook-certs";
const CA: &str = "kubevirt-operator-webhook-ca";

#[derive(Clone)]
struct Webhook {
    now: Timestamp,
    secrets: BTreeMap<String, Secret>,
    /// Bundles of the three webhooks; `None` without a configuration.
    bundles: Vec<String>,
    leaves: History<Leaf>,
    trusted: History<String>,
    /// Earlier values were never read.
    since: Timestamp,
    writes: usize,
    handshakes: usize,
}

fn names() -> Names {
    Names {
        namespace: "kubevirt-operator-system".to_owned(),
        service: "kubevirt-operator-webhook".to_owned(),
        configuration: "kubevirt-operator".to_owned(),
        secret: CERTS.to_owned(),
    }
}

impl Webhook {
    fn install() -> Self {
        let now: Timestamp = "2026-01-01T00:00:00.5Z".parse().unwrap();
        let mut webhook = Self {
            now,
            secrets: BTreeMap::new(),
            bundles: vec![String::new(); 3],
            leaves: Vec::new(),
            trusted: Vec::new(),
            since: now,
            writes: 0,
            handshakes: 0,
        };
        webhook.reconcile(usize::MAX);
        webhook
    }

    /// Reconciles, and crashes after this many writes. Returns the time of the next reconcile.
    fn reconcile(&mut self, writes: usize) -> Option<Timestamp> {
        for _ in 0..writes {
            let bundles = self.bundles.concat();
            let office = self.secrets.get(CA).and_then(|ca| ca.data.get(CERTIFICATE));
            let mut authorities = parse_bundle(office.map_or("", String::as_str));
            authorities.extend(parse_bundle(&bundles));
            let pairs: BTreeMap<String, Pair> = self
                .secrets
                .iter()
                .filter_map(|(name, secret)| Some((name.clone(), pair(secret, &authorities)?)))
                .collect();
            let known: Vec<_> = parse_bundle(&bundles).into_iter().map(known).collect();
            let observed = Observed {
                pairs: &pairs,
                foreign: &BTreeSet::new(),
                bundles: &self.bundles,
                known: &known,
            };
            let plan = plan(&names(), &observed, &Time(self.now));
            match plan.writes.into_iter().next() {
                None => return plan.requeue_at.map(|at| at.0),
                Some(Write::Secret(issue)) => self.execute(&issue),
                Some(Write::Bundle(text)) => {
                    supersede(&mut self.trusted, text.clone(), self.now);
                    self.bundles.fill(text);
                }
            }
            self.writes += 1;
        }
        None
    }

    fn execute(&mut self, issue: &Issue) {
        let issued = match &issue.change {
            SecretChange::New(new) => Some(make(new, &self.secrets)),
            SecretChange::Published(_) | SecretChange::Promote(_) => None,
        };
        let secret = self.secrets.entry(issue.secret.clone()).or_default();
        let Secret { data, annotations } = secret;
        issue.change.apply(data, annotations, issued);
        if issue.secret == CERTS {
            let leaf = (data[CERTIFICATE].clone(), data[KEY].clone());
            supersede(&mut self.leaves, leaf, self.now);
        }
    }

    /// Whether every API server trusts every replica, however late they read the configuration and
    /// the Secret.
    fn check(&mut self) -> Result<(), String> {
        let since = self.now - DELAY.min(self.now.duration_since(self.since));
        for bundle in recent(&self.trusted, since) {
            for leaf in recent(&self.leaves, since) {
                handshake::trusts(&leaf, &bundle, &names().host(), self.now)
                    .map_err(|why| format!("at {}: {why}", self.now))?;
                self.handshakes += 1;
            }
        }
        Ok(())
    }

    /// Advances time without an operator.
    fn run_without_operator(&mut self, time: SignedDuration) -> Result<(), String> {
        let end = self.now + time;
        self.check()?;
        self.now = end - SignedDuration::from_secs(1);
        self.check()?;
        self.now = end;
        Ok(())
    }

    /// Advances time with an operator that reconciles when it is due.
    fn run(&mut self, time: SignedDuration) {
        let end = self.now + time;
        while self.now < end {
            let next = self.reconcile(usize::MAX).unwrap().min(end);
            assert!(next > self.now, "the next reconcile is later");
            self.run_without_operator(next.duration_since(self.now))
                .unwrap();
        }
    }
}

fn days(days: i64) -> SignedDuration {
    hours(24 * days)
}

#[test]
fn api_servers_trust_the_webhook_for_three_years() {
    let mut webhook = Webhook::install();
    assert_eq!(webhook.writes, 3, "two Secrets and the bundle");
    webhook.run(days(3 * 365));
    println!(
        "{} writes, {} handshakes",
        webhook.writes, webhook.handshakes
    );
    assert!(webhook.handshakes > 200);
    // Eighteen CAs with five writes each, and a certificate every twenty days.
    assert!(webhook.writes < 18 * 6 + 3 * 19 + 20, "{}", webhook.writes);
    assert!(parse_bundle(&webhook.bundles[0]).len() <= 2);
}

#[test]
fn an_operator_may_be_down_for_nine_days_after_any_write() {
    let mut before = Webhook::install();
    before.run(days(59));
    for writes in 0..8 {
        let mut webhook = before.clone();
        webhook.now += days(1);
        webhook.reconcile(writes);
        webhook.run_without_operator(days(9)).unwrap();
        webhook.run(days(100));
    }
}

#[test]
fn an_operator_that_was_down_for_a_month_serves_a_trusted_certificate_immediately() {
    let mut webhook = Webhook::install();
    webhook.run(days(45));
    let expired = webhook.run_without_operator(days(40)).unwrap_err();
    assert!(expired.contains("Expired"), "{expired}");
    webhook.now += days(40);
    webhook.reconcile(usize::MAX);
    webhook.since = webhook.now;
    webhook.run(days(200));
}

#[test]
fn a_bundle_emptied_during_a_ca_rotation_is_repaired_immediately() {
    let mut before = Webhook::install();
    before.run(days(60));
    for minutes in [0, 5, 10, 11, 20] {
        let mut webhook = before.clone();
        webhook.run(SignedDuration::from_mins(minutes));
        webhook.bundles = vec![String::new(); 3];
        webhook.reconcile(usize::MAX);
        webhook.since = webhook.now;
        webhook.run(days(30));
    }
}

#[test]
fn a_configuration_that_was_missing_for_a_year_changes_nothing() {
    let mut webhook = Webhook::install();
    let bundles = std::mem::take(&mut webhook.bundles);
    let end = webhook.now + days(365);
    while webhook.now < end {
        webhook.now = webhook.reconcile(usize::MAX).unwrap();
    }
    webhook.bundles = vec![String::new(); bundles.len()];
    webhook.reconcile(usize::MAX);
    webhook.since = webhook.now;
    webhook.run(days(100));
}

//! Tests of the webhook's certificates.

use k8s_openapi::jiff::Timestamp;

use super::*;
use crate::certificates::SecretChange;

fn names() -> Names {
    Names {
        namespace: "system".to_owned(),
        service: "hook".to_owned(),
        configuration: "hooks".to_owned(),
        secret: "hook-certs".to_owned(),
    }
}

fn now() -> Time {
    Time(Timestamp::from_second(1_700_000_000).unwrap())
}

/// The first planned write.
fn next(pairs: &BTreeMap<String, Pair>, foreign: &[&str], bundles: &[&str]) -> Option<Write> {
    all(pairs, foreign, bundles).into_iter().next()
}

/// All planned writes.
fn all(pairs: &BTreeMap<String, Pair>, foreign: &[&str], bundles: &[&str]) -> Vec<Write> {
    let foreign = foreign.iter().map(|name| (*name).to_owned()).collect();
    let bundles: Vec<String> = bundles.iter().map(|text| (*text).to_owned()).collect();
    let observed = Observed {
        pairs,
        foreign: &foreign,
        bundles: &bundles,
        known: &[],
    };
    plan(&names(), &observed, &now()).writes
}

/// Executes a write to a Secret.
fn execute(write: Option<Write>, pairs: &mut BTreeMap<String, Pair>) {
    let Some(Write::Secret(issue)) = write else {
        panic!("{write:?}");
    };
    let signer = pairs.get("hook-ca").filter(|_| issue.secret != "hook-ca");
    let certificate = format!("<{}>", issue.secret);
    let outcome = issue.simulate(pairs.get(&issue.secret), signer, &certificate);
    pairs.insert(issue.secret, outcome.unwrap());
}

#[test]
fn the_ca_comes_first_then_the_bundle_then_the_certificate() {
    let mut pairs = BTreeMap::new();
    execute(next(&pairs, &[], &["", ""]), &mut pairs);
    assert!(
        pairs["hook-ca"]
            .common_name
            .starts_with("webhook.vitistack.io@")
    );
    let bundle = "<hook-ca>\n";
    assert_eq!(
        next(&pairs, &[], &["", bundle]),
        Some(Write::Bundle(bundle.to_owned()))
    );
    execute(next(&pairs, &[], &[bundle, bundle]), &mut pairs);
    assert_eq!(
        pairs["hook-certs"].dns_names,
        ["hook.system.svc", "hook.system.svc.cluster.local"]
    );
    assert_eq!(next(&pairs, &[], &[bundle, bundle]), None);
    assert_eq!(
        next(&pairs, &[], &[]),
        None,
        "there is no webhook to update"
    );
}

#[test]
fn a_certificate_of_a_trusted_ca_does_not_wait_for_the_bundle() {
    let mut pairs = BTreeMap::new();
    execute(next(&pairs, &[], &[]), &mut pairs);
    let (bundle, another) = ("<hook-ca>\n".to_owned(), "<hook-ca>\n<mine>\n");
    let writes = all(&pairs, &[], &[&bundle, another]);
    let [Write::Secret(issue), Write::Bundle(text)] = &*writes else {
        panic!("{writes:?}");
    };
    assert_eq!((&*issue.secret, text), ("hook-certs", &bundle));
    assert_eq!(
        all(&pairs, &[], &[&bundle, "<mine>\n"]),
        [Write::Bundle(bundle)],
        "clients with the other bundle would not trust it"
    );
}

#[test]
fn foreign_secrets_are_not_changed() {
    let mut pairs = BTreeMap::new();
    assert_eq!(next(&pairs, &["hook-ca"], &[""]), None);
    execute(next(&pairs, &["hook-certs"], &[""]), &mut pairs);
    assert_eq!(next(&pairs, &["hook-certs"], &["<hook-ca>\n"]), None);
}

#[test]
fn a_certificate_for_another_service_is_replaced() {
    let mut pairs = BTreeMap::new();
    execute(next(&pairs, &[], &[]), &mut pairs);
    execute(next(&pairs, &[], &[]), &mut pairs);
    pairs.get_mut("hook-certs").unwrap().dns_names = vec!["other.system.svc".to_owned()];
    let Some(Write::Secret(issue)) = next(&pairs, &[], &[]) else {
        panic!("no write is planned");
    };
    assert_eq!(issue.reason, "the certificate has other names");
    assert!(matches!(issue.change, SecretChange::New(_)));
}

#[test]
fn the_name_of_the_ca_secret_follows_the_certificate_secret() {
    let of = |secret: &str| {
        let secret = secret.to_owned();
        Names { secret, ..names() }.authority()
    };
    assert_eq!(
        of("kubevirt-operator-webhook-certs"),
        "kubevirt-operator-webhook-ca"
    );
    assert_eq!(of("hook"), "hook-ca");
}

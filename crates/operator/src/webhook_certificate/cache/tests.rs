use jiff::SignedDuration;
use runtime::{
    certificates::{Request, Usage, issue},
    reflector::Identity,
};

use super::*;

const UNTIL: i64 = 1_700_000_000;

fn secret(name: &str) -> Secret {
    let not_after = Timestamp::from_second(UNTIL).unwrap();
    let request = Request {
        common_name: "hook".to_owned(),
        dns_names: vec!["hook.system.svc".to_owned()],
        usage: Usage::Server,
        not_before: not_after - SignedDuration::from_hours(24),
        not_after,
    };
    let made = issue(&request, None).unwrap();
    serde_json::from_value(serde_json::json!({
        "metadata": {
            "name": name, "namespace": "system", "uid": name, "resourceVersion": "1",
            "labels": { MANAGED_BY: MANAGER },
        },
        "data": {
            CERTIFICATE: ByteString(made.certificate.into_bytes()),
            KEY: ByteString(made.key.as_bytes().to_vec()),
        },
    }))
    .unwrap()
}

fn listed<T>(objects: Vec<T>) -> Vec<WatchEvent<T>> {
    let ended = WatchEvent::ListCompleted {
        resource_version: "1".to_owned(),
    };
    let objects = objects.into_iter().map(WatchEvent::Listed);
    let begun = std::iter::once(WatchEvent::ListStarted);
    begun.chain(objects).chain([ended]).collect()
}

fn new_cache(certificates: Certificates) -> (CertificateCache, Certificate) {
    let names = Names {
        namespace: "system".to_owned(),
        service: "hook".to_owned(),
        configuration: "hooks".to_owned(),
        secret: "hook-certs".to_owned(),
    };
    (
        CertificateCache::new(names, certificates),
        Certificate::fallback().unwrap(),
    )
}

fn deleted(name: &str) -> WatchEvent<Secret> {
    WatchEvent::Deleted(Identity {
        namespace: "system".to_owned(),
        name: name.to_owned(),
        uid: name.to_owned(),
        resource_version: "2".to_owned(),
    })
}

#[test]
fn a_deleted_secret_is_reported_and_its_validity_still_shown() {
    for certificates in [Certificates::Managed, Certificates::External] {
        let (mut cache, certificate) = new_cache(certificates);
        for change in listed(vec![]) {
            cache.on_secret(change, &certificate);
        }
        assert!(cache.problems().is_empty(), "there was none yet");
        assert!(cache.validities().is_empty());
        cache.on_secret(WatchEvent::Applied(secret("hook-certs")), &certificate);
        assert!(cache.problems().is_empty());
        cache.on_secret(deleted("hook-certs"), &certificate);
        assert_eq!(cache.validities()["hook-certs"].not_after, UNTIL);
        let problems = cache.problems();
        let problem = problems.iter().next().unwrap();
        assert!(problem.starts_with("Secret system/hook-certs was deleted"));
    }
}

#[test]
fn an_invalid_replacement_does_not_change_the_shown_validity() {
    let (mut cache, certificate) = new_cache(Certificates::Managed);
    cache.on_secret(WatchEvent::Applied(secret("hook-certs")), &certificate);
    let mut invalid = secret("hook-certs");
    invalid.metadata.resource_version = Some("2".to_owned());
    invalid.data = None;
    cache.on_secret(WatchEvent::Applied(invalid.clone()), &certificate);
    assert_eq!(cache.validities()["hook-certs"].not_after, UNTIL);
    invalid.metadata.resource_version = Some("3".to_owned());
    invalid.metadata.labels = None;
    cache.on_secret(WatchEvent::Applied(invalid), &certificate);
    assert_eq!(cache.validities()["hook-certs"].not_after, UNTIL);
}

#[test]
fn a_deleted_ca_is_reported() {
    let (mut cache, certificate) = new_cache(Certificates::Managed);
    cache.on_secret(WatchEvent::Applied(secret("hook-certs")), &certificate);
    for change in listed(vec![secret("hook-ca")]) {
        cache.on_authority(change);
    }
    assert!(cache.problems().is_empty());
    cache.on_authority(deleted("hook-ca"));
    let problems = cache.problems();
    let problem = problems.iter().next().unwrap();
    assert!(problem.starts_with("Secret system/hook-ca was deleted"));
}

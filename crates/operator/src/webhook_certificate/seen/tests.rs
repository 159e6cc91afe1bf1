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

fn seen(certificates: Certificates) -> (Seen, Certificate) {
    let names = Names {
        namespace: "system".to_owned(),
        service: "hook".to_owned(),
        configuration: "hooks".to_owned(),
        secret: "hook-certs".to_owned(),
    };
    (
        Seen::new(names, certificates),
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
fn what_is_served_is_shown_and_told_of_when_its_secret_is_gone() {
    for certificates in [Certificates::Managed, Certificates::External] {
        let (mut seen, certificate) = seen(certificates);
        for change in listed(vec![]) {
            seen.secret(change, &certificate);
        }
        assert!(seen.problems().is_empty(), "there was none yet");
        assert!(seen.validities().is_empty());
        seen.secret(WatchEvent::Applied(secret("hook-certs")), &certificate);
        assert!(seen.problems().is_empty());
        seen.secret(deleted("hook-certs"), &certificate);
        assert_eq!(seen.validities()["hook-certs"].not_after, UNTIL);
        let problems = seen.problems();
        let told = problems.iter().next().unwrap();
        assert!(told.starts_with("Secret hook-certs in system is gone"));
    }
}

#[test]
fn what_takes_the_place_of_what_is_served_is_not_shown_until_it_is_served() {
    let (mut seen, certificate) = seen(Certificates::Managed);
    seen.secret(WatchEvent::Applied(secret("hook-certs")), &certificate);
    let mut spoilt = secret("hook-certs");
    spoilt.metadata.resource_version = Some("2".to_owned());
    spoilt.data = None;
    seen.secret(WatchEvent::Applied(spoilt.clone()), &certificate);
    assert_eq!(seen.validities()["hook-certs"].not_after, UNTIL);
    spoilt.metadata.resource_version = Some("3".to_owned());
    spoilt.metadata.labels = None;
    seen.secret(WatchEvent::Applied(spoilt), &certificate);
    assert_eq!(seen.validities()["hook-certs"].not_after, UNTIL);
}

#[test]
fn a_ca_that_is_gone_is_told_of() {
    let (mut seen, certificate) = seen(Certificates::Managed);
    seen.secret(WatchEvent::Applied(secret("hook-certs")), &certificate);
    for change in listed(vec![secret("hook-ca")]) {
        seen.authority(change);
    }
    assert!(seen.problems().is_empty());
    seen.authority(deleted("hook-ca"));
    let problems = seen.problems();
    let told = problems.iter().next().unwrap();
    assert!(told.starts_with("Secret hook-ca in system is gone"));
}

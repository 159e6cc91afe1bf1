use rstest::rstest;

use super::RefusalCause;

fn webhook(endpoint: &str) -> RefusalCause {
    RefusalCause::WebhookUnavailable {
        endpoint: endpoint.to_owned(),
    }
}

fn quota(name: Option<&str>) -> RefusalCause {
    RefusalCause::QuotaExceeded {
        quota: name.map(str::to_owned),
    }
}

#[rstest]
#[case::timeout(
    "Internal error occurred: failed calling webhook \"a.kubevirt.io\": failed to call webhook: \
     Post \"https://virt-api.kubevirt.svc:443/a?timeout=10s\": context deadline exceeded",
    webhook("virt-api")
)]
#[case::another_of_the_service(
    "Internal error occurred: failed calling webhook \"b.kubevirt.io\": failed to call webhook: \
     Post \"https://virt-api.kubevirt.svc:443/b?timeout=10s\": no endpoints available for service \
     \"virt-api\"",
    webhook("virt-api")
)]
#[case::no_service(
    "Internal error occurred: failed calling webhook \"b.kubevirt.io\": failed to call webhook: \
     service \"virt-api\" not found",
    webhook("virt-api")
)]
#[case::url(
    "failed calling webhook \"c.example.com\": failed to call webhook: Post \
     \"https://127.0.0.1:9/validate?timeout=1s\": connection refused",
    webhook("127.0.0.1:9")
)]
#[case::nothing_but_the_name(
    "failed calling webhook \"c.example.com\": expected response.uid to be set",
    webhook("c.example.com")
)]
#[case::nothing("failed calling webhook ", webhook(""))]
#[case::quota(
    "configmaps \"a\" is forbidden: exceeded quota: few, requested: count/configmaps=1, used: 5",
    quota(Some("few"))
)]
#[case::quota_without_a_name("exceeded quota", quota(None))]
#[case::clone(
    "admission webhook \"datavolume-validate.cdi.kubevirt.io\" denied the request: User \
     system:serviceaccount:a:b has insufficient permissions in clone source namespace images",
    RefusalCause::CloneForbidden
)]
#[case::null(
    "Machine.vitistack.io \"a\" is invalid: spec.a: Invalid value: \"null\": must be of type string",
    RefusalCause::NullValue
)]
#[case::denied(
    "admission webhook \"c.example.com\" denied the request: no",
    RefusalCause::Other
)]
fn a_message_names_the_cause(#[case] message: &str, #[case] expected: RefusalCause) {
    assert_eq!(RefusalCause::parse(message), expected);
}

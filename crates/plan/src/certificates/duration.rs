//! Durations of certificates, in Go's text form and in that of KubeVirt's annotation.

use k8s_openapi::jiff::SignedDuration;

const OPENING: &str = "&Duration{Duration:";
const CLOSING: &str = ",}";

/// The duration of a text that Go's `time.ParseDuration` accepts.
pub(crate) fn parse(text: &str) -> Option<SignedDuration> {
    apimachinery::duration::parse(text).map(SignedDuration::from_nanos)
}

/// The text that Go's `time.Duration.String` returns; Go's longest duration for longer ones.
pub(crate) fn format(duration: SignedDuration) -> String {
    let limit = if duration.is_negative() {
        i64::MIN
    } else {
        i64::MAX
    };
    apimachinery::duration::format(i64::try_from(duration.as_nanos()).unwrap_or(limit))
}

/// The value of the annotation `kubevirt.io/duration`, as KubeVirt's virt-operator writes it: Go's
/// printing of a `metav1.Duration`. virt-operator re-issues a certificate whose annotation differs.
pub(crate) fn format_annotation(duration: SignedDuration) -> String {
    format!("{OPENING}{}{CLOSING}", format(duration))
}

/// The duration in such an annotation; a plain duration is accepted as well.
pub(crate) fn parse_annotation(text: &str) -> Option<SignedDuration> {
    let inner = text.strip_prefix(OPENING);
    parse(inner.map_or(Some(text), |inner| inner.strip_suffix(CLOSING))?)
}

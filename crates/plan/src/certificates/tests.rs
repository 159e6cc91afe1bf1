//! Tests of rotation with the certificates of a small installation of KubeVirt. Certificates are texts
//! that describe their content, so no keys are needed.

mod bundle;
mod durations;
mod properties;
mod rotation;
mod world;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::*;

use crate::kubevirt::certificates::{AUTHORITIES, CA, DEFAULT, profile};

const NAMESPACE: &str = "kubevirt";

fn at(minutes: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap() + SignedDuration::from_mins(minutes)
}

fn hours(hours: i64) -> SignedDuration {
    SignedDuration::from_hours(hours)
}

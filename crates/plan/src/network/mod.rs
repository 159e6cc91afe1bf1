//! stub
use crate::{
    Event,
    machine::{Refusal, Step},
};
use api::{
    NetworkConfiguration, NetworkConfigurationStatus, Time, multus::NetworkAttachmentDefinition,
};
use std::time::Duration;
/// x
#[derive(Debug)]
pub struct Observed<'a> {
    /// x
    pub network: &'a NetworkConfiguration,
    /// x
    pub attachment: Option<&'a NetworkAttachmentDefinition>,
    /// x
    pub users: Vec<String>,
    /// x
    pub multus: bool,
    /// x
    pub refusal: Option<&'a Refusal>,
}
/// x
#[derive(Debug)]
pub struct Plan {
    /// x
    pub steps: Vec<Step>,
    /// x
    pub status: NetworkConfigurationStatus,
    /// x
    pub events: Vec<Event>,
    /// x
    pub look_again: Option<Duration>,
}
/// x
pub fn plan(observed: &Observed<'_>, _now: &Time) -> Plan {
    Plan {
        steps: vec![],
        status: observed.network.status.clone().unwrap_or_default(),
        events: vec![],
        look_again: None,
    }
}

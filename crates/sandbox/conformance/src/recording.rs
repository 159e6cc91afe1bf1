//! Responses recorded from a real server: one file per area, beside the cases, never edited by
//! hand.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::compare::RecordedResponse;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recording {
    /// Version of the recorded server.
    pub server: String,
    pub cases: Vec<RecordedCase>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordedCase {
    pub name: String,
    /// Responses of the steps that have one, in order.
    pub responses: Vec<RecordedResponse>,
}

impl Recording {
    pub(crate) fn parse(text: &str) -> Result<Self, serde_saphyr::Error> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        serde_saphyr::from_str_with_options(text, crate::yaml::reading())
    }

    pub(crate) fn by_name(self) -> BTreeMap<String, Vec<RecordedResponse>> {
        self.cases
            .into_iter()
            .map(|case| (case.name, case.responses))
            .collect()
    }
}

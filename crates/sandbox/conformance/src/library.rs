//! The cases and recordings that are compiled into this crate.

use std::collections::BTreeMap;
use std::path::Path;

use crate::Error;
use crate::case::{self, Case};
use crate::recording::Recording;
use crate::runner::Recorded;

pub(crate) struct Area {
    pub name: &'static str,
    cases: &'static str,
    recording: &'static str,
}

macro_rules! areas {
    ($($name:literal),* $(,)?) => {
        &[$(Area {
            name: $name,
            cases: include_str!(concat!("../cases/", $name, ".yaml")),
            recording: include_str!(concat!("../recordings/", $name, ".yaml")),
        }),*]
    };
}

/// In the order in which they are reported.
pub(crate) const AREAS: &[Area] = areas![
    "create",
    "update",
    "patch",
    "apply",
    "delete",
    "list",
    "watch",
    "status",
    "namespace",
    "quota",
    "gc",
    "field_validation",
    "malformed",
    "defaults",
    "event",
    "crd",
    "crd_schema",
    "crd_cel",
    "table",
    "discovery",
    "openapi",
    "rbac",
    "serviceaccount",
    "webhook",
];

pub(crate) fn cases() -> Result<Vec<Case>, Error> {
    let mut cases = Vec::new();
    for area in AREAS {
        let parsed = case::parse(area.name, area.cases);
        cases.extend(parsed.map_err(|error| Error::file(Path::new(area.name), error))?);
    }
    Ok(cases)
}

/// Recorded responses by area and name.
pub(crate) fn recordings() -> Result<BTreeMap<String, Recorded>, Error> {
    let recorded = |area: &Area| {
        let parsed = Recording::parse(area.recording);
        let parsed = parsed.map_err(|error| Error::file(Path::new(area.name), error))?;
        Ok((area.name.to_owned(), parsed.by_name()))
    };
    AREAS.iter().map(recorded).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_cases_share_a_name() {
        let mut names = BTreeSet::new();
        for case in cases().unwrap() {
            assert!(
                names.insert(case.name.clone()),
                "{} is there twice",
                case.name
            );
        }
    }

    #[test]
    fn every_case_is_recorded_and_every_recording_has_its_case() {
        let cases = cases().unwrap();
        let wanted: BTreeSet<(String, String)> = cases
            .into_iter()
            .map(|case| (case.area, case.name))
            .collect();
        let recorded: BTreeSet<(String, String)> = recordings()
            .unwrap()
            .into_iter()
            .flat_map(|(area, cases)| {
                cases
                    .into_keys()
                    .map(move |name| (area.clone(), name))
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(wanted, recorded);
    }

    #[test]
    fn there_are_enough_cases() {
        assert!(cases().unwrap().len() >= 150);
    }
}

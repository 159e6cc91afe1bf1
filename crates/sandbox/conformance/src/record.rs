//! Creation of recordings.

use std::path::Path;

use kube::Client;

use crate::Error;
use crate::case;
use crate::library::AREAS;
use crate::recording::{RecordedCase, Recording};
use crate::report::{Cause, Failure};
use crate::runner::{CaseResult, Options, describe, execute};

/// Runs the cases of a source tree against a real server and writes its responses there, into
/// `recordings/` beside `cases/`. Cases that were not asked for or cannot run on the server keep
/// their responses; responses without a case are dropped.
///
/// Returns the cases with steps that could not be executed: nothing is written for them.
///
/// # Errors
/// When a file cannot be read or written, or the server cannot be asked for its capabilities.
pub async fn record(client: Client, options: Options, tree: &Path) -> Result<Vec<Failure>, Error> {
    let mut cases = Vec::new();
    for area in AREAS {
        let path = tree.join(format!("cases/{}.yaml", area.name));
        let text = std::fs::read_to_string(&path).map_err(|error| Error::file(&path, error))?;
        cases.extend(case::parse(area.name, &text).map_err(|error| Error::file(&path, error))?);
    }
    let all = cases.clone();
    let (capabilities, outcomes) = execute(&client, &options, cases).await?;
    let mut failures = Vec::new();
    for area in AREAS {
        let path = tree.join(format!("recordings/{}.yaml", area.name));
        let old = std::fs::read_to_string(&path).unwrap_or_default();
        let mut known = Recording::parse(&old)
            .map_err(|error| Error::file(&path, error))?
            .by_name();
        for (case, outcome) in outcomes.iter().filter(|(case, _)| case.area == area.name) {
            match outcome {
                CaseResult::Skipped(_) => {}
                CaseResult::Executed {
                    broken: Some((at, why)),
                    ..
                } => failures.push(Failure {
                    area: case.area.clone(),
                    case: case.name.clone(),
                    step: describe(case, *at),
                    cause: Cause::Broken(why.clone()),
                }),
                CaseResult::Executed {
                    responses,
                    broken: None,
                } => {
                    let responses = responses
                        .iter()
                        .map(|(_, response)| response.clone())
                        .collect();
                    known.insert(case.name.clone(), responses);
                }
            }
        }
        let recording = Recording {
            server: capabilities.version.clone(),
            cases: all
                .iter()
                .filter(|case| case.area == area.name)
                .filter_map(|case| {
                    let responses = known.remove(&case.name)?;
                    Some(RecordedCase {
                        name: case.name.clone(),
                        responses,
                    })
                })
                .collect(),
        };
        let text = crate::yaml::to_string(&recording).map_err(|error| Error::file(&path, error))?;
        // A recording that cannot be parsed would fail on every server.
        if Recording::parse(&text).ok().as_ref() != Some(&recording) {
            return Err(Error::file(&path, "YAML does not keep the responses"));
        }
        std::fs::write(&path, text).map_err(|error| Error::file(&path, error))?;
    }
    Ok(failures)
}

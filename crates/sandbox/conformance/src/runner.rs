//! Runner of all cases on one server.

use std::collections::BTreeMap;

use futures::StreamExt;
use kube::Client;

use crate::capability::Capabilities;
use crate::case::{Case, Step};
use crate::compare::{Level, RecordedResponse, compare};
use crate::exchange::{self, Outgoing};
use crate::library;
use crate::report::{Cause, Failure, Report, Skip};
use crate::session::Session;
use crate::webhook::Webhooks;
use crate::{Capability, Error};

#[derive(Debug, Clone)]
pub struct Options {
    /// Only cases whose area or name contains this text.
    pub only: Option<String>,
    pub level: Level,
    /// Whether to start the webhook server, on a loopback socket, and run the cases that need it.
    pub webhooks: bool,
    /// Number of concurrent cases.
    pub parallel: usize,
    /// Prefix of namespaces, at most 20 lower-case letters and digits. Concurrent runs on one
    /// server need different ones.
    pub prefix: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            only: None,
            level: Level::Exact,
            webhooks: false,
            parallel: 4,
            prefix: "conf".to_owned(),
        }
    }
}

/// Runs the cases against a server, and compares its responses with the recorded ones.
///
/// # Errors
/// When the server cannot be asked for its capabilities. A case that fails is no error.
pub async fn run(client: Client, options: Options) -> Result<Report, Error> {
    let recordings = library::recordings()?;
    let cases = library::cases()?;
    let (capabilities, outcomes) = execute(&client, &options, cases).await?;
    let mut report = Report {
        server: capabilities.version,
        ..Report::default()
    };
    for (case, outcome) in outcomes {
        let expected = recordings
            .get(&case.area)
            .and_then(|area| area.get(&case.name));
        match outcome {
            CaseResult::Skipped(missing) => report.skipped.push(Skip {
                area: case.area,
                case: case.name,
                missing: missing.to_string(),
            }),
            CaseResult::Executed { responses, broken } => {
                match judge(&case, expected, &responses, broken, options.level) {
                    None => report.passed.push(case.name),
                    Some((step, cause)) => {
                        report.failed.push(Failure {
                            area: case.area,
                            case: case.name,
                            step,
                            cause,
                        });
                    }
                }
            }
        }
    }
    Ok(report)
}

pub(crate) enum CaseResult {
    Skipped(Capability),
    Executed {
        /// Responses so far, each with the index of its step.
        responses: Vec<(usize, RecordedResponse)>,
        /// The step that could not be executed, and why.
        broken: Option<(usize, String)>,
    },
}

/// Executes the selected cases. Results are in the order of the cases.
pub(crate) async fn execute(
    client: &Client,
    options: &Options,
    cases: Vec<Case>,
) -> Result<(Capabilities, Vec<(Case, CaseResult)>), Error> {
    let mut capabilities = Capabilities::probe(client, &options.prefix).await?;
    let webhooks = if options.webhooks {
        Some(Webhooks::start().await?)
    } else {
        None
    };
    if webhooks.is_some() {
        capabilities.add(Capability::Webhooks);
    }
    let wanted = |case: &Case| {
        options
            .only
            .as_ref()
            .is_none_or(|only| case.area.contains(only) || case.name.contains(only))
    };
    let cases = cases.into_iter().filter(wanted).enumerate();
    let tasks = cases.map(|(at, case)| {
        let (capabilities, webhooks) = (&capabilities, webhooks.as_ref());
        let namespace = format!("{}-{at:03}", options.prefix);
        async move {
            let missing = case
                .requires
                .iter()
                .find(|needed| !capabilities.has(**needed));
            let outcome = match missing {
                Some(missing) => CaseResult::Skipped(*missing),
                None => execute_case(client, capabilities, webhooks, &case, &namespace).await,
            };
            (at, case, outcome)
        }
    });
    // Unordered, so that one waiting case does not block the others.
    let mut outcomes: Vec<_> = futures::stream::iter(tasks)
        .buffer_unordered(options.parallel.max(1))
        .collect()
        .await;
    outcomes.sort_by_key(|(at, ..)| *at);
    let outcomes = outcomes.into_iter();
    let outcomes = outcomes.map(|(_, case, outcome)| (case, outcome)).collect();
    Ok((capabilities, outcomes))
}

async fn execute_case(
    client: &Client,
    capabilities: &Capabilities,
    webhooks: Option<&Webhooks>,
    case: &Case,
    namespace: &str,
) -> CaseResult {
    let mut session = Session::new(client, webhooks, case, namespace);
    let mut responses = Vec::new();
    let mut broken = session
        .begin(namespace)
        .await
        .err()
        .map(|error| (0, error.to_string()));
    if broken.is_none() {
        for (at, step) in case.steps.iter().enumerate() {
            match session.execute(step).await {
                Ok(None) => {}
                Ok(Some(response)) => responses.push((at, response)),
                Err(error) => {
                    broken = Some((at, error.to_string()));
                    break;
                }
            }
        }
    }
    // The result stands even if the cleanup fails.
    let _ = clean(client, capabilities, session, namespace).await;
    CaseResult::Executed { responses, broken }
}

async fn clean(
    client: &Client,
    capabilities: &Capabilities,
    session: Session<'_>,
    namespace: &str,
) -> Result<(), exchange::Error> {
    let controllers = capabilities.has(Capability::Controllers);
    session.litter.remove(client, controllers).await?;
    let path = format!("/api/v1/namespaces/{namespace}");
    exchange::send(client, Outgoing::new("DELETE", &path)).await?;
    if !controllers {
        crate::cleanup::finalize(client, namespace).await?;
    }
    Ok(())
}

/// The first failure of a case, if any.
fn judge(
    case: &Case,
    expected: Option<&Vec<RecordedResponse>>,
    responses: &[(usize, RecordedResponse)],
    broken: Option<(usize, String)>,
    level: Level,
) -> Option<(String, Cause)> {
    let Some(expected) = expected else {
        let missing =
            Cause::Broken("no responses are recorded; see `conformance record`".to_owned());
        return Some((describe(case, 0), missing));
    };
    for ((at, actual), expected) in responses.iter().zip(expected) {
        let differences = compare(expected, actual, level);
        if !differences.is_empty() {
            return Some((describe(case, *at), Cause::Differs(differences)));
        }
    }
    if let Some((at, why)) = broken {
        return Some((describe(case, at), Cause::Broken(why)));
    }
    (responses.len() != expected.len()).then(|| {
        let stale = Cause::Broken("the recording belongs to other steps: record again".to_owned());
        (describe(case, responses.len().min(expected.len())), stale)
    })
}

pub(crate) fn describe(case: &Case, at: usize) -> String {
    let what = match case.steps.get(at) {
        Some(Step::Request(request) | Step::Watch { request, .. }) => {
            format!("{} {}", request.method, request.target)
        }
        Some(Step::Events(events)) => format!("events of {}", events.of),
        Some(Step::Assertion(relation)) => relation.clone(),
        Some(Step::Install(_)) => "install a definition".to_owned(),
        Some(Step::Program { path, .. } | Step::Received { path, .. }) => format!("webhook {path}"),
        None => "the end".to_owned(),
    };
    format!("step {}: {what}", at + 1)
}

/// Responses by name of their case.
pub(crate) type Recorded = BTreeMap<String, Vec<RecordedResponse>>;

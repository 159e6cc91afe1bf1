//! Conformance cases: a name, the required capabilities, and steps in order.
//!
//! Cases are written by hand in `cases/*.yaml`, one file per area. Expected responses are recorded,
//! see [`crate::recording`].
//!
//! ```yaml
//! - name: An update is watched             # a sentence that is true of a server which passes
//!   requires: [controllers]                # capabilities; left out when there are none
//!   managedFields: true                    # keep them in the responses
//!   steps:
//!     - install: {...}                     # a CustomResourceDefinition, until it is served
//!     - do: POST /api/v1/namespaces/${ns}/secrets   # a request: method, path and query
//!       headers: {Impersonate-User: someone}
//!       body: {...}                        # or `text`, which need not be JSON
//!       save: a                            # later steps say ${a.metadata.uid}
//!       pick: [/metadata/labels]           # the parts that count; [] for the code alone
//!     - do: GET /api/v1/namespaces/${ns}/secrets?watch=true
//!       watch: w                           # stays open for the steps that follow
//!     - do: PATCH /api/v1/namespaces/${ns}/secrets/a
//!       patch: merge                       # json, merge, strategic or apply
//!       body: ${a}
//!       set: {/metadata/labels/x: z}       # changes to the body, by JSON pointer
//!     - events: {of: w, count: 2}          # or through: BOOKMARK, or neither: until it is closed
//!     - events: {of: w, through: BOOKMARK, reopen: true}   # watch again if it was closed in silence
//!     - do: GET /api/v1/namespaces/${ns}/secrets/a
//!       until: {code: 404}                 # repeats; conditions by JSON pointer as well
//!     - holds: ${a.metadata.resourceVersion} < ${b.metadata.resourceVersion}
//!     - webhook: ${ns}/check               # a path of the webhook server
//!       response: {allowed: true}
//!     - received: ${ns}/check              # what that path was last sent
//! ```

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::capability::Capability;

/// One behaviour of the API, as steps whose responses show whether a server has it.
#[derive(Debug, Clone)]
pub struct Case {
    /// Name of the case's file without its extension.
    pub area: String,
    /// Unique sentence that is true of a server which passes.
    pub name: String,
    /// Capabilities without which the case is skipped.
    pub requires: Vec<Capability>,
    /// Whether responses keep `metadata.managedFields`.
    pub(crate) managed_fields: bool,
    pub(crate) steps: Vec<Step>,
}

/// Content of a file of cases.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseFile {
    /// Anchored objects that cases share; not read here.
    #[serde(default, rename = "fixtures")]
    _fixtures: Value,
    cases: Vec<CaseText>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct CaseText {
    name: String,
    #[serde(default)]
    requires: Vec<Capability>,
    #[serde(default)]
    managed_fields: bool,
    steps: Vec<Step>,
}

pub(crate) fn parse(area: &str, text: &str) -> Result<Vec<Case>, serde_saphyr::Error> {
    let file: CaseFile = serde_saphyr::from_str_with_options(text, crate::yaml::reading())?;
    let case = |case: CaseText| Case {
        area: area.to_owned(),
        name: case.name,
        requires: case.requires,
        managed_fields: case.managed_fields,
        steps: case.steps,
    };
    Ok(file.cases.into_iter().map(case).collect())
}

#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "StepText")]
pub(crate) enum Step {
    /// Sends a request and compares the response with the recorded one.
    Request(Request),
    /// Opens a watch that later steps read from by its name.
    Watch { name: String, request: Request },
    /// Reads events from an open watch.
    Events(Events),
    /// Compares two captured values, since recordings do not contain resource versions.
    Assertion(String),
    /// Creates a CustomResourceDefinition and waits until its versions are served.
    Install(Value),
    /// Sets the webhook server's response on a path.
    Program { path: String, response: Value },
    /// Shows the webhook server's last request on a path.
    Received {
        path: String,
        pick: Option<Vec<String>>,
    },
}

/// A request and how its response is used.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request {
    pub method: String,
    /// Path and query, with variables.
    pub target: String,
    pub headers: BTreeMap<String, String>,
    pub body: Body,
    /// Name under which later steps find the response body.
    pub save: Option<String>,
    /// Parts of the body that are compared; all if absent.
    pub pick: Option<Vec<String>>,
    /// Conditions on the response; the request is repeated until they are true.
    pub until: Option<BTreeMap<String, Value>>,
}

#[derive(Debug, Clone, Default)]
pub(crate) enum Body {
    #[default]
    Absent,
    Json {
        base: Value,
        /// Values to set in the base, by JSON pointer, after its variables are expanded.
        set: BTreeMap<String, Value>,
    },
    /// Sent verbatim; need not be JSON.
    Text(Text),
}

impl Body {
    /// Body as written in the case, without variables.
    pub(crate) fn written(&self) -> String {
        match self {
            Self::Absent | Self::Text(Text::Repeated { .. }) => String::new(),
            Self::Json { base, set } => {
                let set = set.values().map(Value::to_string);
                std::iter::once(base.to_string()).chain(set).collect()
            }
            Self::Text(Text::Plain(text)) => text.clone(),
        }
    }
}

/// Generated text.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Text {
    Plain(String),
    Repeated {
        before: String,
        repeat: String,
        times: usize,
        after: String,
    },
}

/// Which events to read.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Events {
    pub of: String,
    /// Number of events to read.
    pub count: Option<usize>,
    /// Reads up to and including the first event of this type.
    pub through: Option<String>,
    /// Reopens a watch that was closed before its first event.
    #[serde(default)]
    pub reopen: bool,
    /// Name under which later steps find the list of events.
    pub save: Option<String>,
    /// Parts of each event that are compared.
    pub pick: Option<Vec<String>>,
}

/// A step as written; the field that is set determines its type.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepText {
    r#do: Option<String>,
    watch: Option<String>,
    events: Option<Events>,
    holds: Option<String>,
    install: Option<Value>,
    webhook: Option<String>,
    received: Option<String>,
    response: Option<Value>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    patch: Option<PatchType>,
    body: Option<Value>,
    text: Option<Text>,
    #[serde(default)]
    set: BTreeMap<String, Value>,
    save: Option<String>,
    pick: Option<Vec<String>>,
    until: Option<BTreeMap<String, Value>>,
}

/// Content types of patches, by kubectl's names.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchType {
    fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

impl TryFrom<StepText> for Step {
    type Error = String;

    fn try_from(step: StepText) -> Result<Self, String> {
        let StepText {
            r#do,
            watch,
            events,
            holds,
            install,
            webhook,
            received,
            response,
            ..
        } = step;
        if let Some(line) = r#do {
            let (method, target) = line
                .split_once(' ')
                .ok_or_else(|| format!("{line:?} is not METHOD PATH"))?;
            let mut headers = step.headers;
            if let Some(patch) = step.patch {
                headers.insert("content-type".to_owned(), patch.content_type().to_owned());
            }
            let body = match (step.body, step.text) {
                (None, None) => Body::Absent,
                (Some(body), None) => Body::Json {
                    base: body,
                    set: step.set,
                },
                (None, Some(text)) => Body::Text(text),
                (Some(_), Some(_)) => return Err(format!("{line:?} has a body and a text")),
            };
            let request = Request {
                method: method.to_owned(),
                target: target.to_owned(),
                headers,
                body,
                save: step.save,
                pick: step.pick,
                until: step.until,
            };
            return Ok(match watch {
                None => Self::Request(request),
                Some(name) => Self::Watch { name, request },
            });
        }
        match (events, holds, install, webhook, received) {
            (Some(events), None, None, None, None) => Ok(Self::Events(events)),
            (None, Some(holds), None, None, None) => Ok(Self::Assertion(holds)),
            (None, None, Some(install), None, None) => Ok(Self::Install(install)),
            (None, None, None, Some(path), None) => {
                let response =
                    response.ok_or_else(|| format!("webhook {path:?} has no response"))?;
                Ok(Self::Program { path, response })
            }
            (None, None, None, None, Some(path)) => Ok(Self::Received {
                path,
                pick: step.pick,
            }),
            _ => Err(
                "a step is exactly one of do, events, holds, install, webhook, received".to_owned(),
            ),
        }
    }
}

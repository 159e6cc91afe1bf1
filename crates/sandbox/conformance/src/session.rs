//! Execution of one case on one server; yields normalised responses.

use std::collections::BTreeMap;

use kube::Client;
use serde_json::{Value, json};

use crate::case::{Case, Events, Request, Step};
use crate::cleanup::Litter;
use crate::compare::RecordedResponse;
use crate::exchange::{self, Incoming, Lines, Outgoing};
use crate::normalise::Normaliser;
use crate::pick::pick;
use crate::template::Variables;
use crate::wait;
use crate::webhook::Webhooks;

/// A step that could not be executed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Exchange(#[from] exchange::Error),
    #[error("{0}")]
    Step(String),
}

impl From<String> for Error {
    fn from(why: String) -> Self {
        Self::Step(why)
    }
}

pub(crate) struct Session<'a> {
    client: &'a Client,
    webhooks: Option<&'a Webhooks>,
    variables: Variables,
    normaliser: Normaliser,
    watches: BTreeMap<String, Watch>,
    pub(crate) litter: Litter,
}

/// An open watch, and its request.
struct Watch {
    request: Outgoing,
    lines: Lines,
}

impl<'a> Session<'a> {
    pub(crate) fn new(
        client: &'a Client,
        webhooks: Option<&'a Webhooks>,
        case: &Case,
        namespace: &str,
    ) -> Self {
        let mut variables = Variables::default();
        variables.set("ns", json!(namespace));
        let mut normaliser = Normaliser::new(namespace, case.managed_fields);
        if let Some(webhooks) = webhooks {
            variables.set(
                "webhooks",
                json!({"url": webhooks.url(), "ca": webhooks.ca()}),
            );
            normaliser.name(webhooks.url().to_owned(), "${webhooks.url}".to_owned());
            normaliser.name(webhooks.ca().to_owned(), "${webhooks.ca}".to_owned());
        }
        Self {
            client,
            webhooks,
            variables,
            normaliser,
            watches: BTreeMap::new(),
            litter: Litter::default(),
        }
    }

    /// Creates the case's namespace with the label that webhooks select it by, which servers before
    /// 1.21 do not set.
    pub(crate) async fn begin(&mut self, namespace: &str) -> Result<(), Error> {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": namespace,
            "labels": {"kubernetes.io/metadata.name": namespace},
        }});
        let response =
            exchange::send(self.client, Outgoing::post("/api/v1/namespaces", &body)).await?;
        if response.code != 201 {
            return Err(Error::Step(format!(
                "no namespace for the case: {}",
                response.body
            )));
        }
        Ok(())
    }

    /// Executes a step. Not every step has a response.
    pub(crate) async fn execute(&mut self, step: &Step) -> Result<Option<RecordedResponse>, Error> {
        match step {
            Step::Request(request) => self.request(request).await.map(Some),
            Step::Watch { name, request } => self.watch(name, request).await.map(Some),
            Step::Events(events) => self.events(events).await.map(Some),
            Step::Assertion(relation) => self.check(relation).map(|()| None),
            Step::Install(definition) => self.install(definition).await.map(|()| None),
            Step::Program { path, response } => {
                let path = self.variables.text(path)?;
                let response = self.variables.json(response)?;
                self.webhooks()?.program(path, response);
                Ok(None)
            }
            Step::Received { path, pick } => {
                let path = self.variables.text(path)?;
                let review = self
                    .webhooks()?
                    .received(&path)
                    .ok_or_else(|| format!("the webhook {path} was not called"))?;
                Ok(Some(self.response(None, &review, pick.as_deref())))
            }
        }
    }

    fn webhooks(&self) -> Result<&'a Webhooks, Error> {
        self.webhooks
            .ok_or_else(|| Error::Step("there is no webhook server".to_owned()))
    }

    fn outgoing(&mut self, request: &Request) -> Result<Outgoing, Error> {
        let headers = request
            .headers
            .iter()
            .map(|(name, value)| Ok((name.clone(), self.variables.text(value)?)))
            .collect::<Result<_, String>>()?;
        let outgoing = Outgoing {
            method: request.method.clone(),
            target: self.variables.target(&request.target)?,
            headers,
            body: self.variables.body(&request.body)?,
        };
        self.normaliser.sent(&request.body.written());
        Ok(outgoing)
    }

    async fn request(&mut self, request: &Request) -> Result<RecordedResponse, Error> {
        let outgoing = self.outgoing(request)?;
        let mut tries = 0;
        let response = loop {
            let response = exchange::send(self.client, outgoing.clone()).await?;
            self.litter
                .note(&outgoing.method, &outgoing.target, &response);
            let Some(until) = &request.until else {
                break response;
            };
            if self.is_met(until, &response)? {
                break response;
            }
            tries += 1;
            if tries == wait::MAX_ATTEMPTS {
                return Err(Error::Step(format!(
                    "waited in vain; at last: {}",
                    response.body
                )));
            }
            wait::pause().await;
        };
        if let Some(name) = &request.save {
            self.variables.set(name, response.body.clone());
        }
        let shown = self.response(Some(response.code), &response.body, request.pick.as_deref());
        Ok(self.with_headers(shown, &response))
    }

    fn with_headers(
        &mut self,
        response: RecordedResponse,
        incoming: &Incoming,
    ) -> RecordedResponse {
        let warnings =
            incoming
                .warnings
                .iter()
                .map(|text| match self.normaliser.body(&json!(text)) {
                    Value::String(text) => text,
                    other => other.to_string(),
                });
        RecordedResponse {
            warnings: warnings.collect(),
            content_type: incoming.content_type.clone(),
            ..response
        }
    }

    fn response(
        &mut self,
        code: Option<u16>,
        body: &Value,
        parts: Option<&[String]>,
    ) -> RecordedResponse {
        let body = self.normaliser.body(body);
        let body = match parts {
            None => Some(body),
            Some([]) => None,
            Some(parts) => Some(pick(&body, parts)),
        };
        RecordedResponse {
            code,
            content_type: None,
            warnings: Vec::new(),
            body,
            events: None,
        }
    }

    fn is_met(&self, until: &BTreeMap<String, Value>, response: &Incoming) -> Result<bool, Error> {
        for (key, wanted) in until {
            let wanted = self.variables.json(wanted)?;
            let found = match key.as_str() {
                "code" => json!(response.code),
                pointer => {
                    let pointer = self.variables.text(pointer)?;
                    let picked = pick(&response.body, std::slice::from_ref(&pointer));
                    picked.get(&pointer).cloned().unwrap_or_default()
                }
            };
            if found != wanted {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn watch(&mut self, name: &str, request: &Request) -> Result<RecordedResponse, Error> {
        let outgoing = self.outgoing(request)?;
        match exchange::open(self.client, outgoing.clone()).await? {
            Ok(lines) => {
                let request = outgoing;
                self.watches
                    .insert(name.to_owned(), Watch { request, lines });
                Ok(self.response(Some(200), &Value::Null, Some(&[])))
            }
            Err(refusal) => {
                let shown =
                    self.response(Some(refusal.code), &refusal.body, request.pick.as_deref());
                Ok(self.with_headers(shown, &refusal))
            }
        }
    }

    /// Without a count and a type, reads until the server closes the watch.
    async fn events(&mut self, events: &Events) -> Result<RecordedResponse, Error> {
        let watch = self
            .watches
            .get_mut(&events.of)
            .ok_or_else(|| format!("no watch {:?} is open", events.of))?;
        let mut reopenings = if events.reopen { wait::MAX_REOPENS } else { 0 };
        let endless = events.count.is_none() && events.through.is_none();
        let mut read = Vec::new();
        while events.count.is_none_or(|count| read.len() < count) {
            let Some(event) = watch.lines.next().await? else {
                if endless {
                    break;
                }
                if read.is_empty() && reopenings > 0 {
                    reopenings -= 1;
                    let opened = exchange::open(self.client, watch.request.clone()).await?;
                    watch.lines = opened.map_err(|refusal| {
                        format!("the watch was not opened again: {}", refusal.body)
                    })?;
                    continue;
                }
                return Err(Error::Step(format!(
                    "the watch was closed after {}",
                    json!(read)
                )));
            };
            let kind = event.get("type").and_then(Value::as_str).map(str::to_owned);
            read.push(event);
            if events.through.is_some() && kind == events.through {
                break;
            }
        }
        let shown = read.iter().map(|event| {
            let event = self.normaliser.event(event);
            match &events.pick {
                None => event,
                Some(parts) => pick(&event, parts),
            }
        });
        let shown = shown.collect();
        if let Some(name) = &events.save {
            self.variables.set(name, Value::Array(read));
        }
        Ok(RecordedResponse {
            code: None,
            content_type: None,
            warnings: Vec::new(),
            body: None,
            events: Some(shown),
        })
    }

    /// `left < right` and `left <= right` compare numbers; `left == right` and `left != right`
    /// compare text.
    fn check(&self, relation: &str) -> Result<(), Error> {
        let expanded = self.variables.text(relation)?;
        let parts: Vec<&str> = expanded.split_whitespace().collect();
        let [left, operator, right] = parts[..] else {
            return Err(Error::Step(format!(
                "{relation:?} is not two values and an operator"
            )));
        };
        let number = |text: &str| {
            text.parse::<u64>()
                .map_err(|_| format!("{text:?} in {relation:?} is not a number"))
        };
        let is_true = match operator {
            "<" => number(left)? < number(right)?,
            "<=" => number(left)? <= number(right)?,
            "==" => left == right,
            "!=" => left != right,
            other => return Err(Error::Step(format!("there is no operator {other}"))),
        };
        if is_true {
            Ok(())
        } else {
            Err(Error::Step(format!("{relation} is false: {expanded}")))
        }
    }

    /// A CustomResourceDefinition is accepted before its resource is served.
    async fn install(&mut self, definition: &Value) -> Result<(), Error> {
        const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let definition = self.variables.json(definition)?;
        self.normaliser.sent(&definition.to_string());
        let response =
            exchange::send(self.client, Outgoing::post(DEFINITIONS, &definition)).await?;
        self.litter.note("POST", DEFINITIONS, &response);
        if response.code != 201 {
            return Err(Error::Step(format!(
                "the definition was refused: {}",
                response.body
            )));
        }
        let text = |pointer| {
            definition
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (group, plural) = (text("/spec/group"), text("/spec/names/plural"));
        let versions = definition
            .pointer("/spec/versions")
            .and_then(Value::as_array);
        let served = versions
            .into_iter()
            .flatten()
            .filter(|version| version.get("served") == Some(&json!(true)))
            .filter_map(|version| version.get("name").and_then(Value::as_str));
        for version in served {
            let path = format!("/apis/{group}/{version}/{plural}");
            let mut tries = 0;
            while exchange::send(self.client, Outgoing::get(&path))
                .await?
                .code
                != 200
            {
                tries += 1;
                if tries == wait::MAX_ATTEMPTS {
                    return Err(Error::Step(format!("{path} is not served")));
                }
                wait::pause().await;
            }
        }
        Ok(())
    }
}

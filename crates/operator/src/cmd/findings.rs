//! Problems with documents for programs: JSON, SARIF, and annotations of GitHub Actions.
//!
//! Line and column are those of the field in the file, not the number of the document.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::{
    documents::{
        Origin, ReadError,
        positions::{Position, Positions},
    },
    report::printable,
};

/// Value of `-o`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Lines for people
    #[default]
    Text,
    Json,
    /// SARIF 2.1.0, which code scanning services and editors read
    Sarif,
    /// Annotations of GitHub Actions
    Github,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Error,
    Note,
}

/// A problem, or a note.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// None if it concerns no document.
    pub(super) origin: Option<Origin>,
    pub(super) path: String,
    pub(super) message: String,
    /// Line that is known without the path, such as that of a syntax error.
    pub(super) line: Option<usize>,
}

impl Finding {
    pub(super) fn error(origin: &Origin, path: &str, message: &str) -> Self {
        Self {
            level: Level::Error,
            origin: Some(origin.clone()),
            path: path.to_owned(),
            message: message.to_owned(),
            line: None,
        }
    }

    pub(super) fn note(origin: &Origin, path: &str, message: &str) -> Self {
        Self {
            level: Level::Note,
            ..Self::error(origin, path, message)
        }
    }

    /// A finding that concerns no document.
    pub(super) fn general(level: Level, message: &str) -> Self {
        Self {
            level,
            origin: None,
            path: String::new(),
            message: message.to_owned(),
            line: None,
        }
    }

    pub(super) fn unread(error: &ReadError) -> Self {
        let of_file = |file: &str, message: String| Self {
            level: Level::Error,
            origin: Some(Origin {
                file: file.into(),
                document: 1,
                item: None,
            }),
            path: String::new(),
            message,
            line: None,
        };
        match error {
            ReadError::NotYaml {
                origin,
                line,
                message,
            } => Self {
                line: Some(*line),
                ..Self::error(origin, "", message)
            },
            ReadError::Io { file, source } => of_file(file, source.to_string()),
            ReadError::EmptyDirectory { directory } => of_file(
                directory,
                "contains no .yaml, .yml or .json file".to_owned(),
            ),
            ReadError::FileTooLarge { file }
            | ReadError::NotText { file, .. }
            | ReadError::TooManyDocuments { file } => {
                let message = error.to_string();
                let message = message
                    .strip_prefix(&format!("{file}: "))
                    .unwrap_or(&message);
                of_file(file, message.to_owned())
            }
        }
    }
}

/// Texts of files, for the positions of their fields.
#[derive(Debug, Default)]
pub(super) struct Texts(BTreeMap<Arc<str>, String>);

impl Texts {
    pub(super) fn insert(&mut self, file: &Arc<str>, text: String) {
        self.0.insert(Arc::clone(file), text);
    }
}

/// A finding with its position.
struct Placed<'a> {
    finding: &'a Finding,
    position: Option<Position>,
}

fn placed<'a>(findings: &'a [Finding], texts: &Texts) -> Vec<Placed<'a>> {
    let mut known: BTreeMap<&str, Positions> = BTreeMap::new();
    let mut placed = Vec::new();
    for finding in findings {
        let position = match (&finding.origin, finding.line) {
            (_, Some(line)) => Some(Position { line, column: 1 }),
            (None, None) => None,
            (Some(origin), None) => texts.0.get(&origin.file).and_then(|text| {
                let positions = known
                    .entry(&*origin.file)
                    .or_insert_with(|| Positions::of(text));
                positions.find(origin, &finding.path)
            }),
        };
        placed.push(Placed { finding, position });
    }
    placed
}

/// Findings as JSON objects, for a result of the command's own shape.
pub(super) fn as_json(findings: &[Finding], texts: &Texts) -> Vec<Value> {
    let placed = placed(findings, texts);
    placed.iter().map(Placed::json).collect()
}

impl Placed<'_> {
    fn json(&self) -> Value {
        let mut value = json!({ "message": self.finding.message });
        let mut put = |name: &str, field: Option<Value>| {
            if let Some(field) = field {
                value[name] = field;
            }
        };
        let origin = self.finding.origin.as_ref();
        put("file", origin.map(|origin| (*origin.file).into()));
        put("document", origin.map(|origin| origin.document.into()));
        put(
            "item",
            origin.and_then(|origin| origin.item).map(Into::into),
        );
        let path = &self.finding.path;
        put("path", (!path.is_empty()).then(|| path.clone().into()));
        put("line", self.position.map(|position| position.line.into()));
        put(
            "column",
            self.position.map(|position| position.column.into()),
        );
        value
    }

    /// The message with the field that it is about.
    fn text(&self) -> String {
        match self.finding.path.as_str() {
            "" => self.finding.message.clone(),
            path => format!("{path}: {}", self.finding.message),
        }
    }
}

/// SARIF 2.1.0 of a run of this command.
pub(super) fn sarif(command: &str, findings: &[Finding], texts: &Texts) -> Value {
    let results: Vec<Value> = placed(findings, texts)
        .iter()
        .map(|placed| {
            let level = match placed.finding.level {
                Level::Error => "error",
                Level::Note => "note",
            };
            let mut result = json!({
                "ruleId": command, "level": level, "message": { "text": placed.text() },
            });
            if let Some(origin) = &placed.finding.origin {
                let mut place = json!({ "artifactLocation": { "uri": uri(&origin.file) } });
                if let Some(Position { line, column }) = placed.position {
                    place["region"] = json!({ "startLine": line, "startColumn": column });
                }
                result["locations"] = json!([{ "physicalLocation": place }]);
            }
            result
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "kubevirt-operator",
                "version": env!("CARGO_PKG_VERSION"),
                "informationUri": env!("CARGO_PKG_REPOSITORY"),
                "rules": [{
                    "id": command,
                    "shortDescription": { "text": format!("kubevirt-operator {command}") },
                }],
            } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

/// Relative reference to a file.
fn uri(file: &str) -> String {
    let mut uri = String::new();
    for byte in file.strip_prefix("./").unwrap_or(file).bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

/// Workflow commands of GitHub Actions, one per line.
pub(super) fn github(command: &str, findings: &[Finding], texts: &Texts) -> String {
    let mut text = String::new();
    for placed in placed(findings, texts) {
        let level = match placed.finding.level {
            Level::Error => "error",
            Level::Note => "notice",
        };
        let mut properties = Vec::new();
        if let Some(origin) = &placed.finding.origin {
            let file = origin.file.strip_prefix("./").unwrap_or(&origin.file);
            properties.push(format!("file={}", property(file)));
        }
        if let Some(Position { line, column }) = placed.position {
            properties.push(format!("line={line},col={column}"));
        }
        properties.push(format!("title=kubevirt-operator {command}"));
        let message = escaped(&printable(&placed.text()));
        // Writing to a String does not fail.
        let _ = writeln!(text, "::{level} {}::{message}", properties.join(","));
    }
    text
}

fn escaped(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

fn property(text: &str) -> String {
    escaped(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> (Vec<Finding>, Texts) {
        let origin = Origin {
            file: "a, b.yaml".into(),
            document: 1,
            item: None,
        };
        let mut texts = Texts::default();
        texts.insert(&origin.file, "kind: A\nspec:\n  x: 1\n".to_owned());
        let findings = vec![
            Finding::error(&origin, "spec.x", "is 100% wrong"),
            Finding::note(&origin, "", "noted"),
            Finding::general(Level::Error, "the cluster is away"),
        ];
        (findings, texts)
    }

    #[test]
    fn annotations_escape_what_separates() {
        let (findings, texts) = findings();
        assert_eq!(
            github("validate", &findings, &texts),
            "::error file=a%2C b.yaml,line=3,col=3,title=kubevirt-operator validate::spec.x: is 100%25 wrong\n\
             ::notice file=a%2C b.yaml,line=1,col=1,title=kubevirt-operator validate::noted\n\
             ::error title=kubevirt-operator validate::the cluster is away\n"
        );
    }

    #[test]
    fn sarif_has_a_region_for_each_field() {
        let (findings, texts) = findings();
        let sarif = sarif("validate", &findings, &texts);
        let results = sarif["runs"][0]["results"].as_array().unwrap();
        let place = &results[0]["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "a%2C%20b.yaml");
        assert_eq!(place["region"], json!({ "startLine": 3, "startColumn": 3 }));
        assert_eq!(results[1]["level"], "note");
        assert!(results[2].get("locations").is_none());
    }

    #[test]
    fn json_leaves_out_what_is_not_known() {
        let (findings, texts) = findings();
        let found = as_json(&findings, &texts);
        assert_eq!(
            found[0],
            json!({
                "message": "is 100% wrong", "file": "a, b.yaml", "document": 1, "path": "spec.x",
                "line": 3, "column": 3,
            })
        );
        assert_eq!(found[2], json!({ "message": "the cluster is away" }));
    }
}

//! Tables of the operators' documentation: every setting, right, metric, Event, reason and error is
//! listed, and tables of settings, rights, metrics and errors list no others.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use plan::machine::ErrorType;
use serde_json::Value;

use super::{
    docs::{document, quoted, rows},
    root, run, sample_metrics, text,
};

const FILE: &str = "docs/operator-reference.md";
const MACHINE: &str = "docs/machine.md";
const VIRT_OPERATOR: &str = "docs/virt-operator-reference.md";

/// Setting in the output of `run --help`.
#[derive(Debug, PartialEq, Eq)]
struct Setting {
    variable: String,
    default: Option<String>,
}

fn settings() -> BTreeMap<String, Setting> {
    let help = run(&["run", "--help"]);
    let help = text(&help.stdout);
    let mut settings = BTreeMap::new();
    for option in help.split("\n      --").skip(1) {
        let flag = option.split([' ', '\n']).next().unwrap();
        let of = |what: &str| {
            let (_, rest) = option.split_once(&format!("[{what}: "))?;
            let value = rest.split(']').next().unwrap().split_whitespace();
            Some(value.collect::<Vec<_>>().join(" "))
        };
        if let Some(variable) = of("env") {
            let setting = Setting {
                variable,
                default: of("default"),
            };
            settings.insert(format!("--{flag}"), setting);
        }
    }
    assert!(settings.len() > 10, "{help}");
    settings
}

#[test]
fn every_setting_is_documented_with_its_variable_and_default() {
    let mut settings = settings();
    for row in rows(&document(FILE), "| flag | variable |") {
        let flag = row[0].trim_matches('`');
        let setting = settings
            .remove(flag)
            .unwrap_or_else(|| panic!("{flag} is no flag of run"));
        assert_eq!(row[1].trim_matches('`'), setting.variable, "{flag}");
        if let Some(default) = setting.default {
            assert_eq!(row[2].replace('`', ""), default, "{flag}");
        }
    }
    assert!(settings.is_empty(), "not in {FILE}: {settings:?}");
}

/// Group, resources and verbs.
type Right = (String, BTreeSet<String>, BTreeSet<String>);

fn words(text: &str) -> BTreeSet<String> {
    text.split(", ").map(str::to_owned).collect()
}

fn strings(value: &Value) -> Vec<String> {
    let list = value.as_array().unwrap().iter();
    list.map(|item| item.as_str().unwrap().to_owned()).collect()
}

fn rights(role: &str) -> BTreeSet<Right> {
    let role: Value = serde_saphyr::from_str(role).unwrap();
    let rules = role["rules"].as_array().unwrap().iter();
    rules
        .flat_map(|rule| {
            let groups = strings(&rule["apiGroups"]).into_iter();
            groups.map(|group| {
                let resources = strings(&rule["resources"]).into_iter().collect();
                (
                    group,
                    resources,
                    strings(&rule["verbs"]).into_iter().collect(),
                )
            })
        })
        .collect()
}

#[test]
fn exactly_the_granted_rights_are_documented() {
    let documented: BTreeSet<Right> = rows(&document(FILE), "| resource | verbs |")
        .into_iter()
        .map(|row| {
            let (group, resources) = match row[0].strip_prefix('`') {
                Some(named) => named.split_once("` ").unwrap(),
                None => ("", row[0].as_str()),
            };
            (group.to_owned(), words(resources), words(&row[1]))
        })
        .collect();
    assert_eq!(documented, rights(&document("config/rbac/role.yaml")));
}

#[test]
fn exactly_the_webhooks_rights_are_documented() {
    let row = |row: Vec<String>| {
        let (group, resources) = match row[0].strip_prefix('`') {
            Some(named) => named.split_once("` ").unwrap(),
            None => ("", row[0].as_str()),
        };
        let right = (group.to_owned(), words(resources), words(&row[1]));
        (right, quoted(&row[2]).into_iter().collect())
    };
    let documented: Vec<(Right, BTreeSet<String>)> =
        rows(&document(FILE), "| for the webhook | verbs |")
            .into_iter()
            .map(row)
            .collect();
    let file = document("config/rbac/webhook_role.yaml");
    let documents: Vec<Value> = serde_saphyr::from_multiple(&file).unwrap();
    let rules = documents.iter().filter_map(|role| role["rules"].as_array());
    let granted: Vec<(Right, BTreeSet<String>)> = rules
        .flatten()
        .map(|rule| {
            let role = serde_json::json!({ "rules": [rule] }).to_string();
            let names = rule.get("resourceNames").map(strings).unwrap_or_default();
            (
                rights(&role).pop_first().unwrap(),
                names.into_iter().collect(),
            )
        })
        .collect();
    assert_eq!(documented, granted);
}

#[test]
fn rights_for_some_namespaces_are_a_subset_of_the_cluster_wide_rights() {
    let document = document(FILE);
    let all = rights(&self::document("config/rbac/role.yaml"));
    let block = document
        .split("```yaml\n")
        .find(|block| block.contains("kind: RoleBinding"))
        .unwrap();
    let block = block.split("```").next().unwrap();
    let cluster = block.split("---\n").find(|part| part.contains("rules:"));
    let cluster = rights(cluster.unwrap());
    assert!(cluster.is_subset(&all), "{cluster:?}");
    let watched: BTreeSet<&str> = cluster
        .iter()
        .flat_map(|(_, resources, _)| resources.iter().map(String::as_str))
        .collect();
    let of_the_cluster = [
        "customresourcedefinitions",
        "kubevirtconfigs",
        "kubevirtconfigs/status",
        "kubevirts",
        "machineclasses",
        "machineproviders",
        "storageclasses",
    ];
    assert_eq!(watched, BTreeSet::from(of_the_cluster));
}

/// Type and labels of each metric, by name.
fn metrics(exposed: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let types = exposed.lines().filter_map(|line| {
        let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        Some((name.to_owned(), kind.to_owned()))
    });
    types
        .map(|(name, kind)| {
            let sample = exposed.lines().find(|line| line.starts_with(&name));
            let sample = sample.unwrap_or_else(|| panic!("{name} has no sample"));
            let labels = sample.split_once('{').map(|(_, labels)| labels);
            let labels = labels.unwrap_or_default().split("\",");
            let labels = labels
                .filter_map(|label| label.split_once("=\""))
                .map(|(label, _)| label.to_owned())
                // Bounds of a histogram.
                .filter(|label| label != "le")
                .collect();
            (name, (kind, labels))
        })
        .collect()
}

#[test]
fn every_metric_is_documented_with_its_type_and_labels() {
    for (file, exposed) in [
        (FILE, sample_metrics::machine_operator().expose()),
        (VIRT_OPERATOR, sample_metrics::virt_operator().expose()),
    ] {
        let documented: BTreeMap<String, (String, BTreeSet<String>)> =
            rows(&document(file), "| metric | type |")
                .into_iter()
                .map(|row| {
                    let labels = quoted(&row[2]).into_iter().collect();
                    (
                        row[0].trim_matches('`').to_owned(),
                        (row[1].clone(), labels),
                    )
                })
                .collect();
        assert_eq!(documented, metrics(&exposed), "{file}");
    }
}

/// Every error type. A new one does not compile until it is listed.
fn error_types() -> [ErrorType; 10] {
    use ErrorType::*;
    let all = [
        TemplateNotFound,
        NetworkConfigurationNotFound,
        StorageClassNotFound,
        InsufficientResources,
        KubeVirtApiError,
        ForeignObject,
        DiskInUse,
        DataLost,
        ApiError,
        InvalidSpec,
    ];
    for error_type in all {
        match error_type {
            TemplateNotFound
            | NetworkConfigurationNotFound
            | StorageClassNotFound
            | InsufficientResources
            | KubeVirtApiError
            | ForeignObject
            | DiskInUse
            | DataLost
            | ApiError
            | InvalidSpec => {}
        }
    }
    all
}

#[test]
fn every_type_of_error_is_documented() {
    let known: BTreeSet<String> = error_types()
        .iter()
        .map(|error_type| error_type.as_str().to_owned())
        .collect();
    let listed = |file: &str, heading: &str| -> BTreeSet<String> {
        let document = document(file);
        let tables = document.match_indices(heading);
        tables
            .flat_map(|(at, _)| rows(&document[at..], heading))
            .flat_map(|row| quoted(&row[0]))
            .collect()
    };
    assert_eq!(listed(MACHINE, "\n| type | when |"), known);
}

/// Sources of a folder, without tests.
fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") && name != "tests.rs" {
            let source = fs::read_to_string(&path).unwrap();
            found.push(
                source
                    .split("#[cfg(test)]\nmod tests {")
                    .next()
                    .unwrap()
                    .to_owned(),
            );
        }
    }
}

#[test]
fn every_reason_of_conditions_and_events_is_documented() {
    let mut plan = Vec::new();
    sources(&root().join("crates/plan/src"), &mut plan);
    let mut reasons = BTreeSet::new();
    for source in &plan {
        let constants = source
            .split("const ")
            .filter_map(|rest| rest.split_once(": &str = \""));
        let constants = constants
            .map(|(_, value)| value)
            // Labels and names start with a lower-case letter.
            .filter(|value| value.starts_with(|first: char| first.is_ascii_uppercase()));
        let literals = [
            "Event::normal(",
            "Event::warning(",
            "ConditionUpdate::as_true(",
            "ConditionUpdate::as_false(",
        ]
        .into_iter()
        .flat_map(|call| source.split(call).skip(1))
        .filter_map(|rest| {
            let arguments = rest.split(')').next()?;
            arguments.split_once('"').map(|(_, literal)| literal)
        });
        let words = constants.chain(literals);
        let words = words.map(|rest| rest.split('"').next().unwrap());
        // Messages are sentences.
        reasons.extend(words.filter(|word| !word.contains(' ')).map(str::to_owned));
    }
    for known in [
        "Ready",
        "Created",
        "DriftCorrected",
        "NewerClassAvailable",
        "VMPending",
    ] {
        assert!(reasons.contains(known), "{known}: {reasons:?}");
    }
    let documented: BTreeSet<String> = [MACHINE, VIRT_OPERATOR, "docs/virt-operator.md"]
        .into_iter()
        .flat_map(|file| quoted(&document(file).replace("```", "")))
        .collect();
    let missing: Vec<_> = reasons.difference(&documented).collect();
    assert!(
        missing.is_empty(),
        "not in {MACHINE} or {VIRT_OPERATOR}: {missing:?}"
    );
}

#[test]
fn documented_annotations_and_finalizers_exist() {
    let file = "docs/operator.md";
    let document = document(file);
    for name in [
        api::labels::FINALIZER,
        api::labels::NETWORK_FINALIZER,
        api::labels::FOLLOW_CLASS,
        api::labels::ADOPT_DISKS,
        api::labels::MACHINE_UID,
        api::labels::LISTED_DISK,
        api::labels::RETAINED,
        api::labels::MACHINE,
    ] {
        assert!(document.contains(name), "{name} is not in {file}");
    }
}

//! Alerts: complete, documented and unit-tested.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use serde_json::{Value, json};

use crate::files::{RULES, alerts, list, read, root, rules, text};

const RUNBOOKS: &str = "https://github.com/vitistack/kubevirt-operator/blob/main/docs/runbooks";

/// Unit tests of promtool.
fn tests() -> Vec<(String, Value)> {
    let folder = root().join("config/prometheus/tests");
    let files = fs::read_dir(folder).unwrap();
    files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .map(|name| (name.clone(), read(format!("tests/{name}"))))
        .collect()
}

fn names() -> BTreeSet<String> {
    let alerts = alerts();
    let names: BTreeSet<_> = alerts
        .iter()
        .map(|alert| text(&alert["alert"]).to_owned())
        .collect();
    assert_eq!(names.len(), alerts.len(), "two alerts have the same name");
    names
}

#[test]
fn every_alert_has_severity_description_and_runbook() {
    for alert in alerts() {
        let name = text(&alert["alert"]);
        let severity = text(&alert["labels"]["severity"]);
        assert!(matches!(severity, "critical" | "warning"), "{name}");
        assert!(alert["for"].is_string(), "{name} does not wait");
        let annotations = &alert["annotations"];
        assert_eq!(
            text(&annotations["runbook_url"]),
            format!("{RUNBOOKS}/{name}.md")
        );
        for annotation in ["summary", "description"] {
            let printed = text(&annotations[annotation]);
            assert!(printed.ends_with('.'), "{name}: {annotation}: {printed}");
        }
        assert!(!text(&annotations["summary"]).contains("{{"), "{name}");
    }
}

#[test]
fn alerts_and_runbook_pages_match() {
    let folder = root().join("docs/runbooks");
    let pages = fs::read_dir(&folder).unwrap().map(|page| {
        let name = page.unwrap().file_name().into_string().unwrap();
        name.strip_suffix(".md").unwrap().to_owned()
    });
    let pages: BTreeSet<_> = pages.filter(|page| page != "README").collect();
    assert_eq!(pages, names());
    let index = fs::read_to_string(folder.join("README.md")).unwrap();
    for alert in alerts() {
        let name = text(&alert["alert"]);
        let severity = text(&alert["labels"]["severity"]);
        let row = format!("| [{name}]({name}.md) | {severity} | ");
        assert!(index.contains(&row), "{row}");
        let page = fs::read_to_string(folder.join(format!("{name}.md"))).unwrap();
        let headings: Vec<_> = page
            .lines()
            .filter(|line| line.starts_with('#') && !line.starts_with("###"))
            .collect();
        let title = format!("# {name}");
        let expected = [
            title.as_str(),
            "## Meaning",
            "## Impact",
            "## How to find out",
            "## What to do",
        ];
        assert_eq!(headings, expected, "{name}");
    }
}

#[test]
fn the_webhook_alert_names_the_existing_webhooks() {
    let configuration = read("../webhook/validating_webhook_configuration.yaml");
    let webhooks = list(&configuration["webhooks"]);
    let names = webhooks.iter().map(|webhook| text(&webhook["name"]));
    let kinds: Vec<_> = names
        .map(|name| name.strip_suffix(".vitistack.io").unwrap())
        .collect();
    let selector = format!(r#"name=~"({})[.]vitistack[.]io""#, kinds.join("|"));
    let alerts = alerts();
    let mut alerts = alerts.iter();
    let alert = alerts.find(|alert| alert["alert"] == "KubeVirtOperatorWebhookFailing");
    let expression = text(&alert.unwrap()["expr"]);
    assert_eq!(expression.matches(&selector).count(), 2, "{selector}");
}

#[test]
fn links_between_pages_resolve() {
    let mut files: Vec<_> = fs::read_dir(root().join("docs/runbooks"))
        .unwrap()
        .map(|page| page.unwrap().path())
        .collect();
    files.push(root().join("docs/operations.md"));
    for file in files {
        let page = fs::read_to_string(&file).unwrap();
        let links = page.split("](").skip(1);
        let links = links.filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://")) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => file.clone(),
                path => file.parent().unwrap().join(path),
            };
            assert!(target.exists(), "{file:?}: {link}");
            if !anchor.is_empty() {
                let text = fs::read_to_string(&target).unwrap();
                let mut headings = text.lines().filter(|line| line.starts_with('#'));
                let found = headings.any(|heading| anchor_of(heading) == anchor);
                assert!(found, "{file:?}: {link}");
            }
        }
    }
}

/// Anchor of a heading.
fn anchor_of(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading
        .chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

#[test]
fn every_alert_and_recording_rule_has_a_unit_test() {
    let mut shown: BTreeMap<String, BTreeSet<bool>> = BTreeMap::new();
    let mut queried = BTreeSet::new();
    for (_, file) in tests() {
        for test in list(&file["tests"]) {
            for case in test["alert_rule_test"].as_array().unwrap_or(&Vec::new()) {
                let fires = !list(&case["exp_alerts"]).is_empty();
                let name = text(&case["alertname"]).to_owned();
                shown.entry(name).or_default().insert(fires);
            }
            for case in test["promql_expr_test"].as_array().unwrap_or(&Vec::new()) {
                queried.extend(crate::queries::names(text(&case["expr"])));
            }
        }
    }
    let both = BTreeSet::from([false, true]);
    for name in names() {
        assert_eq!(shown.get(&name), Some(&both), "{name}");
    }
    for rule in rules() {
        if let Some(record) = rule["record"].as_str() {
            assert!(queried.contains(record), "{record}");
        }
    }
}

/// Writes rules and tests in promtool's layout. Tests compare the description only.
fn write_layout(folder: &Path) {
    for (file, name) in RULES {
        let mut groups = list(&read(file)["spec"]["groups"]);
        for group in &mut groups {
            for rule in group["rules"].as_array_mut().unwrap() {
                if let Some(annotations) = rule["annotations"].as_object_mut() {
                    annotations.retain(|annotation, _| annotation == "description");
                }
            }
        }
        // YAML is a superset of JSON.
        let text = json!({ "groups": groups }).to_string();
        fs::write(folder.join(name), text).unwrap();
    }
    for (name, _) in tests() {
        let from = root().join("config/prometheus/tests").join(&name);
        fs::copy(from, folder.join(name)).unwrap();
    }
}

fn promtool(folder: &Path, arguments: &[&str]) {
    let output = Command::new("promtool")
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("promtool runs");
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    assert!(output.status.success(), "promtool {arguments:?}\n{printed}");
}

#[test]
#[ignore = "needs promtool and prometheus on PATH: .ci/run has them"]
fn promtool_accepts_the_rules() {
    let folder = tempfile::tempdir().unwrap();
    write_layout(folder.path());
    for (_, name) in RULES {
        promtool(folder.path(), &["check", "rules", name]);
    }
}

#[test]
#[ignore = "needs promtool and prometheus on PATH: .ci/run has them"]
fn promtool_unit_tests_of_the_alerts_pass() {
    let folder = tempfile::tempdir().unwrap();
    write_layout(folder.path());
    for (name, _) in tests() {
        promtool(folder.path(), &["test", "rules", &name]);
    }
}

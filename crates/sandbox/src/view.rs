//! Table of a cluster's Machines, VMs, VMIs and DataVolumes, for a terminal or a log.

use std::{collections::BTreeMap, fmt::Write as _};

use futures::{StreamExt as _, stream};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DynamicObject, WatchEvent, WatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::Value;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    pub status: String,
    pub node: String,
    pub addresses: String,
}

/// Kinds in the order of the table.
const KINDS: [(&str, &str, &str); 4] = [
    ("vitistack.io", "v1alpha1", "Machine"),
    ("kubevirt.io", "v1", "VirtualMachine"),
    ("kubevirt.io", "v1", "VirtualMachineInstance"),
    ("cdi.kubevirt.io", "v1beta1", "DataVolume"),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Index of the object's kind in [`KINDS`].
    order: usize,
    /// Kind, namespace and name.
    pub object: String,
    /// `None` if the object was deleted.
    pub row: Option<Row>,
}

#[derive(Clone, Debug, Default)]
pub struct View {
    rows: BTreeMap<(usize, String), Row>,
}

impl View {
    /// Applies a change. Returns whether a visible row changed.
    pub fn update(&mut self, change: &Change) -> bool {
        let key = (change.order, change.object.clone());
        match &change.row {
            Some(row) => self.rows.insert(key, row.clone()).as_ref() != Some(row),
            None => self.rows.remove(&key).is_some(),
        }
    }

    /// All rows as a table of at most `height` lines.
    pub fn table(&self, height: usize) -> String {
        let mut lines = vec![[
            "OBJECT".to_owned(),
            "STATUS".to_owned(),
            "NODE".to_owned(),
            "ADDRESSES".to_owned(),
        ]];
        let left = self.rows.len().saturating_sub(height.saturating_sub(2));
        let shown = self.rows.len() - left;
        lines.extend(self.rows.iter().take(shown).map(|((_, object), row)| {
            [
                object.clone(),
                row.status.clone(),
                row.node.clone(),
                row.addresses.clone(),
            ]
        }));
        let mut widths = [0; 4];
        for line in &lines {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut text = String::new();
        for line in &lines {
            let mut out = String::new();
            for (width, cell) in widths.iter().zip(line) {
                let _ = write!(out, "{cell:<width$}   ");
            }
            text.push_str(out.trim_end());
            text.push('\n');
        }
        if left > 0 {
            let _ = writeln!(text, "and {left} more");
        }
        text
    }
}

impl Change {
    /// The change as a log line.
    pub fn line(&self) -> String {
        let Some(row) = &self.row else {
            return format!("{} deleted", self.object);
        };
        let mut line = self.object.clone();
        for cell in [&row.status, &row.node, &row.addresses] {
            if !cell.is_empty() {
                let _ = write!(line, " {cell}");
            }
        }
        line
    }
}

/// Watches the kinds of the table without end; waits for kinds that are not served yet.
pub fn changes(client: &Client) -> impl futures::Stream<Item = Change> + use<> {
    let streams: Vec<_> = KINDS
        .iter()
        .enumerate()
        .map(|(order, (group, version, kind))| {
            let gvk = GroupVersionKind::gvk(group, version, kind);
            let api: Api<DynamicObject> =
                Api::all_with(client.clone(), &ApiResource::from_gvk(&gvk));
            watch(api, order, kind).boxed()
        })
        .collect();
    stream::select_all(streams)
}

fn watch(
    api: Api<DynamicObject>,
    order: usize,
    kind: &'static str,
) -> impl futures::Stream<Item = Change> {
    stream::unfold(None, move |open| {
        let api = api.clone();
        async move {
            let mut open: stream::BoxStream<'static, _> = match open {
                Some(open) => open,
                None => loop {
                    // From the start: the view drops what has not changed.
                    match api.watch(&WatchParams::default(), "0").await {
                        Ok(stream) => break stream.boxed(),
                        Err(_) => tokio::time::sleep(std::time::Duration::from_millis(200)).await,
                    }
                },
            };
            let event = open.next().await;
            let (changes, open) = match event {
                Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                    (vec![change(order, kind, &object, false)], Some(open))
                }
                Some(Ok(WatchEvent::Deleted(object))) => {
                    (vec![change(order, kind, &object, true)], Some(open))
                }
                Some(Ok(WatchEvent::Bookmark(_))) => (Vec::new(), Some(open)),
                Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => (Vec::new(), None),
            };
            Some((stream::iter(changes), open))
        }
    })
    .flatten()
}

fn change(order: usize, kind: &str, object: &DynamicObject, deleted: bool) -> Change {
    Change {
        order,
        object: format!(
            "{kind} {}/{}",
            object.namespace().unwrap_or_default(),
            object.name_any()
        ),
        row: (!deleted).then(|| row(kind, &object.data)),
    }
}

fn row(kind: &str, object: &Value) -> Row {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let status = match kind {
        "VirtualMachine" => text("/status/printableStatus"),
        "DataVolume" => match (text("/status/phase"), text("/status/progress")) {
            (phase, progress) if matches!(progress.as_str(), "" | "N/A") => phase,
            (phase, progress) => format!("{phase} {progress}"),
        },
        _ => text("/status/phase"),
    };
    let addresses: Vec<&str> = object
        .pointer("/status/interfaces")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|interface| interface.get("ipAddress")?.as_str())
        .collect();
    Row {
        status,
        node: text("/status/nodeName"),
        addresses: addresses.join(","),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change_of(name: &str, status: &str) -> Change {
        Change {
            order: 1,
            object: format!("VirtualMachine default/{name}"),
            row: Some(Row {
                status: status.to_owned(),
                ..Row::default()
            }),
        }
    }

    #[test]
    fn only_a_visible_difference_is_a_change() {
        let mut view = View::default();
        assert!(view.update(&change_of("a", "Starting")));
        assert!(!view.update(&change_of("a", "Starting")));
        assert!(view.update(&change_of("a", "Running")));
        let deleted = Change {
            row: None,
            ..change_of("a", "")
        };
        assert!(view.update(&deleted));
        assert!(!view.update(&deleted));
    }

    #[test]
    fn a_truncated_table_shows_the_number_of_missing_rows() {
        let mut view = View::default();
        for number in 0..10 {
            view.update(&change_of(&number.to_string(), "Running"));
        }
        let table = view.table(6);
        assert!(table.ends_with("and 6 more\n"), "{table}");
        assert_eq!(table.lines().count(), 6, "{table}");
    }

    #[test]
    fn an_instance_shows_its_node_and_addresses() {
        let row = row(
            "VirtualMachineInstance",
            &json!({"status": {"phase": "Running", "nodeName": "node-1", "interfaces": [
                {"ipAddress": "10.0.0.1"}, {"name": "none"}, {"ipAddress": "10.0.0.2"},
            ]}}),
        );
        assert_eq!(
            row,
            Row {
                status: "Running".into(),
                node: "node-1".into(),
                addresses: "10.0.0.1,10.0.0.2".into()
            }
        );
    }
}

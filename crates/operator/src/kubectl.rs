//! What the kubectl plugin needs of the operator: the preview of its changes.

use jiff::Timestamp;
use plan::machine::Provider;
use plugin::{Changes, Previewer};
use serde_json::Value;

use crate::{
    documents::{Document, Origin},
    machine::preview::{Documents, preview},
};

/// Preview of what the operator would change for Machines as they are.
pub fn previewer(clock: impl Fn() -> Timestamp + Clone + Send + Sync + 'static) -> Previewer {
    Box::new(move |client, machines| {
        let clock = clock.clone();
        Box::pin(async move {
            let documents = machines.into_iter().map(document).collect();
            // Objects of the cluster have a namespace.
            let documents = Documents::classify(documents, "default");
            let now = api::Time(clock());
            let preview = preview(client, &documents, Provider::default(), now).await;
            let preview = preview.map_err(|error| error.to_string())?;
            let mut text = Vec::new();
            preview
                .print(&mut text)
                .map_err(|error| error.to_string())?;
            Ok(Changes {
                text: String::from_utf8_lossy(&text).into_owned(),
                has_changes: preview.has_changes(),
                errors: preview.errors,
                notes: preview.notes,
            })
        })
    })
}

fn document(machine: Value) -> Document {
    let text = |field: &str| machine["metadata"][field].as_str().unwrap_or_default();
    Document {
        origin: Origin {
            file: format!("Machine {}/{}", text("namespace"), text("name")).into(),
            document: 1,
            item: None,
        },
        value: machine,
    }
}

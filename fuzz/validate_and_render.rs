//! Validation and rendering of arbitrary bytes, as the commands do it. Shared by the fuzz
//! target and the property tests.

use std::sync::Arc;

use kubevirt_operator::{
    documents,
    manifests::{self, Inventory, Resource},
    schemas, yaml,
};
use plan::machine::{Provider, build, resolve};

/// Panics only on a defect of the program, whatever the bytes are.
pub fn validate_and_render(bytes: &[u8]) {
    let Ok(documents) = documents::parse(&Arc::from("bytes"), bytes) else {
        return;
    };
    let mut resources = Vec::new();
    for document in documents.into_iter().flatten() {
        let Ok(kind) = manifests::kind(&document.value) else {
            continue;
        };
        for violation in schemas::violations(kind, &document.value) {
            let message = violation.to_string();
            assert!(!message.contains("cannot be evaluated"), "{message}");
        }
        resources.extend(manifests::resource(kind, &document.value, None));
    }
    let inventory = Inventory::of(&resources, Provider::default());
    for resource in &resources {
        let Resource::Machine(machine) = resource else {
            continue;
        };
        let surroundings = inventory.surroundings(machine.metadata.namespace.as_ref());
        if let Ok(resolution) = resolve(machine, surroundings) {
            let printed = yaml::to_string(&build(&resolution.machine).virtual_machine);
            let read = printed.map(|text| documents::parse(&Arc::from("printed"), text.as_bytes()));
            let documents = read.ok().and_then(Result::ok).unwrap_or_default();
            assert!(
                matches!(&documents[..], [Ok(_)]),
                "what is printed is one document"
            );
        }
    }
}

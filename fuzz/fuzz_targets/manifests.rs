//! From any bytes to objects, as the commands `validate` and `render` go.
#![no_main]

use std::sync::Arc;

use kubevirt_operator::{
    documents,
    manifests::{self, Inventory, Resource},
    schemas, yaml,
};
use libfuzzer_sys::fuzz_target;
use plan::machine::{build, resolve};

fuzz_target!(|bytes: &[u8]| {
    let Ok(documents) = documents::parse(&Arc::from("fuzz"), bytes) else {
        return;
    };
    let mut resources = Vec::new();
    for document in documents.into_iter().flatten() {
        let Ok(kind) = manifests::kind(&document.value) else {
            continue;
        };
        for violation in schemas::violations(kind, &document.value) {
            let said = violation.to_string();
            assert!(!said.contains("cannot be evaluated"), "{said}");
        }
        resources.extend(manifests::resource(kind, &document.value, None));
    }
    let inventory = Inventory::of(&resources);
    for resource in &resources {
        let Resource::Machine(machine) = resource else {
            continue;
        };
        let surroundings = inventory.surroundings(machine.metadata.namespace.as_ref());
        if let Ok(resolution) = resolve(machine, surroundings) {
            let objects = build(&resolution.machine);
            let printed =
                yaml::to_string(&objects.virtual_machine).expect("objects can be printed");
            let read = documents::parse(&Arc::from("printed"), printed.as_bytes());
            assert!(read.is_ok_and(|documents| documents.len() == 1));
        }
    }
});

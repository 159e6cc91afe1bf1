//! Named formats, which rules validate strings with.

use cel::{Environment, NamedFormat};

use crate::{names, structural::format};

/// What rules are compiled with.
pub(super) const ENVIRONMENT: Environment = Environment { formats: &FORMATS };

/// Length of a pattern of a format is what the server assumes for it.
const FORMATS: [NamedFormat; 13] = [
    NamedFormat {
        name: "dns1123Label",
        validate: names::dns_label,
        pattern_length: 30,
    },
    NamedFormat {
        name: "dns1123Subdomain",
        validate: names::dns_subdomain,
        pattern_length: 60,
    },
    NamedFormat {
        name: "dns1035Label",
        validate: names::dns_1035_label,
        pattern_length: 30,
    },
    NamedFormat {
        name: "qualifiedName",
        validate: names::qualified_name,
        pattern_length: 60,
    },
    NamedFormat {
        name: "dns1123LabelPrefix",
        validate: |text| names::dns_label(&without_dash(text)),
        pattern_length: 30,
    },
    NamedFormat {
        name: "dns1123SubdomainPrefix",
        validate: |text| names::dns_subdomain(&without_dash(text)),
        pattern_length: 60,
    },
    NamedFormat {
        name: "dns1035LabelPrefix",
        validate: |text| names::dns_1035_label(&without_dash(text)),
        pattern_length: 30,
    },
    NamedFormat {
        name: "labelValue",
        validate: names::label_value,
        pattern_length: 40,
    },
    NamedFormat {
        name: "uri",
        validate: |text| match cel::parse_uri(text) {
            Ok(()) => Vec::new(),
            Err(why) => vec![why],
        },
        pattern_length: 1103,
    },
    NamedFormat {
        name: "uuid",
        validate: |text| unless(format::fits("uuid", text), "does not match the UUID format"),
        pattern_length: 70,
    },
    NamedFormat {
        name: "byte",
        validate: |text| unless(format::fits("byte", text), "invalid base64"),
        pattern_length: 84,
    },
    NamedFormat {
        name: "date",
        validate: |text| unless(format::fits("date", text), "invalid date"),
        pattern_length: 71,
    },
    NamedFormat {
        name: "datetime",
        validate: |text| unless(format::fits("datetime", text), "invalid datetime"),
        pattern_length: 71,
    },
];

fn unless(is_valid: bool, why: &str) -> Vec<String> {
    if is_valid {
        Vec::new()
    } else {
        vec![why.to_owned()]
    }
}

/// A prefix may end with a dash. The server replaces it together with the character before it.
fn without_dash(text: &str) -> String {
    let start = text.strip_suffix('-').filter(|start| !start.is_empty());
    match start.and_then(|start| start.get(..start.len() - 1)) {
        Some(start) => format!("{start}a"),
        None => text.to_owned(),
    }
}

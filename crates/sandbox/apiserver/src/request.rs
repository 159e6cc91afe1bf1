//! Request info: path, verb and options.

use std::collections::BTreeMap;

use http::{Method, Uri};

use crate::ApiError;

#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// A resource, object or subresource.
    Resource(ResourcePath),
    /// A non-resource path such as `/version`.
    Other(String),
}

/// Parts of a resource path; absent parts are empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourcePath {
    /// Empty for core.
    pub group: String,
    pub version: String,
    pub namespace: String,
    pub resource: String,
    pub name: String,
    pub subresource: String,
    /// Rest of the path, such as that of `proxy`.
    pub rest: String,
}

impl Target {
    pub fn parse(path: &str) -> Self {
        Self::resource(path).map_or_else(|| Self::Other(path.to_owned()), Self::Resource)
    }

    fn resource(path: &str) -> Option<ResourcePath> {
        let mut parts = path
            .trim_matches('/')
            .split('/')
            .map(percent_decode)
            .peekable();
        let (group, version) = match parts.next()?.as_str() {
            "api" => (String::new(), parts.next()?),
            "apis" => (parts.next()?, parts.next()?),
            _ => return None,
        };
        let mut target = ResourcePath {
            group,
            version,
            ..ResourcePath::default()
        };
        let first = parts.next().filter(|part| !part.is_empty())?;
        if first == "namespaces" {
            let Some(namespace) = parts.next() else {
                target.resource = first;
                return Some(target);
            };
            target.namespace.clone_from(&namespace);
            match parts.next() {
                // A Namespace object or its subresource.
                None => {
                    target.resource = first;
                    target.name = namespace;
                }
                Some(part) if part == "status" || part == "finalize" => {
                    target.resource = first;
                    target.name = namespace;
                    target.subresource = part;
                }
                Some(resource) => target.resource = resource,
            }
        } else {
            target.resource = first;
        }
        if target.name.is_empty() {
            target.name = parts.next().unwrap_or_default();
            target.subresource = parts.next().unwrap_or_default();
        }
        target.rest = parts.collect::<Vec<_>>().join("/");
        Some(target)
    }
}

fn percent_decode(part: &str) -> String {
    if !part.contains('%') {
        return part.to_owned();
    }
    let bytes = part.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escaped = (byte == b'%')
            .then(|| bytes.get(at + 1..at + 3))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if let Some(escaped) = escaped {
            plain.push(escaped);
            at += 3;
        } else {
            plain.push(byte);
            at += 1;
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

pub fn verb(method: &Method, path: &ResourcePath, query: &Query) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => match (path.name.is_empty(), query.flag("watch")) {
            (true, true) => "watch",
            (true, false) => "list",
            (false, _) => "get",
        },
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if path.name.is_empty() => "deletecollection",
        Method::DELETE => "delete",
        _ => "",
    }
}

#[derive(Clone, Debug, Default)]
pub struct Query {
    values: BTreeMap<String, Vec<String>>,
}

/// `fieldValidation` option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

impl Query {
    pub fn parse(uri: &Uri) -> Self {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (key, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            values
                .entry(key.into_owned())
                .or_default()
                .push(value.into_owned());
        }
        Self { values }
    }

    /// First value of an option, empty if absent.
    pub fn get(&self, key: &str) -> &str {
        self.values
            .get(key)
            .and_then(|values| values.first())
            .map_or("", String::as_str)
    }

    pub fn all(&self, key: &str) -> &[String] {
        self.values.get(key).map_or(&[], Vec::as_slice)
    }

    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// An option without a value is true, as in Go's query conversion.
    pub fn flag(&self, key: &str) -> bool {
        match self.values.get(key).and_then(|values| values.first()) {
            None => false,
            Some(value) => !matches!(value.to_ascii_lowercase().as_str(), "false" | "0"),
        }
    }

    pub fn number(&self, key: &str) -> Result<Option<i64>, ApiError> {
        match self.get(key) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                ApiError::bad_request(format!(
                    "strconv.ParseInt: parsing {text:?}: invalid syntax"
                ))
            }),
        }
    }

    pub fn dry_run(&self, options: &str) -> Result<bool, ApiError> {
        match self.all("dryRun") {
            [] => Ok(false),
            values if values.iter().all(|value| value == "All") => Ok(true),
            values => {
                let shown: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
                Err(invalid_option(
                    options,
                    "dryRun",
                    &format!("[{}]", shown.join(" ")),
                    r#""All""#,
                ))
            }
        }
    }

    pub fn field_validation(&self, options: &str) -> Result<FieldValidation, ApiError> {
        match self.get("fieldValidation") {
            "Ignore" => Ok(FieldValidation::Ignore),
            "" | "Warn" => Ok(FieldValidation::Warn),
            "Strict" => Ok(FieldValidation::Strict),
            other => Err(invalid_option(
                options,
                "fieldValidation",
                &format!("{other:?}"),
                r#""", "Ignore", "Strict", "Warn""#,
            )),
        }
    }
}

fn invalid_option(kind: &str, field: &str, value: &str, supported: &str) -> ApiError {
    let cause = format!("Unsupported value: {value}: supported values: {supported}");
    ApiError {
        details: Some(crate::Details {
            group: "meta.k8s.io".to_owned(),
            kind: kind.to_owned(),
            causes: vec![crate::Cause {
                reason: "FieldValueNotSupported".to_owned(),
                message: cause.clone(),
                field: field.to_owned(),
            }],
            ..crate::Details::default()
        }),
        ..ApiError::new(
            http::StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid",
            format!("{kind}.meta.k8s.io \"\" is invalid: {field}: {cause}"),
        )
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("/api/v1/pods", "", "v1", "", "pods", "", "")]
    #[case("/api/v1/namespaces", "", "v1", "", "namespaces", "", "")]
    #[case("/api/v1/namespaces/a", "", "v1", "a", "namespaces", "a", "")]
    #[case(
        "/api/v1/namespaces/a/status",
        "",
        "v1",
        "a",
        "namespaces",
        "a",
        "status"
    )]
    #[case("/api/v1/namespaces/a/pods/b/log", "", "v1", "a", "pods", "b", "log")]
    #[case(
        "/apis/apps/v1/namespaces/a/deployments/b/scale",
        "apps",
        "v1",
        "a",
        "deployments",
        "b",
        "scale"
    )]
    #[case(
        "/apis/x.io/v1/things/system%3Aa",
        "x.io",
        "v1",
        "",
        "things",
        "system:a",
        ""
    )]
    fn paths_of_resources(
        #[case] path: &str,
        #[case] group: &str,
        #[case] version: &str,
        #[case] namespace: &str,
        #[case] resource: &str,
        #[case] name: &str,
        #[case] subresource: &str,
    ) {
        let expected = ResourcePath {
            group: group.into(),
            version: version.into(),
            namespace: namespace.into(),
            resource: resource.into(),
            name: name.into(),
            subresource: subresource.into(),
            rest: String::new(),
        };
        assert_eq!(Target::parse(path), Target::Resource(expected));
    }

    #[rstest]
    #[case("/version")]
    #[case("/api")]
    #[case("/apis/apps/v1")]
    #[case("/")]
    #[case("/apis//")]
    fn other_paths(#[case] path: &str) {
        assert!(matches!(Target::parse(path), Target::Other(_)));
    }
}

//! Semantic versions.

use std::cmp::Ordering;

use apimachinery::go::quote;

/// A version; build metadata do not count when versions are compared.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct Version {
    pub(super) major: u64,
    pub(super) minor: u64,
    pub(super) patch: u64,
    prerelease: Vec<Part>,
}

/// Part of a prerelease. Numbers are below words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Word(String),
}

impl Version {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts.as_slice() else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (*rest, None),
        };
        let (patch, prerelease) = match rest.split_once('-') {
            Some((patch, prerelease)) => (patch, Some(prerelease)),
            None => (rest, None),
        };
        let version = Self {
            major: number(major, "Major", "major")?,
            minor: number(minor, "Minor", "minor")?,
            patch: number(patch, "Patch", "patch")?,
            prerelease: match prerelease {
                Some(parts) => parts
                    .split('.')
                    .map(Part::parse)
                    .collect::<Result<_, _>>()?,
                None => Vec::new(),
            },
        };
        for part in build.into_iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !part.bytes().all(is_of_word) {
                let part = quote(part);
                return Err(format!(
                    "Invalid character(s) found in build meta data {part}"
                ));
            }
        }
        Ok(version)
    }

    /// With `normalize`, a leading `v`, leading zeros and missing parts are allowed.
    pub(super) fn parse_perhaps_normalized(text: &str, normalize: bool) -> Result<Self, String> {
        if !normalize {
            return Self::parse(text);
        }
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }

    pub(crate) fn cmp(&self, other: &Self) -> Ordering {
        let numbers = |version: &Self| (version.major, version.minor, version.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| {
            // A release is above its prereleases.
            match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
                (false, false) => self.prerelease.cmp(&other.prerelease),
                (one, other) => one.cmp(&other),
            }
        })
    }
}

fn without_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let rest = part.trim_start_matches('0');
    if rest.starts_with(|first: char| first.is_ascii_digit()) {
        rest.to_owned()
    } else {
        format!("0{rest}")
    }
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn has_leading_zeros(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0')
}

fn parsed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        let why = if text.is_empty() {
            "invalid syntax"
        } else {
            "value out of range"
        };
        format!("strconv.ParseUint: parsing {}: {why}", quote(text))
    })
}

fn number(text: &str, title: &str, name: &str) -> Result<u64, String> {
    if !is_number(text) {
        let text = quote(text);
        return Err(format!(
            "Invalid character(s) found in {name} number {text}"
        ));
    }
    if has_leading_zeros(text) {
        let text = quote(text);
        return Err(format!(
            "{title} number must not contain leading zeroes {text}"
        ));
    }
    parsed(text)
}

impl Part {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Prerelease is empty".to_owned());
        }
        if is_number(text) {
            if has_leading_zeros(text) {
                let text = quote(text);
                return Err(format!(
                    "Numeric PreRelease version must not contain leading zeroes {text}"
                ));
            }
            return parsed(text).map(Self::Number);
        }
        if !text.bytes().all(is_of_word) {
            let text = quote(text);
            return Err(format!("Invalid character(s) found in prerelease {text}"));
        }
        Ok(Self::Word(text.to_owned()))
    }
}

//! Addresses of the web, as Go parses those of requests.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
};

use apimachinery::go::quote;

#[derive(Clone, Debug, Default)]
#[doc(hidden)]
pub struct Url {
    pub(super) scheme: String,
    user: Option<String>,
    pub(super) host: String,
    /// As it was written.
    path: String,
    opaque: Option<String>,
    query: Option<String>,
    fragment: Option<String>,
}

/// Parses the address of a request; the error says what is wrong with it.
pub fn parse(text: &str) -> Result<(), String> {
    Url::parse_request(text).map(|_| ())
}

impl Url {
    /// An absolute address or an absolute path.
    pub(super) fn parse_request(text: &str) -> Result<Self, String> {
        // A fragment is not known in a request, but counts when the address is read.
        Self::parse_part(text, true).map_err(|why| format!("parse {}: {why}", quote(text)))?;
        let (rest, fragment) = match text.split_once('#') {
            Some((rest, fragment)) => (rest, Some(fragment.to_owned())),
            None => (text, None),
        };
        let url =
            Self::parse_part(rest, false).map_err(|why| format!("parse {}: {why}", quote(text)))?;
        Ok(Self { fragment, ..url })
    }

    fn parse_part(text: &str, is_request: bool) -> Result<Self, String> {
        if text.bytes().any(|byte| byte.is_ascii_control()) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if text.is_empty() && is_request {
            return Err("empty url".to_owned());
        }
        let mut url = Self::default();
        if text == "*" {
            text.clone_into(&mut url.path);
            return Ok(url);
        }
        let (scheme, rest) = split_scheme(text)?;
        url.scheme = scheme.to_ascii_lowercase();
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query.to_owned())),
            None => (rest, None),
        };
        url.query = query;
        if !rest.starts_with('/') {
            if !url.scheme.is_empty() {
                url.opaque = Some(rest.to_owned());
                return Ok(url);
            }
            if is_request {
                return Err("invalid URI for request".to_owned());
            }
            let first = rest.split('/').next().unwrap_or("");
            if first.contains(':') {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let mut path = rest;
        let has_authority = !url.scheme.is_empty() || (!is_request && !rest.starts_with("///"));
        if has_authority && let Some(after) = rest.strip_prefix("//") {
            let end = after.find('/').unwrap_or(after.len());
            let (authority, after) = after.split_at(end);
            url.set_authority(authority)?;
            path = after;
        }
        unescaped(path)?;
        path.clone_into(&mut url.path);
        Ok(url)
    }

    fn set_authority(&mut self, authority: &str) -> Result<(), String> {
        let host = match authority.rsplit_once('@') {
            Some((user, host)) => {
                let is_valid = |byte: u8| {
                    byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte)
                };
                if !user.bytes().all(is_valid) {
                    return Err("net/url: invalid userinfo".to_owned());
                }
                self.user = Some(user.to_owned());
                host
            }
            None => authority,
        };
        let port = match host.strip_prefix('[') {
            Some(inner) => {
                let end = inner.rfind(']').ok_or("missing ']' in host")?;
                inner.get(end + 1..).unwrap_or("")
            }
            None => host.find(':').and_then(|at| host.get(at..)).unwrap_or(""),
        };
        let is_port = port.is_empty()
            || port
                .strip_prefix(':')
                .is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
        if !is_port {
            return Err(format!("invalid port {} after host", quote(port)));
        }
        let wrong = host.chars().find(|letter| {
            letter.is_ascii()
                && !letter.is_ascii_alphanumeric()
                && !"-_.~!$&'()*+,;=:[]<>\"%".contains(*letter)
        });
        if let Some(letter) = wrong {
            let letter = quote(&letter.to_string());
            return Err(format!("invalid character {letter} in host name"));
        }
        self.host = unescaped(host)?;
        Ok(())
    }

    pub(super) fn host_name(&self) -> String {
        match self.host.strip_prefix('[') {
            Some(inner) => inner.split(']').next().unwrap_or("").to_owned(),
            None => match self.host.rsplit_once(':') {
                Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                    name.to_owned()
                }
                _ => self.host.clone(),
            },
        }
    }

    pub(super) fn port(&self) -> String {
        let after = self.host.rsplit(']').next().unwrap_or("");
        match after.rsplit_once(':') {
            Some((_, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => port.to_owned(),
            _ => String::new(),
        }
    }

    /// The path as it is sent: as it was written, if that is a valid form.
    pub(super) fn escaped_path(&self) -> String {
        let is_valid =
            |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@/[]%".contains(&byte);
        if self.path.bytes().all(is_valid) {
            return self.path.clone();
        }
        let mut escaped = String::with_capacity(self.path.len());
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte);
        let path = unescaped(&self.path).unwrap_or_else(|_| self.path.clone());
        for byte in path.bytes() {
            if plain(byte) {
                escaped.push(char::from(byte));
            } else {
                // Writing to a String does not fail.
                let _ = write!(escaped, "%{byte:02X}");
            }
        }
        escaped
    }

    /// Parameters; those that are malformed are left out.
    pub(super) fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut query: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let text = self.query.as_deref().unwrap_or("");
        for part in text
            .split('&')
            .filter(|part| !part.is_empty() && !part.contains(';'))
        {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let decode = |text: &str| unescaped(&text.replace('+', " "));
            if let (Ok(key), Ok(value)) = (decode(key), decode(value)) {
                query.entry(key).or_default().push(value);
            }
        }
        query
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.scheme.is_empty() {
            write!(f, "{}:", self.scheme)?;
        }
        if let Some(opaque) = &self.opaque {
            f.write_str(opaque)?;
        } else {
            if !self.scheme.is_empty() || !self.host.is_empty() || self.user.is_some() {
                f.write_str("//")?;
            }
            if let Some(user) = &self.user {
                write!(f, "{user}@")?;
            }
            write!(f, "{}{}", self.host, self.escaped_path())?;
        }
        if let Some(query) = &self.query {
            write!(f, "?{query}")?;
        }
        if let Some(fragment) = &self.fragment {
            write!(f, "#{fragment}")?;
        }
        Ok(())
    }
}

/// The scheme and what follows it.
fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (index, letter) in text.char_indices() {
        match letter {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if index > 0 => {}
            ':' if index == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => {
                let (scheme, rest) = text.split_at(index);
                return Ok((scheme, rest.get(1..).unwrap_or("")));
            }
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

/// The text without percent signs.
fn unescaped(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let (plain, escape) = rest.split_at(at);
        bytes.extend_from_slice(plain.as_bytes());
        let digits = escape.get(1..3);
        let byte = digits
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let Some(byte) = byte else {
            let shown: String = escape.chars().take(3).collect();
            return Err(format!("invalid URL escape {}", quote(&shown)));
        };
        bytes.push(byte);
        rest = escape.get(3..).unwrap_or("");
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

//! String and number formats that kube-apiserver validates. Others are ignored.

use std::{net::Ipv6Addr, sync::LazyLock};

use regex::Regex;

use crate::{names, node::Type};

/// String formats without dashes: `date-time` equals `datetime`.
const OF_STRINGS: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

pub(crate) fn is_known(type_: Option<Type>, int_or_string: bool, format: &str) -> bool {
    match type_.filter(|_| !int_or_string) {
        None | Some(Type::String) => is_of_strings(format),
        Some(Type::Integer) => matches!(format, "int32" | "int64"),
        Some(Type::Number) => matches!(format, "float" | "double"),
        Some(Type::Object | Type::Array | Type::Boolean) => false,
    }
}

pub(crate) fn is_of_strings(format: &str) -> bool {
    OF_STRINGS.contains(&format.replace('-', "").as_str())
}

pub(crate) fn fits(format: &str, text: &str) -> bool {
    match format.replace('-', "").as_str() {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "byte" => form(&BASE64, text),
        "cidr" => is_cidr(text),
        "creditcard" => is_credit_card(text),
        "date" => is_date(text),
        "datetime" => is_date_time(text),
        "duration" => is_duration(text),
        "email" => form(&EMAIL, text),
        "hexcolor" => form(&HEX_COLOR, text),
        "hostname" => is_hostname(text),
        "ipv4" => text.contains('.') && is_ip(text),
        "ipv6" => text.contains(':') && is_ipv6(text),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "k8slongname" => names::dns_subdomain(text).is_empty(),
        "k8sshortname" => names::dns_label(text).is_empty(),
        "mac" => is_mac(text),
        "rgbcolor" => form(&RGB_COLOR, text),
        "ssn" => form(&SSN, text),
        "uri" => is_request_uri(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        _ => true,
    }
}

type Form = LazyLock<Option<Regex>>;

static BASE64: Form = LazyLock::new(|| {
    Regex::new("^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$")
        .ok()
});
/// Plain address, or a name and an address in angle brackets.
static EMAIL: Form = LazyLock::new(|| {
    let atom = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\x{80}-\x{10ffff}-]+";
    let local = format!(r#"(?:{atom}(?:\.{atom})*|"(?:[^"\\]|\\.)*")"#);
    let domain = format!(r"(?:{atom}(?:\.{atom})*|\[[0-9A-Fa-f.:IPv]+\])");
    let address = format!("{local}@{domain}");
    Regex::new(&format!(
        r#"^\s*(?:{address}|(?:(?:{atom}|"(?:[^"\\]|\\.)*")[ \t.]*)*<{address}>)\s*$"#
    ))
    .ok()
});
static HEX_COLOR: Form = LazyLock::new(|| Regex::new("^#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})$").ok());
static RGB_COLOR: Form = LazyLock::new(|| {
    let part = r"\s*(?:0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*";
    Regex::new(&format!(r"^rgb\({part},{part},{part}\)$")).ok()
});
static SSN: Form = LazyLock::new(|| Regex::new(r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$").ok());
static HOSTNAME: Form = LazyLock::new(|| {
    Regex::new(concat!(
        r"^(?:[a-zA-Z0-9\p{S}\p{L}](?:-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?",
        r"|(?:[a-zA-Z0-9\p{S}\p{L}](?:[a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?\.)+",
        r"[a-zA-Z\p{L}]{2,63})$"
    ))
    .ok()
});
static CREDIT_CARD: Form = LazyLock::new(|| {
    Regex::new(concat!(
        "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(?:222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}",
        "|27[01][0-9]|2720)[0-9]{12}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}",
        "|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}|6[27][0-9]{14})$"
    ))
    .ok()
});
static TIME: Form = LazyLock::new(|| {
    Regex::new("^([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})$").ok()
});

fn form(form: &Form, text: &str) -> bool {
    form.as_ref().is_some_and(|form| form.is_match(text))
}

fn is_hostname(text: &str) -> bool {
    form(&HOSTNAME, text) && text.len() <= 255 && text.split('.').all(|label| label.len() <= 63)
}

/// IPv4 address; leading zeros are allowed, as in old Go.
fn is_ipv4(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let is_part = |part: &&str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && part.trim_start_matches('0').len() <= 3
            && part.parse::<u16>().is_ok_and(|part| part <= 255)
    };
    parts.len() == 4 && parts.iter().all(is_part)
}

fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

fn is_ip(text: &str) -> bool {
    is_ipv4(text) || is_ipv6(text)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let most = match () {
        () if is_ipv4(address) => 32,
        () if is_ipv6(address) => 128,
        () => return false,
    };
    !bits.is_empty()
        && bits.bytes().all(|byte| byte.is_ascii_digit())
        && bits.parse::<u16>().is_ok_and(|bits| bits <= most)
}

/// 6, 8 or 20 bytes in pairs of digits separated by `:` or `-`, or in groups of four separated by
/// dots.
fn is_mac(text: &str) -> bool {
    let fits = |separator: char, width: usize, counts: [usize; 3]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len())
            && parts.iter().all(|part| {
                part.len() == width && part.bytes().all(|byte| byte.is_ascii_hexdigit())
            })
    };
    fits(':', 2, [6, 8, 20]) || fits('-', 2, [6, 8, 20]) || fits('.', 4, [3, 4, 10])
}

/// Dashes are optional.
fn is_uuid(text: &str, version: Option<char>) -> bool {
    static FORM: Form = LazyLock::new(|| {
        Regex::new(
            "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?([0-9a-f])[0-9a-f]{3}-?([0-9a-f])[0-9a-f]{3}-?[0-9a-f]{12}$",
        )
        .ok()
    });
    let Some(parts) = FORM.as_ref().and_then(|form| form.captures(text)) else {
        return false;
    };
    let part = |index| parts.get(index).map_or("", |part| part.as_str());
    let is_version = version.is_none_or(|version| part(1).starts_with(version));
    let has_variant =
        matches!(version, None | Some('3')) || part(2).starts_with(['8', '9', 'a', 'b', 'A', 'B']);
    is_version && has_variant
}

fn digits(text: &str) -> String {
    text.chars().filter(|c| *c != '-' && *c != ' ').collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = digits(text);
    let Some((front, last)) = digits.split_at_checked(9) else {
        return false;
    };
    let Some(sum) = weighted(front, |index| index + 1) else {
        return false;
    };
    let last = match last {
        "X" => 10,
        last if last.len() == 1 => last.parse().unwrap_or(u32::MAX / 100),
        _ => return false,
    };
    (sum + 10 * last) % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let digits = digits(text);
    digits.len() == 13
        && weighted(&digits, |index| if index % 2 == 0 { 1 } else { 3 })
            .is_some_and(|sum| sum % 10 == 0)
}

fn weighted(digits: &str, weight: impl Fn(u32) -> u32) -> Option<u32> {
    let mut sum = 0;
    for (index, digit) in (0..).zip(digits.chars()) {
        sum += weight(index) * digit.to_digit(10)?;
    }
    Some(sum)
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !form(&CREDIT_CARD, &digits) {
        return false;
    }
    let mut sum = 0;
    for (index, digit) in digits
        .chars()
        .rev()
        .filter_map(|c| c.to_digit(10))
        .enumerate()
    {
        let doubled = digit * if index % 2 == 1 { 2 } else { 1 };
        sum += doubled / 10 + doubled % 10;
    }
    sum % 10 == 0
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let has_form = bytes.len() == 10
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if !has_form {
        return false;
    }
    let part = |range: std::ops::Range<usize>| {
        text.get(range)
            .and_then(|part| part.parse::<u32>().ok())
            .unwrap_or(0)
    };
    let (year, month, day) = (part(0..4), part(5..7), part(8..10));
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    let Some(parts) = TIME.as_ref().and_then(|form| form.captures(time)) else {
        return false;
    };
    let part = |index| parts.get(index).map_or("99", |part| part.as_str());
    is_date(date) && part(1) <= "23" && part(2) <= "59" && part(3) <= "59"
}

/// Go duration, or any string with a number before a unit.
fn is_duration(text: &str) -> bool {
    static GO: Form = LazyLock::new(|| {
        Regex::new(r"^[+-]?(?:0|(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)$").ok()
    });
    static LOOSE: Form = LazyLock::new(|| Regex::new(r"([0-9]+)\s*([A-Za-zµ]+)").ok());
    const UNITS: [(&[&str], &str); 8] = [
        (&["ns"], "nano"),
        (&["us", "µs"], "micro"),
        (&["ms"], "milli"),
        (&["s"], "sec"),
        (&["m"], "min"),
        (&["h", "hr"], "hour"),
        (&["d"], "day"),
        (&["w", "wk"], "week"),
    ];
    let is_unit = |unit: &str| {
        UNITS
            .iter()
            .any(|(names, long)| names.contains(&unit) || unit.starts_with(long))
    };
    if form(&GO, text) {
        return true;
    }
    let Some(loose) = LOOSE.as_ref() else {
        return false;
    };
    let mut fits = false;
    for parts in loose.captures_iter(text) {
        let part = |index| parts.get(index).map_or("", |part| part.as_str());
        if part(1).parse::<i64>().is_err() {
            return false;
        }
        fits |= is_unit(&part(2).to_lowercase());
    }
    fits
}

/// URL with a scheme, or an absolute path.
fn is_request_uri(text: &str) -> bool {
    static SCHEME: Form = LazyLock::new(|| Regex::new(r"^[A-Za-z][A-Za-z0-9+.-]*:").ok());
    if text.is_empty() || text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let scheme = SCHEME.as_ref().and_then(|form| form.find(text));
    let rest = match scheme {
        Some(scheme) => text.get(scheme.end()..).unwrap_or_default(),
        None => text,
    };
    let rest = rest.split('?').next().unwrap_or_default();
    if !rest.starts_with('/') {
        return scheme.is_some();
    }
    let (host, path) = match rest.strip_prefix("//") {
        Some(rest) if scheme.is_some() => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        _ => ("", rest),
    };
    is_authority(host) && has_whole_escapes(path)
}

fn is_authority(authority: &str) -> bool {
    let host = authority.rsplit('@').next().unwrap_or_default();
    let (host, port) = match host.rfind(']') {
        Some(end) => host.split_at(end + 1),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |port: &str| {
        port.is_empty()
            || port
                .strip_prefix(':')
                .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_host = |c: char| {
        !c.is_ascii() || c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:[]<>\"%".contains(c)
    };
    is_port(port) && host.chars().all(is_host)
}

fn has_whole_escapes(path: &str) -> bool {
    let mut parts = path.split('%');
    parts.next();
    parts.all(|part| {
        part.as_bytes()
            .get(..2)
            .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

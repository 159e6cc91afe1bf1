//! Addresses and networks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use apimachinery::go::quote;

use super::{Function, refuse};
use crate::value::{Error, Result, Special, Value};

pub(super) fn implementation(name: &str) -> Option<Function> {
    Some(match name {
        "ip" => |_, arguments| match arguments {
            [Value::String(text)] => parse(text).map(address),
            [Value::Special(Special::Cidr(ip, _))] => Ok(address(*ip)),
            _ => refuse("ip", arguments),
        },
        "isIP" => |_, arguments| match arguments {
            [Value::String(text)] => Ok(Value::Bool(parse(text).is_ok())),
            _ => refuse("isIP", arguments),
        },
        "ip.isCanonical" => |_, arguments| match arguments {
            [Value::String(text)] => parse(text).map(|ip| Value::Bool(ip.to_string() == **text)),
            _ => refuse("ip.isCanonical", arguments),
        },
        "family" => |_, arguments| match arguments {
            [Value::Special(Special::Ip(ip))] => Ok(Value::Int(if ip.is_ipv4() { 4 } else { 6 })),
            _ => refuse("family", arguments),
        },
        "isUnspecified" => |_, arguments| test("isUnspecified", arguments, IpAddr::is_unspecified),
        "isLoopback" => |_, arguments| test("isLoopback", arguments, IpAddr::is_loopback),
        "isLinkLocalMulticast" => {
            |_, arguments| test("isLinkLocalMulticast", arguments, is_link_local_multicast)
        }
        "isLinkLocalUnicast" => {
            |_, arguments| test("isLinkLocalUnicast", arguments, is_link_local_unicast)
        }
        "isGlobalUnicast" => |_, arguments| {
            test("isGlobalUnicast", arguments, |ip| {
                let is_broadcast = *ip == IpAddr::V4(Ipv4Addr::BROADCAST);
                !is_broadcast
                    && !ip.is_unspecified()
                    && !ip.is_loopback()
                    && !ip.is_multicast()
                    && !is_link_local_unicast(ip)
            })
        },
        "cidr" => |_, arguments| match arguments {
            [Value::String(text)] => network(text),
            _ => refuse("cidr", arguments),
        },
        "isCIDR" => |_, arguments| match arguments {
            [Value::String(text)] => Ok(Value::Bool(network(text).is_ok())),
            _ => refuse("isCIDR", arguments),
        },
        "prefixLength" => |_, arguments| match arguments {
            [Value::Special(Special::Cidr(_, bits))] => Ok(Value::Int((*bits).into())),
            _ => refuse("prefixLength", arguments),
        },
        "masked" => |_, arguments| match arguments {
            [Value::Special(Special::Cidr(ip, bits))] => {
                Ok(Value::Special(Special::Cidr(masked(*ip, *bits), *bits)))
            }
            _ => refuse("masked", arguments),
        },
        "containsIP" => |_, arguments| match arguments {
            [Value::Special(Special::Cidr(ip, bits)), Value::String(text)] => {
                Ok(Value::Bool(contains(*ip, *bits, parse(text)?)))
            }
            [
                Value::Special(Special::Cidr(ip, bits)),
                Value::Special(Special::Ip(inner)),
            ] => Ok(Value::Bool(contains(*ip, *bits, *inner))),
            _ => refuse("containsIP", arguments),
        },
        "containsCIDR" => |_, arguments| match arguments {
            [Value::Special(Special::Cidr(ip, bits)), other] => {
                let parsed = match other {
                    Value::String(text) => network(text)?,
                    other => other.clone(),
                };
                match parsed {
                    Value::Special(Special::Cidr(inner, inner_bits)) => Ok(Value::Bool(
                        *bits <= inner_bits && contains(*ip, *bits, inner),
                    )),
                    _ => refuse("containsCIDR", arguments),
                }
            }
            _ => refuse("containsCIDR", arguments),
        },
        _ => return None,
    })
}

fn address<'a>(ip: IpAddr) -> Value<'a> {
    Value::Special(Special::Ip(ip))
}

fn test<'a>(function: &str, arguments: &[Value<'_>], is: fn(&IpAddr) -> bool) -> Result<Value<'a>> {
    match arguments {
        [Value::Special(Special::Ip(ip))] => Ok(Value::Bool(is(ip))),
        _ => refuse(function, arguments),
    }
}

fn is_link_local_unicast(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_link_local_multicast(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }
}

fn parse(text: &str) -> Result<IpAddr> {
    let shown = quote(text);
    if let Some((_, zone)) = text.split_once('%')
        && !zone.is_empty()
    {
        return Err(Error::new(format!(
            "IP address {shown} with zone value is not allowed"
        )));
    }
    let ip: IpAddr = text.parse().map_err(|_| {
        Error::new(format!(
            "IP Address {shown} parse error during conversion from string: ParseAddr({shown}): {}",
            why_no_address(text)
        ))
    })?;
    refuse_mapped(ip, &shown)?;
    Ok(ip)
}

fn refuse_mapped(ip: IpAddr, shown: &str) -> Result<()> {
    match ip {
        IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some() => Err(Error::new(format!(
            "IPv4-mapped IPv6 address {shown} is not allowed"
        ))),
        _ => Ok(()),
    }
}

/// What Go finds wrong with an address.
fn why_no_address(text: &str) -> String {
    let separator = text.find(['.', ':', '%']);
    let separator = separator.and_then(|at| text.get(at..)?.chars().next());
    match separator {
        Some('.') => {
            let at = |part: &str| {
                let offset = part.as_ptr() as usize - text.as_ptr() as usize;
                quote(text.get(offset..).unwrap_or(""))
            };
            for part in text.split('.') {
                if let Some(wrong) = part.find(|letter: char| !letter.is_ascii_digit()) {
                    let rest = part.get(wrong..).unwrap_or("");
                    return format!("unexpected character (at {})", at(rest));
                }
                if part.is_empty() {
                    return "IPv4 field must have at least one digit".to_owned();
                }
                if part.len() > 1 && part.starts_with('0') {
                    return "IPv4 field has octet with leading zero".to_owned();
                }
                if part.parse::<u8>().is_err() {
                    return "IPv4 field has value >255".to_owned();
                }
            }
            if text.split('.').count() > 4 {
                "IPv4 address too long".to_owned()
            } else {
                "IPv4 address too short".to_owned()
            }
        }
        Some(':') => "each colon-separated field must have at least one digit".to_owned(),
        Some(_) => "missing IPv6 address".to_owned(),
        None => "unable to parse IP".to_owned(),
    }
}

fn network<'a>(text: &str) -> Result<Value<'a>> {
    let shown = quote(text);
    // The server says it twice.
    let failed = |why: &str| {
        const PARSE: &str = "network address parse error during conversion from string";
        Error::new(format!(
            "{PARSE}: {PARSE}: netip.ParsePrefix({shown}): {why}"
        ))
    };
    let (ip, bits) = text.rsplit_once('/').ok_or_else(|| failed("no '/'"))?;
    let address: IpAddr = ip
        .parse()
        .map_err(|_| failed(&format!("ParseAddr({}): {}", quote(ip), why_no_address(ip))))?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let is_canonical = bits == "0" || !bits.starts_with(['0', '+']);
    let length: u16 = bits
        .parse()
        .ok()
        .filter(|_| is_canonical)
        .ok_or_else(|| failed(&format!("bad bits after slash: {}", quote(bits))))?;
    let length = u8::try_from(length)
        .ok()
        .filter(|length| *length <= most)
        .ok_or_else(|| failed("prefix length out of range"))?;
    refuse_mapped(address, &shown).map_err(|error| {
        Error::new(format!(
            "network address parse error during conversion from string: {error}"
        ))
    })?;
    Ok(Value::Special(Special::Cidr(address, length)))
}

fn masked(ip: IpAddr, bits: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            Ipv4Addr::from(u32::from(ip) & mask).into()
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            Ipv6Addr::from(u128::from(ip) & mask).into()
        }
    }
}

fn contains(network: IpAddr, bits: u8, ip: IpAddr) -> bool {
    network.is_ipv4() == ip.is_ipv4() && masked(network, bits) == masked(ip, bits)
}

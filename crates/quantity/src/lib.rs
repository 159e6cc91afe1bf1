//! Kubernetes quantities: `2Gi`, `1500m`, `4294967296`, `1e3`.
//!
//! Guaranteed:
//! - exactly the documented grammar parses;
//! - quantities print in the API server's canonical form: `1024Mi` as `1Gi`, `1.5G` as `1500M`, so that
//!   a printed quantity equals the stored one;
//! - amounts are compared by value, whatever their suffix.
//!
//! As in Kubernetes, an amount has at most nine decimal places (more are rounded away from zero)
//! and is capped at 2⁶³-1.

use std::{
    cmp::Ordering,
    fmt,
    ops::{Add, Sub},
    str::FromStr,
};

use thiserror::Error;

const NANOS_PER_UNIT: i128 = 1_000_000_000;
const MAX_NANOS: i128 = i64::MAX as i128 * NANOS_PER_UNIT;

/// More integer digits than any amount below the cap has.
const MAX_INTEGER_DIGITS: i64 = 20;

/// Fraction digits that are evaluated; further ones only round.
const MAX_FRACTION_DIGITS: i64 = 20;

/// An amount and the family of suffixes for printing it.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// A family of suffixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// `Ki`, `Mi`, `Gi`, ...
    Binary,
    /// `k`, `M`, `G`, ...
    Decimal,
    /// `e3`, `e6`, ...
    Exponent,
}

/// Why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ParseError {
    #[error("is empty: give a quantity such as 4Gi")]
    Empty,
    #[error("does not begin with a number: give a quantity such as 4Gi")]
    Number,
    #[error("has an unknown suffix: use Ki, Mi, Gi, Ti, Pi or Ei, or k, M, G, T, P or E")]
    Suffix,
}

impl Quantity {
    pub const ZERO: Self = Self {
        nanos: 0,
        format: Format::Decimal,
    };

    pub const ONE: Self = Self {
        nanos: NANOS_PER_UNIT,
        format: Format::Decimal,
    };

    pub const MEBIBYTE: Self = Self {
        nanos: 1024 * 1024 * NANOS_PER_UNIT,
        format: Format::Binary,
    };

    /// A number of bytes, printed with binary suffixes.
    pub fn from_bytes(bytes: i64) -> Self {
        Self {
            nanos: i128::from(bytes) * NANOS_PER_UNIT,
            format: Format::Binary,
        }
    }

    /// The amount rounded up to whole units.
    #[must_use]
    pub fn rounded_up(self) -> Self {
        let rest = self.nanos.rem_euclid(NANOS_PER_UNIT);
        let missing = if rest == 0 { 0 } else { NANOS_PER_UNIT - rest };
        Self {
            nanos: self.nanos + missing,
            ..self
        }
    }

    /// The amount in billionths of a unit, for sums.
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// The amount as a number of whole units, if it is one.
    pub fn whole(self) -> Option<i64> {
        let is_whole = self.nanos % NANOS_PER_UNIT == 0;
        i64::try_from(self.nanos / NANOS_PER_UNIT)
            .ok()
            .filter(|_| is_whole)
    }

    /// The nearest floating-point number.
    #[expect(clippy::cast_precision_loss, reason = "it is an approximation")]
    pub fn approximate(self) -> f64 {
        let (whole, rest) = (self.nanos / NANOS_PER_UNIT, self.nanos % NANOS_PER_UNIT);
        whole as f64 + rest as f64 / NANOS_PER_UNIT as f64
    }

    pub fn is_positive(self) -> bool {
        self.nanos > 0
    }
}

/// As in Kubernetes, a sum has the format of its first part, or of the second if the first is zero.
impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            nanos: self.nanos + other.nanos,
            format: if self.nanos == 0 {
                other.format
            } else {
                self.format
            },
        }
    }
}

/// As in Kubernetes, a difference has the format of the minuend.
impl Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + Self {
            nanos: -other.nanos,
            ..other
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl FromStr for Quantity {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text.is_empty() {
            return Err(ParseError::Empty);
        }
        let (negative, unsigned) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (integer, rest) = split_digits(unsigned);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        if integer.is_empty() && fraction.is_empty() {
            return Err(ParseError::Number);
        }
        let scale = Scale::from_suffix(suffix).ok_or(ParseError::Suffix)?;
        let magnitude = scale.nanos(integer, fraction);
        Ok(Self {
            nanos: if negative { -magnitude } else { magnitude },
            format: scale.format,
        })
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = self.nanos / NANOS_PER_UNIT;
        let whole = self.nanos % NANOS_PER_UNIT == 0;
        if self.format == Format::Binary && whole && units.abs() >= 1024 {
            let (mantissa, steps) = reduce(units, 1024, BINARY_SUFFIXES.len() - 1);
            return f.pad(&format!("{mantissa}{}", BINARY_SUFFIXES[steps]));
        }
        let (mantissa, steps) = reduce(self.nanos, 1000, DECIMAL_SUFFIXES.len() - 1);
        let (suffix, exponent) = DECIMAL_SUFFIXES[if mantissa == 0 { UNIT_STEP } else { steps }];
        match self.format {
            Format::Exponent if exponent != 0 => f.pad(&format!("{mantissa}e{exponent}")),
            _ => f.pad(&format!("{mantissa}{suffix}")),
        }
    }
}

const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Suffix and power of ten, from nanos up in steps of a thousand.
const DECIMAL_SUFFIXES: [(&str, i64); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

/// Index of the bare unit in [`DECIMAL_SUFFIXES`].
const UNIT_STEP: usize = 3;

/// Factor of a suffix.
struct Scale {
    format: Format,
    power_of_ten: i64,
    power_of_1024: u32,
}

impl Scale {
    fn from_suffix(suffix: &str) -> Option<Self> {
        if let Some(&(_, power_of_ten)) = DECIMAL_SUFFIXES.iter().find(|(s, _)| *s == suffix) {
            return Some(Self {
                format: Format::Decimal,
                power_of_ten,
                power_of_1024: 0,
            });
        }
        if let Some(power) = BINARY_SUFFIXES.iter().position(|s| *s == suffix) {
            return Some(Self {
                format: Format::Binary,
                power_of_ten: 0,
                power_of_1024: u32::try_from(power).ok()?,
            });
        }
        let exponent = suffix.strip_prefix(['e', 'E'])?;
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        Some(Self {
            format: Format::Exponent,
            power_of_ten: exponent.parse().ok()?,
            power_of_1024: 0,
        })
    }

    /// The amount `integer.fraction` times this scale, rounded up and capped.
    fn nanos(&self, integer: &str, fraction: &str) -> i128 {
        let digits = || {
            integer
                .bytes()
                .chain(fraction.bytes())
                .map(|b| i128::from(b - b'0'))
        };
        let leading_zeros = digits().take_while(|&d| d == 0).count();
        let significant = integer.len() + fraction.len() - leading_zeros;
        if significant == 0 {
            return 0;
        }
        // Position of the decimal point, from the first significant digit.
        let point = as_i64(integer.len())
            .saturating_sub(as_i64(leading_zeros))
            .saturating_add(self.power_of_ten);
        if point > MAX_INTEGER_DIGITS {
            return MAX_NANOS;
        }
        if point < -MAX_FRACTION_DIGITS {
            return 1;
        }
        let factor = 1024_i128.pow(self.power_of_1024);
        let mut whole: i128 = 0;
        let mut part: i128 = 0;
        let mut rest_is_zero = true;
        for (position, digit) in (0_i64..).zip(digits().skip(leading_zeros)) {
            if position < point {
                whole = whole * 10 + digit;
            } else if position < point + MAX_FRACTION_DIGITS {
                part = part * 10 + digit;
            } else {
                rest_is_zero &= digit == 0;
            }
        }
        for _ in as_i64(significant)..point {
            whole *= 10;
        }
        // Zeros between the point and the first significant digit do not change `part`, so only
        // the evaluated digits count here.
        let read = as_i64(significant) - point.max(0);
        let places = read.clamp(0, MAX_FRACTION_DIGITS + point.min(0)) + (-point).max(0);
        let part = scaled_up(part, factor, places, rest_is_zero);
        whole
            .saturating_mul(factor)
            .saturating_mul(NANOS_PER_UNIT)
            .saturating_add(part)
            .min(MAX_NANOS)
    }
}

/// `part / 10^places * factor` in nanos, rounded up.
fn scaled_up(part: i128, factor: i128, places: i64, exact: bool) -> i128 {
    let amount = part.saturating_mul(factor);
    let shift = 9 - places;
    let ten = |power: i64| 10_i128.saturating_pow(u32::try_from(power).unwrap_or(u32::MAX));
    if shift >= 0 {
        return amount.saturating_mul(ten(shift)) + i128::from(!exact);
    }
    let divisor = ten(-shift);
    let remainder = amount % divisor;
    amount / divisor + i128::from(remainder != 0 || !exact)
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(end)
}

/// Divides by `base` without remainder, at most `limit` times.
fn reduce(mut amount: i128, base: i128, limit: usize) -> (i128, usize) {
    let mut steps = 0;
    while steps < limit && amount != 0 && amount % base == 0 {
        amount /= base;
        steps += 1;
    }
    (amount, steps)
}

fn as_i64(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;

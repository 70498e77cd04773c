//! Resource quantities: `100m`, `1.5Gi`, `2e3`. Exact; no floating point.
//!
//! Source: k8s.io/apimachinery `pkg/api/resource`: a value has at most nano precision (finer is
//! rounded away from zero) and at most 2^63-1 in magnitude (more is capped).

#[cfg(test)]
mod tests;

use serde_json::Value;
use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};

/// Nano units in one.
const NANO: i128 = 1_000_000_000;
/// The largest magnitude of a parsed quantity, in nano units.
const MAX: i128 = i64::MAX as i128 * NANO;
/// Enough digits for every value that is neither capped nor rounded away; bounds the work per parse.
const MAX_EXPONENT: i32 = 64;

const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// Suffix and power of ten.
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// How a quantity was written and is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySi,
    /// `12M`
    #[default]
    DecimalSi,
}

/// Why a text is no quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Not of the form of a quantity.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The number is none.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// A fixed-point number. Equality and order look at the amount alone, not at the format.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    /// Parses `100m`, `1.5Gi`, `2e3`.
    ///
    /// # Errors
    ///
    /// See [`ParseError`].
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let number_len = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let (number, suffix) = rest.split_at(number_len);
        if number.is_empty() {
            return Err(ParseError::Format);
        }
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(ParseError::Numeric);
        }
        let (base, exponent, format) = parse_suffix(suffix)?;
        let nanos = amount(whole, fraction, base, exponent);
        Ok(Self { nanos: if negative { -nanos } else { nanos }, format })
    }

    /// Reads a quantity of an object: a string or a number.
    ///
    /// # Errors
    ///
    /// See [`ParseError`]; other types are [`ParseError::Format`].
    pub fn from_value(value: &Value) -> Result<Self, ParseError> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => Err(ParseError::Format),
        }
    }

    /// A whole number of units.
    #[must_use]
    pub fn from_units(units: i64, format: Format) -> Self {
        Self { nanos: i128::from(units) * NANO, format }
    }

    /// A whole number of thousandths.
    #[must_use]
    pub fn from_milli(milli: i64, format: Format) -> Self {
        Self { nanos: i128::from(milli) * (NANO / 1000), format }
    }

    /// The value in units, rounded up (away from zero).
    #[must_use]
    pub fn value(self) -> i64 {
        saturate(divide_away(self.nanos, NANO))
    }

    /// The value in thousandths, rounded up (away from zero).
    #[must_use]
    pub fn milli_value(self) -> i64 {
        saturate(divide_away(self.nanos, NANO / 1000))
    }

    /// Whether it is zero.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether it is below zero.
    #[must_use]
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// How it was written.
    #[must_use]
    pub fn format(self) -> Format {
        self.format
    }
}

/// `(base, exponent, format)` of a suffix.
fn parse_suffix(suffix: &str) -> Result<(i128, i32, Format), ParseError> {
    if let Some(power) = BINARY.iter().position(|s| *s == suffix).filter(|p| *p > 0) {
        return Ok((1024, i32::try_from(power).unwrap_or_default(), Format::BinarySi));
    }
    if let Some((_, power)) = DECIMAL.iter().find(|(s, _)| *s == suffix) {
        return Ok((10, *power, Format::DecimalSi));
    }
    if let Some(exponent) = suffix.strip_prefix(['e', 'E']) {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(ParseError::Suffix);
        }
        let exponent = exponent.parse::<i32>().map_err(|_| ParseError::Suffix)?;
        return Ok((10, exponent, Format::DecimalExponent));
    }
    let known = |b: u8| b"eEinumkKMGTP+-".contains(&b) || b.is_ascii_digit();
    Err(if suffix.bytes().all(known) { ParseError::Suffix } else { ParseError::Format })
}

/// `whole.fraction * base^exponent` in nano units, rounded away from zero and capped.
fn amount(whole: &str, fraction: &str, base: i128, exponent: i32) -> i128 {
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    if whole.is_empty() && fraction.is_empty() {
        return 0;
    }
    // The number is `digits * 10^shift`, with shift counted in nano units.
    let exponent = exponent.clamp(-1_000_000, 1_000_000);
    let (scale, mut ten) = if base == 10 { (1, exponent) } else { (base.pow(exponent.unsigned_abs()), 0) };
    ten += 9 - i32::try_from(fraction.len()).unwrap_or(i32::MAX / 2);
    let mut mantissa: i128 = 0;
    let mut inexact = false;
    for digit in whole.bytes().chain(fraction.bytes()).map(|b| i128::from(b - b'0')) {
        // Digits beyond what a mantissa holds only matter for rounding.
        if mantissa < i128::pow(10, 18) && !inexact {
            mantissa = mantissa * 10 + digit;
        } else {
            // Keep as many digits as fit beside the scale (1024^6 < 2^61).
            match mantissa.checked_mul(10).filter(|m| *m <= i128::MAX / scale / 2) {
                Some(m) if !inexact => mantissa = m + digit,
                _ => {
                    inexact |= digit != 0;
                    ten += 1;
                }
            }
        }
    }
    let Some(mut value) = mantissa.checked_mul(scale) else { return MAX };
    for _ in 0..ten.clamp(0, MAX_EXPONENT) {
        value = value.saturating_mul(10);
        if value >= MAX {
            return MAX;
        }
    }
    for _ in 0..(-ten).max(0) {
        inexact |= value % 10 != 0;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    value.saturating_add(i128::from(inexact)).min(MAX)
}

fn divide_away(value: i128, by: i128) -> i128 {
    let quotient = value / by;
    if value % by == 0 { quotient } else { quotient + value.signum() }
}

fn saturate(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// Canonical form: a whole mantissa and the largest suffix that loses nothing.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let whole = self.nanos % NANO == 0;
        if self.format == Format::BinarySi && whole && self.nanos.abs() >= 1024 * NANO {
            let (mut mantissa, mut power) = (self.nanos / NANO, 0);
            while power + 1 < BINARY.len() && mantissa % 1024 == 0 {
                mantissa /= 1024;
                power += 1;
            }
            return write!(f, "{mantissa}{}", BINARY[power]);
        }
        let (mut mantissa, mut power) = (self.nanos, 0);
        while power + 1 < DECIMAL.len() && mantissa % 1000 == 0 {
            mantissa /= 1000;
            power += 1;
        }
        let (suffix, exponent) = DECIMAL[power];
        match self.format {
            Format::DecimalExponent if exponent != 0 => write!(f, "{mantissa}e{exponent}"),
            Format::DecimalExponent => write!(f, "{mantissa}"),
            _ => write!(f, "{mantissa}{suffix}"),
        }
    }
}

impl std::str::FromStr for Quantity {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
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

/// Keeps the left format, unless the left is zero. Saturates.
impl Add for Quantity {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { nanos: self.nanos.saturating_add(other.nanos), format }
    }
}

impl Neg for Quantity {
    type Output = Self;
    fn neg(self) -> Self {
        Self { nanos: self.nanos.saturating_neg(), format: self.format }
    }
}

impl Sub for Quantity {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl std::iter::Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

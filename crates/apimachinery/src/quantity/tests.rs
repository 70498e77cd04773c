//! Tests of `quantity`.
#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;

fn canonical(text: &str) -> String {
    Quantity::parse(text).unwrap_or_else(|e| panic!("{text}: {e}")).to_string()
}

#[test]
fn prints_the_canonical_form() {
    for (text, want) in [
        ("0", "0"),
        ("-0", "0"),
        ("0Ki", "0"),
        ("100m", "100m"),
        ("1000m", "1"),
        ("1.5", "1500m"),
        ("0.1", "100m"),
        ("1.5Gi", "1536Mi"),
        ("1Gi", "1Gi"),
        ("1024Mi", "1Gi"),
        ("1023", "1023"),
        ("512Ki", "512Ki"),
        ("0.5Ki", "512"),
        ("0.0001Ki", "102400u"),
        ("1.5Ki", "1536"),
        ("2e3", "2e3"),
        ("1E", "1E"),
        ("1E3", "1e3"),
        ("100e-3", "100e-3"),
        ("1000k", "1M"),
        ("+3", "3"),
        ("-250m", "-250m"),
        ("5.", "5"),
        (".5", "500m"),
        ("1e100", "9223372036854775807"),
        ("100E", "9223372036854775807"),
        ("9Ei", "9223372036854775807"),
        ("1e-100", "1e-9"),
        ("0.0000000001", "1n"),
        ("1.0000000001", "1000000001n"),
        ("-0.0000000001", "-1n"),
        ("00012", "12"),
        ("128974848", "128974848"),
    ] {
        assert_eq!(canonical(text), want, "{text}");
    }
}

#[test]
fn refuses_what_is_no_quantity() {
    for (text, want) in [
        ("", ParseError::Format),
        ("m", ParseError::Format),
        ("-", ParseError::Format),
        ("1 Gi", ParseError::Format),
        ("1x", ParseError::Format),
        ("1.2.3", ParseError::Numeric),
        (".", ParseError::Numeric),
        ("1Kii", ParseError::Suffix),
        ("1e", ParseError::Suffix),
        ("1e+", ParseError::Suffix),
        ("1KiB", ParseError::Format),
        ("1mm", ParseError::Suffix),
        ("1e99999999999", ParseError::Suffix),
        ("é", ParseError::Format),
        ("1é", ParseError::Format),
    ] {
        assert_eq!(Quantity::parse(text).unwrap_err(), want, "{text}");
    }
}

#[test]
fn rounds_up_to_whole_units() {
    assert_eq!(Quantity::parse("100m").unwrap().value(), 1);
    assert_eq!(Quantity::parse("-100m").unwrap().value(), -1);
    assert_eq!(Quantity::parse("1500u").unwrap().milli_value(), 2);
    assert_eq!(Quantity::parse("1Gi").unwrap().value(), 1 << 30);
    assert_eq!(Quantity::parse("8Ei").unwrap().milli_value(), i64::MAX);
}

#[test]
fn adds_exactly_and_keeps_the_format() {
    let sum: Quantity = ["100m", "0.2", "1"].iter().map(|t| Quantity::parse(t).unwrap()).sum();
    assert_eq!(sum.to_string(), "1300m");
    let memory = Quantity::ZERO + Quantity::parse("512Mi").unwrap() + Quantity::parse("512Mi").unwrap();
    assert_eq!(memory.to_string(), "1Gi");
    assert_eq!(Quantity::parse("1").unwrap(), Quantity::parse("1000m").unwrap());
}

proptest! {
    #[test]
    fn never_panics(text in "\\PC{0,40}") {
        let _ = Quantity::parse(&text);
    }

    #[test]
    fn canonical_form_is_a_fixed_point(text in "[+-]?[0-9]{1,20}(\\.[0-9]{0,12})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e[+-]?[0-9]{1,2})?") {
        let quantity = Quantity::parse(&text).unwrap();
        let printed = quantity.to_string();
        let again = Quantity::parse(&printed).unwrap();
        prop_assert_eq!(again, quantity);
        prop_assert_eq!(again.to_string(), printed);
    }

    #[test]
    fn order_is_that_of_milli_values(a in -1_000_000_000_000i64..1_000_000_000_000, b in -1_000_000_000_000i64..1_000_000_000_000) {
        let (x, y) = (Quantity::parse(&format!("{a}m")).unwrap(), Quantity::from_milli(b, Format::DecimalSi));
        prop_assert_eq!(x.cmp(&y), a.cmp(&b));
        prop_assert_eq!((x + y).milli_value(), a + b);
        prop_assert_eq!((x - y) + y, x);
    }
}

use super::*;

#[test]
fn reads_levels_and_targets() {
    for good in ["info", "warn,store=debug", "off", "trace"] {
        parse_filter(good).expect(good);
    }
    for bad in ["loud", "info,quiet", "store=loud"] {
        assert!(matches!(parse_filter(bad), Err(Error::Filter(_))), "{bad}");
    }
}

#[test]
fn reads_formats() {
    assert_eq!("json".parse::<Format>().expect("known"), Format::Json);
    assert!("xml".parse::<Format>().is_err());
}

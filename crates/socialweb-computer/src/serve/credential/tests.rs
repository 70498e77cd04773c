//! Lifetimes that a kubeconfig may be asked for with.

use super::lifetime;

#[test]
fn a_lifetime_is_within_bounds_or_the_default() {
    assert_eq!(lifetime(b"").unwrap(), 3600);
    assert_eq!(lifetime(b"{}").unwrap(), 3600);
    assert_eq!(lifetime(br#"{"spec":{"expirationSeconds":600}}"#).unwrap(), 600);
    for bad in ["599", "604801", "-1", "\"3600\"", "1.5"] {
        let body = format!(r#"{{"spec":{{"expirationSeconds":{bad}}}}}"#);
        assert_eq!(lifetime(body.as_bytes()).unwrap_err().code, 400, "{bad}");
    }
    assert_eq!(lifetime(b"{").unwrap_err().code, 400);
}

//! Rules for names that the kinds use and `validation` does not have.

/// The name of a port, `IANA_SVC_NAME`.
pub(super) fn port_name(name: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if name.len() > 15 {
        messages.push("must be no more than 15 characters".to_owned());
    }
    if !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        messages.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    }
    if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        messages.push("must contain at least one letter (a-z)".into());
    }
    if name.contains("--") {
        messages.push("must not contain consecutive hyphens".into());
    }
    if name.starts_with('-') || name.ends_with('-') {
        messages.push("must not begin or end with a hyphen".into());
    }
    messages
}

/// The key of a ConfigMap or Secret.
pub(super) fn config_key(key: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if key.len() > 253 {
        messages.push("must be no more than 253 bytes".to_owned());
    }
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
        messages.push("a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')".into());
    }
    match key {
        "." => messages.push("must not be '.'".into()),
        ".." => messages.push("must not be '..'".into()),
        _ if key.starts_with("..") => messages.push("must not start with '..'".into()),
        _ => {}
    }
    messages
}

/// The name of an environment variable: printable ASCII without `=`.
pub(super) fn env_name(name: &str) -> Vec<String> {
    if !name.is_empty() && name.bytes().all(|b| (0x20..0x7f).contains(&b) && b != b'=') {
        return Vec::new();
    }
    vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".into()]
}

/// Whether a text is an IP address as Kubernetes accepts it.
pub(super) fn is_ip(text: &str) -> bool {
    text.parse::<std::net::IpAddr>().is_ok()
}

//! Rules for single names.

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// Longest label of a DNS name, and longest name part and value of a label.
const LABEL_MAX: usize = 63;
/// Longest DNS subdomain.
const SUBDOMAIN_MAX: usize = 253;

/// An RFC 1123 subdomain: the usual rule for a name.
#[must_use]
pub fn dns1123_subdomain(name: &str) -> Vec<String> {
    let mut wrong = too_long(name, SUBDOMAIN_MAX);
    if !name.split('.').all(is_dns1123_label) {
        wrong.push(format!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
             and must start and end with an alphanumeric character (e.g. 'example.com', \
             regex used for validation is '{SUBDOMAIN}')"
        ));
    }
    wrong
}

/// An RFC 1123 label: namespaces.
#[must_use]
pub fn dns1123_label(name: &str) -> Vec<String> {
    let mut wrong = too_long(name, LABEL_MAX);
    if !is_dns1123_label(name) {
        wrong.push(format!(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
             and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', \
             regex used for validation is '{LABEL}')"
        ));
    }
    wrong
}

/// An RFC 1035 label: Services.
#[must_use]
pub fn dns1035_label(name: &str) -> Vec<String> {
    let mut wrong = too_long(name, LABEL_MAX);
    if !(is_dns1123_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase())) {
        wrong.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
             regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .into(),
        );
    }
    wrong
}

/// A path segment: the RBAC kinds.
#[must_use]
pub fn path_segment(name: &str) -> Vec<String> {
    if name == "." || name == ".." {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|illegal| name.contains(**illegal))
        .map(|illegal| format!("may not contain '{illegal}'"))
        .collect()
}

/// A qualified name such as `example.com/name`: label and annotation keys, resources.
#[must_use]
pub fn qualified_name(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let part = match name.split_once('/') {
        None => name,
        Some((_, part)) if part.contains('/') => {
            return vec![format!(
                "a qualified name {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                must_consist()
            )];
        }
        Some((prefix, part)) => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                wrong.extend(dns1123_subdomain(prefix).into_iter().map(|why| format!("prefix part {why}")));
            }
            part
        }
    };
    if part.is_empty() {
        wrong.push("name part must be non-empty".into());
    }
    wrong.extend(too_long(part, LABEL_MAX).into_iter().map(|why| format!("name part {why}")));
    if !is_qualified(part) {
        wrong.push(format!("name part {}", must_consist()));
    }
    wrong
}

/// The value of a label.
#[must_use]
pub fn label_value(value: &str) -> Vec<String> {
    let mut wrong = too_long(value, LABEL_MAX);
    if !value.is_empty() && !is_qualified(value) {
        wrong.push(format!(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
             and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', \
             regex used for validation is '({QUALIFIED})?')"
        ));
    }
    wrong
}

fn must_consist() -> String {
    format!(
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
         character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{QUALIFIED}')"
    )
}

fn too_long(name: &str, limit: usize) -> Vec<String> {
    if name.len() > limit { vec![format!("must be no more than {limit} bytes")] } else { Vec::new() }
}

fn is_dns1123_label(name: &str) -> bool {
    bounded_by(name, |b| b.is_ascii_lowercase() || b.is_ascii_digit(), |b| b == b'-')
}

fn is_qualified(name: &str) -> bool {
    bounded_by(name, |b| b.is_ascii_alphanumeric(), |b| matches!(b, b'-' | b'_' | b'.'))
}

/// Whether `name` starts and ends with an `outer` byte and has only `outer` and `inner` bytes.
fn bounded_by(name: &str, outer: fn(u8) -> bool, inner: fn(u8) -> bool) -> bool {
    let bytes = name.as_bytes();
    bytes.first().is_some_and(|b| outer(*b))
        && bytes.last().is_some_and(|b| outer(*b))
        && bytes.iter().all(|b| outer(*b) || inner(*b))
}

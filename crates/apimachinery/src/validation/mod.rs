//! Rules for names, labels and metadata, in the words of Kubernetes.
//!
//! Source: k8s.io/apimachinery `pkg/util/validation` and `pkg/api/validation`.

mod meta;
mod names;
#[cfg(test)]
mod tests;

pub use meta::validate_object_meta;
pub use names::{dns1035_label, dns1123_label, dns1123_subdomain, label_value, path_segment, qualified_name};

/// A rule for the name of a kind: every violation, in words; empty when the name is good.
pub type NameRule = fn(&str) -> Vec<String>;

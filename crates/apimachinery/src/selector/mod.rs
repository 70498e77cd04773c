//! Label and field selectors.

mod fields;
mod labels;

pub use fields::{FieldRequirement, FieldSelector};
pub use labels::{LabelSelector, Labels, Operator, Requirement};

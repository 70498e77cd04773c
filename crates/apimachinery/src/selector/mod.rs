//! Label and field selectors.

mod fields;
mod labels;
mod lexer;
#[cfg(test)]
mod tests;

pub use fields::{FieldRequirement, FieldSelector};
pub use labels::{LabelSelector, Labels, Operator, Requirement};

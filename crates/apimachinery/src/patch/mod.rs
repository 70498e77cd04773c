//! The patch types of the API: JSON patch, JSON merge patch, strategic merge patch.

mod json;
mod merge;
mod strategic;
#[cfg(test)]
mod tests;

pub use json::json_patch;
pub use merge::merge_patch;
pub use strategic::strategic_merge;

use crate::parse::{MAX_DEPTH, depth_within};
use crate::status::ApiError;
use serde_json::{Value, json};

/// 422 in the words of a generic server response; `why` is told as its cause.
fn unprocessable(why: impl Into<String>) -> ApiError {
    ApiError::new(422, "Invalid", "the server rejected our request due to an error in our request")
        .with_details(json!({"causes": [{"reason": "UnexpectedServerResponse", "message": why.into()}]}))
}

/// A patched object that nests deeper than any body may is refused, which keeps recursion bounded.
fn bounded(value: Value) -> Result<Value, ApiError> {
    if depth_within(&value, MAX_DEPTH) { Ok(value) } else { Err(unprocessable("the patched object exceeds max depth")) }
}

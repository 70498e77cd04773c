//! One line for an error and everything that caused it.

use std::error::Error;
use std::fmt;

/// Displays an error followed by its sources, separated by `: `.
///
/// A source whose text the line already ends with is left out, since some libraries repeat it.
pub struct ErrorChain<'a>(pub &'a (dyn Error + 'a));

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.to_string();
        f.write_str(&shown)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            let text = error.to_string();
            if !text.is_empty() && !shown.ends_with(&text) {
                write!(f, ": {text}")?;
                shown = text;
            }
            source = error.source();
        }
        Ok(())
    }
}

/// [`ErrorChain`] as a string.
#[must_use]
pub fn error_chain(error: &(dyn Error + '_)) -> String {
    ErrorChain(error).to_string()
}

#[cfg(test)]
mod tests;

//! Field selectors.

use crate::status::ApiError;

/// One condition on one field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldRequirement {
    /// Path such as `metadata.name`.
    pub path: String,
    /// `true` for `=`, `false` for `!=`.
    pub equal: bool,
    /// Value, unescaped.
    pub value: String,
}

/// A conjunction of field requirements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// Parses `metadata.name=a,spec.nodeName!=b`.
    ///
    /// # Errors
    ///
    /// 400 in Kubernetes' words.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        let terms = split_terms(text).into_iter().filter(|term| !term.is_empty());
        let requirements = terms.map(requirement).collect::<Result<_, _>>().map_err(ApiError::bad_request)?;
        Ok(Self { requirements })
    }

    /// Whether the selector matches everything.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The conditions.
    #[must_use]
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// The paths that the selector reads.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.requirements.iter().map(|r| r.path.as_str())
    }

    /// The value that the selector demands of `path`, if it demands one: a way to an index.
    #[must_use]
    pub fn exact(&self, path: &str) -> Option<&str> {
        self.requirements.iter().find(|r| r.equal && r.path == path).map(|r| r.value.as_str())
    }

    /// Refuses paths other than `metadata.name`, `metadata.namespace` and `selectable`.
    ///
    /// # Errors
    ///
    /// 400: `field label not supported: x`.
    pub fn check(&self, selectable: &[String]) -> Result<(), ApiError> {
        match self
            .fields()
            .find(|p| *p != "metadata.name" && *p != "metadata.namespace" && !selectable.iter().any(|s| s == p))
        {
            Some(path) => Err(ApiError::bad_request(format!("field label not supported: {path}"))),
            None => Ok(()),
        }
    }

    /// Whether an object whose fields `field` returns satisfies every requirement. An absent field
    /// is the empty string.
    pub fn matches(&self, mut field: impl FnMut(&str) -> Option<String>) -> bool {
        self.requirements.iter().all(|r| (field(&r.path).unwrap_or_default() == r.value) == r.equal)
    }
}

/// Splits at commas that are not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn requirement(term: &str) -> Result<FieldRequirement, String> {
    let bad = || format!("invalid selector: '{term}'; can't understand '{term}'");
    let mut escaped = false;
    let at = term.char_indices().find_map(|(at, c)| match c {
        _ if escaped => {
            escaped = false;
            None
        }
        '\\' => {
            escaped = true;
            None
        }
        '=' => Some(at),
        '!' if term[at..].starts_with("!=") => Some(at),
        _ => None,
    });
    let (path, operator) = term.split_at(at.ok_or_else(bad)?);
    let (equal, value) = match operator.strip_prefix("!=") {
        Some(value) => (false, value),
        None => (true, operator.strip_prefix("==").or_else(|| operator.strip_prefix('=')).ok_or_else(bad)?),
    };
    Ok(FieldRequirement { path: path.to_owned(), equal, value: unescape(value)? })
}

fn unescape(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return Err(format!("invalid field selector: invalid escape sequence: \\{c}")),
                None => return Err("invalid field selector: invalid escape sequence: \\".into()),
            },
            ',' | '=' => return Err(format!("invalid field selector: unescaped character in value: {c}")),
            c => out.push(c),
        }
    }
    Ok(out)
}

/// The query form.
impl std::fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, FieldRequirement { path, equal, value }) in self.requirements.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let operator = if *equal { "=" } else { "!=" };
            let value = value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            write!(f, "{comma}{path}{operator}{value}")?;
        }
        Ok(())
    }
}

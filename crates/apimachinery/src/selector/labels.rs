//! Label selectors, in their query form and in the form of `metav1.LabelSelector`.

use super::lexer::{Lexer, Token};
use crate::status::ApiError;
use crate::validation::{label_value, qualified_name};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Something that has labels.
pub trait Labels {
    /// The value of label `key`.
    fn label(&self, key: &str) -> Option<&str>;
}

impl Labels for BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

impl Labels for Map<String, Value> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }
}

/// The value of `metadata.labels`, which may be absent (null).
impl Labels for Value {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }
}

impl<K: AsRef<str>, V: AsRef<str>> Labels for [(K, V)] {
    fn label(&self, key: &str) -> Option<&str> {
        self.iter().find(|(k, _)| k.as_ref() == key).map(|(_, v)| v.as_ref())
    }
}

/// How a requirement compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// The label's value is one of the values.
    In,
    /// The label is absent or its value is none of the values.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is an integer above the value.
    GreaterThan,
    /// The label is an integer below the value.
    LessThan,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// Label key.
    pub key: String,
    /// Comparison.
    pub operator: Operator,
    /// Sorted, without duplicates.
    pub values: Vec<String>,
}

impl Requirement {
    /// Whether `labels` satisfy the requirement.
    #[must_use]
    pub fn matches<L: Labels + ?Sized>(&self, labels: &L) -> bool {
        let label = labels.label(&self.key);
        let one_of = |value: &str| self.values.iter().any(|v| v == value);
        let order = |value: &str| {
            let (have, want) = (value.parse::<i64>().ok()?, self.values.first()?.parse::<i64>().ok()?);
            Some(have.cmp(&want))
        };
        match self.operator {
            Operator::In => label.is_some_and(one_of),
            Operator::NotIn => !label.is_some_and(one_of),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => label.and_then(order).is_some_and(std::cmp::Ordering::is_gt),
            Operator::LessThan => label.and_then(order).is_some_and(std::cmp::Ordering::is_lt),
        }
    }
}

/// A conjunction of requirements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

impl LabelSelector {
    /// Matches everything.
    #[must_use]
    pub fn everything() -> Self {
        Self { requirements: Vec::new(), nothing: false }
    }

    /// Matches nothing.
    #[must_use]
    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), nothing: true }
    }

    /// Parses the query form: `a=b,c!=d,e in (x,y),f notin (z),g,!h,i gt 1`.
    ///
    /// # Errors
    ///
    /// 400 in Kubernetes' words: `unable to parse requirement: ...`.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        Self::parse_requirements(text)
            .map(|requirements| Self { requirements, nothing: false })
            .map_err(ApiError::bad_request)
    }

    fn parse_requirements(text: &str) -> Result<Vec<Requirement>, String> {
        let mut lexer = Lexer::new(text);
        let mut requirements = Vec::new();
        loop {
            match lexer.peek() {
                Token::Identifier(_) | Token::DoesNotExist => {
                    requirements
                        .push(requirement(&mut lexer).map_err(|why| format!("unable to parse requirement: {why}"))?);
                    match lexer.next() {
                        Token::End => return Ok(sorted(requirements)),
                        Token::Comma => match lexer.peek() {
                            Token::Identifier(_) | Token::DoesNotExist => {}
                            other => return Err(format!("found '{}', expected: identifier after ','", other.text())),
                        },
                        other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
                    }
                }
                Token::End => return Ok(requirements),
                other => return Err(format!("found '{}', expected: !, identifier, or 'end of string'", other.text())),
            }
        }
    }

    /// Reads a `metav1.LabelSelector`: null (absent) matches nothing, `{}` everything.
    ///
    /// # Errors
    ///
    /// 400 in Kubernetes' words.
    pub fn from_object(selector: &Value) -> Result<Self, ApiError> {
        if selector.is_null() {
            return Ok(Self::nothing());
        }
        Self::requirements_of(selector)
            .map(|requirements| Self { requirements: sorted(requirements), nothing: false })
            .map_err(ApiError::bad_request)
    }

    fn requirements_of(selector: &Value) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            let value = value.as_str().ok_or_else(|| format!("matchLabels[{key}] is not a string"))?;
            requirements.push(Requirement::new(key, Operator::In, vec![value.to_owned()])?);
        }
        for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
            let operator = match text("operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(format!("{other:?} is not a valid label selector operator")),
            };
            let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
            let values = values.filter_map(Value::as_str).map(str::to_owned).collect();
            requirements.push(Requirement::new(text("key"), operator, values)?);
        }
        Ok(requirements)
    }

    /// Reads the selector of a ReplicationController or a Service: a map of labels, where an
    /// absent or empty one matches nothing.
    #[must_use]
    pub fn from_labels(labels: &Value) -> Self {
        let requirement = |(key, value): (&String, &Value)| Requirement {
            key: key.clone(),
            operator: Operator::In,
            values: vec![value.as_str().unwrap_or_default().to_owned()],
        };
        let requirements: Vec<_> = labels.as_object().into_iter().flatten().map(requirement).collect();
        Self { nothing: requirements.is_empty(), requirements }
    }

    /// Whether the selector matches everything.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// The conditions, sorted by key.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether `labels` satisfy every requirement.
    #[must_use]
    pub fn matches<L: Labels + ?Sized>(&self, labels: &L) -> bool {
        !self.nothing && self.requirements.iter().all(|requirement| requirement.matches(labels))
    }
}

impl Requirement {
    /// A requirement whose key and values are checked.
    ///
    /// # Errors
    ///
    /// What is wrong, in Kubernetes' words.
    pub fn new(key: &str, operator: Operator, values: Vec<String>) -> Result<Self, String> {
        check_key("key", key)?;
        let given = format!("[{}]", values.iter().map(|v| format!("{v:?}")).collect::<Vec<_>>().join(","));
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                return Err(format!(
                    "values: Invalid value: {given}: for 'in', 'notin' operators, values set can't be empty"
                ));
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                return Err(format!(
                    "values: Invalid value: {given}: values set must be empty for exists and does not exist"
                ));
            }
            Operator::GreaterThan | Operator::LessThan => match &values[..] {
                [value] if value.parse::<i64>().is_ok() => {}
                [value] => {
                    return Err(format!(
                        "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                    ));
                }
                _ => {
                    return Err(format!(
                        "values: Invalid value: {given}: for 'Gt', 'Lt' operators, exactly one value is required"
                    ));
                }
            },
            _ => {}
        }
        for (index, value) in values.iter().enumerate() {
            let wrong = label_value(value);
            if !wrong.is_empty() {
                return Err(format!("values[{index}][{key}]: Invalid value: {value:?}: {}", wrong.join("; ")));
            }
        }
        let values = values.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        Ok(Self { key: key.to_owned(), operator, values })
    }
}

fn check_key(path: &str, key: &str) -> Result<(), String> {
    let wrong = qualified_name(key);
    if wrong.is_empty() { Ok(()) } else { Err(format!("{path}: Invalid value: {key:?}: {}", wrong.join("; "))) }
}

fn sorted(mut requirements: Vec<Requirement>) -> Vec<Requirement> {
    requirements.sort_by(|a, b| a.key.cmp(&b.key));
    requirements
}

fn requirement(lexer: &mut Lexer<'_>) -> Result<Requirement, String> {
    let absent = matches!(lexer.peek(), Token::DoesNotExist);
    if absent {
        lexer.next();
    }
    let key = match lexer.next() {
        Token::Identifier(key) => key,
        other => return Err(format!("found '{}', expected: identifier", other.text())),
    };
    check_key("<nil>", key)?;
    if absent {
        return Requirement::new(key, Operator::DoesNotExist, Vec::new());
    }
    if matches!(lexer.peek(), Token::End | Token::Comma) {
        return Requirement::new(key, Operator::Exists, Vec::new());
    }
    // After the key, `in` and the like are operators; as a value they are text.
    let (operator, set) = match lexer.next() {
        Token::Identifier("in") => (Operator::In, true),
        Token::Identifier("notin") => (Operator::NotIn, true),
        Token::Equals => (Operator::In, false),
        Token::NotEquals => (Operator::NotIn, false),
        Token::Identifier("gt") | Token::GreaterThan => (Operator::GreaterThan, false),
        Token::Identifier("lt") | Token::LessThan => (Operator::LessThan, false),
        other => return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text())),
    };
    let values = if set { set_values(lexer)? } else { vec![single_value(lexer)?] };
    Requirement::new(key, operator, values)
}

fn single_value(lexer: &mut Lexer<'_>) -> Result<String, String> {
    match lexer.peek() {
        // `a=` and `a=,b` compare with the empty string.
        Token::End | Token::Comma => Ok(String::new()),
        _ => match lexer.next() {
            Token::Identifier(value) => Ok(value.to_owned()),
            other => Err(format!("found '{}', expected: identifier", other.text())),
        },
    }
}

fn set_values(lexer: &mut Lexer<'_>) -> Result<Vec<String>, String> {
    match lexer.next() {
        Token::Open => {}
        other => return Err(format!("found '{}' expected: '('", other.text())),
    }
    let mut values = Vec::new();
    // Between separators there may be nothing, which is the empty string.
    let mut pending: Option<String> = None;
    loop {
        match lexer.next() {
            Token::Identifier(value) if pending.is_none() => pending = Some(value.to_owned()),
            Token::Comma => values.push(pending.take().unwrap_or_default()),
            Token::Close => {
                values.push(pending.take().unwrap_or_default());
                return Ok(values);
            }
            other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match (self.operator, &self.values[..]) {
            (Operator::Exists, _) => write!(f, "{key}"),
            (Operator::DoesNotExist, _) => write!(f, "!{key}"),
            (Operator::In, [value]) => write!(f, "{key}={value}"),
            (Operator::In, values) => write!(f, "{key} in ({})", values.join(",")),
            (Operator::NotIn, values) => write!(f, "{key} notin ({})", values.join(",")),
            (Operator::GreaterThan, values) => write!(f, "{key}>{}", values.join(",")),
            (Operator::LessThan, values) => write!(f, "{key}<{}", values.join(",")),
        }
    }
}

/// The query form.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}

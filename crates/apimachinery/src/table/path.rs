//! The part of JSONPath that printer columns and `scale` use.

use serde_json::Value;

/// Steps of one path; a longer path is refused.
const MAX_STEPS: usize = 64;
/// Values that one step may yield.
const MAX_FOUND: usize = 10_000;

/// A parsed path: `.spec.replicas`, `.metadata.labels['a.b/c']`, `.metadata.labels.a\.b`,
/// `.items[0]`, `[-1]`, `[*]`, `.status.conditions[?(@.type=="Ready")].status`; braces around it
/// are allowed.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    Filter { path: JsonPath, test: Option<(Comparison, Value)> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    LessOrEqual,
    GreaterOrEqual,
    Less,
    Greater,
}

impl JsonPath {
    /// Parses a path.
    ///
    /// # Errors
    ///
    /// What cannot be understood.
    pub fn parse(text: &str) -> Result<Self, String> {
        let inner = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(text);
        let inner = inner.strip_prefix('$').unwrap_or(inner);
        let mut parser = Parser { rest: inner };
        let steps = parser.steps(0).map_err(|why| format!("invalid path {text:?}: {why}"))?;
        if parser.rest.is_empty() {
            Ok(Self { steps })
        } else {
            Err(format!("invalid path {text:?}: unexpected {:?}", parser.rest))
        }
    }

    /// The first value that the path finds.
    #[must_use]
    pub fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.all(value).into_iter().next()
    }

    /// Every value that the path finds.
    #[must_use]
    pub fn all<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![value];
        for step in &self.steps {
            found = found.into_iter().flat_map(|value| step.apply(value)).take(MAX_FOUND).collect();
        }
        found
    }

    /// The names of a path that is nothing but fields, for those who write to it: `.spec.replicas`
    /// is `["spec", "replicas"]`.
    #[must_use]
    pub fn fields(&self) -> Option<Vec<&str>> {
        let name = |step: &'_ Step| match step {
            Step::Field(_) => true,
            Step::Index(_) | Step::All | Step::Filter { .. } => false,
        };
        self.steps.iter().all(name).then(|| {
            let names = self
                .steps
                .iter()
                .filter_map(|step| if let Step::Field(name) = step { Some(name.as_str()) } else { None });
            names.collect()
        })
    }
}

impl Step {
    fn apply<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, value) {
            (Self::Field(name), value) => value.get(name).into_iter().collect(),
            (Self::Index(index), Value::Array(items)) => {
                let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
                let index = if *index < 0 { index.saturating_add(length) } else { *index };
                usize::try_from(index).ok().and_then(|index| items.get(index)).into_iter().collect()
            }
            (Self::All, Value::Array(items)) => items.iter().collect(),
            (Self::All, Value::Object(fields)) => fields.values().collect(),
            (Self::Filter { path, test }, Value::Array(items)) => items
                .iter()
                .filter(|item| match (path.first(item), test) {
                    (found, None) => found.is_some(),
                    (Some(found), Some((comparison, wanted))) => comparison.holds(found, wanted),
                    (None, Some(_)) => false,
                })
                .collect(),
            _ => Vec::new(),
        }
    }
}

impl Comparison {
    fn holds(self, found: &Value, wanted: &Value) -> bool {
        let order = match (found, wanted) {
            (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            _ => None,
        };
        match self {
            Self::Equal => order.is_some_and(std::cmp::Ordering::is_eq),
            Self::NotEqual => !order.is_some_and(std::cmp::Ordering::is_eq),
            Self::LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
            Self::GreaterOrEqual => order.is_some_and(std::cmp::Ordering::is_ge),
            Self::Less => order.is_some_and(std::cmp::Ordering::is_lt),
            Self::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn take(&mut self, prefix: &str) -> bool {
        match self.rest.strip_prefix(prefix) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn until(&mut self, end: &str) -> Result<&'a str, String> {
        let (inside, rest) = self.rest.split_once(end).ok_or_else(|| format!("missing {end:?}"))?;
        self.rest = rest;
        Ok(inside)
    }

    fn steps(&mut self, nesting: usize) -> Result<Vec<Step>, String> {
        let mut steps = Vec::new();
        loop {
            if steps.len() > MAX_STEPS {
                return Err("too long".into());
            }
            if self.take(".") {
                if self.rest.starts_with('.') {
                    return Err("recursive descent is not supported".into());
                }
                if self.take("*") {
                    steps.push(Step::All);
                } else if let Some(name) = self.name() {
                    steps.push(Step::Field(name));
                }
            } else if self.take("[") {
                steps.push(self.bracket(nesting)?);
            } else {
                return Ok(steps);
            }
        }
    }

    /// A field name; a backslash keeps the next character from ending it.
    fn name(&mut self) -> Option<String> {
        let mut name = String::new();
        let mut end = self.rest.len();
        let mut characters = self.rest.char_indices();
        while let Some((at, c)) = characters.next() {
            match c {
                '\\' => name.extend(characters.next().map(|(_, c)| c)),
                '.' | '[' | ']' | ')' | '=' | '!' | '<' | '>' | ' ' => {
                    end = at;
                    break;
                }
                c => name.push(c),
            }
        }
        self.rest = self.rest.get(end..).unwrap_or_default();
        (!name.is_empty()).then_some(name)
    }

    fn bracket(&mut self, nesting: usize) -> Result<Step, String> {
        if self.take("*]") {
            return Ok(Step::All);
        }
        if self.take("?(") {
            if nesting > 0 {
                return Err("a filter inside a filter is not supported".into());
            }
            let step = self.filter()?;
            return if self.take(")]") { Ok(step) } else { Err("missing \")]\"".into()) };
        }
        for quote in ["'", "\""] {
            if self.take(quote) {
                let name = self.until(&format!("{quote}]"))?;
                return Ok(Step::Field(name.replace("\\.", ".")));
            }
        }
        let index = self.until("]")?;
        index.parse().map(Step::Index).map_err(|_| format!("{index:?} is not an index"))
    }

    fn filter(&mut self) -> Result<Step, String> {
        if !self.take("@") {
            return Err("a filter compares a path from @".into());
        }
        let path = JsonPath { steps: self.steps(1)? };
        self.rest = self.rest.trim_start();
        let comparisons = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let Some((_, comparison)) = comparisons.into_iter().find(|(symbol, _)| self.take(symbol)) else {
            return Ok(Step::Filter { path, test: None });
        };
        self.rest = self.rest.trim_start();
        let quote = ["\"", "'"].into_iter().find(|quote| self.take(quote));
        let wanted = match quote {
            Some(quote) => self.until(quote)?.into(),
            None => {
                let end = self.rest.find(')').ok_or("missing \")\"")?;
                let (literal, rest) = self.rest.split_at(end);
                self.rest = rest;
                serde_json::from_str(literal.trim()).map_err(|_| format!("{literal:?} is not a value"))?
            }
        };
        self.rest = self.rest.trim_start();
        Ok(Step::Filter { path, test: Some((comparison, wanted)) })
    }
}

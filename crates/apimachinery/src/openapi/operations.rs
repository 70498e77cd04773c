//! Operations, apart from the two ways of writing them down.

use crate::definition::GroupVersionKind;

/// A query parameter: name, OpenAPI type, description.
pub(super) type Parameter = (&'static str, &'static str, &'static str);

pub(super) const PRETTY: Parameter = ("pretty", "string", "If 'true', the answer is indented.");
const DRY_RUN: Parameter = ("dryRun", "string", "'All': check, but change nothing.");
const FIELD_MANAGER: Parameter = ("fieldManager", "string", "Name of who makes the change.");
const FIELD_VALIDATION: Parameter =
    ("fieldValidation", "string", "What unknown and duplicate fields lead to: 'Ignore', 'Warn' or 'Strict'.");
const GRACE: Parameter = ("gracePeriodSeconds", "integer", "Time to stop in. Zero deletes at once.");
const ORPHAN: Parameter = ("orphanDependents", "boolean", "Deprecated: use propagationPolicy.");
const PROPAGATION: Parameter = ("propagationPolicy", "string", "'Orphan', 'Background' or 'Foreground'.");
const SELECTION: [Parameter; 8] = [
    ("continue", "string", "Where to go on, from the list before."),
    ("fieldSelector", "string", "Restricts the objects by their fields."),
    ("labelSelector", "string", "Restricts the objects by their labels."),
    ("limit", "integer", "Most objects to return at once."),
    ("resourceVersion", "string", "The version to read at."),
    ("resourceVersionMatch", "string", "How resourceVersion is applied: 'Exact' or 'NotOlderThan'."),
    ("sendInitialEvents", "boolean", "Whether a watch starts with the objects that there are."),
    ("timeoutSeconds", "integer", "How long the call may last."),
];

/// What an operation does, which decides its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Get,
    List,
    Post,
    Put,
    Patch,
    Delete,
    DeleteCollection,
    Connect,
}

impl Action {
    /// `x-kubernetes-action`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Post => "post",
            Self::Put => "put",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Connect => "connect",
        }
    }

    /// Query parameters, sorted by name as far as upstream sorts them.
    pub(super) fn parameters(self) -> Vec<Parameter> {
        match self {
            Self::Get | Self::Connect => Vec::new(),
            Self::List => {
                let mut list = vec![("allowWatchBookmarks", "boolean", "Whether a watch may send bookmarks.")];
                list.extend(SELECTION);
                list.push(("watch", "boolean", "Watch for changes instead of listing."));
                list
            }
            Self::Post | Self::Put => vec![DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION],
            Self::Patch => vec![
                DRY_RUN,
                FIELD_MANAGER,
                FIELD_VALIDATION,
                ("force", "boolean", "Takes over fields of others when applying."),
            ],
            Self::Delete => vec![DRY_RUN, GRACE, ORPHAN, PROPAGATION],
            Self::DeleteCollection => {
                let mut list = vec![DRY_RUN, GRACE, ORPHAN, PROPAGATION];
                list.extend(SELECTION);
                list
            }
        }
    }

    /// HTTP status codes of success.
    pub(super) fn codes(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Post => &[("200", "OK"), ("201", "Created"), ("202", "Accepted")],
            Self::Put | Self::Patch => &[("200", "OK"), ("201", "Created")],
            Self::Delete => &[("200", "OK"), ("202", "Accepted")],
            Self::Get | Self::List | Self::DeleteCollection | Self::Connect => &[("200", "OK")],
        }
    }
}

/// What a request carries.
#[derive(Clone, Debug)]
pub(super) struct Body {
    /// Name of the type.
    pub(super) component: String,
    /// Media types; `*/*` where any is taken for JSON.
    pub(super) consumes: Vec<&'static str>,
    /// Whether it must be there.
    pub(super) required: bool,
}

/// One operation of a path.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    /// `get`, `post` ...
    pub(super) method: &'static str,
    pub(super) id: String,
    pub(super) action: Action,
    pub(super) gvk: GroupVersionKind,
    pub(super) tag: String,
    pub(super) description: String,
    pub(super) body: Option<Body>,
    /// Name of the type of the answer; text without one.
    pub(super) answer: Option<String>,
    pub(super) produces: Vec<&'static str>,
}

/// One path with its operations.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) path: String,
    /// Query parameters of every operation.
    pub(super) parameters: Vec<Parameter>,
    pub(super) operations: Vec<Operation>,
}

impl Path {
    /// Names and descriptions of the parameters in the path.
    pub(super) fn variables(&self) -> Vec<(&'static str, &'static str)> {
        [("name", "Name of the object."), ("namespace", "Namespace of the object.")]
            .into_iter()
            .filter(|(name, _)| self.path.contains(&format!("{{{name}}}")))
            .collect()
    }
}

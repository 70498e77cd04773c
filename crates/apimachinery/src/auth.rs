//! Who makes a request, as every layer that decides about it sees it.

use std::collections::BTreeMap;

/// Group of cluster administrators; authorization is not consulted for it.
pub const GROUP_MASTERS: &str = "system:masters";
/// Group of every authenticated identity.
pub const GROUP_AUTHENTICATED: &str = "system:authenticated";
/// Group of requests without credentials.
pub const GROUP_UNAUTHENTICATED: &str = "system:unauthenticated";
/// Group of node agents.
pub const GROUP_NODES: &str = "system:nodes";
/// Name of requests without credentials.
pub const USER_ANONYMOUS: &str = "system:anonymous";

/// An authenticated (or anonymous) identity, the fields of Kubernetes' `UserInfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// Unique name.
    pub name: String,
    /// Unique over time, if the authenticator knows one.
    pub uid: String,
    /// Groups, without duplicates.
    pub groups: Vec<String>,
    /// Further facts from the authenticator.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// The identity of a request without credentials.
    #[must_use]
    pub fn anonymous() -> Self {
        Self { name: USER_ANONYMOUS.into(), groups: vec![GROUP_UNAUTHENTICATED.into()], ..Self::default() }
    }

    /// Whether the identity belongs to `group`.
    #[must_use]
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}

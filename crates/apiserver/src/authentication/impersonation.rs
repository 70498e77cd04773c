//! Acting as somebody else (`kubectl --as`): what is asked for, and who one then is. Whether it is
//! allowed is authorization's to say, by the verb `impersonate`.

use crate::GROUP_CONTROLLERS;
use crate::authorization::Attributes;
use apimachinery::auth::{GROUP_AUTHENTICATED, GROUP_UNAUTHENTICATED, USER_ANONYMOUS, UserInfo};
use apimachinery::status::ApiError;
use http::HeaderMap;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
/// Prefix of the names of ServiceAccounts.
const ACCOUNT: &str = "system:serviceaccount:";

/// Whom a request wants to be, and everything that must be allowed for it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Impersonation {
    pub(crate) user: UserInfo,
    pub(crate) needs: Vec<Attributes>,
}

/// Reads the headers; `None` when the request is on its sender's own behalf.
pub(crate) fn requested(headers: &HeaderMap) -> Result<Option<Impersonation>, ApiError> {
    let values = |name: &str| -> Result<Vec<String>, ApiError> {
        let texts = headers.get_all(name).iter().map(|value| value.to_str().map(str::to_owned));
        texts.collect::<Result<_, _>>().map_err(|_| ApiError::bad_request(format!("{name} is not readable")))
    };
    let (users, groups, uids) = (values(USER)?, values(GROUP)?, values(UID)?);
    let extras: Vec<&str> = headers.keys().filter_map(|name| name.as_str().strip_prefix(EXTRA)).collect();
    let Some(name) = users.into_iter().next().filter(|name| !name.is_empty()) else {
        if groups.is_empty() && uids.is_empty() && extras.is_empty() {
            return Ok(None);
        }
        return Err(ApiError::bad_request("requested impersonation without impersonating a user"));
    };
    let account = name.strip_prefix(ACCOUNT).and_then(|rest| rest.split_once(':'));
    let need = |group: &str, resource: &str, namespace: &str, name: &str| Attributes {
        verb: "impersonate".into(),
        group: group.into(),
        version: "v1".into(),
        resource: resource.into(),
        namespace: namespace.into(),
        name: name.into(),
        ..Attributes::default()
    };
    let mut needs = vec![match account {
        Some((namespace, name)) => need("", "serviceaccounts", namespace, name),
        None => need("", "users", "", &name),
    }];
    needs.extend(groups.iter().map(|group| need("", "groups", "", group)));
    needs.extend(uids.iter().map(|uid| need("authentication.k8s.io", "uids", "", uid)));
    let mut user = UserInfo { uid: uids.into_iter().next().unwrap_or_default(), ..UserInfo::default() };
    for key in extras {
        let found = values(&format!("{EXTRA}{key}"))?;
        needs.extend(found.iter().map(|value| Attributes {
            subresource: key.to_owned(),
            ..need("authentication.k8s.io", "userextras", "", value)
        }));
        user.extra.insert(key.to_owned(), found);
    }
    user.groups = groups;
    if let (Some((namespace, _)), true) = (account, user.groups.is_empty()) {
        user.groups = vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")];
    }
    let everyone = if name == USER_ANONYMOUS { GROUP_UNAUTHENTICATED } else { GROUP_AUTHENTICATED };
    if !user.in_group(everyone) {
        user.groups.push(everyone.into());
    }
    user.groups.retain(|group| group != GROUP_CONTROLLERS);
    user.name = name;
    Ok(Some(Impersonation { user, needs }))
}

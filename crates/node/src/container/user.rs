//! Who a container's process runs as, from what the pod and the image say and the image's files.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::rootdir::RootDir;

/// What is known before the root file system is mounted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UserRequest {
    /// The image's `User`: `user`, `uid`, `user:group`, ...
    pub(super) image: String,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) supplemental_groups: Vec<u32>,
}

/// The numbers the kernel wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResolvedUser {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) groups: Vec<u32>,
    pub(super) home: String,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum UserError {
    #[error("unable to find user {0}: no matching entries in passwd file")]
    User(String),
    #[error("unable to find group {0}: no matching entries in group file")]
    Group(String),
    #[error("cannot read the users of the image")]
    Read(#[from] io::Error),
}

/// Larger files of users are read up to here.
const MAX_FILE: u64 = 1 << 20;

/// Resolves with `/etc/passwd` and `/etc/group` of a root file system.
pub(super) fn resolve_in(root: &RootDir, request: &UserRequest) -> Result<ResolvedUser, UserError> {
    let read = |path| -> io::Result<String> {
        Ok(String::from_utf8_lossy(&root.read(Path::new(path), MAX_FILE)?.unwrap_or_default()).into_owned())
    };
    resolve(request, &read("/etc/passwd")?, &read("/etc/group")?)
}

/// Resolves with the text of both files.
pub(super) fn resolve(request: &UserRequest, passwd: &str, group: &str) -> Result<ResolvedUser, UserError> {
    let (image_user, image_group) = match request.image.split_once(':') {
        Some((user, group)) => (user, Some(group).filter(|group| !group.is_empty())),
        None => (request.image.as_str(), None),
    };
    let by_uid = |uid: u32| entries(passwd).find(|entry| entry.uid == uid);
    let (uid, entry) = match request.uid {
        Some(uid) => (uid, by_uid(uid)),
        None if image_user.is_empty() => (0, by_uid(0)),
        // A name of digits only is a number first, unless somebody is called so.
        None => match (entries(passwd).find(|entry| entry.name == image_user), image_user.parse()) {
            (Some(entry), _) => (entry.uid, Some(entry)),
            (None, Ok(uid)) => (uid, by_uid(uid)),
            (None, Err(_)) => return Err(UserError::User(image_user.to_owned())),
        },
    };
    let gid = match (request.gid, image_group) {
        (Some(gid), _) => gid,
        // The image's group goes with the image's user.
        (None, Some(name)) if request.uid.is_none() => {
            match (groups(group).find(|entry| entry.0 == name), name.parse()) {
                (Some((_, gid, _)), _) => gid,
                (None, Ok(gid)) => gid,
                (None, Err(_)) => return Err(UserError::Group(name.to_owned())),
            }
        }
        (None, _) => entry.as_ref().map_or(0, |entry| entry.gid),
    };
    let mut all = vec![gid];
    if let Some(entry) = &entry {
        all.extend(
            groups(group).filter(|(_, _, members)| members.split(',').any(|name| name == entry.name)).map(|g| g.1),
        );
    }
    all.extend(&request.supplemental_groups);
    all.sort_unstable();
    all.dedup();
    let home = entry.map(|entry| entry.home.to_owned()).filter(|home| !home.is_empty());
    Ok(ResolvedUser { uid, gid, groups: all, home: home.unwrap_or_else(|| "/".to_owned()) })
}

struct Entry<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a str,
}

fn entries(passwd: &str) -> impl Iterator<Item = Entry<'_>> {
    passwd.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let (name, _, uid, gid) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let (_, home) = (fields.next(), fields.next().unwrap_or_default());
        Some(Entry { name, uid: uid.parse().ok()?, gid: gid.parse().ok()?, home })
    })
}

fn groups(group: &str) -> impl Iterator<Item = (&str, u32, &str)> {
    group.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let (name, _, gid) = (fields.next()?, fields.next()?, fields.next()?);
        Some((name, gid.parse().ok()?, fields.next().unwrap_or_default()))
    })
}

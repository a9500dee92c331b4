//! The user to which a server changes: `NAME|UID[:GROUP|GID]`, with the user's supplementary
//! groups.

use std::ffi::{CStr, CString};
use std::str::FromStr;

/// Maximum length of an entry of the user or group database, in bytes.
const ENTRY_MAX: usize = 1 << 20;
/// Maximum number of supplementary groups (NGROUPS_MAX of Linux).
const GROUPS_MAX: usize = 65_536;

/// A user in the form that setresuid(2), setresgid(2) and setgroups(2) need.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    /// User ID.
    pub uid: libc::uid_t,
    /// Group ID.
    pub gid: libc::gid_t,
    /// IDs of the supplementary groups.
    pub groups: Vec<libc::gid_t>,
}

/// Reason why a text does not identify a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UserError {
    /// The user database has no such name.
    NoUser(String),
    /// The group database has no such name.
    NoGroup(String),
    /// The user ID has no entry in the user database, so its group is unknown and must be given.
    GroupNeeded(libc::uid_t),
    /// The user or group database could not be read.
    Database(String),
}

impl std::fmt::Display for UserError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            UserError::NoUser(name) => write!(f, "unknown user '{name}'"),
            UserError::NoGroup(name) => write!(f, "unknown group '{name}'"),
            UserError::GroupNeeded(uid) => {
                write!(f, "user {uid} has no entry in the user database; specify the group too, as in {uid}:{uid}")
            }
            UserError::Database(why) => write!(f, "user database: {why}"),
        }
    }
}

impl std::error::Error for UserError {}

impl FromStr for User {
    type Err = UserError;

    fn from_str(text: &str) -> Result<User, UserError> {
        let (user, group) = match text.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (text, None),
        };
        let entry = match number(user) {
            Some(uid) => by_uid(uid)?,
            None => Some(by_name(user)?.ok_or_else(|| UserError::NoUser(user.to_owned()))?),
        };
        let gid = group.map(group_id).transpose()?;
        match (entry, number(user), gid) {
            (Some(entry), _, gid) => {
                let gid = gid.unwrap_or(entry.gid);
                Ok(User { uid: entry.uid, gid, groups: groups_of(&entry.name, gid)? })
            }
            (None, Some(uid), Some(gid)) => Ok(User { uid, gid, groups: vec![gid] }),
            (None, Some(uid), None) => Err(UserError::GroupNeeded(uid)),
            (None, None, _) => Err(UserError::NoUser(user.to_owned())),
        }
    }
}

/// Parses a decimal ID. Rejects (uid_t) -1, which means "unchanged" in setresuid(2).
fn number(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|id| is_number && *id != u32::MAX)
}

fn group_id(text: &str) -> Result<libc::gid_t, UserError> {
    if let Some(gid) = number(text) {
        return Ok(gid);
    }
    let missing = || UserError::NoGroup(text.to_owned());
    let name = CString::new(text).map_err(|_| missing())?;
    let mut buffer = vec![0; 4096];
    loop {
        // SAFETY: a zeroed group has null pointers, which are valid values of its fields.
        let mut entry: libc::group = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: name is NUL-terminated; entry, buffer (with its length) and found are writable.
        let status =
            unsafe { libc::getgrnam_r(name.as_ptr(), &mut entry, buffer.as_mut_ptr(), buffer.len(), &mut found) };
        match status {
            0 if found.is_null() => return Err(missing()),
            0 => return Ok(entry.gr_gid),
            libc::ERANGE if buffer.len() < ENTRY_MAX => buffer.resize(buffer.len() * 2, 0),
            libc::ENOENT | libc::ESRCH => return Err(missing()),
            why => return Err(database(why)),
        }
    }
}

/// An entry of the user database.
struct Entry {
    name: CString,
    uid: libc::uid_t,
    gid: libc::gid_t,
}

fn by_name(name: &str) -> Result<Option<Entry>, UserError> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    look_up(|entry, buffer, found| {
        // SAFETY: name is NUL-terminated; entry, buffer (with its length) and found are writable.
        unsafe { libc::getpwnam_r(name.as_ptr(), entry, buffer.as_mut_ptr(), buffer.len(), found) }
    })
}

fn by_uid(uid: libc::uid_t) -> Result<Option<Entry>, UserError> {
    look_up(|entry, buffer, found| {
        // SAFETY: entry, buffer (with its length) and found are writable.
        unsafe { libc::getpwuid_r(uid, entry, buffer.as_mut_ptr(), buffer.len(), found) }
    })
}

fn look_up(
    ask: impl Fn(&mut libc::passwd, &mut [libc::c_char], &mut *mut libc::passwd) -> libc::c_int,
) -> Result<Option<Entry>, UserError> {
    let mut buffer = vec![0; 4096];
    loop {
        // SAFETY: a zeroed passwd has null pointers, which are valid values of its fields.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        match ask(&mut entry, &mut buffer, &mut found) {
            0 if found.is_null() => return Ok(None),
            0 => {
                // SAFETY: the call succeeded, so pw_name is a NUL-terminated string inside
                // `buffer`, which is alive.
                let name = unsafe { CStr::from_ptr(entry.pw_name) }.to_owned();
                return Ok(Some(Entry { name, uid: entry.pw_uid, gid: entry.pw_gid }));
            }
            libc::ERANGE if buffer.len() < ENTRY_MAX => buffer.resize(buffer.len() * 2, 0),
            libc::ENOENT | libc::ESRCH => return Ok(None),
            why => return Err(database(why)),
        }
    }
}

fn groups_of(name: &CStr, gid: libc::gid_t) -> Result<Vec<libc::gid_t>, UserError> {
    let mut groups: Vec<libc::gid_t> = vec![0; 64];
    loop {
        let mut count = groups.len() as libc::c_int;
        // SAFETY: name is NUL-terminated; groups has space for `count` IDs.
        let status = unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &mut count) };
        let count = usize::try_from(count).unwrap_or_default();
        if status >= 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        if groups.len() >= GROUPS_MAX {
            return Err(UserError::Database(format!("user is in more than {GROUPS_MAX} groups")));
        }
        groups.resize(count.max(groups.len() * 2).min(GROUPS_MAX), 0);
    }
}

fn database(why: libc::c_int) -> UserError {
    UserError::Database(std::io::Error::from_raw_os_error(why).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_names_or_numbers_with_an_optional_group() {
        let root: User = "root".parse().unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        assert!(root.groups.contains(&0));
        assert_eq!("0:7".parse::<User>().unwrap().gid, 7);
        let number = "4000000000:4000000001".parse::<User>().unwrap();
        assert_eq!(number, User { uid: 4_000_000_000, gid: 4_000_000_001, groups: vec![4_000_000_001] });
        assert_eq!("4000000000".parse::<User>(), Err(UserError::GroupNeeded(4_000_000_000)));
        for text in ["no such user", "", "-1", "+5:5", "4294967295:1", "a\0b"] {
            assert!(matches!(text.parse::<User>(), Err(UserError::NoUser(_))), "{text}");
        }
        for text in ["root:no such group", "root:", "root:4294967295", "root:a\0"] {
            assert!(matches!(text.parse::<User>(), Err(UserError::NoGroup(_))), "{text}");
        }
    }
}

//! Another user for the process.

use std::ffi::CString;
use std::fmt;
use std::io;

use crate::sys;

/// Why the process stays the user that it is.
#[derive(Debug)]
pub enum UserError {
    /// The system knows no such user.
    None(String),
    /// Root is what is to be given up.
    Root(String),
    /// Only root becomes another user.
    NotAllowed(String),
    /// The system refuses it.
    Refused(String, io::Error),
}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None(name) => {
                write!(f, "{name:?}: no such user; wanted: one of `getent passwd`")
            }
            Self::Root(name) => {
                write!(f, "{name:?} is root; wanted: a user without rights, or leave it out")
            }
            Self::NotAllowed(name) => {
                write!(
                    f,
                    "{name:?}: only root can become another user; start it as root, or as {name}"
                )
            }
            Self::Refused(name, error) => {
                write!(f, "{name:?}: {error}; start it as that user instead")
            }
        }
    }
}

impl std::error::Error for UserError {}

/// Makes this process another user's, with all threads, all groups of that user and no capability,
/// for good.
///
/// # Errors
/// [`UserError`]; where the system refuses a part of it, the process is not to go on.
pub fn change_user(name: &str) -> Result<(), UserError> {
    let owned = || name.to_owned();
    let (text, user, group) = found(name)?;
    match sys::user() {
        ours if ours == user => Ok(()),
        0 => {
            sys::change_user(&text, user, group).map_err(|error| UserError::Refused(owned(), error))
        }
        _ => Err(UserError::NotAllowed(owned())),
    }
}

/// Whether there is such a user, who is not root.
///
/// # Errors
/// [`UserError`]
pub fn check_user(name: &str) -> Result<(), UserError> {
    found(name).map(|_| ())
}

fn found(name: &str) -> Result<(CString, u32, u32), UserError> {
    let owned = || name.to_owned();
    let text = CString::new(name).map_err(|_| UserError::None(owned()))?;
    let found = sys::user_named(&text).map_err(|error| UserError::Refused(owned(), error))?;
    match found.ok_or_else(|| UserError::None(owned()))? {
        (0, _) => Err(UserError::Root(owned())),
        (user, group) => Ok((text, user, group)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_that_cannot_be_are_refused_with_what_to_try() {
        let said = |name| change_user(name).unwrap_err().to_string();
        assert!(said("no-such-user").contains("getent passwd"));
        assert!(said("a\0b").contains("no such user"));
        assert!(said("root").contains("is root"));
        assert!(check_user("no-such-user").is_err() && check_user("root").is_err());
    }
}

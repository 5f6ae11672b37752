//! Settings of a process that shares its database with others.

use std::fmt;
use std::str::FromStr;

/// The URL of a database that others keep, such as `postgres://user:password@host/name`.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(pub(crate) String);

impl FromStr for DatabaseUrl {
    type Err = NotASetting;

    fn from_str(text: &str) -> Result<Self, NotASetting> {
        match text.split_once("://") {
            Some(("postgres" | "postgresql", _)) => Ok(Self(text.to_owned())),
            _ => Err(NotASetting(
                "a database is named by a URL, such as postgres://user:password@host:5432/name",
            )),
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DatabaseUrl(…)")
    }
}

/// A text that is not what a setting takes: it says what that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotASetting(pub(crate) &'static str);

impl fmt::Display for NotASetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for NotASetting {}

/// What a process does. One process alone does everything, which is the default.
///
/// ```
/// use inferstore_service::Roles;
///
/// assert_eq!("api,nodes,jobs".parse(), Ok(Roles::default()));
/// assert!("api,cook".parse::<Roles>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Roles {
    /// It serves the API and object storage.
    pub api: bool,
    /// It runs tasks, and lets nodes fetch them.
    pub nodes: bool,
    /// It bills storage, sweeps, fails abandoned tasks, adds up. Of the processes that do, one runs each job.
    pub jobs: bool,
}

impl Default for Roles {
    fn default() -> Self {
        Self { api: true, nodes: true, jobs: true }
    }
}

impl FromStr for Roles {
    type Err = NotASetting;

    fn from_str(text: &str) -> Result<Self, NotASetting> {
        let mut roles = Self { api: false, nodes: false, jobs: false };
        for word in text.split(',') {
            match word.trim() {
                "api" => roles.api = true,
                "nodes" => roles.nodes = true,
                "jobs" => roles.jobs = true,
                _ => return Err(NotASetting("the roles are api, nodes and jobs, with commas between them")),
            }
        }
        Ok(roles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_of_a_database_is_not_shown() {
        let url: Result<DatabaseUrl, _> = "postgres://user:hidden@host/name".parse();
        assert!(url.is_ok_and(|url| !format!("{url:?}").contains("hidden")));
        assert!("mysql://host/name".parse::<DatabaseUrl>().is_err());
    }

    #[test]
    fn roles_are_those_that_are_named() {
        let jobs = Roles { api: false, nodes: false, jobs: true };
        assert_eq!("jobs".parse(), Ok(jobs));
        assert!("".parse::<Roles>().is_err());
    }
}

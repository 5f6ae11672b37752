//! Settings of a process that shares its database with other processes.

use std::fmt;
use std::str::FromStr;

/// URL of an external database, such as `postgres://user:password@host/name`.
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
    /// Redaction: omits the URL, which contains the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DatabaseUrl(…)")
    }
}

/// Error: value not allowed for this setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotASetting(pub(crate) &'static str);

/// Roles of a process. By default, one process has all roles.
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
    /// Serves the API and object storage.
    pub api: bool,
    /// Runs tasks, and serves the node API.
    pub nodes: bool,
    /// Runs jobs: storage billing, the sweeper, lease expiry, totals. One process with this role runs each job.
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

//! Failures of PostgreSQL: their retries, and their conversion to errors of the service.

use std::time::Duration;

use deadpool_postgres::PoolError;
use rusqlite::types::FromSqlError;
use tokio_postgres::error::SqlState;

use crate::error::DiskFailure;
use crate::{Error, Result};

const MAX_CONFLICTS: u32 = 10;
const MAX_DISCONNECTS: u32 = 2;
const INITIAL_BACKOFF: Duration = Duration::from_millis(4);

#[derive(Debug, thiserror::Error)]
#[error("PostgreSQL failed")]
pub(super) enum Failure {
    Postgres(tokio_postgres::Error),
    /// The commit failed, and may have taken effect.
    Commit(tokio_postgres::Error),
    /// There is no connection, so nothing was done.
    NoConnection(String),
    Refused(String),
    Service(Error),
}

pub(super) type PostgresResult<T = ()> = Result<T, Failure>;

impl From<tokio_postgres::Error> for Failure {
    fn from(cause: tokio_postgres::Error) -> Self {
        Self::Postgres(cause)
    }
}

impl From<PoolError> for Failure {
    fn from(cause: PoolError) -> Self {
        if let PoolError::Backend(cause) = &cause
            && cause.code().is_some_and(|code| !is_of_shutdown(code))
        {
            return Self::Refused(describe(cause));
        }
        Self::NoConnection(match cause {
            PoolError::Backend(cause) => describe(&cause),
            PoolError::Timeout(_) => "all connections are in use, or none can be opened".to_owned(),
            cause => cause.to_string(),
        })
    }
}

impl From<FromSqlError> for Failure {
    fn from(cause: FromSqlError) -> Self {
        Self::Service(Error::new("using the database", cause))
    }
}

impl From<Error> for Failure {
    fn from(cause: Error) -> Self {
        cause.into_cause().unwrap_or_else(Self::Service)
    }
}

impl Failure {
    pub(super) fn carried(self) -> Error {
        match self {
            Self::Service(error) => error,
            failure => Error::new("using the database", failure),
        }
    }
}

/// Returns the server's message without its details, which may quote values of rows (redaction), or the cause.
pub(super) fn describe(cause: &tokio_postgres::Error) -> String {
    match (cause.as_db_error(), std::error::Error::source(cause)) {
        (Some(error), _) => format!("{} ({})", error.message(), error.code().code()),
        (None, Some(source)) => format!("{cause}: {source}"),
        (None, None) => cause.to_string(),
    }
}

/// Returns true for a conflict with another transaction, which the server has rolled back: a retry may succeed.
fn is_conflict(cause: &tokio_postgres::Error) -> bool {
    let Some(error) = cause.as_db_error() else { return false };
    let is_of_an_object =
        *error.code() == SqlState::UNIQUE_VIOLATION && error.constraint() == Some(OBJECT_KEY);
    is_of_an_object
        || *error.code() == SqlState::T_R_SERIALIZATION_FAILURE
        || *error.code() == SqlState::T_R_DEADLOCK_DETECTED
}

pub(super) fn is_of_a_value(cause: &tokio_postgres::Error) -> bool {
    cause.code().is_some_and(|code| code.code().starts_with("22") || code.code().starts_with("23"))
}

pub(super) fn is_key_used(cause: &tokio_postgres::Error) -> bool {
    let constraint = cause.as_db_error().and_then(|error| error.constraint());
    cause.code() == Some(&SqlState::UNIQUE_VIOLATION) && constraint == Some(CREATE_KEY)
}

/// Returns true if the server did nothing for a transient reason: a lock timeout, a statement timeout, a standby.
fn is_transient(cause: &tokio_postgres::Error) -> bool {
    let transient =
        [SqlState::LOCK_NOT_AVAILABLE, SqlState::QUERY_CANCELED, SqlState::READ_ONLY_SQL_TRANSACTION];
    cause.code().is_some_and(|code| transient.contains(code))
}

const CREATE_KEY: &str = "create_keys_pkey";

/// Constraint that concurrent uploads of one key violate. The retry of the second upload finds the object of the first.
const OBJECT_KEY: &str = "objects_by_key";

fn is_disconnect(cause: &tokio_postgres::Error) -> bool {
    match cause.code() {
        Some(code) => is_of_shutdown(code),
        None => {
            cause.is_closed()
                || std::error::Error::source(cause).is_some_and(|source| source.is::<std::io::Error>())
        }
    }
}

/// Returns true if the server stops, starts, is full, or has ended an idle transaction: nothing was committed.
fn is_of_shutdown(code: &SqlState) -> bool {
    *code == SqlState::ADMIN_SHUTDOWN
        || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
        || *code == SqlState::CRASH_SHUTDOWN
        || *code == SqlState::CANNOT_CONNECT_NOW
        || *code == SqlState::TOO_MANY_CONNECTIONS
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// No effect, as long as the commit was not sent: a read, or a transaction of several statements.
    IsUndone,
    /// In doubt: a statement that commits by itself may have taken effect.
    IsInDoubt,
}

pub(super) struct Attempts {
    work: Work,
    conflicts: u32,
    disconnects: u32,
}

impl Attempts {
    pub(super) const fn of(work: Work) -> Self {
        Self { work, conflicts: 0, disconnects: 0 }
    }

    /// Returns the result; None, after the backoff, if the work should be retried.
    pub(super) async fn judge<T>(&mut self, result: Result<T, Failure>) -> Option<Result<T>> {
        let failure = match result {
            Ok(value) => return Some(Ok(value)),
            Err(failure) => failure,
        };
        let again = match &failure {
            Failure::Postgres(cause) | Failure::Commit(cause) if is_conflict(cause) => {
                self.conflicts += 1;
                self.conflicts <= MAX_CONFLICTS
            }
            Failure::Postgres(cause) if self.work == Work::IsUndone && is_disconnect(cause) => {
                self.disconnects += 1;
                self.disconnects <= MAX_DISCONNECTS
            }
            _ => false,
        };
        if !again {
            return Some(Err(self.error(failure)));
        }
        let longest = INITIAL_BACKOFF * (1 << self.conflicts.min(6));
        tokio::time::sleep(longest.mul_f64(fastrand::f64())).await;
        None
    }

    fn error(&self, failure: Failure) -> Error {
        let unavailable = |cause: String| Error::unavailable("using the database", cause);
        match failure {
            Failure::Service(error) => error,
            Failure::NoConnection(cause) | Failure::Refused(cause) => unavailable(cause),
            Failure::Postgres(cause) if is_disconnect(&cause) && self.work == Work::IsUndone => {
                unavailable(describe(&cause))
            }
            Failure::Postgres(cause) | Failure::Commit(cause) if is_disconnect(&cause) => {
                Error::in_doubt("writing to the database", describe(&cause))
            }
            Failure::Postgres(cause) if is_conflict(&cause) || is_transient(&cause) => {
                unavailable(describe(&cause))
            }
            Failure::Postgres(cause) | Failure::Commit(cause) => error_of(&cause),
        }
    }
}

fn error_of(cause: &tokio_postgres::Error) -> Error {
    let code = cause.code();
    if code == Some(&SqlState::NUMERIC_VALUE_OUT_OF_RANGE) {
        return Error::new("moving money", "a purse would hold more than the largest amount");
    }
    let is_full = code == Some(&SqlState::DISK_FULL);
    Error::new("using the database", describe(cause))
        .with_disk_failure(is_full.then_some(DiskFailure::ServerFull))
}

/// Runs work on any connection, with retries on another one, as far as an interrupted attempt can be repeated.
macro_rules! attempt {
    ($work_kind:ident, $database:expr, |$connection:ident| $work:expr) => {{
        use $crate::database::postgres::failure::{Attempts, Failure, Work};
        let mut attempts = Attempts::of(Work::$work_kind);
        loop {
            let attempt = async {
                let $connection = $database.connection().await?;
                Ok::<_, Failure>($work)
            };
            if let Some(done) = attempts.judge(attempt.await).await {
                break done;
            }
            $database.metrics.retries.inc();
        }
    }};
}

/// Runs a read or an idempotent write, both of which can always be retried.
macro_rules! read {
    ($database:expr, |$db:ident| $work:expr) => {
        $crate::database::postgres::failure::attempt!(IsUndone, $database, |connection| {
            let $db = &connection;
            $work.await?
        })
    };
}

macro_rules! statement {
    ($database:expr, |$db:ident| $work:expr) => {
        $crate::database::postgres::failure::attempt!(IsInDoubt, $database, |connection| {
            let $db = &connection;
            $work.await?
        })
    };
}

macro_rules! transaction {
    ($database:expr, |$tx:ident| $work:expr) => {
        $crate::database::postgres::failure::attempt!(IsUndone, $database, |connection| {
            let mut connection = connection;
            let transaction = connection.transaction().await?;
            let $tx = &transaction;
            let value = $work.await?;
            transaction.commit().await.map_err(Failure::Commit)?;
            value
        })
    };
}

pub(super) use {attempt, read, statement, transaction};

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Attempts::of(Work::IsUndone).error(failure)
    }
}

//! The operations of the service by noun: account, models, tasks, storage.
//!
//! Their futures are boxed here: the body of an async function is otherwise compiled by every crate that awaits it.

mod models;
mod page;
mod storage;
mod tasks;

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use inferstore_api::operations;
use inferstore_api::types::AccountBalance;

pub use models::{Model, Models};
pub use page::{Listing, Page};
pub use storage::{FileQuery, Folder, Storage};
pub(crate) use tasks::MAX_RECORDS;
pub use tasks::{Task, Tasks};

use crate::transport::{Core, Error, Result};

/// The account that owns the API key.
#[derive(Clone, Debug)]
pub struct Account {
    pub(crate) core: Arc<Core>,
}

impl Account {
    /// The balance, free credits, debt and earnings, as exact decimals.
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client) -> Result<(), inferstore::Error> {
    /// let balance = client.account().balance().await?;
    /// println!("{}", balance.balance.unwrap_or_default());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Dropping the future is safe: a read has no effect.
    ///
    /// # Errors
    ///
    /// Those of every call: see [`Error`](crate::Error).
    pub fn balance(&self) -> BoxFuture<'static, Result<AccountBalance>> {
        let core = Arc::clone(&self.core);
        async move { core.call(operations::GET_BALANCE).send(|api| api.get_balance()).await }.boxed()
    }
}

/// The text as an identifier, unless it would change the path that it becomes a segment of.
pub(crate) fn identifier<Id: From<String>>(what: &str, text: &str) -> Result<Id> {
    let shown = crate::transport::redact::cut(text, 80);
    let invalid =
        |problem: &str| Error::InvalidArgument(format!("{shown:?} cannot be the {what}: {problem}"));
    if text.trim().is_empty() {
        return Err(invalid("it is empty"));
    }
    if matches!(text, "." | "..") {
        return Err(invalid("as a segment of a path it would lead to another operation"));
    }
    Ok(Id::from(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use inferstore_api::types::TaskId;

    use super::identifier;

    #[test]
    fn an_identifier_that_changes_the_path_is_an_error_and_every_other_is_taken() {
        for text in ["", " ", ".", ".."] {
            assert!(identifier::<TaskId>("identifier of a task", text).is_err(), "{text:?}");
        }
        for text in ["a", "...", "a/b", "ä", "a b"] {
            let id = identifier::<TaskId>("identifier of a task", text);
            assert_eq!(id.ok().as_ref().map(TaskId::as_str), Some(text));
        }
    }
}

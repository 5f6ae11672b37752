//! The account behind the key.

use std::sync::Arc;

use inferstore_api::types::AccountBalance;

use crate::transport::Core;
use crate::transport::error::Result;
use inferstore_api::operations;

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
    pub fn balance(&self) -> impl Future<Output = Result<AccountBalance>> + Send + use<> {
        let core = Arc::clone(&self.core);
        async move { core.call(operations::GET_BALANCE).send(|api| api.get_balance()).await }
    }
}

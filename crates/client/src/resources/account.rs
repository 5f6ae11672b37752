//! The account behind the key.

use inferstore_api::types::AccountBalance;

use crate::client::Client;
use crate::transport::call::Call;
use crate::transport::error::Result;

/// The account that owns the API key.
#[derive(Clone, Debug)]
pub struct Account {
    client: Client,
}

impl Client {
    /// The account that owns the API key.
    pub fn account(&self) -> Account {
        Account { client: self.clone() }
    }
}

impl Account {
    /// The balance, free credits, debt and earnings, as exact decimals.
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client) -> Result<(), inferstore::Error> {
    /// let balance = client.account().balance().await?;
    /// println!("{:?} and {:?} free", balance.balance, balance.free_balance);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of every call: see [`Error`](crate::Error).
    pub async fn balance(&self) -> Result<AccountBalance> {
        let client = &*self.client.inner;
        Call::repeatable("getBalance").send(client, || client.api.get_balance()).await
    }
}

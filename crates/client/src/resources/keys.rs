//! Handle of the account's API keys.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use inferstore_api::operations;
use inferstore_api::types::{CreatedKey, KeyId, KeyPage, NewKeyRequest};

use crate::transport::{Core, Result};

/// Handle of the account's API keys.
#[derive(Clone, Debug)]
pub struct Keys {
    pub(crate) core: Arc<Core>,
}

impl Keys {
    /// Returns the keys without their secrets, newest first, and whether this key may make and revoke keys.
    pub fn list(&self) -> BoxFuture<'static, Result<KeyPage>> {
        let core = Arc::clone(&self.core);
        async move { core.call(operations::LIST_KEYS).send(|api| api.list_keys()).await }.boxed()
    }

    /// Makes a key, which only this response has in full.
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client) -> Result<(), inferstore::Error> {
    /// use inferstore::types::NewKeyRequest;
    ///
    /// let mut new = NewKeyRequest::new("nightly job");
    /// new.models = Some(vec!["background-removal".into()]);
    /// let created = client.keys().create(new).await?;
    /// std::fs::write("nightly.key", created.key.expose()).expect("the file is written");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Sent once: after a lost response, revoke the key that [`list`](Self::list) has by its name, and make another.
    ///
    /// # Errors
    ///
    /// [`Error::Api`](crate::Error::Api) if this key may not make keys, a valid key has the name, or the account
    /// has too many keys; and those of every call.
    pub fn create(&self, new: NewKeyRequest) -> BoxFuture<'static, Result<CreatedKey>> {
        let core = Arc::clone(&self.core);
        async move { core.call(operations::CREATE_KEY).send(|api| api.create_key(&new)).await }.boxed()
    }

    /// Revokes another key of the account.
    ///
    /// # Errors
    ///
    /// [`Error::Api`](crate::Error::Api) if this key may not revoke keys, or the account has no such valid key,
    /// which is also the case after a revocation whose response was lost; and those of every call.
    pub fn revoke(&self, id: impl Into<KeyId>) -> BoxFuture<'static, Result<()>> {
        let core = Arc::clone(&self.core);
        let id = id.into();
        async move { core.call(operations::REVOKE_KEY).send(|api| api.revoke_key(&id)).await.map(drop) }
            .boxed()
    }
}

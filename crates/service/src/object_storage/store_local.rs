//! Storing a file without a client: for services that begin with files.

use std::sync::Arc;
use std::time::Duration;

use super::receive::store;
use super::{LARGEST_FILE, LONGEST_KEY, Target};
use crate::Error;
use crate::accounts::Account;
use crate::lifecycle::app::App;

/// Stores a file of an account, as if it had uploaded it now.
pub(crate) async fn plant(
    app: &Arc<App>,
    owner: Account,
    folder: &str,
    name: &str,
    mime: &str,
    content: Vec<u8>,
) -> Result<(), Error> {
    let doing = "storing a file";
    let key = format!("{folder}/{name}");
    if content.is_empty() || content.len() as u64 > LARGEST_FILE || key.len() > LONGEST_KEY {
        return Err(Error::new(doing, "it is empty, or it or its name is too long"));
    }
    let target = Target {
        id: app.random.uuid()?,
        owner: owner.id,
        payer: owner.id,
        bucket: owner.bucket,
        folder: folder.to_owned(),
        key,
        mime: mime.to_owned(),
        size: content.len() as u64,
        expires_at: app.clock.now().after(Duration::from_secs(60)),
        is_void: false,
    };
    app.database.add_target(&target).await?;
    let mut incoming = app.objects.blobs().begin()?;
    incoming.write(content.into()).await?;
    let whole = incoming.finish().await?;
    let stored = store(app, &target, whole).await;
    stored.map(drop).map_err(|refusal| Error::new(doing, refusal.to_string()))
}

//! Clients that hang up: hyper drops the handler of their request.

use tracing::Instrument as _;

use crate::{Error, Result};

/// Does in a task of its own what must not be left half done.
pub(crate) async fn run_to_end<T: Send + 'static>(
    doing: &str,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T> {
    tokio::spawn(work.in_current_span()).await.map_err(|cause| Error::new(doing, cause))
}

#[cfg(test)]
mod tests {
    use futures_util::poll;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn what_a_client_has_begun_goes_on_when_it_hangs_up() {
        let (go_on, wait) = oneshot::channel::<()>();
        let (done, is_done) = oneshot::channel();
        let mut work = Box::pin(run_to_end("trying", async move {
            let _ = wait.await;
            let _ = done.send(());
        }));
        assert!(poll!(&mut work).is_pending());
        drop(work);
        let _ = go_on.send(());
        assert!(is_done.await.is_ok());
    }
}

//! The socket of the operator: `admin.sock` in the data folder, for the user of the service alone.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::UnixListener;

use super::http;
use crate::lifecycle::app::App;
use crate::lifecycle::folder::if_present;

/// The name of the socket in the data folder.
const NAME: &str = "admin.sock";

/// The path of the socket of a data folder.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

/// Serves the socket until the service ends. A file system without sockets, or a path that is too long for
/// one, does not stop the service: it is then administered while it is stopped.
pub(crate) fn serve(app: &Arc<App>) {
    let path = path(app.folder.path());
    let listener = match bind(&path) {
        Ok(listener) => listener,
        Err(cause) => {
            tracing::warn!(%cause, "the admin socket cannot be opened; `inferstore admin` needs the service stopped");
            return;
        }
    };
    let router = http::router(app);
    let shared = Arc::clone(app);
    app.parts.spawn("admin socket", async move {
        let stop = &shared.parts.stop;
        let served = axum::serve(listener, router).with_graceful_shutdown(stop.clone().cancelled_owned());
        // Half a request would keep the process for ever.
        let overdue = async {
            stop.cancelled().await;
            tokio::time::sleep(shared.config.shutdown_timeout).await;
        };
        tokio::select! {
            served = served.into_future() => {
                if let Err(cause) = served {
                    tracing::error!(%cause, "the admin socket failed");
                }
            }
            () = overdue => {}
        }
        let _ = fs::remove_file(path);
        // Until here, the lock of the folder keeps a second service from opening a socket of the same name.
        drop(shared);
    });
}

/// The data folder is locked, so a socket that is there was left by a process that has ended.
fn bind(path: &Path) -> io::Result<UnixListener> {
    if_present(fs::remove_file(path))?;
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

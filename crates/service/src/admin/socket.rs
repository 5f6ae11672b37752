//! Operator's socket: `admin.sock` in the data folder, accessible to the service's user alone.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixListener;

use super::{Admin, http};
use crate::folder::{SOCKET, if_present};

pub(crate) fn path(folder: &Path) -> PathBuf {
    folder.join(SOCKET)
}

/// Serves the socket until shutdown. Some file systems have no sockets, and some paths are too long for one.
pub(crate) fn serve(admin: &Admin, shutdown_timeout: Duration) {
    let path = path(admin.background.folder.path());
    let listener = match bind(&path) {
        Ok(listener) => listener,
        Err(cause) => {
            tracing::warn!(%cause, "the admin socket cannot be opened; `inferstore admin` needs the service stopped");
            return;
        }
    };
    let router = http::router(admin.clone());
    let background = admin.background.clone();
    admin.background.spawn("admin socket", async move {
        let stop = &background.stop;
        let served = axum::serve(listener, router).with_graceful_shutdown(stop.clone().cancelled_owned());
        // Without this limit, an incomplete request would keep the process alive forever.
        let overdue = async {
            stop.cancelled().await;
            tokio::time::sleep(shutdown_timeout).await;
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
        drop(background);
    });
}

/// Binds the socket. The data folder is locked, so an existing socket is left over from an earlier process.
fn bind(path: &Path) -> io::Result<UnixListener> {
    if_present(fs::remove_file(path))?;
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

//! Operator's socket: `admin.sock` in the data folder, accessible to the service's user alone.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixListener;

use super::{Admin, http};
use crate::folder::{SOCKET, if_present};

/// Maximum length of a socket's path. Linux reaches a longer one through an open folder.
const MAX_PATH: usize = 100;

/// Address of the socket; it is valid as long as the folder is open.
pub(crate) struct Address {
    pub(crate) path: PathBuf,
    _folder: Option<File>,
}

impl Address {
    pub(crate) fn of(folder: &Path) -> io::Result<Self> {
        let path = folder.join(SOCKET);
        if path.as_os_str().len() <= MAX_PATH {
            return Ok(Self { path, _folder: None });
        }
        if !cfg!(target_os = "linux") {
            let cause = format!("the path of the data folder is too long for a socket: {}", folder.display());
            return Err(io::Error::new(io::ErrorKind::InvalidFilename, cause));
        }
        let folder = File::open(folder)?;
        let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(SOCKET);
        Ok(Self { path, _folder: Some(folder) })
    }
}

/// Serves the socket until shutdown. Some file systems have no sockets.
pub(crate) fn serve(admin: &Admin, shutdown_timeout: Duration) {
    let folder = admin.background.folder.path();
    let path = folder.join(SOCKET);
    let listener = match bind(folder) {
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
fn bind(folder: &Path) -> io::Result<UnixListener> {
    let address = Address::of(folder)?;
    if_present(fs::remove_file(&address.path))?;
    let listener = UnixListener::bind(&address.path)?;
    fs::set_permissions(&address.path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

//! Limit on open files of the process: raised as far as the system allows, and shared between connections,
//! files and the database.

/// The smallest number of files that is kept from connections.
const MIN_RESERVE: usize = 48;

/// Raises the limit on open files and returns how many of them connections may take.
#[cfg(unix)]
pub(crate) fn raise() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(cause) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%cause, "the limit on open files stays as it is");
    }
    // None is no limit at all.
    let files = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |files| files as usize);
    for_connections(files)
}

#[cfg(not(unix))]
pub(crate) fn raise() -> usize {
    usize::MAX
}

/// A quarter of the files is kept for uploads, downloads and the database.
fn for_connections(files: usize) -> usize {
    files.saturating_sub((files / 4).max(MIN_RESERVE)).max(1)
}

#[cfg(test)]
mod tests {
    use super::for_connections;

    #[test]
    fn connections_leave_files_for_uploads_and_the_database() {
        assert_eq!(for_connections(64), 16);
        assert_eq!(for_connections(1_024), 768);
        assert_eq!(for_connections(10), 1);
    }
}

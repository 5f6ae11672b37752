//! Limit on open files of the process: raised as far as the system allows, and shared between connections,
//! files and the database.

/// The smallest number of files that is kept from connections.
const MIN_RESERVE: usize = 48;

/// Raises the limit on open files and returns how many of them connections may take.
#[cfg(unix)]
pub fn raise() -> usize {
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
pub fn raise() -> usize {
    usize::MAX
}

/// A connection can have a socket and the file of an upload or a download open. An eighth of the files is kept for
/// the database and everything else.
fn for_connections(files: usize) -> usize {
    (files.saturating_sub((files / 8).max(MIN_RESERVE)) / 2).max(1)
}

#[cfg(test)]
mod tests {
    use super::for_connections;

    #[test]
    fn every_connection_can_have_a_file_open_and_the_database_too() {
        assert_eq!(for_connections(64), 8);
        assert_eq!(for_connections(1_024), 448);
        assert_eq!(for_connections(10), 1);
    }
}

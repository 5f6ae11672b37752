//! Limit on open files (`RLIMIT_NOFILE`): raised to the maximum, and shared with files and the database.

const MIN_RESERVE: usize = 48;

/// Raises the limit on open files. Returns the number of connections that it allows.
#[cfg(unix)]
pub fn raise() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(cause) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%cause, "the limit on open files stays as it is");
    }
    let files = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |files| files as usize);
    for_connections(files)
}

#[cfg(not(unix))]
pub fn raise() -> usize {
    usize::MAX
}

/// A connection may have a socket and a file open; an eighth of the limit is reserved for everything else.
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

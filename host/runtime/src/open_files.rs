//! The limit on open files. Over HTTP/1.1 each watch is a connection, so a thousand caches exhaust the 1024 files that
//! many systems allow by default. That soft limit exists for programs that use `select`; Windlass does not.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// With fewer files than this, many watches of a server without HTTP/2 may exhaust the limit.
const OPEN_FILES_MIN: u64 = 4096;

/// Raises the soft limit on open files to the hard limit, and warns if that is low.
pub(crate) fn raise() {
    let limits = getrlimit(Resource::Nofile);
    let raised = raised(limits);
    if raised != limits
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        tracing::warn!(%error, "the limit on open files cannot be raised: it stays as it is, and watches over HTTP/1.1 may exhaust it");
    }
    let files = getrlimit(Resource::Nofile).current;
    if let Some(files) = files.filter(|files| *files < OPEN_FILES_MIN) {
        tracing::warn!(
            files,
            "the limit on open files is low: over HTTP/1.1, each watch and each list needs a connection; raise the \
             hard limit (ulimit -Hn)"
        );
    }
}

fn raised(limits: Rlimit) -> Rlimit {
    Rlimit { current: limits.maximum, ..limits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_files_as_the_system_allows_may_be_open() {
        let before = Rlimit { current: Some(1024), maximum: Some(524_288) };
        assert_eq!(raised(before), Rlimit { current: Some(524_288), maximum: Some(524_288) });
        raise();
        let now = getrlimit(Resource::Nofile);
        assert_eq!(now.current, now.maximum);
    }
}

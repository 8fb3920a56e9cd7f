//! Turns the next version of a plugin into the current one, in the plugin directory: the host that follows it does the
//! rest, as for every file that is replaced. `windlass rollout` and a policy's `promoteAfter` do the same thing.

use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::directory::{NEXT_SUFFIX, hexadecimal};
use crate::rejections::Digest;

/// Why a next version does not become the current one.
#[derive(Debug, thiserror::Error)]
pub enum RolloutError {
    /// There is none.
    #[error("{} is not there: no version waits to become the plugin's", .0.display())]
    NoNext(PathBuf),
    /// There is nothing in whose place it could be put.
    #[error("{} is not there: rename the next version yourself, if the plugin is to be new", .0.display())]
    NoCurrent(PathBuf),
    /// It is another one.
    #[error("{} has the digest {is}, and not {wanted}: somebody has replaced it", path.display())]
    OtherDigest {
        /// The file.
        path: PathBuf,
        /// Its digest.
        is: String,
        /// The digest that was asked for.
        wanted: String,
    },
    /// The directory does not let it.
    #[error("cannot change {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// The file of the next version of `plugin` in `directory`.
fn next_path(directory: &Path, plugin: &str) -> PathBuf {
    directory.join(format!("{plugin}{NEXT_SUFFIX}"))
}

/// Puts the next version of `plugin` in the place of the current one, at once, and returns its digest. `wanted`: the digest
/// that it must begin with; another file is left where it is. Blocks.
pub fn promote(directory: &Path, plugin: &str, wanted: Option<&str>) -> Result<Digest, RolloutError> {
    let (next, current) = (next_path(directory, plugin), directory.join(format!("{plugin}.wasm")));
    if next.exists() && !current.exists() {
        return Err(RolloutError::NoCurrent(current));
    }
    // What is checked is what takes the place: nobody who writes the next file again writes this one.
    let taken = directory.join(format!(".{plugin}{NEXT_SUFFIX}.promoted"));
    std::fs::rename(&next, &taken).map_err(|source| failed(&next, source))?;
    let promoted = checked(&taken, wanted).and_then(|is| {
        std::fs::rename(&taken, &current).map_err(|source| failed(&taken, source))?;
        Ok(is)
    });
    if promoted.is_err() {
        std::fs::rename(&taken, &next).map_err(|source| failed(&taken, source))?;
    }
    promoted
}

/// The digest of a file, if it is the one that is wanted.
fn checked(path: &Path, wanted: Option<&str>) -> Result<Digest, RolloutError> {
    let bytes = std::fs::read(path).map_err(|source| failed(path, source))?;
    let is = hexadecimal(&Sha256::digest(&bytes).into());
    match wanted.filter(|wanted| !is.starts_with(*wanted)) {
        Some(wanted) => {
            Err(RolloutError::OtherDigest { path: path.to_owned(), is: is.to_string(), wanted: wanted.to_owned() })
        }
        None => Ok(is),
    }
}

/// Takes the next version of `plugin` away. Blocks.
pub fn abort(directory: &Path, plugin: &str) -> Result<(), RolloutError> {
    let next = next_path(directory, plugin);
    std::fs::remove_file(&next).map_err(|source| failed(&next, source))
}

fn failed(path: &Path, source: io::Error) -> RolloutError {
    let path = path.to_owned();
    if source.kind() == io::ErrorKind::NotFound {
        RolloutError::NoNext(path)
    } else {
        RolloutError::Io { path, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_next_version_takes_the_place_of_the_current_one_if_it_is_the_one_that_is_meant() {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, put) =
            (directory.path(), |name: &str, text: &str| std::fs::write(directory.path().join(name), text));
        assert!(matches!(promote(path, "shop", None), Err(RolloutError::NoNext(_))));
        put("shop.next.wasm", "new").expect("written");
        assert!(matches!(promote(path, "shop", None), Err(RolloutError::NoCurrent(_))));
        put("shop.wasm", "old").expect("written");
        let other = promote(path, "shop", Some("0000")).expect_err("another").to_string();
        assert!(other.contains("and not 0000"), "{other}");
        let digest = promote(path, "shop", None).expect("it is there");
        assert!(digest.starts_with("11507a0e2f5e69d5"), "{digest}");
        assert_eq!(std::fs::read_to_string(path.join("shop.wasm")).expect("there"), "new");
        assert!(matches!(abort(path, "shop"), Err(RolloutError::NoNext(_))));
        put("shop.next.wasm", "newer").expect("written");
        abort(path, "shop").expect("it is there");
        assert!(!next_path(path, "shop").exists());
    }
}

//! The names of the store's files. They follow from what was fetched, so the store needs no index.

use windlass_oci::{ContentDigest, OciReference};

use crate::wanted::FetchScope;

const ENDING: &str = ".json";

/// A plugin in the store: the digest of its manifest, and the repository and scope for which it was fetched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StoredName {
    /// A digest of scope, registry and repository.
    pub(crate) from: ContentDigest,
    pub(crate) digest: ContentDigest,
}

impl StoredName {
    pub(crate) fn new(scope: &FetchScope, image: &OciReference, digest: &ContentDigest) -> Self {
        // No name has a zero byte, so equal texts have equal parts.
        let scope = match scope {
            FetchScope::Cluster => "cluster\0".to_owned(),
            FetchScope::Namespace(namespace) => format!("namespace\0{namespace}"),
        };
        let from = ContentDigest::of(format!("{scope}\0{}\0{}", image.host(), image.repository()).as_bytes());
        Self { from, digest: digest.clone() }
    }

    /// The name of the manifest's file.
    pub(crate) fn file(&self) -> String {
        format!("{}.{}{ENDING}", self.from.hex(), self.digest.hex())
    }

    /// Reads the name of a manifest's file.
    pub(crate) fn parse(file: &str) -> Option<Self> {
        let (from, digest) = file.strip_suffix(ENDING)?.split_once('.')?;
        let digest_of = |hex: &str| ContentDigest::parse(&format!("sha256:{hex}"));
        Some(Self { from: digest_of(from)?, digest: digest_of(digest)? })
    }
}

/// The name of a component's file.
pub(crate) fn component(digest: &ContentDigest) -> String {
    format!("{}.wasm", digest.hex())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_repository_and_each_tenant_has_names_of_its_own() {
        let digest = ContentDigest::of(b"a");
        let name =
            |scope: &FetchScope, image: &str| StoredName::new(scope, &image.parse().expect("valid"), &digest).file();
        let tenant = |name: &str| FetchScope::Namespace(name.to_owned());
        let names = [
            name(&FetchScope::Cluster, "oci://a.example.com/b/c:1"),
            name(&FetchScope::Cluster, "oci://a.example.com/b:1"),
            name(&FetchScope::Cluster, "oci://a.example.com:5000/b/c:1"),
            name(&tenant("a"), "oci://a.example.com/b/c:1"),
            name(&tenant("b"), "oci://a.example.com/b/c:1"),
            name(&tenant(""), "oci://a.example.com/b/c:1"),
        ];
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len(), "{names:?}");
        assert_eq!(names[0], name(&FetchScope::Cluster, "oci://a.example.com/b/c:2"), "the version does not count");
        let read = StoredName::parse(&names[0]).expect("it reads as it is written");
        assert_eq!((read.file(), &read.digest), (names[0].clone(), &digest));
        for other in ["", "a.json", ".unfinished-1", &names[0][1..], &names[0].to_uppercase()] {
            assert_eq!(StoredName::parse(other), None, "{other}");
        }
    }
}

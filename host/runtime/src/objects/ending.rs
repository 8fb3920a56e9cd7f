//! The plugins of objects that end.

use std::collections::BTreeMap;

/// The plugins whose files were removed, and which may still run, each with whether its policy was removed, too.
#[derive(Debug, Default)]
pub(super) struct EndingPlugins(BTreeMap<String, bool>);

impl EndingPlugins {
    /// Whether files of the plugin must be removed. Then it is one of these. If `revoked`, its policy goes as well,
    /// even if the plugin ends already.
    pub(super) fn must_end(&mut self, name: &str, revoked: bool) -> bool {
        if self.0.get(name).is_some_and(|was_revoked| *was_revoked || !revoked) {
            return false;
        }
        self.0.insert(name.to_owned(), revoked);
        true
    }

    /// Records that the plugin's policy was written again, so that it can be revoked again.
    pub(super) fn has_policy(&mut self, name: &str) {
        if let Some(revoked) = self.0.get_mut(name) {
            *revoked = false;
        }
    }

    /// Records that the plugin has ended, or does not end.
    pub(super) fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_was_written_again_can_be_revoked_again() {
        let mut ending = EndingPlugins::default();
        assert!(ending.must_end("shop", false));
        assert!(!ending.must_end("shop", false));
        assert!(ending.must_end("shop", true), "its policy is deleted, too");
        assert!(!ending.must_end("shop", true));
        ending.has_policy("shop");
        assert!(ending.must_end("shop", true));
        ending.has_policy("api");
        assert!(ending.names().eq(["shop"]));
    }
}

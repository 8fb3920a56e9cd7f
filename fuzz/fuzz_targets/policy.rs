//! Any bytes as a policy, and as a ceiling. The operator writes these; but the host reads what is in the file.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

/// The host's own modules that read them, and no more of the host: the rest needs most of its dependencies. What the host's
/// `policy.rs` has beside is as there, or this does not compile.
#[allow(dead_code, unused_imports, reason = "the host's binary uses more of it")]
#[path = "../../host/src/policy"]
mod policy {
    pub(crate) mod document;
    pub(crate) mod problem;

    use std::sync::Arc;

    use windlass_core::grants::Allowance;
    use windlass_core::principal::ServiceAccount;
    use windlass_wasm::Instances;

    pub(crate) use problem::PolicyError;

    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Policy {
        pub(crate) plugin: String,
        pub(crate) paused: bool,
        pub(crate) instances: Instances,
        pub(crate) impersonate: Option<ServiceAccount>,
        pub(crate) allowance: Arc<Allowance>,
    }
}

fuzz_target!(|bytes: &[u8]| {
    let path = Path::new("shop.policy.yaml");
    if let Err(error) = policy::document::policy(path, bytes, "shop") {
        assert!(!error.to_string().is_empty());
    }
    if let Err(error) = policy::document::ceiling(path, bytes) {
        assert!(!error.to_string().is_empty());
    }
});

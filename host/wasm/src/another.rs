//! Presents a plugin as another generation of itself, for tests of swaps that do not need a second compilation.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::counters::PluginCounters;
use crate::plugin::{Code, Plugin};

impl Plugin {
    /// The same component with a different digest, which no file has, as if it were another generation.
    #[must_use]
    pub fn another_generation(&self) -> Arc<Self> {
        let digest: String = self.digest.chars().rev().collect();
        let code = self.code.read().unwrap_or_else(PoisonError::into_inner);
        Arc::new(Self {
            name: self.name.clone(),
            digest: digest.into(),
            path: self.path.clone(),
            size: self.size,
            abi: self.abi,
            entry: self.entry,
            imports: self.imports.clone(),
            functions: self.functions.clone(),
            manifest: self.manifest.clone(),
            call_fields: self.call_fields.clone(),
            counters: Arc::new(PluginCounters::new(&self.shared.limits)),
            code: RwLock::new(Code { linked: code.linked.clone(), pinned: code.pinned.clone() }),
            was_cached: self.was_cached,
            improvement: OnceLock::new(),
            shared: self.shared.clone(),
        })
    }
}

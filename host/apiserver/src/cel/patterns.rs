//! Compiles and caches the regular expressions in CEL expressions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use regex::Regex;

use super::EvalError;
use crate::pattern;

/// The most compiled patterns that are cached. Rules have few patterns, but a rule can also take one from the object.
const KEPT_PATTERNS_MAX: usize = 256;

static KEPT: LazyLock<Mutex<BTreeMap<String, Arc<Regex>>>> = LazyLock::new(Mutex::default);

/// The patterns that one evaluation has used. The first few are taken to be the rule's own. Each further one has an
/// extra cost, because compiling takes long.
#[derive(Default)]
pub(super) struct Used(BTreeSet<String>);

impl Used {
    const FREE: usize = 8;
    const COST: u64 = 5000;

    /// The cost of using this pattern.
    pub(super) fn cost(&mut self, source: &str) -> u64 {
        let is_new = !self.0.contains(source) && self.0.insert(source.to_owned());
        if is_new && self.0.len() > Self::FREE { Self::COST } else { 0 }
    }
}

/// Compiles a pattern, or takes it from the cache.
pub(super) fn read(source: &str) -> Result<Arc<Regex>, EvalError> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = kept.get(source) {
        return Ok(Arc::clone(found));
    }
    let regex = pattern::compile(source).map(Arc::new).map_err(EvalError::Other)?;
    if kept.len() >= KEPT_PATTERNS_MAX {
        kept.clear();
    }
    kept.insert(source.to_owned(), Arc::clone(&regex));
    Ok(regex)
}

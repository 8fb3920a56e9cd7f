//! The calls of one controller that changed nothing, with what they read (ADR 46). A call about such a key need not be
//! made as long as it would read the same. `middleware::saved` decides; this module keeps.
//!
//! Each generation, and each round, begins with nothing.

pub(crate) mod tracking;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use windlass_core::call::compose::Composition;
use windlass_core::call::ports::CallContext;
use windlass_core::call::read_set::{AnswerDigest, ReadSet};
use windlass_core::call::shared_texts::SharedTexts;
use windlass_core::defect::Defect;
use windlass_core::object::ObjectKey;
use windlass_core::rights::grants::Grants;
use windlass_core::secret::confidential::Confidential;
use windlass_kube::Budget;

use crate::observe::status::UnchangedKey;

/// The most memory that the kept calls of one controller may occupy, in bytes. Beyond that, those that were made or
/// saved least recently are forgotten.
const KEPT_CALLS_BYTES_MAX: usize = 16 << 20;
/// The approximate memory of a kept call, in addition to its reads, in bytes: its key and its places in the maps.
const KEPT_CALL_BYTES: usize = size_of::<KeptCall>() + 3 * size_of::<ObjectKey>();
/// Of this many calls that could be saved, one is made nevertheless, to see whether it changes something.
const AUDITED_ONE_IN: u32 = 64;

/// The grants and the configuration that all calls of a controller depend on, in addition to their own reads.
#[derive(Clone)]
pub(crate) struct CallBasis {
    /// Kept alive, so that no other grants can have their address.
    grants: Arc<Grants>,
    config: Confidential,
}

impl CallBasis {
    /// The basis of `call` at this moment.
    pub(crate) fn of(call: &CallContext) -> Self {
        Self { grants: call.principal.grants(), config: call.config.clone() }
    }

    /// Whether both are the same. Grants that were replaced by equal ones are not.
    pub(crate) fn is(&self, other: &Self) -> bool {
        (Arc::ptr_eq(&self.grants, &other.grants) && self.config == other.config)
            || Defect::OldGrantsAreKept.is_seeded()
    }
}

/// The last answer of a composer about a key.
pub(crate) struct KeptComposition {
    /// The digest of the request that it answers.
    pub(crate) request: AnswerDigest,
    pub(crate) answer: Composition,
}

impl KeptComposition {
    /// The approximate memory that it occupies, in bytes.
    fn bytes(&self) -> usize {
        let Composition { children, status, .. } = &self.answer;
        let texts = children.iter().chain(status).map(|text| size_of::<String>() + text.len()).sum::<usize>();
        size_of::<Self>() + texts
    }
}

/// A call that changed nothing, or the last call of a composer about a key.
pub(crate) struct KeptCall {
    pub(crate) reads: ReadSet,
    /// `None` for a reconciler.
    pub(crate) composition: Option<Box<KeptComposition>>,
    /// The number that the seeds of the plugin's runtime followed from. The call that audits this one gets it again.
    pub(crate) seed: u64,
    /// When it was made.
    since: Instant,
    /// The number of calls that were saved since.
    saved: u64,
    /// Its approximate memory, in bytes, when it was kept.
    bytes: usize,
}

impl KeptCall {
    /// A call that was made now.
    pub(crate) fn new(reads: ReadSet, seed: u64) -> Self {
        Self { reads, composition: None, seed, since: Instant::now(), saved: 0, bytes: 0 }
    }

    /// A call of a composer that was made now.
    pub(crate) fn composed(composition: KeptComposition) -> Self {
        Self { composition: Some(Box::new(composition)), ..Self::new(ReadSet::of_composer(), 0) }
    }
}

/// The kept calls of one controller.
pub(crate) struct SavedCalls {
    kept: Mutex<KeptCalls>,
    bytes_max: usize,
    /// The plugin's memory, which the kept calls are charged to. They take only what the caches leave of it.
    budget: Arc<Budget>,
    /// Decides by chance whether a call that could be saved is made.
    audits: Box<dyn Fn() -> bool + Send + Sync>,
}

#[derive(Default)]
struct KeptCalls {
    /// The basis of all of them.
    basis: Option<CallBasis>,
    by_key: HashMap<ObjectKey, (u64, KeptCall)>,
    /// The keys in the order in which they were kept.
    by_turn: BTreeMap<u64, ObjectKey>,
    /// Texts that the reads of several calls have in common.
    shared: SharedTexts,
    turn: u64,
    bytes: usize,
    /// The bytes that the plugin's memory is charged with.
    charged: usize,
}

impl KeptCalls {
    fn clear(&mut self) {
        *self = Self { turn: self.turn, charged: self.charged, ..Self::default() };
    }

    fn take(&mut self, key: &ObjectKey) -> Option<KeptCall> {
        let (turn, call) = self.by_key.remove(key)?;
        self.by_turn.remove(&turn);
        self.bytes -= call.bytes;
        Some(call)
    }

    fn put(&mut self, key: ObjectKey, mut call: KeptCall) {
        self.turn += 1;
        let composition = call.composition.as_ref().map_or(0, |composition| composition.bytes());
        call.bytes = KEPT_CALL_BYTES + composition + call.reads.share(&key, &mut self.shared);
        self.bytes += call.bytes;
        self.by_turn.insert(self.turn, key.clone());
        self.by_key.insert(key, (self.turn, call));
    }

    /// Forgets the oldest until the others fit into `bytes_max` and into `budget`, and charges these.
    fn shrink(&mut self, bytes_max: usize, budget: &Budget) {
        while (self.bytes > bytes_max || !budget.change_dispensable(self.charged, self.bytes))
            && let Some((_, oldest)) = self.by_turn.first_key_value()
        {
            let oldest = oldest.clone();
            self.take(&oldest);
        }
        self.charged = self.bytes;
    }
}

impl fmt::Debug for SavedCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedCalls").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl SavedCalls {
    /// None so far. Their memory is charged to `budget`, and audits come by chance.
    pub(crate) fn new(budget: Arc<Budget>) -> Arc<Self> {
        let audits = Box::new(|| windlass_world::random_range(0..AUDITED_ONE_IN) == 0);
        Arc::new(Self { kept: Mutex::default(), bytes_max: KEPT_CALLS_BYTES_MAX, budget, audits })
    }

    /// None so far. `audits` says for each call that could be saved whether it is made nevertheless.
    #[cfg(test)]
    pub(crate) fn audited_by(audits: impl Fn() -> bool + Send + Sync + 'static) -> Arc<Self> {
        let budget = Budget::new(KEPT_CALLS_BYTES_MAX);
        Arc::new(Self { kept: Mutex::default(), bytes_max: KEPT_CALLS_BYTES_MAX, budget, audits: Box::new(audits) })
    }

    /// Whether the next call that could be saved is made nevertheless.
    pub(crate) fn audits(&self) -> bool {
        (self.audits)()
    }

    /// Takes the kept call about `key`. If the basis has changed since the calls were made, all are forgotten.
    pub(crate) fn take(&self, key: &ObjectKey, basis: &CallBasis) -> Option<KeptCall> {
        let mut kept = self.lock();
        if kept.basis.as_ref().is_some_and(|kept| !kept.is(basis)) {
            kept.clear();
        }
        let call = kept.take(key);
        kept.shrink(self.bytes_max, &self.budget);
        call
    }

    /// Keeps a `call` about `key` that was made on this `basis`, unless others were made on another basis: then it is
    /// not known which of them is newer.
    pub(crate) fn keep(&self, key: ObjectKey, call: KeptCall, basis: &CallBasis) {
        let mut kept = self.lock();
        if !kept.basis.get_or_insert_with(|| basis.clone()).is(basis) {
            return;
        }
        kept.take(&key);
        kept.put(key, call);
        kept.shrink(self.bytes_max, &self.budget);
    }

    /// Keeps a `call` further, because another one was saved.
    pub(crate) fn keep_saved(&self, key: ObjectKey, call: KeptCall, basis: &CallBasis) {
        let saved = call.saved + 1;
        self.keep(key, KeptCall { saved, ..call }, basis);
    }

    /// Forgets all of them.
    pub(crate) fn clear(&self) {
        let mut kept = self.lock();
        kept.clear();
        kept.shrink(self.bytes_max, &self.budget);
    }

    /// The last call about `key`, if it changed nothing and what it read is kept.
    pub(crate) fn unchanged(&self, key: &ObjectKey) -> Option<UnchangedKey> {
        let kept = self.lock();
        let (_, call) = kept.by_key.get(key)?;
        Some(UnchangedKey { since: call.since.elapsed(), saved: call.saved })
    }

    /// The approximate memory of all of them, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, KeptCalls> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SavedCalls {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::call::read_set::{AnswerDigest, Read, ReadQuestion};
    use windlass_core::object::progress::Stamp;
    use windlass_core::object::{ObjectKind, ObjectRef};
    use windlass_core::queue::outcome::CallResult;
    use windlass_core::rights::grants::{Allowance, LiveGrants};
    use windlass_core::rights::principal::Principal;

    use super::*;
    use crate::tests::played::{call, principal};

    fn kept() -> KeptCall {
        KeptCall::new(ReadSet::new(vec![], CallResult::Done).expect("it is kept"), 0)
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("prod", name)
    }

    fn saved_calls(bytes_max: usize) -> SavedCalls {
        SavedCalls { kept: Mutex::default(), bytes_max, budget: Budget::new(bytes_max), audits: Box::new(|| false) }
    }

    #[tokio::test]
    async fn the_least_recently_kept_call_makes_room() {
        let two = 2 * (KEPT_CALL_BYTES + size_of::<ReadSet>());
        let calls = saved_calls(two);
        let basis = CallBasis::of(&call(None).1);
        for name in ["a", "b"] {
            calls.keep(key(name), kept(), &basis);
        }
        let again = calls.take(&key("a"), &basis).expect("it is kept");
        calls.keep_saved(key("a"), again, &basis);
        calls.keep(key("c"), kept(), &basis);
        assert_eq!(calls.unchanged(&key("b")), None);
        assert_eq!(calls.unchanged(&key("a")).map(|unchanged| unchanged.saved), Some(1));
        assert_eq!(calls.bytes(), two);
        calls.clear();
        assert_eq!(calls.bytes(), 0);
    }

    #[tokio::test]
    async fn kept_calls_of_all_controllers_share_what_the_caches_leave() {
        let one = KEPT_CALL_BYTES + size_of::<ReadSet>();
        let budget = Budget::new(3 * one);
        let [first, second] = [(); 2].map(|()| SavedCalls::new(budget.clone()));
        let basis = CallBasis::of(&call(None).1);
        for (calls, names) in [(&first, ["a", "b"]), (&second, ["c", "d"])] {
            for name in names {
                calls.keep(key(name), kept(), &basis);
            }
        }
        assert_eq!((first.bytes(), second.bytes(), budget.used()), (2 * one, one, 3 * one));
        assert!(second.unchanged(&key("c")).is_none() && second.unchanged(&key("d")).is_some());
        assert!(first.take(&key("a"), &basis).is_some());
        assert_eq!(budget.used(), 2 * one);
        drop(first);
        assert_eq!(budget.used(), one);
        second.clear();
        assert_eq!(budget.used(), 0);
    }

    /// The reads of the WebApp plugin: the primary, and parts of the Deployment and the Service of the same name.
    #[tokio::test]
    async fn a_kept_call_of_a_webapp_takes_less_than_800_bytes() {
        const KEYS: usize = 100;
        let (calls, basis) = (saved_calls(KEPT_CALLS_BYTES_MAX), CallBasis::of(&call(None).1));
        let read = |question| Read { question, stamp: Some(Stamp::take()), answer: Some(AnswerDigest([0; 16])) };
        for at in 0..KEYS {
            let name = format!("shop-{at}");
            let part = |api_version: &str, kind: &str| {
                let target = ObjectRef { kind: ObjectKind::new(api_version, kind), key: key(&name), uid: None };
                let fields: Vec<_> = (0..8).map(|at| format!("/status/field-number-{at}")).collect();
                read(ReadQuestion::Get { target, fields: Some(fields.into()) })
            };
            let reads = vec![read(ReadQuestion::Primary), part("apps/v1", "Deployment"), part("v1", "Service")];
            let set = ReadSet::new(reads, CallResult::Done).expect("it is kept");
            calls.keep(key(&name), KeptCall::new(set, 0), &basis);
        }
        let bytes = calls.bytes() / KEYS;
        assert!(bytes < 800, "{bytes} B");
    }

    #[tokio::test]
    async fn no_call_is_kept_over_other_grants_or_another_configuration() {
        let (_, context) = call(None);
        let grants = LiveGrants::new(Grants::asked(Allowance::default()));
        let principal = Arc::new(Principal { grants: grants.clone(), ..principal() });
        let context = CallContext { principal, ..(*context).clone() };
        let basis = CallBasis::of(&context);
        let configured = CallContext { config: r#"{"a":1}"#.into(), ..context.clone() };
        grants.replace(Grants::asked(Allowance::default()));
        for other in [CallBasis::of(&context), CallBasis::of(&configured)] {
            let calls = saved_calls(KEPT_CALLS_BYTES_MAX);
            calls.keep(key("a"), kept(), &basis);
            calls.keep(key("b"), kept(), &basis);
            calls.keep(key("late"), kept(), &other);
            assert!(calls.unchanged(&key("late")).is_none(), "it is not known which basis is newer");
            assert!(calls.take(&key("a"), &other).is_none() && calls.unchanged(&key("b")).is_none());
            calls.keep(key("a"), kept(), &other);
            assert!(calls.take(&key("a"), &other).is_some());
        }
    }
}

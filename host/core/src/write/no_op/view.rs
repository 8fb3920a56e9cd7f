//! The part of an object from which it follows that a write would change nothing, and which the write's answer shows.
//!
//! As long as this part stays the same, the same write is skipped with the same answer, whatever else changes in the
//! object (ADR 46). In doubt there is no such part, and any change of the object counts.

use serde_json::{Map, Value};

use super::{Manager, ObjectParts, json, owned, parts};
use crate::defect::Defect;
use crate::object::Object;
use crate::object::pointer::joined;
use crate::object::pointer_tree::PointerTree;

/// The most pointers of a view. A write with more leaves is compared by the whole object.
const VIEW_POINTERS_MAX: usize = 256;
/// The longest that the pointers of a view may be together, in bytes. A write with longer ones is compared by the whole
/// object: names in a body may be long, and each leaf repeats the names above it.
const VIEW_BYTES_MAX: usize = 16 << 10;

/// The part of an object that a skipped write depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SkipView {
    /// Pointers to the values at the leaves of the body, and to the parts of the answer that the plugin asked for.
    pointers: Box<[String]>,
    /// Whether the fields that the plugin owns count too, as for an apply.
    counts_owned: bool,
}

impl SkipView {
    /// The part that the apply of `body` by `manager` depends on, if `object` has shown that it changes nothing.
    /// `answer` has the pointers that the plugin asked for. `None` if the whole object counts.
    #[must_use]
    pub fn of_apply(body: &str, manager: Manager<'_>, object: &Object, answer: Option<&[String]>) -> Option<Self> {
        let ObjectParts { version: None, fields, .. } = parts(body)? else { return None };
        let mut pointers = Pointers::of(answer?)?;
        pointers.add_applied(&fields, &owned(object, manager)?, "")?;
        Self::new(pointers, true)
    }

    /// The part that a merge patch depends on. `answer` has the pointers that the plugin asked for. `None` if the whole
    /// object counts.
    #[must_use]
    pub fn of_merge(patch: &str, answer: Option<&[String]>) -> Option<Self> {
        let mut pointers = Pointers::of(answer?)?;
        pointers.add_merged(&json(patch)?, "")?;
        Self::new(pointers, false)
    }

    fn new(Pointers { texts: mut pointers, .. }: Pointers, counts_owned: bool) -> Option<Self> {
        pointers.sort_unstable();
        pointers.dedup();
        PointerTree::of_read(&pointers).is_ok().then(|| Self { pointers: pointers.into(), counts_owned })
    }

    /// This part of `object`, as texts to compare. `None` if it cannot be read.
    #[must_use]
    pub fn part_of(&self, object: &Object) -> Option<[String; 2]> {
        if Defect::SkipIgnoresValues.is_seeded() {
            return Some([String::new(), String::new()]);
        }
        let part = PointerTree::of_read(&self.pointers).ok()?.select(&object.text()).ok()?;
        let owned = object.header.own_fields.as_deref().filter(|_| self.counts_owned);
        Some([part, owned.cloned().unwrap_or_default()])
    }

    /// Its approximate memory, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.pointers.iter().map(|pointer| size_of::<String>() + pointer.len()).sum::<usize>()
    }
}

/// Pointers that are collected until there are too many.
#[derive(Default)]
struct Pointers {
    texts: Vec<String>,
    /// The length of all texts together.
    bytes: usize,
}

/// Each method returns `None` if there are too many pointers, or if they are too long.
impl Pointers {
    fn of(pointers: &[String]) -> Option<Self> {
        let mut collected = Self::default();
        pointers.iter().try_for_each(|pointer| collected.add(pointer))?;
        Some(collected)
    }

    fn add(&mut self, pointer: &str) -> Option<()> {
        self.bytes += pointer.len();
        if self.texts.len() == VIEW_POINTERS_MAX || self.bytes > VIEW_BYTES_MAX {
            return None;
        }
        self.texts.push(pointer.to_owned());
        Some(())
    }

    /// Adds pointers to the values that an apply compares. `owned` has the fields that the manager owns here: a value
    /// that is owned as a whole is compared as a whole. So is a list, because its items are matched with each other.
    fn add_applied(&mut self, body: &Value, owned: &Map<String, Value>, pointer: &str) -> Option<()> {
        match body {
            Value::Object(fields) if !owned.is_empty() => {
                let nothing = Map::new();
                fields.iter().try_for_each(|(name, value)| {
                    let below = owned.get(&format!("f:{name}")).and_then(Value::as_object).unwrap_or(&nothing);
                    self.add_applied(value, below, &joined_within(pointer, name)?)
                })
            }
            _ => self.add(pointer),
        }
    }

    /// Adds pointers to the values that a merge patch compares. Where it removes something, the surrounding object
    /// counts: it must be there.
    fn add_merged(&mut self, patch: &Value, pointer: &str) -> Option<()> {
        match patch {
            Value::Object(fields) if !fields.is_empty() => {
                if fields.values().any(Value::is_null) {
                    self.add(pointer)?;
                }
                fields.iter().try_for_each(|(name, value)| self.add_merged(value, &joined_within(pointer, name)?))
            }
            _ => self.add(pointer),
        }
    }
}

/// The pointer to the field `name` below `pointer`. `None` if a view cannot have it.
fn joined_within(pointer: &str, name: &str) -> Option<String> {
    (pointer.len() + name.len() < VIEW_BYTES_MAX).then(|| joined(pointer, name))
}

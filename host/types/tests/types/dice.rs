//! Random objects of the types in a model.

use serde_json::{Map, Value, json};
use windlass_types::{Body, Field, Model, Shape};

use crate::kinds::TestedKind;

/// Integers above this are not exact in a 64-bit float.
const EXACT_IN_FLOATS: i64 = 1 << 53;

/// A source of random objects. The same seed gives the same objects.
pub(crate) struct Dice<'a> {
    model: &'a Model,
    state: u64,
    /// Whether enumerations have no other values than the known ones.
    only_known: bool,
}

impl<'a> Dice<'a> {
    pub(crate) fn new(model: &'a Model, seed: u64) -> Self {
        Self { model, state: seed, only_known: false }
    }

    /// Objects that are valid by the schema from which the types were generated.
    pub(crate) fn of_this_version(self) -> Self {
        Self { only_known: true, ..self }
    }

    /// An object of a kind.
    pub(crate) fn object(&mut self, kind: &TestedKind) -> Value {
        let mut object = self.named(&kind.type_name);
        object["apiVersion"] = json!(kind.api_version);
        object["kind"] = json!(kind.kind);
        object
    }

    /// A number below `end`, from the generator splitmix64.
    fn below(&mut self, end: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn one_of<T: Clone>(&mut self, values: &[T]) -> T {
        values[usize::try_from(self.below(values.len() as u64)).expect("it is an index")].clone()
    }

    fn named(&mut self, name: &str) -> Value {
        match &self.model.declaration(name).expect("all types are declared").body {
            Body::Enumeration(values) => {
                // A later version of the definition may have other values.
                if !self.only_known && self.below(8) == 0 { json!("later") } else { json!(self.one_of(values)) }
            }
            Body::Struct(it) => {
                let mut fields = Map::new();
                for field in &it.fields {
                    if field.is_required || self.below(2) == 0 {
                        fields.insert(field.key.clone(), self.field(field));
                    }
                }
                let others = if it.is_open { self.below(3) } else { 0 };
                for number in 0..others {
                    fields.insert(format!("other-{number}"), self.json(2));
                }
                // Some decoders confuse keys that differ only in case.
                if others > 0 && !fields.contains_key("ENTRYPOINT") {
                    fields.insert("ENTRYPOINT".to_owned(), self.json(1));
                }
                Value::Object(fields)
            }
        }
    }

    fn field(&mut self, field: &Field) -> Value {
        match &field.default {
            Some(default) if self.below(4) == 0 => default.clone(),
            _ => self.value(&field.shape),
        }
    }

    fn value(&mut self, shape: &Shape) -> Value {
        match shape {
            Shape::Bool => json!(self.below(2) == 0),
            Shape::Int32 => json!(self.one_of(&[0, 1, -1, i32::MIN, i32::MAX])),
            Shape::Int64 => json!(self.one_of(&[0, 1, -1, EXACT_IN_FLOATS + 1, i64::MIN, i64::MAX])),
            Shape::Float => self.one_of(&[json!(0), json!(1.5), json!(-2), json!(EXACT_IN_FLOATS), json!(1e-9)]),
            Shape::Text => json!(self.text()),
            Shape::Time => json!(self.one_of(&[
                "2026-11-28T12:00:00Z",
                "2026-11-28T12:00:00.500000Z",
                "2026-11-28T13:00:00+01:00",
            ])),
            Shape::IntOrString => self.one_of(&[json!(0), json!(8080), json!("http"), json!("25%"), json!("")]),
            Shape::Quantity => self.one_of(&[json!(1), json!("500m"), json!("1Gi"), json!("1.50")]),
            Shape::Json => self.json(2),
            Shape::List(inner) => (0..self.below(3)).map(|_| self.value(inner)).collect(),
            Shape::Map(inner) => {
                let entries = (0..self.below(3)).map(|_| (self.text(), self.value(inner)));
                Value::Object(entries.collect())
            }
            Shape::Nullable(inner) => {
                if self.below(3) == 0 {
                    Value::Null
                } else {
                    self.value(inner)
                }
            }
            Shape::Named(name) => self.named(name),
        }
    }

    fn json(&mut self, depth: u32) -> Value {
        match self.below(if depth == 0 { 5 } else { 7 }) {
            0 => Value::Null,
            1 => json!(self.below(2) == 0),
            2 => self.one_of(&[json!(0), json!(i64::MIN), json!(u64::MAX), json!(0.1), json!(-1e300)]),
            3 => json!(self.text()),
            4 => self.one_of(&[json!([]), json!({})]),
            5 => (0..self.below(3)).map(|_| self.json(depth - 1)).collect(),
            _ => Value::Object((0..self.below(3)).map(|_| (self.text(), self.json(depth - 1))).collect()),
        }
    }

    fn text(&mut self) -> String {
        self.one_of(&["", "a", "null", "true", "1", "é\u{2028}\u{1f600}", "<&>\"\\\n", "$ref", "a.b/c-d", "__proto__"])
            .to_owned()
    }
}

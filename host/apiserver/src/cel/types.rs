//! The types of CEL expressions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The type of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type {
    /// Any type. A mismatch is an error only at evaluation.
    Dyn,
    /// A type without parameters: `int`, `timestamp`, `kubernetes.Quantity`.
    Named(&'static str),
    List(Box<Type>),
    Map(Box<Type>, Box<Type>),
    Optional(Box<Type>),
    Object(Arc<ObjectType>),
    /// Stands for any type in a declaration.
    Param(char),
}

/// An object whose fields are known.
#[derive(Debug, PartialEq)]
pub(crate) struct ObjectType {
    /// The type's name, as errors show it.
    pub(crate) name: String,
    /// The fields by the names that expressions use.
    pub(crate) fields: BTreeMap<String, Type>,
}

pub(crate) const BOOL: Type = Type::Named("bool");
pub(crate) const STRING: Type = Type::Named("string");
pub(crate) const INT: Type = Type::Named("int");
pub(crate) const UINT: Type = Type::Named("uint");
pub(crate) const DOUBLE: Type = Type::Named("double");
pub(crate) const BYTES: Type = Type::Named("bytes");
pub(crate) const NULL: Type = Type::Named("null");
pub(crate) const TIMESTAMP: Type = Type::Named("timestamp");
pub(crate) const DURATION: Type = Type::Named("duration");

impl Type {
    pub(crate) fn list(item: Type) -> Type {
        Type::List(Box::new(item))
    }

    pub(crate) fn map(value: Type) -> Type {
        Type::Map(Box::new(STRING), Box::new(value))
    }

    pub(crate) fn optional(inner: Type) -> Type {
        Type::Optional(Box::new(inner))
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Dyn => f.write_str("dyn"),
            Type::Named(name) => f.write_str(name),
            Type::List(item) => write!(f, "list({item})"),
            Type::Map(key, value) => write!(f, "map({key}, {value})"),
            Type::Optional(inner) => write!(f, "optional_type({inner})"),
            Type::Object(object) => f.write_str(&object.name),
            Type::Param(name) => write!(f, "{name}"),
        }
    }
}

/// The types that the type parameters of a declaration have in one call.
#[derive(Clone, Default)]
pub(super) struct Bindings(BTreeMap<char, Type>);

impl Bindings {
    /// Whether a value of type `given` may be used where a declaration has `wanted`.
    pub(super) fn fits(&mut self, wanted: &Type, given: &Type) -> bool {
        match (wanted, given) {
            (Type::Param(name), _) => match self.0.get(name).cloned() {
                None => {
                    self.0.insert(*name, closed(given));
                    true
                }
                Some(bound) => {
                    let fits = self.fits(&bound, given) || self.fits(given, &bound);
                    if fits && !is_vague(given) && is_vague(&bound) {
                        self.0.insert(*name, closed(given));
                    }
                    fits
                }
            },
            (_, Type::Dyn | Type::Param(_)) | (Type::Dyn, _) => true,
            (Type::Named("null"), other) | (other, Type::Named("null")) => is_nullable(other),
            (Type::List(wanted), Type::List(given)) | (Type::Optional(wanted), Type::Optional(given)) => {
                self.fits(wanted, given)
            }
            (Type::Map(wanted_key, wanted), Type::Map(given_key, given)) => {
                self.fits(wanted_key, given_key) && self.fits(wanted, given)
            }
            (Type::Object(wanted), Type::Object(given)) => wanted.name == given.name,
            _ => wanted == given,
        }
    }

    /// The type that the parameter `A` stands for, if any.
    pub(super) fn bound(&self) -> Option<Type> {
        self.0.get(&'A').cloned()
    }

    /// The declared type with its parameters replaced.
    pub(super) fn resolve(&self, declared: &Type) -> Type {
        match declared {
            Type::Param(name) => self.0.get(name).cloned().unwrap_or(Type::Dyn),
            Type::List(item) => Type::list(self.resolve(item)),
            Type::Optional(inner) => Type::optional(self.resolve(inner)),
            Type::Map(key, value) => Type::Map(Box::new(self.resolve(key)), Box::new(self.resolve(value))),
            other => other.clone(),
        }
    }
}

/// The type, with `dyn` in place of unresolved type parameters, such as that of `optional.none()`. Otherwise a
/// parameter could be bound to itself, and resolving it would never end.
fn closed(given: &Type) -> Type {
    Bindings::default().resolve(given)
}

/// Whether null is allowed for values of the type: for objects, times, and types whose contents only functions can read
/// (`isLegacyNullable` in cel-go's `checker/types.go`).
fn is_nullable(found: &Type) -> bool {
    match found {
        Type::Named(name) => !["bool", "string", "int", "uint", "double", "bytes", "type"].contains(name),
        Type::Dyn | Type::Param(_) | Type::Object(_) | Type::Optional(_) => true,
        Type::List(_) | Type::Map(..) => false,
    }
}

/// Whether a type is not fully known, such as that of an empty list.
fn is_vague(found: &Type) -> bool {
    match found {
        Type::Dyn | Type::Param(_) => true,
        Type::List(inner) | Type::Optional(inner) => is_vague(inner),
        Type::Map(key, value) => is_vague(key) || is_vague(value),
        Type::Named(_) | Type::Object(_) => false,
    }
}

//! CEL, the language of the rules in custom resource definitions: parsing, type checking, and evaluation within a
//! budget.
//!
//! It does not know schemas: [`crate::schema`] provides the types and values. The functions are those of `kube-cel`.
//! Parsing and evaluation are implemented here instead of by the `cel` crate, for three reasons: its syntax tree has no
//! positions, which errors show; it copies a field's value at each access; and it does not limit the cost of an
//! evaluation.

mod ast;
mod calls;
mod check;
mod condition;
mod declarations;
mod eval;
mod evaluator;
mod lexer;
mod library;
mod loops;
mod macros;
mod operators;
mod parser;
mod patterns;
mod program;
#[cfg(test)]
mod tests;
pub(crate) mod types;
mod untyped;

pub use condition::Condition;
pub(crate) use kube_cel::cel::Value;
pub(crate) use kube_cel::cel::objects::{Key, Map};
pub(crate) use library::call as library_call;
pub(crate) use operators::{KeyedList, Mistyped};
pub(crate) use parser::RESERVED;
pub(crate) use program::{Program, optional};
pub(crate) use untyped::untyped;

/// An error in an expression, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    /// The character, counted from 0.
    at: usize,
    message: String,
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EvalError {
    /// The limit of one evaluation was reached.
    #[error("operation cancelled: actual cost limit exceeded")]
    TooCostly,
    /// A function or operator was called with types that it does not take.
    #[error("no such overload")]
    NoSuchOverload,
    /// Anything else, in the words of CEL.
    #[error("{0}")]
    Other(String),
}

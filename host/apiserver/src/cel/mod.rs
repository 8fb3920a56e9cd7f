//! CEL, the language of the rules in custom resource definitions: parsing, type checking, and evaluation within a
//! budget.
//!
//! This module does not know schemas: [`crate::schema`] provides the types and values. The functions come from
//! `kube-cel`. Parsing and evaluation are implemented here, for three reasons: the syntax tree of the `cel` crate has
//! no positions for errors; that crate copies a field's value at each access; and it does not limit the cost of an
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
    /// The index of the character, from 0.
    at: usize,
    message: String,
}

/// The error of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EvalError {
    /// The limit of one evaluation was reached.
    #[error("operation cancelled: actual cost limit exceeded")]
    TooCostly,
    /// A function or operator was called with unsuitable types.
    #[error("no such overload")]
    NoSuchOverload,
    /// Any other error, in the words of CEL.
    #[error("{0}")]
    Other(String),
}

//! A parsed CEL expression.
//!
//! Macros have their own nodes instead of loops over an accumulator, so that evaluation copies no accumulator, and
//! errors point at what the author wrote.

use kube_cel::cel::Value;

use super::SyntaxError;

/// An expression and its place in the source.
#[derive(Debug)]
pub(super) struct Expr {
    /// The character that an error points at: an operator, a dot, an opening bracket.
    pub(super) at: usize,
    pub(super) kind: ExprKind,
    /// The depth of the tree.
    height: usize,
}

/// Deeper expressions are refused, so that no walk over an expression overflows the stack.
pub(super) const EXPRESSION_DEPTH_MAX: usize = 128;

pub(super) fn too_deep(at: usize) -> SyntaxError {
    SyntaxError { at, message: format!("expression recursion limit exceeded: {EXPRESSION_DEPTH_MAX}") }
}

#[derive(Debug)]
pub(super) enum ExprKind {
    Literal(Value),
    Ident(String),
    Select {
        operand: Box<Expr>,
        field: String,
        optional: bool,
    },
    /// `has(operand.field)`
    Has {
        operand: Box<Expr>,
        field: String,
    },
    /// Operators too, by the names that CEL gives them: `_+_`.
    Call {
        target: Option<Box<Expr>>,
        function: String,
        args: Vec<Expr>,
    },
    /// `&&` and `||` of any number of terms.
    Logic {
        all: bool,
        terms: Vec<Expr>,
    },
    List(Vec<Element>),
    Map(Vec<(Expr, Element)>),
    Loop(Box<Loop>),
    /// `optMap` and `optFlatMap`: a body with its own variable.
    Bind {
        how: Bind,
        variable: String,
        value: Box<Expr>,
        body: Box<Expr>,
    },
}

/// An item of a list, or a value of a map. With `?`, an empty optional is left out.
#[derive(Debug)]
pub(super) struct Element {
    pub(super) value: Expr,
    pub(super) optional: bool,
}

/// How a [`ExprKind::Bind`] sets its variable, and what it does with the body's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bind {
    OptMap,
    OptFlatMap,
}

/// A comprehension over a list or the keys of a map.
#[derive(Debug)]
pub(super) struct Loop {
    pub(super) macro_name: Macro,
    pub(super) range: Expr,
    pub(super) variable: String,
    /// In the two-variable forms: the value, while `variable` is the index or key.
    pub(super) second: Option<String>,
    /// In the three-argument forms.
    pub(super) filter: Option<Expr>,
    pub(super) body: Expr,
}

/// The name of a [`Loop`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Macro {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
    SortBy,
    TransformList,
    TransformMap,
    TransformMapEntry,
}

impl Expr {
    /// Refuses expressions that are too deep.
    pub(super) fn new(at: usize, kind: ExprKind) -> Result<Expr, SyntaxError> {
        let mut expr = Expr { at, kind, height: 1 };
        let below = expr.children().into_iter().map(|child| child.height).max().unwrap_or(0);
        expr.height = below + 1;
        if expr.height > EXPRESSION_DEPTH_MAX { Err(too_deep(at)) } else { Ok(expr) }
    }

    /// The depth of the tree.
    pub(super) fn height(&self) -> usize {
        self.height
    }

    /// The expressions directly inside.
    pub(super) fn children(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => Vec::new(),
            ExprKind::Select { operand, .. } | ExprKind::Has { operand, .. } => vec![operand],
            ExprKind::Call { target, args, .. } => target.as_deref().into_iter().chain(args).collect(),
            ExprKind::Logic { terms, .. } => terms.iter().collect(),
            ExprKind::List(entries) => entries.iter().map(|entry| &entry.value).collect(),
            ExprKind::Map(entries) => entries.iter().flat_map(|(key, entry)| [key, &entry.value]).collect(),
            ExprKind::Loop(found) => {
                std::iter::once(&found.range).chain(&found.filter).chain(std::iter::once(&found.body)).collect()
            }
            ExprKind::Bind { value, body, .. } => vec![value, body],
        }
    }

    /// Whether a variable of this name is read anywhere.
    pub(super) fn mentions(&self, name: &str) -> bool {
        matches!(&self.kind, ExprKind::Ident(found) if found == name)
            || self.children().into_iter().any(|child| child.mentions(name))
    }
}

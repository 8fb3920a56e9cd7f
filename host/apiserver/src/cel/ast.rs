//! A parsed CEL expression.
//!
//! Macros have their own nodes; they are not expanded into loops with an accumulator. So evaluation does not copy an
//! accumulator, and errors point at the author's own text.

use kube_cel::cel::Value;

use super::SyntaxError;

/// An expression and its place in the source.
#[derive(Debug)]
pub(super) struct Expr {
    /// The index of the character that an error points at, such as an operator, a dot or an opening bracket.
    pub(super) at: usize,
    pub(super) kind: ExprKind,
    /// The depth of the tree.
    height: usize,
}

/// The deepest allowed expression. Deeper ones are refused, because recursion over them could overflow the stack.
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
    /// A call of a function or an operator. Operators have CEL's names, such as `_+_`.
    Call {
        target: Option<Box<Expr>>,
        function: String,
        args: Vec<Expr>,
    },
    /// A chain of `&&` or of `||`, with any number of terms.
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
    /// The second variable of the two-variable forms: it holds the value, and `variable` holds the index or key.
    pub(super) second: Option<String>,
    /// The filter of the three-argument forms.
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

    /// Whether the expression reads a variable of this name.
    pub(super) fn mentions(&self, name: &str) -> bool {
        matches!(&self.kind, ExprKind::Ident(found) if found == name)
            || self.children().into_iter().any(|child| child.mentions(name))
    }
}

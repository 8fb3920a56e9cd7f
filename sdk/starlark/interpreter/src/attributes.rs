//! Finds attributes that a host interface does not have, such as `writes.aply`. Starlark itself only finds them when
//! the line runs, which may be in a cluster, on the day that something fails.

use std::collections::BTreeSet;

use starlark::codemap::Span;
use starlark::environment::Globals;
use starlark::syntax::AstModule;
use starlark::syntax::ast::{AssignTarget, AssignTargetP, AstExpr, AstParameter, AstStmt, ClauseP, ExprP, StmtP};
use starlark::values::Heap;

use crate::arguments::wrong;
use crate::script::FILE;

/// Refuses the first attribute that the interface of this name does not have.
pub(crate) fn check(script: &AstModule, globals: &Globals, heap: Heap<'_>) -> starlark::Result<()> {
    let mut seen = Seen::default();
    seen.statement(script.statement());
    script.statement().node.visit_expr(|expression| seen.expression(expression));
    for (name, attribute, span) in &seen.attributes {
        // If the script assigns the name itself, it may mean something else here.
        if seen.own.contains(name) {
            continue;
        }
        let Some((_, value)) = globals.iter().find(|(known, _)| known == name) else { continue };
        let value = value.to_value();
        if value.get_type() != "namespace" || value.has_attr(attribute, heap) {
            continue;
        }
        let place = script.file_span(*span).resolve_span().begin;
        let (line, column) = (place.line + 1, place.column + 1);
        let has = value.dir_attr().join("`, `");
        return Err(wrong(format!("{FILE}:{line}:{column}: `{name}` has no `{attribute}`. It has `{has}`")));
    }
    Ok(())
}

/// The names in a script.
#[derive(Default)]
struct Seen {
    /// A name, the attribute that is read from it, and the place.
    attributes: Vec<(String, String, Span)>,
    /// The names that the script assigns anywhere.
    own: BTreeSet<String>,
}

impl Seen {
    /// Collects the names that a statement assigns, also in nested statements.
    fn statement(&mut self, statement: &AstStmt) {
        match &statement.node {
            StmtP::Assign(assign) => self.target(&assign.lhs.node),
            StmtP::AssignModify(target, ..) => self.target(&target.node),
            StmtP::For(each) => self.target(&each.var.node),
            StmtP::Def(function) => {
                self.own.insert(function.name.node.ident.clone());
                self.parameters(&function.params);
            }
            _ => {}
        }
        statement.node.visit_stmt(|inner| self.statement(inner));
    }

    /// Collects attributes, and the names that an expression assigns.
    fn expression(&mut self, expression: &AstExpr) {
        match &expression.node {
            ExprP::Dot(of, attribute) => {
                if let ExprP::Identifier(name) = &of.node {
                    self.attributes.push((name.node.ident.clone(), attribute.node.clone(), attribute.span));
                }
            }
            ExprP::Lambda(lambda) => self.parameters(&lambda.params),
            ExprP::ListComprehension(_, first, more) | ExprP::DictComprehension(_, first, more) => {
                self.target(&first.var.node);
                for clause in more {
                    if let ClauseP::For(each) = clause {
                        self.target(&each.var.node);
                    }
                }
            }
            _ => {}
        }
        expression.node.visit_expr(|inner| self.expression(inner));
    }

    fn parameters(&mut self, parameters: &[AstParameter]) {
        self.own.extend(parameters.iter().filter_map(|it| it.node.ident()).map(|name| name.node.ident.clone()));
    }

    fn target(&mut self, target: &AssignTarget) {
        match target {
            AssignTargetP::Tuple(parts) => parts.iter().for_each(|part| self.target(&part.node)),
            AssignTargetP::Identifier(name) => {
                self.own.insert(name.node.ident.clone());
            }
            AssignTargetP::Index(_) | AssignTargetP::Dot(..) => {}
        }
    }
}

//! Finds misspelt attributes of the host's interfaces, such as `writes.aply`, and misspelt arguments of their
//! functions, such as `forse = True`. Starlark itself reports them only when the line runs, which may be in a cluster,
//! on the day that something fails.

use std::collections::BTreeSet;

use starlark::codemap::Span;
use starlark::docs::{DocItem, DocMember};
use starlark::environment::Globals;
use starlark::syntax::AstModule;
use starlark::syntax::ast::{
    ArgumentP, AssignTarget, AssignTargetP, AstArgument, AstExpr, AstParameter, AstStmt, ClauseP, ExprP, StmtP,
};
use starlark::values::Heap;

use crate::arguments::wrong;
use crate::options;
use crate::script::FILE;

/// Refuses the first attribute that its interface does not have, and the first argument that its function does not
/// have.
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
    for call in &seen.calls {
        if call.named.is_empty() || seen.own.contains(call.root()) {
            continue;
        }
        let Some(known) = call.arguments_of(globals, heap) else { continue };
        let Some((name, span)) = call.named.iter().find(|(name, _)| !known.contains(name)) else { continue };
        let place = script.file_span(*span).resolve_span().begin;
        let (line, column, function) = (place.line + 1, place.column + 1, call.function());
        let has = if known.is_empty() { "it has none".to_owned() } else { format!("there are: {}", known.join(", ")) };
        return Err(wrong(format!("{FILE}:{line}:{column}: {function} has no option `{name}`; {has}")));
    }
    Ok(())
}

/// A call with arguments by name.
struct Call {
    /// The interface of the function. `None` if it belongs to no interface.
    interface: Option<String>,
    name: String,
    named: Vec<(String, Span)>,
}

impl Call {
    /// The first name of the call, which the script may have assigned itself.
    fn root(&self) -> &str {
        self.interface.as_ref().unwrap_or(&self.name)
    }

    fn function(&self) -> String {
        match &self.interface {
            Some(interface) => format!("{interface}.{}", self.name),
            None => self.name.clone(),
        }
    }

    /// The arguments that can be given by name. `None` if the function takes any, or is unknown.
    fn arguments_of(&self, globals: &Globals, heap: Heap<'_>) -> Option<Vec<String>> {
        if let Some(known) = options::of(&self.function()) {
            return Some(known.iter().map(|&name| name.to_owned()).collect());
        }
        let (_, root) = globals.iter().find(|(known, _)| *known == self.root())?;
        let function = match &self.interface {
            Some(_) => root.to_value().get_attr(&self.name, heap).ok()??,
            None => root.to_value(),
        };
        let DocItem::Member(DocMember::Function(function)) = function.documentation() else { return None };
        let parameters = function.params;
        if parameters.kwargs.is_some() {
            return None;
        }
        Some(parameters.pos_or_named.into_iter().chain(parameters.named_only).map(|it| it.name).collect())
    }
}

/// The names in a script.
#[derive(Default)]
struct Seen {
    /// A name, the attribute that is read from it, and the place.
    attributes: Vec<(String, String, Span)>,
    calls: Vec<Call>,
    /// The names that the script itself assigns, anywhere.
    own: BTreeSet<String>,
}

impl Seen {
    /// Collects the names that a statement assigns, including nested statements.
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
            ExprP::Call(of, arguments) => self.call(of, &arguments.args),
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

    fn call(&mut self, of: &AstExpr, arguments: &[AstArgument]) {
        let (interface, name) = match &of.node {
            ExprP::Identifier(name) => (None, &name.node.ident),
            ExprP::Dot(of, name) => match &of.node {
                ExprP::Identifier(interface) => (Some(interface.node.ident.clone()), &name.node),
                _ => return,
            },
            _ => return,
        };
        let named = arguments.iter().filter_map(|argument| match &argument.node {
            ArgumentP::Named(name, _) => Some((name.node.clone(), name.span)),
            _ => None,
        });
        self.calls.push(Call { interface, name: name.clone(), named: named.collect() });
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

//! Parses tokens into an expression.

use std::sync::Arc;

use kube_cel::cel::Value;

use super::SyntaxError;
use super::ast::{EXPRESSION_DEPTH_MAX, Element, Expr, ExprKind, too_deep};
use super::lexer::{self, Token};
use super::macros;

/// The longest allowed source, as in cel-go.
const SOURCE_CHARACTERS_MAX: usize = 100_000;

/// CEL's reserved words.
pub(crate) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

const RELATIONS: [(&str, &str); 6] =
    [("==", "_==_"), ("!=", "_!=_"), ("<=", "_<=_"), (">=", "_>=_"), ("<", "_<_"), (">", "_>_")];
const SUMS: [(&str, &str); 2] = [("+", "_+_"), ("-", "_-_")];
const PRODUCTS: [(&str, &str); 3] = [("*", "_*_"), ("/", "_/_"), ("%", "_%_")];

/// Reads an expression.
pub(super) fn parse(source: &str) -> Result<Expr, SyntaxError> {
    let length = source.chars().count();
    if length > SOURCE_CHARACTERS_MAX {
        let message =
            format!("expression code point size exceeds limit: size: {length}, limit {SOURCE_CHARACTERS_MAX}");
        return Err(SyntaxError { at: 0, message });
    }
    let mut parser = Parser { tokens: lexer::tokens(source)?, next: 0, depth: 0 };
    let expr = parser.expr()?;
    if *parser.peek() != Token::End {
        return parser.unexpected();
    }
    Ok(expr)
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    next: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.next).map_or(&Token::End, |(_, token)| token)
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(0, |(at, _)| *at)
    }

    fn take(&mut self) -> (usize, Token) {
        let found = self.tokens.get(self.next).cloned().unwrap_or((0, Token::End));
        self.next += 1;
        found
    }

    fn is(&self, punct: &str) -> bool {
        matches!(self.peek(), Token::Punct(found) if *found == punct)
    }

    /// If this punctuation comes next, consumes it and returns its position.
    fn accept(&mut self, punct: &str) -> Option<usize> {
        let found = self.is(punct);
        found.then(|| self.take().0)
    }

    fn expect(&mut self, punct: &str) -> Result<usize, SyntaxError> {
        match self.accept(punct) {
            Some(at) => Ok(at),
            None => self.unexpected(),
        }
    }

    fn unexpected<T>(&self) -> Result<T, SyntaxError> {
        let shown = match self.peek() {
            Token::End => "mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', \
                           NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
                .to_owned(),
            Token::Punct(punct) => format!("unexpected '{punct}'"),
            Token::Ident(name) => format!("extraneous input '{name}' expecting <EOF>"),
            _ => "unexpected literal".to_owned(),
        };
        Err(SyntaxError { at: self.at(), message: format!("Syntax error: {shown}") })
    }

    /// Parses one level deeper. An error if the expression is too deep.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, SyntaxError>) -> Result<T, SyntaxError> {
        if self.depth == EXPRESSION_DEPTH_MAX {
            return Err(too_deep(self.at()));
        }
        self.depth += 1;
        let answer = read(self);
        self.depth -= 1;
        answer
    }

    fn expr(&mut self) -> Result<Expr, SyntaxError> {
        self.deeper(|parser| {
            let condition = parser.logic(false)?;
            let Some(at) = parser.accept("?") else { return Ok(condition) };
            let then = parser.logic(false)?;
            parser.expect(":")?;
            let otherwise = parser.expr()?;
            call(at, "_?_:_", vec![condition, then, otherwise])
        })
    }

    /// Parses a chain of `||`, or of `&&`.
    fn logic(&mut self, all: bool) -> Result<Expr, SyntaxError> {
        let operator = if all { "&&" } else { "||" };
        let term = |parser: &mut Self| if all { parser.relation() } else { parser.logic(true) };
        let first = term(self)?;
        let Some(at) = self.accept(operator) else { return Ok(first) };
        let mut terms = vec![first, term(self)?];
        while self.accept(operator).is_some() {
            terms.push(term(self)?);
        }
        Expr::new(at, ExprKind::Logic { all, terms })
    }

    fn relation(&mut self) -> Result<Expr, SyntaxError> {
        let mut left = self.sum()?;
        loop {
            let operator = match self.peek() {
                Token::Ident(word) if word == "in" => "@in",
                Token::Punct(punct) => match RELATIONS.iter().find(|(sign, _)| sign == punct) {
                    Some((_, name)) => name,
                    None => break,
                },
                _ => break,
            };
            let (at, _) = self.take();
            let right = self.sum()?;
            left = call(at, operator, vec![left, right])?;
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result<Expr, SyntaxError> {
        self.chain(&SUMS, Self::product)
    }

    fn product(&mut self) -> Result<Expr, SyntaxError> {
        self.chain(&PRODUCTS, Self::unary)
    }

    fn chain(
        &mut self,
        operators: &[(&str, &'static str)],
        term: fn(&mut Self) -> Result<Expr, SyntaxError>,
    ) -> Result<Expr, SyntaxError> {
        let mut left = term(self)?;
        while let Token::Punct(punct) = self.peek()
            && let Some((_, name)) = operators.iter().find(|(sign, _)| sign == punct)
        {
            let (at, _) = self.take();
            let right = term(self)?;
            left = call(at, name, vec![left, right])?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr, SyntaxError> {
        if let Some(at) = self.accept("!") {
            let operand = self.deeper(Self::unary)?;
            return call(at, "!_", vec![operand]);
        }
        let Some(at) = self.accept("-") else { return self.member() };
        let negative = match self.peek() {
            Token::Int(number) => Value::Int(-number),
            Token::IntBeyond => Value::Int(i64::MIN),
            Token::Double(number) => Value::Float(-number),
            _ => {
                let operand = self.deeper(Self::unary)?;
                return call(at, "-_", vec![operand]);
            }
        };
        self.take();
        self.members(Expr::new(at, ExprKind::Literal(negative))?)
    }

    fn member(&mut self) -> Result<Expr, SyntaxError> {
        let primary = self.primary()?;
        self.members(primary)
    }

    /// Parses what follows a primary: `.field`, `.?field`, `.call(…)`, `[index]`, `[?index]`.
    fn members(&mut self, mut expr: Expr) -> Result<Expr, SyntaxError> {
        loop {
            if !(self.is(".") || self.is(".?") || self.is("[") || self.is("[?")) {
                return Ok(expr);
            }
            let (at, token) = self.take();
            expr = match token {
                Token::Punct("[" | "[?") => {
                    let index = self.expr()?;
                    self.expect("]")?;
                    let name = if token == Token::Punct("[") { "_[_]" } else { "_[?_]" };
                    call(at, name, vec![expr, index])?
                }
                dot => {
                    let optional = dot == Token::Punct(".?");
                    let Token::Ident(field) = self.peek().clone() else { return self.unexpected() };
                    self.take();
                    match self.accept("(").filter(|_| !optional) {
                        Some(open) => {
                            let args = self.arguments(")")?;
                            macros::receiver(open, expr, field, args)?
                        }
                        None => Expr::new(at, ExprKind::Select { operand: Box::new(expr), field, optional })?,
                    }
                }
            };
        }
    }

    fn arguments(&mut self, close: &str) -> Result<Vec<Expr>, SyntaxError> {
        let mut found = Vec::new();
        while self.accept(close).is_none() {
            found.push(self.expr()?);
            if self.accept(",").is_none() {
                self.expect(close)?;
                break;
            }
        }
        Ok(found)
    }

    fn primary(&mut self) -> Result<Expr, SyntaxError> {
        let at = self.at();
        let literal = |value: Value| Expr::new(at, ExprKind::Literal(value));
        match self.peek().clone() {
            Token::Int(number) => self.then(|| literal(Value::Int(number))),
            Token::Uint(number) => self.then(|| literal(Value::UInt(number))),
            Token::Double(number) => self.then(|| literal(Value::Float(number))),
            Token::Text(text) => self.then(|| literal(Value::String(Arc::new(text)))),
            Token::Bytes(bytes) => self.then(|| literal(Value::Bytes(Arc::new(bytes)))),
            Token::IntBeyond => {
                Err(SyntaxError { at, message: "Syntax error: invalid int literal: 9223372036854775808".to_owned() })
            }
            Token::Ident(name) => {
                self.take();
                self.named(at, name)
            }
            Token::Punct(".") => {
                self.take();
                let Token::Ident(name) = self.peek().clone() else { return self.unexpected() };
                self.take();
                self.named(at, name)
            }
            Token::Punct("(") => {
                self.take();
                let inner = self.expr()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Punct("[") => {
                self.take();
                self.list(at)
            }
            Token::Punct("{") => {
                self.take();
                self.map(at)
            }
            Token::Punct(_) | Token::End => self.unexpected(),
        }
    }

    fn then<T>(&mut self, answer: impl FnOnce() -> T) -> T {
        self.take();
        answer()
    }

    fn named(&mut self, at: usize, name: String) -> Result<Expr, SyntaxError> {
        let literal = |value: Value| Expr::new(at, ExprKind::Literal(value));
        match name.as_str() {
            "true" => return literal(Value::Bool(true)),
            "false" => return literal(Value::Bool(false)),
            "null" => return literal(Value::Null),
            "in" => {
                self.next -= 1;
                return self.unexpected();
            }
            reserved if RESERVED.contains(&reserved) => {
                return Err(SyntaxError { at, message: format!("reserved identifier: {reserved}") });
            }
            _ => {}
        }
        match self.accept("(") {
            Some(open) => {
                let args = self.arguments(")")?;
                macros::global(open, name, args)
            }
            None => Expr::new(at, ExprKind::Ident(name)),
        }
    }

    fn list(&mut self, at: usize) -> Result<Expr, SyntaxError> {
        let mut entries = Vec::new();
        while self.accept("]").is_none() {
            let optional = self.accept("?").is_some();
            entries.push(Element { value: self.expr()?, optional });
            if self.accept(",").is_none() {
                self.expect("]")?;
                break;
            }
        }
        Expr::new(at, ExprKind::List(entries))
    }

    fn map(&mut self, at: usize) -> Result<Expr, SyntaxError> {
        let mut entries = Vec::new();
        while self.accept("}").is_none() {
            let optional = self.accept("?").is_some();
            let key = self.expr()?;
            self.expect(":")?;
            entries.push((key, Element { value: self.expr()?, optional }));
            if self.accept(",").is_none() {
                self.expect("}")?;
                break;
            }
        }
        Expr::new(at, ExprKind::Map(entries))
    }
}

/// Builds a call without a receiver, such as an operator.
fn call(at: usize, function: &str, args: Vec<Expr>) -> Result<Expr, SyntaxError> {
    Expr::new(at, ExprKind::Call { target: None, function: function.to_owned(), args })
}

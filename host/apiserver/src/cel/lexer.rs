//! Splits the text of an expression into tokens.

use super::SyntaxError;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Ident(String),
    Int(i64),
    /// 2⁶³, which is valid only after a minus sign.
    IntBeyond,
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    Punct(&'static str),
    End,
}

/// Longer tokens come first, because the first match is taken.
const PUNCTUATION: [&str; 26] = [
    "[?", ".?", "&&", "||", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "<", ">", "!", "?", ":", "(", ")", "[",
    "]", "{", "}", ",", ".",
];

/// The tokens of a source with their places, ending with an [`Token::End`].
pub(super) fn tokens(source: &str) -> Result<Vec<(usize, Token)>, SyntaxError> {
    let mut lexer = Lexer { chars: source.chars().collect(), at: 0 };
    let mut found = Vec::new();
    loop {
        lexer.skip_space();
        let at = lexer.at;
        let token = lexer.token()?;
        let ended = token == Token::End;
        found.push((at, token));
        if ended {
            return Ok(found);
        }
    }
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn error<T>(&self, at: usize) -> Result<T, SyntaxError> {
        let rest: String = self.chars.iter().skip(at).take(self.at.max(at + 1) - at).collect();
        Err(SyntaxError { at, message: format!("Syntax error: token recognition error at: '{rest}'") })
    }

    fn skip_space(&mut self) {
        while let Some(next) = self.peek(0) {
            if next == '/' && self.peek(1) == Some('/') {
                while self.peek(0).is_some_and(|c| c != '\n') {
                    self.at += 1;
                }
            } else if next.is_ascii_whitespace() {
                self.at += 1;
            } else {
                break;
            }
        }
    }

    fn token(&mut self) -> Result<Token, SyntaxError> {
        let Some(next) = self.peek(0) else { return Ok(Token::End) };
        if next.is_ascii_digit() || (next == '.' && self.peek(1).is_some_and(|c| c.is_ascii_digit())) {
            return self.number();
        }
        if next == '"' || next == '\'' {
            return self.text(false).map(Token::Text);
        }
        if next == '`' {
            return Err(SyntaxError { at: self.at, message: "unsupported syntax: '`'".to_owned() });
        }
        if next.is_ascii_alphabetic() || next == '_' {
            return self.word();
        }
        let here = |punct: &&&str| punct.chars().enumerate().all(|(ahead, c)| self.peek(ahead) == Some(c));
        match PUNCTUATION.iter().find(here) {
            Some(punct) => {
                self.at += punct.len();
                Ok(Token::Punct(punct))
            }
            None => self.error(self.at),
        }
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> String {
        let start = self.at;
        while self.peek(0).is_some_and(&wanted) {
            self.at += 1;
        }
        self.chars.get(start..self.at).unwrap_or_default().iter().collect()
    }

    fn word(&mut self) -> Result<Token, SyntaxError> {
        let quote = |c: Option<char>| matches!(c, Some('"' | '\''));
        let prefix: String = self.chars.iter().skip(self.at).take(2).collect::<String>().to_lowercase();
        let (raw, bytes, length) = match prefix.as_str() {
            "rb" | "br" if quote(self.peek(2)) => (true, true, 2),
            two if two.starts_with('r') && quote(self.peek(1)) => (true, false, 1),
            two if two.starts_with('b') && quote(self.peek(1)) => (false, true, 1),
            _ => return Ok(Token::Ident(self.take_while(|c| c.is_ascii_alphanumeric() || c == '_'))),
        };
        self.at += length;
        if bytes { self.bytes(raw) } else { self.text(raw).map(Token::Text) }
    }

    fn number(&mut self) -> Result<Token, SyntaxError> {
        let start = self.at;
        let invalid = |kind: &str, text: &str| {
            Err(SyntaxError { at: start, message: format!("Syntax error: invalid {kind} literal: {text}") })
        };
        if self.peek(0) == Some('0') && matches!(self.peek(1), Some('x' | 'X')) {
            self.at += 2;
            let digits = self.take_while(|c| c.is_ascii_hexdigit());
            if self.takes_unsigned() {
                return u64::from_str_radix(&digits, 16).map(Token::Uint).or_else(|_| invalid("uint", &digits));
            }
            return match u64::from_str_radix(&digits, 16) {
                Ok(number) => Ok(i64::try_from(number).map_or(Token::IntBeyond, Token::Int)),
                Err(_) => invalid("int", &digits),
            };
        }
        let mut text = self.take_while(|c| c.is_ascii_digit());
        let mut is_double = false;
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
            is_double = true;
            self.at += 1;
            text = format!("{text}.{}", self.take_while(|c| c.is_ascii_digit()));
        }
        let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
        if matches!(self.peek(0), Some('e' | 'E')) && self.peek(1 + sign).is_some_and(|c| c.is_ascii_digit()) {
            is_double = true;
            let exponent: String = self.chars.iter().skip(self.at).take(1 + sign).collect();
            self.at += 1 + sign;
            text = format!("{text}{exponent}{}", self.take_while(|c| c.is_ascii_digit()));
        }
        if is_double {
            return text.parse().map(Token::Double).or_else(|_| invalid("double", &text));
        }
        if self.takes_unsigned() {
            return text.parse().map(Token::Uint).or_else(|_| invalid("uint", &text));
        }
        match text.parse::<i64>() {
            Ok(number) => Ok(Token::Int(number)),
            Err(_) if text == "9223372036854775808" => Ok(Token::IntBeyond),
            Err(_) => invalid("int", &text),
        }
    }

    fn takes_unsigned(&mut self) -> bool {
        let unsigned = matches!(self.peek(0), Some('u' | 'U'));
        self.at += usize::from(unsigned);
        unsigned
    }

    /// The content of a string literal: each character or escape is one item, and escapes are not decoded yet.
    fn quoted(&mut self, raw: bool) -> Result<Vec<String>, SyntaxError> {
        let start = self.at;
        let Some(quote) = self.peek(0) else { return self.error(start) };
        let length = if self.peek(1) == Some(quote) && self.peek(2) == Some(quote) { 3 } else { 1 };
        self.at += length;
        let mut parts = Vec::new();
        loop {
            match self.peek(0) {
                None => return self.error(start),
                Some('\n' | '\r') if length == 1 => return self.error(start),
                Some(_) if (0..length).all(|ahead| self.peek(ahead) == Some(quote)) => {
                    self.at += length;
                    return Ok(parts);
                }
                Some('\\') if !raw => parts.push(self.escape()?),
                Some(other) => {
                    parts.push(other.to_string());
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self) -> Result<String, SyntaxError> {
        let start = self.at;
        let digits = match self.peek(1) {
            Some('x' | 'X' | '0'..='3') => 2,
            Some('u') => 4,
            Some('U') => 8,
            Some(c) if "abfnrtv\"'\\?`".contains(c) => 0,
            _ => return self.error(start),
        };
        let escape: String = self.chars.iter().skip(start).take(2 + digits).collect();
        let radix = if matches!(self.peek(1), Some('0'..='3')) { 8 } else { 16 };
        self.at += 2 + digits;
        if escape.chars().count() == 2 + digits && escape.chars().skip(2).all(|c| c.is_digit(radix)) {
            Ok(escape)
        } else {
            self.error(start)
        }
    }

    fn text(&mut self, raw: bool) -> Result<String, SyntaxError> {
        let start = self.at;
        let parts = self.quoted(raw)?;
        let mut text = String::new();
        for part in &parts {
            match code_point(part).filter(|_| !raw) {
                None => text.push_str(part),
                Some(code) => match char::from_u32(code) {
                    Some(c) => text.push(c),
                    None => return self.error(start),
                },
            }
        }
        Ok(text)
    }

    fn bytes(&mut self, raw: bool) -> Result<Token, SyntaxError> {
        let start = self.at;
        let mut bytes = Vec::new();
        for part in self.quoted(raw)? {
            match code_point(&part).filter(|_| !raw) {
                None => bytes.extend(part.into_bytes()),
                Some(code) => match u8::try_from(code) {
                    Ok(byte) => bytes.push(byte),
                    Err(_) => return self.error(start),
                },
            }
        }
        Ok(Token::Bytes(bytes))
    }
}

/// The character for an escape. `None` if it is not an escape.
fn code_point(part: &str) -> Option<u32> {
    let escape = part.strip_prefix('\\').filter(|rest| !rest.is_empty())?;
    let (kind, digits) = (escape.chars().next()?, escape.get(1..)?);
    match kind {
        'x' | 'X' | 'u' | 'U' => u32::from_str_radix(digits, 16).ok(),
        '0'..='3' => u32::from_str_radix(escape, 8).ok(),
        'a' => Some(7),
        'b' => Some(8),
        'f' => Some(12),
        'n' => Some(10),
        'r' => Some(13),
        't' => Some(9),
        'v' => Some(11),
        other => Some(u32::from(other)),
    }
}

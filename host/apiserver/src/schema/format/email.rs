//! Checks an email address, like Go's `net/mail.ParseAddress`. It may have a display name and comments, or be the only
//! member of a group.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Whether the text is a single email address.
pub(super) fn is_address(text: &str) -> bool {
    let mut reader = AddressReader { rest: text };
    reader.addresses(true).is_some_and(|count| count == 1) && reader.skip_comments().is_some() && reader.rest.is_empty()
}

/// Reads parts of an address from the front of a text. A method returns `None` if the text does not match.
struct AddressReader<'a> {
    rest: &'a str,
}

impl<'a> AddressReader<'a> {
    /// Reads an address, or a group of addresses, and returns their number.
    fn addresses(&mut self, may_be_group: bool) -> Option<usize> {
        self.skip_space();
        let before = self.rest;
        if self.plain_address().is_some() {
            self.skip_space();
            if self.consume('(') {
                self.name_in_comment()?;
            }
            return Some(1);
        }
        self.rest = before;
        if !self.rest.starts_with('<') {
            self.phrase()?;
        }
        self.skip_space();
        if may_be_group && self.consume(':') {
            return self.members();
        }
        (self.consume('<') && self.plain_address().is_some() && self.consume('>')).then_some(1)
    }

    fn members(&mut self) -> Option<usize> {
        self.skip_space();
        if self.consume(';') {
            return self.skip_comments().map(|()| 0);
        }
        let mut count = 0;
        loop {
            self.skip_space();
            count += self.addresses(false)?;
            self.skip_comments()?;
            if self.consume(';') {
                return self.skip_comments().map(|()| count);
            }
            if !self.consume(',') {
                return None;
            }
        }
    }

    /// Reads `local@domain`.
    fn plain_address(&mut self) -> Option<()> {
        self.skip_space();
        if self.rest.starts_with('"') {
            self.quoted().filter(|local| !local.is_empty())?;
        } else {
            self.atom().filter(|atom| is_dotted(atom))?;
        }
        if !self.consume('@') {
            return None;
        }
        self.skip_space();
        if self.consume('[') {
            let (literal, rest) = self.rest.split_once(']')?;
            self.rest = rest;
            literal.parse::<IpAddr>().ok().map(drop)
        } else {
            self.atom().filter(|atom| is_dotted(atom)).map(drop)
        }
    }

    /// Reads the words of a display name. A malformed word after the first is not an error, but ends the name.
    fn phrase(&mut self) -> Option<()> {
        let mut count = 0;
        loop {
            if count > 0 {
                self.skip_comments()?;
            }
            self.skip_space();
            if self.rest.is_empty() {
                return Some(());
            }
            let word = if self.rest.starts_with('"') {
                self.quoted()
            } else {
                self.atom().filter(|atom| !has_unknown_charset(atom))
            };
            match word {
                Some(_) => count += 1,
                None if count > 0 => return Some(()),
                None => return None,
            }
        }
    }

    fn quoted(&mut self) -> Option<&'a str> {
        let inside = self.rest.strip_prefix('"')?;
        let mut is_escaped = false;
        for (index, c) in inside.char_indices() {
            match c {
                '"' if !is_escaped => {
                    self.rest = &inside[index + 1..];
                    return Some(&inside[..index]);
                }
                '\\' if !is_escaped => is_escaped = true,
                _ if is_visible(c) || c == ' ' || c == '\t' => is_escaped = false,
                _ => return None,
            }
        }
        None
    }

    /// Reads ordinary characters and dots, as many as there are.
    fn atom(&mut self) -> Option<&'a str> {
        let is_ordinary = |c: char| is_visible(c) && !"()<>[]:;@\\,\"".contains(c);
        let end = self.rest.find(|c: char| !is_ordinary(c)).unwrap_or(self.rest.len());
        let atom;
        (atom, self.rest) = self.rest.split_at(end);
        Some(atom).filter(|atom| !atom.is_empty())
    }

    fn name_in_comment(&mut self) -> Option<()> {
        let comment = self.comment()?;
        (!comment.split([' ', '\t']).any(has_unknown_charset)).then_some(())
    }

    /// Reads the rest of a comment after its opening parenthesis. Returns its text without backslashes.
    fn comment(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut depth = 1;
        let mut characters = self.rest.char_indices();
        while let Some((index, c)) = characters.next() {
            match c {
                '\\' => match characters.next() {
                    Some((_, escaped)) => text.push(escaped),
                    None => return None,
                },
                ')' if depth == 1 => {
                    self.rest = &self.rest[index + 1..];
                    return Some(text);
                }
                other => {
                    depth += i32::from(other == '(') - i32::from(other == ')');
                    text.push(other);
                }
            }
        }
        None
    }

    fn skip_comments(&mut self) -> Option<()> {
        self.skip_space();
        while self.consume('(') {
            self.comment()?;
            self.skip_space();
        }
        Some(())
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn consume(&mut self, c: char) -> bool {
        let rest = self.rest.strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
}

fn is_dotted(atom: &str) -> bool {
    atom.split('.').all(|part| !part.is_empty())
}

fn is_visible(c: char) -> bool {
    c.is_ascii_graphic() || !c.is_ascii()
}

/// Whether a word is encoded (RFC 2047) in a character set that Go does not know.
fn has_unknown_charset(word: &str) -> bool {
    let Some(inside) = word.strip_prefix("=?").and_then(|word| word.strip_suffix("?=")) else { return false };
    let parts: Vec<&str> = inside.split('?').collect();
    let [charset, encoding, text] = parts.as_slice() else { return false };
    let is_well_formed = match *encoding {
        "b" | "B" => STANDARD.decode(text).is_ok(),
        "q" | "Q" => is_quoted_printable(text),
        _ => false,
    };
    let is_known = ["utf-8", "iso-8859-1", "us-ascii"].iter().any(|known| charset.eq_ignore_ascii_case(known));
    is_well_formed && !charset.is_empty() && !is_known
}

fn is_quoted_printable(text: &str) -> bool {
    let is_plain = |c: char| (' '..='~').contains(&c) || matches!(c, '\n' | '\r' | '\t');
    let has_digits = |after: &str| after.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    text.chars().all(is_plain) && text.split('=').skip(1).all(has_digits)
}

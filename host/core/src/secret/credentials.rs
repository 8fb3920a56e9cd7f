//! Finds credentials by their position: after a name that announces one, or in a part of a URL that carries one.
//!
//! `known_secrets` finds secrets by their values instead.

/// Parts of names of headers, parameters and fields that hold credentials.
const CONFIDENTIAL: [&str; 13] = [
    "auth",
    "cookie",
    "token",
    "secret",
    "pass",
    "pwd",
    "key",
    "sig",
    "credential",
    "session",
    "jwt",
    "assertion",
    "saml",
];

/// The maximum nesting of URLs inside parameters of URLs. A value that is nested deeper is hidden whole, because each
/// level takes stack and the author of the text chooses the depth.
const DEEPEST_URL: usize = 4;

/// Whether a header, parameter or field of this name holds a credential.
#[must_use]
pub fn is_confidential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    CONFIDENTIAL.iter().any(|word| name.contains(word))
}

/// Replaces the credentials of every URL in `text`, absolute or relative: user names with passwords, and query and
/// fragment parameters such as `X-Amz-Signature`. `hide` receives each credential and returns its replacement. `hide`
/// also receives other spellings of a credential; their replacements are not used.
pub fn hide_in_urls(text: &str, hide: &mut dyn FnMut(&str) -> String) -> String {
    hide_in_urls_to(DEEPEST_URL, text, hide)
}

fn hide_in_urls_to(depth: usize, text: &str, hide: &mut dyn FnMut(&str) -> String) -> String {
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("//") {
        let (before, after) = rest.split_at(at + 2);
        shown.push_str(before);
        rest = after;
        let authority = &after[..after.find(ends_authority).unwrap_or(after.len())];
        // Some servers take a token as the user name, so all of it is hidden.
        if let Some(user) = authority.rfind('@').map(|at| &authority[..at]).filter(|user| !user.is_empty()) {
            shown.push_str(&hide(user));
            if let Some((_, password)) = user.split_once(':') {
                hide(password);
                hide(&percent_decoded(password));
            }
            rest = &after[user.len()..];
        }
    }
    shown.push_str(rest);
    hide_parameters(depth, &shown, hide)
}

/// Replaces the credentials in the body of an HTML form (`application/x-www-form-urlencoded`), as [`hide_in_urls`]
/// does.
pub fn hide_in_form(text: &str, hide: &mut dyn FnMut(&str) -> String) -> String {
    hide_parameters(DEEPEST_URL, &format!("&{text}"), hide).split_off(1)
}

fn ends_authority(character: char) -> bool {
    matches!(character, '/' | '?' | '#' | '\\') || ends_url(character)
}

/// Whether a character cannot be part of a URL and thus ends one in a header or in prose.
fn ends_url(character: char) -> bool {
    character.is_whitespace() || matches!(character, '"' | '\'' | '<' | '>')
}

fn hide_parameters(depth: usize, text: &str, hide: &mut dyn FnMut(&str) -> String) -> String {
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(['?', '&', '#', ';']) {
        let (before, after) = rest.split_at(at + 1);
        shown.push_str(before);
        rest = after;
        let ends_name = |it: char| matches!(it, '=' | '?' | '&' | '#' | ';') || ends_url(it);
        let name = &after[..after.find(ends_name).unwrap_or(after.len())];
        let Some(value) = after[name.len()..].strip_prefix('=') else { continue };
        let value = &value[..value.find(|it| matches!(it, '&' | '#') || ends_url(it)).unwrap_or(value.len())];
        if value.is_empty() {
            continue;
        }
        shown.push_str(name);
        shown.push('=');
        shown.push_str(&hide_parameter(depth, &percent_decoded(name), value, hide));
        rest = &after[name.len() + 1 + value.len()..];
    }
    shown.push_str(rest);
    shown
}

fn hide_parameter(depth: usize, name: &str, value: &str, hide: &mut dyn FnMut(&str) -> String) -> String {
    let decoded = percent_decoded(value);
    // OAuth returns a `code` in its redirect.
    if is_confidential(name) || name.eq_ignore_ascii_case("code") {
        hide(&decoded);
        return hide(value);
    }
    // A parameter may be a URL, such as the page to return to after a login.
    let holds_credential = decoded != value
        && match depth.checked_sub(1) {
            Some(depth) => hide_in_urls_to(depth, &decoded, hide) != decoded,
            None => true,
        };
    if holds_credential { hide(value) } else { value.to_owned() }
}

/// `text` with `%41` read as `A`. Sequences that are not UTF-8 stay as they are.
pub(crate) fn percent_decoded(text: &str) -> String {
    let (bytes, mut decoded, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while at < bytes.len() {
        let byte = percent_byte(&bytes[at..]);
        decoded.push(byte.unwrap_or(bytes[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    String::from_utf8(decoded).unwrap_or_else(|_| text.to_owned())
}

/// The byte that an escape such as `%41` at the beginning of `bytes` stands for.
pub(crate) fn percent_byte(bytes: &[u8]) -> Option<u8> {
    let digits = bytes.strip_prefix(b"%")?.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(text: &str) -> String {
        hide_in_urls(text, &mut |_| "*".to_owned())
    }

    #[test]
    fn credentials_of_urls_are_hidden_wherever_the_urls_stand() {
        for (text, shown) in [
            ("https://me:hunter2@h.example/p?page=2&api_key=k", "https://*@h.example/p?page=2&api_key=*"),
            ("https://t0ken@h", "https://*@h"),
            ("//me:pw@h/p", "//*@h/p"),
            ("/p?X-Amz-Signature=abc&X-Amz-Date=1", "/p?X-Amz-Signature=*&X-Amz-Date=1"),
            (
                "<https://u:p@h/a?sig=1>; rel=next, </b?token=2>; rel=last",
                "<https://*@h/a?sig=*>; rel=next, </b?token=*>; rel=last",
            ),
            ("0; url=/p?sig=1", "0; url=/p?sig=*"),
            ("https://h/cb#access_token=1&state=2", "https://h/cb#access_token=*&state=2"),
            ("https://h/cb?code=1", "https://h/cb?code=*"),
            ("https://h/?%73ig=1", "https://h/?%73ig=*"),
            ("https://h/?next=https%3A%2F%2Fu%3Ap%40h", "https://h/?next=*"),
        ] {
            assert_eq!(hidden(text), shown);
        }
    }

    #[test]
    fn text_without_credentials_stays() {
        for text in [
            "https://h.example",
            "http://h.example:8080/a@b?x=y@z",
            "not a url",
            "text/html;q=0.9",
            "a // b",
            "/p?sig=&x=1",
            "?=&",
        ] {
            assert_eq!(hidden(text), text);
        }
    }

    #[test]
    fn passwords_are_decoded_before_they_are_hidden() {
        let mut shown = Vec::new();
        hide_in_urls("x://u:p%40ss@h", &mut |it| {
            shown.push(it.to_owned());
            String::new()
        });
        assert_eq!(shown, ["u:p%40ss", "p%40ss", "p@ss"]);
    }

    #[test]
    fn deeply_nested_urls_are_hidden_whole_and_take_no_stack() {
        let nested = |depth: usize| format!("{}%{}41", "?a=".repeat(depth), "25".repeat(depth));
        assert_eq!(hidden(&nested(2)), nested(2));
        assert_eq!(hidden(&nested(100_000)), "?a=*");
    }

    #[test]
    fn form_fields_are_hidden_by_their_names() {
        let shown = hide_in_form("client_id=a&client_secret=b", &mut |_| "*".to_owned());
        assert_eq!(shown, "client_id=a&client_secret=*");
    }
}

//! Rewrites an object's text as a cache keeps it, without building a tree.

use std::ops::Range;
use std::sync::Arc;

use windlass_core::object::ObjectKind;

use super::{ParsedObject, Raw, says};

/// A part of a text, and its replacement.
type Edit = (Range<usize>, String);

/// `text` without its `managedFields`, unless these are kept, and with the `apiVersion` and `kind` of `kind`. `top` was
/// read from `text` and borrows from it. `buffer` is scratch space.
pub(super) fn rewrite(
    text: &str,
    top: &ParsedObject<'_>,
    kind: &ObjectKind,
    keeps_managed_fields: bool,
    buffer: &mut String,
) -> Arc<str> {
    let mut missing = String::new();
    let mut edit = |name, given: Option<Raw<'_>>, wanted: &str| -> Option<Edit> {
        match given {
            Some(_) if says(given, wanted) => return None,
            Some(raw) => return Some((place(text, raw), serde_json::Value::from(wanted).to_string())),
            None => missing.extend(["\"", name, "\":", &serde_json::Value::from(wanted).to_string(), ","]),
        }
        None
    };
    let api_version = edit("apiVersion", top.api_version, &kind.api_version);
    let of_kind = edit("kind", top.kind, &kind.kind);
    let managed_fields = top.metadata.as_ref().and_then(|metadata| metadata.managed_fields);
    let cut = managed_fields.filter(|_| !keeps_managed_fields).map(|value| (field(text, value), String::new()));
    edited(text, &missing, [api_version, of_kind, cut], buffer)
}

/// `text`, an object, with `first` as its first fields and with each range replaced.
fn edited(text: &str, first: &str, mut edits: [Option<Edit>; 3], buffer: &mut String) -> Arc<str> {
    if first.is_empty() && edits.iter().all(Option::is_none) {
        return text.into();
    }
    edits.sort_by_key(|edit| edit.as_ref().map(|(range, _)| range.start));
    let is_empty = || text[1..].trim_start().starts_with('}');
    let first = if is_empty() { first.trim_end_matches(',') } else { first };
    buffer.clear();
    buffer.reserve(text.len() + first.len());
    buffer.push('{');
    buffer.push_str(first);
    let mut from = 1;
    for (range, replacement) in edits.iter().flatten() {
        buffer.push_str(&text[from..range.start]);
        buffer.push_str(replacement);
        from = range.end;
    }
    buffer.push_str(&text[from..]);
    buffer.as_str().into()
}

/// The range of `value`, a slice of `text`, in that text.
fn place(text: &str, value: Raw<'_>) -> Range<usize> {
    let start = value.0.as_ptr() as usize - text.as_ptr() as usize;
    start..start + value.0.len()
}

/// The range in `text` of the field with this `value`, a slice of `text`. It includes the field's name and one comma.
fn field(text: &str, value: Raw<'_>) -> Range<usize> {
    let value = place(text, value);
    let colon = text[..value.start].trim_end().len() - 1;
    let name_end = text[..colon].trim_end().len() - 1;
    let before = text[..opening_quote(text, name_end)].trim_end();
    let end = text.len() - text[value.end..].trim_start().len();
    match before.strip_suffix(',') {
        Some(before) => before.len()..end,
        None if text[end..].starts_with(',') => before.len()..end + 1,
        None => before.len()..end,
    }
}

/// The start of the string whose closing quote is at `end`. Inside a string, each quote is preceded by an odd number of
/// backslashes, but the opening quote by none.
fn opening_quote(text: &str, end: usize) -> usize {
    let bytes = text.as_bytes();
    (0..end)
        .rev()
        .find(|&at| {
            let backslashes = bytes[..at].iter().rev().take_while(|&&byte| byte == b'\\').count();
            bytes[at] == b'"' && backslashes % 2 == 0
        })
        .expect("a JSON string that ends has begun")
}

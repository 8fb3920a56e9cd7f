//! Searches for values in the forms in which a plugin or the API server may have written them.

use std::borrow::Cow;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use memchr::memmem;

use super::view::{self, Reading};
use super::{KnownSecrets, REDACTED, SECRET_BYTES_MIN};

/// How texts are decoded before the search, in addition to the plain text.
const READINGS: [&[Reading]; 6] = [
    &[Reading::Url],
    &[Reading::Url, Reading::Url],
    &[Reading::Form],
    &[Reading::Json],
    &[Reading::Json, Reading::Json],
    &[Reading::Url, Reading::Json],
];
/// The shortest form that is searched for across white space, in bytes. Shorter forms are not broken into lines, and
/// two words could form one by chance.
const FOLDED_SECRET_BYTES_MIN: usize = 16;

/// The forms of known secrets to search for in texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretForms {
    /// Longest first, because a secret may be a part of another.
    forms: Vec<Form>,
    /// Whether there are more secrets than `forms` has.
    is_overfull: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Form {
    text: String,
    /// The form without white space. `None` if it is not searched for across white space.
    folded: Option<Vec<u8>>,
    marker: String,
}

impl SecretForms {
    pub(super) fn of(known: &KnownSecrets, keeps_base64: bool) -> Self {
        let KnownSecrets { values, is_overfull, .. } = known;
        if *is_overfull {
            return Self { forms: Vec::new(), is_overfull: true };
        }
        let mut forms = Vec::new();
        for (value, marker) in values {
            let in_base64 = |encoded: String| if keeps_base64 { encoded } else { marker.clone() };
            forms.push(Form::new(value.clone(), marker.clone()));
            forms.push(Form::new(STANDARD.encode(value), in_base64(STANDARD.encode(marker))));
            forms.push(Form::new(URL_SAFE.encode(value), in_base64(URL_SAFE.encode(marker))));
            forms.push(Form::new(URL_SAFE_NO_PAD.encode(value), in_base64(URL_SAFE_NO_PAD.encode(marker))));
            let parts = (0..3).flat_map(|place| base64_at(value, place));
            forms.extend(parts.map(|part| Form::new(part, marker.clone())));
        }
        // Of equal forms, the first is kept.
        forms.sort_by(|a, b| b.text.len().cmp(&a.text.len()).then_with(|| a.text.cmp(&b.text)));
        forms.dedup_by(|a, b| a.text == b.text);
        Self { forms, is_overfull: false }
    }

    /// Whether there is nothing to look for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty() && !self.is_overfull
    }

    /// The work of searching `bytes` bytes: each form is compared at each byte.
    #[must_use]
    pub fn work(&self, bytes: usize) -> usize {
        self.forms.len().saturating_mul(bytes)
    }

    /// Replaces each known secret in `text` with its marker. [`work`](Self::work) says how long this takes.
    #[must_use]
    pub fn replace<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.is_overfull {
            return if text.len() < SECRET_BYTES_MIN { text.into() } else { REDACTED.into() };
        }
        let mut shown = Cow::Borrowed(text);
        // Search folded text first: once a single line of a key has been replaced, the rest of the key would not
        // be found.
        self.replace_as_read(&mut shown, &[Reading::Folded], |form| form.folded.as_deref());
        for form in &self.forms {
            if shown.contains(&*form.text) {
                shown = shown.replace(&*form.text, &form.marker).into();
            }
        }
        for readings in READINGS {
            self.replace_as_read(&mut shown, readings, |form| Some(form.text.as_bytes()));
        }
        shown
    }

    fn replace_as_read(&self, text: &mut Cow<'_, str>, readings: &[Reading], of: impl Fn(&Form) -> Option<&[u8]>) {
        if self.forms.is_empty() {
            return;
        }
        let Some(view) = view::read(text.as_bytes(), readings) else { return };
        let mut found: Vec<(Range<usize>, &str)> = Vec::new();
        for form in &self.forms {
            let Some(looked_for) = of(form) else { continue };
            let at = memmem::find_iter(&view, looked_for);
            found.extend(at.map(|at| (at..at + looked_for.len(), &*form.marker)));
        }
        if found.is_empty() {
            return;
        }
        // At one position, the longest match comes first.
        found.sort_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)));
        let places = view::places(text.as_bytes(), readings);
        let (mut shown, mut end) = (Vec::new(), 0);
        for (range, marker) in found {
            let (from, to) = (places[range.start].start, places[range.end - 1].end);
            // The rest of a match that overlaps with the previous match is hidden by the same marker.
            if from >= end {
                shown.extend_from_slice(&text.as_bytes()[end..from]);
                shown.extend_from_slice(marker.as_bytes());
            }
            end = to.max(end);
        }
        shown.extend_from_slice(&text.as_bytes()[end..]);
        *text = String::from_utf8_lossy(&shown).into_owned().into();
    }
}

impl Form {
    fn new(text: String, marker: String) -> Self {
        let folded = view::read(text.as_bytes(), &[Reading::Folded]).unwrap_or_else(|| text.clone().into_bytes());
        Self { folded: (folded.len() >= FOLDED_SECRET_BYTES_MIN).then_some(folded), text, marker }
    }
}

/// The characters that appear in the Base64 of every text in which `value` begins at byte `place` (modulo three), in
/// both alphabets.
fn base64_at(value: &str, place: usize) -> [String; 2] {
    let bytes = [&[0; 3][..place], value.as_bytes()].concat();
    let (from, to) = ((place * 8).div_ceil(6), bytes.len() * 8 / 6);
    let encoded = STANDARD_NO_PAD.encode(bytes);
    let part = encoded[from..to].to_owned();
    debug_assert!(part.len() >= SECRET_BYTES_MIN, "values have at least {SECRET_BYTES_MIN} bytes");
    let in_urls = part.replace('+', "-").replace('/', "_");
    [part, in_urls]
}

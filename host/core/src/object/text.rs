//! The text of an object: whole while it is being read, packed otherwise.
//!
//! Most objects of a large cache are read once, when they arrive. Packed against a dictionary of similar objects,
//! they need a third or a quarter of their size.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lz4_flex::block::{compress_prepend_size_with_dict, decompress_size_prepended_with_dict};

/// How much of a dictionary is used. LZ4 refers back at most 64 KiB, including the text being packed.
const DICTIONARY_BYTES: usize = 48 << 10;

/// Text that the objects of one informer have in common: several of them, concatenated.
pub struct Dictionary(Vec<u8>);

impl Dictionary {
    /// A dictionary of `samples`. If the samples are too long together, only the last ones are used.
    #[must_use]
    pub fn new<'a>(samples: impl IntoIterator<Item = &'a str>) -> Self {
        let mut bytes: Vec<u8> = samples.into_iter().flat_map(str::bytes).collect();
        let surplus = bytes.len().saturating_sub(DICTIONARY_BYTES);
        bytes.drain(..surplus);
        Self(bytes)
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dictionary({} bytes)", self.0.len())
    }
}

/// A text in either form. Texts are equal if their contents are.
pub(crate) struct Text(Mutex<TextState>);

struct TextState {
    form: TextForm,
    /// Whether the text was read since the last [`Text::cool`].
    is_read: bool,
}

#[derive(Clone)]
enum TextForm {
    Whole(Arc<str>),
    Packed(Arc<[u8]>, Arc<Dictionary>),
}

impl Text {
    pub(crate) fn new(text: Arc<str>) -> Self {
        Self(Mutex::new(TextState { form: TextForm::Whole(text), is_read: false }))
    }

    pub(crate) fn get(&self) -> Arc<str> {
        let form = {
            let mut state = self.state();
            state.is_read = true;
            state.form.clone()
        };
        form.text()
    }

    /// As [`Text::get`], but does not count as a read.
    pub(crate) fn glance(&self) -> Arc<str> {
        let form = self.state().form.clone();
        form.text()
    }

    /// See [`Object::cool`](crate::object::Object::cool). Packs and unpacks outside the lock.
    pub(crate) fn cool(&self, dictionary: &Arc<Dictionary>) {
        let (before, is_read) = {
            let mut state = self.state();
            (state.form.clone(), std::mem::take(&mut state.is_read))
        };
        let after = match (before, is_read) {
            (TextForm::Whole(text), false) => pack(&text, dictionary),
            (packed @ TextForm::Packed(..), true) => Some(TextForm::Whole(packed.text())),
            (TextForm::Whole(_), true) | (TextForm::Packed(..), false) => None,
        };
        if let Some(after) = after {
            self.state().form = after;
        }
    }

    pub(crate) fn footprint(&self) -> usize {
        match &self.state().form {
            TextForm::Whole(text) => text.len(),
            TextForm::Packed(bytes, _) => bytes.len(),
        }
    }

    /// [`Self::footprint`] as if the text were whole.
    pub(crate) fn whole_footprint(&self) -> usize {
        match &self.state().form {
            TextForm::Whole(text) => text.len(),
            // The length that `compress_prepend_size_with_dict` prepends.
            TextForm::Packed(bytes, _) => bytes.first_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize),
        }
    }

    fn state(&self) -> MutexGuard<'_, TextState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TextForm {
    /// # Panics
    ///
    /// If the host's memory is corrupted: the text was packed with this very dictionary.
    fn text(&self) -> Arc<str> {
        match self {
            Self::Whole(text) => Arc::clone(text),
            Self::Packed(bytes, dictionary) => {
                let text = decompress_size_prepended_with_dict(bytes, &dictionary.0).expect("packed by this module");
                String::from_utf8(text).expect("a text before it was packed").into()
            }
        }
    }
}

/// `None` if packing would save too little to be worth unpacking.
fn pack(text: &str, dictionary: &Arc<Dictionary>) -> Option<TextForm> {
    let packed = compress_prepend_size_with_dict(text.as_bytes(), &dictionary.0);
    (packed.len() < text.len() / 4 * 3).then(|| TextForm::Packed(packed.into(), Arc::clone(dictionary)))
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        // Lock one after the other: another thread may compare in the opposite order.
        std::ptr::eq(self, other) || {
            let mine = self.glance();
            mine == other.glance()
        }
    }
}

impl Eq for Text {}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.glance().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(number: u32) -> String {
        format!(
            r#"{{"metadata":{{"name":"web-{number}","labels":{{"app":"web"}}}},"spec":{{"image":"nginx:1.29","port":{number}}}}}"#
        )
    }

    fn dictionary() -> Arc<Dictionary> {
        let samples: Vec<_> = (0..8).map(sample).collect();
        Arc::new(Dictionary::new(samples.iter().map(String::as_str)))
    }

    fn is_packed(text: &Text) -> bool {
        matches!(text.state().form, TextForm::Packed(..))
    }

    #[test]
    fn unread_text_is_packed_and_unpacked_when_read_again() {
        let dictionary = dictionary();
        let text = Text::new(sample(9).into());
        assert_eq!(*text.get(), sample(9));
        text.cool(&dictionary);
        assert!(!is_packed(&text), "it has just been read");
        text.cool(&dictionary);
        assert!(is_packed(&text));
        let packed = text.footprint();
        assert!(packed < sample(9).len() / 2, "{packed}");
        assert_eq!(text.whole_footprint(), sample(9).len());
        assert_eq!(*text.get(), sample(9));
        text.cool(&dictionary);
        assert!(!is_packed(&text));
        assert_eq!(*text.get(), sample(9));
    }

    #[test]
    fn a_text_that_the_dictionary_does_not_shorten_is_not_packed() {
        let text = Text::new("zq8#-!".into());
        text.cool(&dictionary());
        assert!(!is_packed(&text));
    }

    #[test]
    fn texts_are_equal_in_either_form() {
        let (whole, packed) = (Text::new(sample(3).into()), Text::new(sample(3).into()));
        packed.cool(&dictionary());
        assert!(is_packed(&packed) && whole == packed);
        assert!(!is_packed(&whole), "comparing does not count as reading, nor does it change anything");
        assert!(whole != Text::new(sample(4).into()));
    }

    #[test]
    fn a_dictionary_is_as_long_as_packing_can_look_back() {
        let long = "x".repeat(DICTIONARY_BYTES);
        let dictionary = Dictionary::new(["old", &long]);
        assert_eq!(dictionary.0, long.as_bytes());
    }

    #[test]
    fn packed_text_reads_the_same() {
        // A small xorshift generator, so that this crate needs no dependency for random numbers.
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut next = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % below as u64).expect("small")
        };
        let lengths =
            [0, 1, 3, 4, 12, 13, 64, 1_000, 5_000, 48 << 10, 63 << 10, 65_535, 65_536, 65_537, 70_000, 200_000];
        for round in 0..96 {
            let pieces: Vec<_> = (0..=next(6)).map(|_| format!("{}ü{}", "ab".repeat(next(40)), next(1_000))).collect();
            let mut text = |length: usize| {
                let mut text = String::new();
                while text.len() < length {
                    text += &pieces[next(pieces.len())];
                }
                text
            };
            let samples: Vec<_> = (0..round % 4).map(|at| text(lengths[(round + at) % lengths.len()])).collect();
            let dictionary = Arc::new(Dictionary::new(samples.iter().map(String::as_str)));
            let whole = text(lengths[round % lengths.len()]);
            let packed = Text::new(whole.as_str().into());
            packed.cool(&dictionary);
            assert!(*packed.get() == *whole, "round {round}: {} bytes", whole.len());
        }
    }
}

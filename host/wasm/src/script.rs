//! The script of a component: the text of its last section, which its interpreter reads with the import `script`.
//!
//! Everything before that section is compiled, and its machine code is stored under the digest of that part: whatever
//! the script is, the code is the same.

use wasm_encoder::{ComponentSection as _, CustomSection};
use wasmparser::{BinaryReader, CustomSectionReader};

/// The name of the custom section, as specified in `wit/script.wit`.
const NAME: &str = "windlass:script";
/// The maximum size of a script, more than anyone writes by hand. Each generation of a plugin keeps its script in
/// memory.
pub const SCRIPT_BYTES_MAX: usize = 4 << 20;
const CUSTOM_SECTION: u8 = 0;
/// The size of magic and version.
const PREAMBLE: usize = 8;

/// The component that consists of `interpreter` and `script`.
#[must_use]
pub fn joined(interpreter: &[u8], script: &str) -> Vec<u8> {
    let mut component = interpreter.to_vec();
    CustomSection { name: NAME.into(), data: script.as_bytes().into() }.append_to_component(&mut component);
    component
}

/// Splits a component's file into the part that is compiled and the script, if it has one. A file with two scripts
/// counts as having none, because the part before the second would be the file of another plugin.
pub(crate) fn parts(component: &[u8]) -> (&[u8], Option<&str>) {
    let mut at = PREAMBLE;
    while let Some((end, custom)) = section(component, at) {
        if let Some(script) = custom.filter(|custom| custom.name() == NAME) {
            let is_script = end == component.len() && script.data().len() <= SCRIPT_BYTES_MAX;
            let script = std::str::from_utf8(script.data()).ok().filter(|_| is_script);
            return script.map_or((component, None), |script| (&component[..at], Some(script)));
        }
        at = end;
    }
    // The compiler reports unreadable parts.
    (component, None)
}

/// The section at `at`: its end, and its content if it is a custom section.
fn section(component: &[u8], at: usize) -> Option<(usize, Option<CustomSectionReader<'_>>)> {
    let mut reader = BinaryReader::new(component.get(at..).filter(|rest| !rest.is_empty())?, 0);
    let id = reader.read_u8().ok()?;
    let length = usize::try_from(reader.read_var_u32().ok()?).ok()?;
    let content = BinaryReader::new(reader.read_bytes(length).ok()?, 0);
    let custom = if id == CUSTOM_SECTION { CustomSectionReader::new(content).ok() } else { None };
    Some((at + reader.current_position(), custom))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interpreter() -> Vec<u8> {
        wat::parse_str(r#"(component (core module (memory 1)) (@custom "other" "text"))"#).expect("well-formed")
    }

    #[test]
    fn a_script_of_any_length_is_split_from_its_interpreter_again() {
        let interpreter = interpreter();
        for length in [0, 1, 110, 111, 112, 127, 128, 16_383, 70_000] {
            let script = "x".repeat(length);
            let component = joined(&interpreter, &script);
            wasmparser::validate(&component).expect("it is a component");
            assert_eq!(parts(&component), (&*interpreter, Some(&*script)));
        }
    }

    #[test]
    fn a_script_is_the_only_one_and_the_last_section() {
        let interpreter = interpreter();
        assert_eq!(parts(&interpreter), (&*interpreter, None));
        let twice = joined(&joined(&interpreter, "one"), "two");
        assert_eq!(parts(&twice), (&*twice, None));
        let mut behind = joined(&interpreter, "one");
        behind.extend([CUSTOM_SECTION, 2, 1, b'x']);
        assert_eq!(parts(&behind), (&*behind, None));
    }

    #[test]
    fn a_truncated_oversized_or_non_text_section_is_no_script() {
        let whole = joined(&interpreter(), "größe");
        for length in 0..whole.len() {
            assert_eq!(parts(&whole[..length]).1, None, "{length}");
        }
        let mut broken = whole.clone();
        *broken.last_mut().expect("it is not empty") = 0xff;
        assert_eq!(parts(&broken), (&*broken, None));
        let long = joined(&interpreter(), &"x".repeat(SCRIPT_BYTES_MAX + 1));
        assert_eq!(parts(&long).1, None);
    }
}

//! Rewrites the sections of a component: removes some, and fixes the runtime of Python.

use wasm_encoder::{Component, ComponentSectionId, RawSection, reencode};
use wasmparser::{BinaryReader, BinaryReaderError};

use crate::python;

/// The section with the names of a component's types, instances and so on. The names of functions, which a trap's
/// backtrace shows, are in the modules.
const NAMES: &str = "component-name";

/// The component without the names of its parts, and with the fixed runtime of Python. In a JavaScript component, the
/// names are a hundredth of its size. Components inside it are treated the same way.
pub(crate) fn finished(component: &[u8]) -> Result<Vec<u8>, reencode::Error> {
    const CUSTOM: u8 = ComponentSectionId::CoreCustom as u8;
    const MODULE: u8 = ComponentSectionId::CoreModule as u8;
    const COMPONENT: u8 = ComponentSectionId::Component as u8;
    let mut finished = Component::new();
    for (id, data) in sections(component)? {
        let other = match id {
            CUSTOM if BinaryReader::new(data, 0).read_string()? == NAMES => continue,
            MODULE => python::freeing(data)?,
            COMPONENT => Some(self::finished(data)?),
            _ => None,
        };
        finished.section(&RawSection { id, data: other.as_deref().unwrap_or(data) });
    }
    Ok(finished.finish())
}

/// The outermost sections of a component: their IDs and contents.
fn sections(component: &[u8]) -> Result<Vec<(u8, &[u8])>, BinaryReaderError> {
    let mut bytes = BinaryReader::new(component, 0);
    // Skips the magic number and the version.
    bytes.read_bytes(8)?;
    let mut sections = Vec::new();
    while !bytes.eof() {
        let (id, size) = (bytes.read_u8()?, bytes.read_var_u32()?);
        sections.push((id, bytes.read_bytes(size as usize)?));
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_components_parts_are_removed_and_the_rest_is_kept() {
        let of = |names: [&str; 3]| {
            let [outer, inner, instance] = names;
            let text = format!(
                r#"(component {outer}
                    (core module $code (func $run (export "run")))
                    (component {inner} (core module $more (func $walk)))
                    (core instance {instance} (instantiate $code))
                    (@custom "kept" "as it is"))"#
            );
            wat::parse_str(text).expect("it is a component")
        };
        let (named, nameless) = (of(["$outer", "$inner", "$instance"]), of(["", "", ""]));
        let trimmed = finished(&named).expect("it is read");
        assert!(trimmed.len() < named.len());
        assert_eq!(trimmed, finished(&nameless).expect("it is read"));
        assert_eq!(finished(&trimmed).expect("it is read"), trimmed);
        let has = |text: &str| trimmed.windows(text.len()).any(|bytes| bytes == text.as_bytes());
        assert!(has("kept") && has("walk"), "functions keep their names");
        assert!(!has(NAMES));
    }
}

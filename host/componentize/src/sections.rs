//! What a component consists of, and what of it nobody reads.

use wasm_encoder::{Component, ComponentSectionId, RawSection};
use wasmparser::{BinaryReader, BinaryReaderError};

/// The names of a component's types, instances and so on. A trap's backtrace has those of functions, which the modules have.
const NAMES: &str = "component-name";

/// The outermost sections of a component: their numbers and contents.
pub(crate) fn sections(component: &[u8]) -> Result<Vec<(u8, &[u8])>, BinaryReaderError> {
    let mut bytes = BinaryReader::new(component, 0);
    // Magic and version.
    bytes.read_bytes(8)?;
    let mut sections = Vec::new();
    while !bytes.eof() {
        let (id, size) = (bytes.read_u8()?, bytes.read_var_u32()?);
        sections.push((id, bytes.read_bytes(size as usize)?));
    }
    Ok(sections)
}

/// The component without what names its parts, also in the components in it: of one in JavaScript they are a hundredth.
pub(crate) fn without_names(component: &[u8]) -> Result<Vec<u8>, BinaryReaderError> {
    let mut trimmed = Component::new();
    for (id, data) in sections(component)? {
        if id == ComponentSectionId::CoreCustom as u8 && BinaryReader::new(data, 0).read_string()? == NAMES {
            continue;
        }
        let nested = (id == ComponentSectionId::Component as u8).then(|| without_names(data)).transpose()?;
        trimmed.section(&RawSection { id, data: nested.as_deref().unwrap_or(data) });
    }
    Ok(trimmed.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_the_parts_of_a_component_goes_and_all_else_stays() {
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
        let trimmed = without_names(&named).expect("it is read");
        assert!(trimmed.len() < named.len());
        assert_eq!(trimmed, without_names(&nameless).expect("it is read"));
        assert_eq!(without_names(&trimmed).expect("it is read"), trimmed);
        let has = |text: &str| trimmed.windows(text.len()).any(|bytes| bytes == text.as_bytes());
        assert!(has("kept") && has("walk"), "functions keep their names");
        assert!(!has(NAMES));
    }
}

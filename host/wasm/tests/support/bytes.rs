//! WebAssembly as bytes, where its text would be too long to read.

/// The section of a component that holds a core module.
pub(crate) const CORE_MODULE: u8 = 1;
/// The section of a component that holds another component.
pub(crate) const COMPONENT_SECTION: u8 = 4;
/// The section of a component with its types.
pub(crate) const TYPES_SECTION: u8 = 7;

const HEAD_OF_COMPONENTS: &[u8] = b"\0asm\x0d\0\x01\0";
const HEAD_OF_MODULES: &[u8] = b"\0asm\x01\0\0\0";

/// A component with only one `section` and its `content`.
pub(crate) fn around(section: u8, content: &[u8]) -> Vec<u8> {
    [HEAD_OF_COMPONENTS, &sized(section, content)].concat()
}

/// A component with only a core module of `sections`.
pub(crate) fn around_module(sections: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let sections: Vec<u8> = sections.iter().flat_map(|(section, content)| sized(*section, content)).collect();
    around(CORE_MODULE, &[HEAD_OF_MODULES, &sections].concat())
}

/// A component with only a core module, whose functions take a number and have these `bodies`.
pub(crate) fn around_functions(bodies: &[Vec<u8>]) -> Vec<u8> {
    let code: Vec<Vec<u8>> = bodies.iter().map(|body| [&number(body.len()), body.as_slice()].concat()).collect();
    around_module(&[
        (1, list(&[b"\x60\x01\x7f\x00".to_vec()])),
        (3, list(&vec![vec![0]; bodies.len()])),
        (10, list(&code)),
    ])
}

/// The count, followed by the items.
pub(crate) fn list(items: &[Vec<u8>]) -> Vec<u8> {
    [number(items.len()), items.concat()].concat()
}

/// `value` in LEB128.
pub(crate) fn number(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(0x80 | u8::try_from(value & 0x7f).expect("seven bits"));
        value >>= 7;
    }
    bytes.push(u8::try_from(value).expect("seven bits"));
    bytes
}

fn sized(section: u8, content: &[u8]) -> Vec<u8> {
    [&[section], number(content.len()).as_slice(), content].concat()
}

//! The interface is documented: every item of `wit/` has a doc comment.

use std::path::Path;

use wit_parser::{Docs, Resolve, Type, TypeDef, TypeDefKind};

/// The names of items without a doc comment.
#[derive(Default)]
struct Undocumented(Vec<String>);

impl Undocumented {
    fn check(&mut self, path: &str, docs: &Docs) {
        if docs.contents.as_deref().is_none_or(|text| text.trim().is_empty()) {
            self.0.push(path.to_owned());
        }
    }

    fn check_type(&mut self, resolve: &Resolve, path: &str, definition: &TypeDef) {
        match &definition.kind {
            // Imported by `use`: documented where it is defined.
            TypeDefKind::Type(Type::Id(id)) if resolve.types[*id].owner != definition.owner => return,
            TypeDefKind::Record(record) => {
                record.fields.iter().for_each(|field| self.check(&format!("{path}.{}", field.name), &field.docs));
            }
            TypeDefKind::Enum(choice) => {
                choice.cases.iter().for_each(|case| self.check(&format!("{path}.{}", case.name), &case.docs));
            }
            TypeDefKind::Variant(choice) => {
                choice.cases.iter().for_each(|case| self.check(&format!("{path}.{}", case.name), &case.docs));
            }
            _ => {}
        }
        self.check(path, &definition.docs);
    }
}

#[test]
fn every_item_of_the_interface_has_a_doc_comment() {
    let mut resolve = Resolve::default();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
    let (package, _) = resolve.push_dir(&directory).expect("wit/ is a package");
    let package = &resolve.packages[package];
    let mut found = Undocumented::default();
    for (name, id) in &package.worlds {
        found.check(name, &resolve.worlds[*id].docs);
    }
    for (name, id) in &package.interfaces {
        let interface = &resolve.interfaces[*id];
        found.check(name, &interface.docs);
        for (function, definition) in &interface.functions {
            found.check(&format!("{name}.{function}"), &definition.docs);
        }
        for (type_name, id) in &interface.types {
            found.check_type(&resolve, &format!("{name}.{type_name}"), &resolve.types[*id]);
        }
    }
    assert!(!package.interfaces.is_empty());
    assert_eq!(found.0, [""; 0], "these lack a doc comment in wit/");
}

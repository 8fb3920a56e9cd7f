//! The names that follow from a plugin's own.

use windlass_wasm::manifest::is_dns_label;

use windlass_core::object::plural;

/// The plural of the kind is the name of a resource, and those have 63 characters at most.
const LONGEST: usize = 50;
/// Names that mean something else in one of the files that they go into: no texts in YAML, and the SDKs' own.
const TAKEN: [&str; 12] =
    ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "windlass", "windlass-sdk", "sdk"];

/// Kinds that mean something else in the sources of a template, whose type for the primary has the kind's name.
const TAKEN_KINDS: [&str; 40] = [
    "Api",
    "ApiError",
    "Box",
    "Cache",
    "Composer",
    "Composition",
    "CompositionRequest",
    "Condition",
    "Conditions",
    "Config",
    "ConfigMap",
    "Controller",
    "Default",
    "Error",
    "Events",
    "Failures",
    "Log",
    "Manifest",
    "Metadata",
    "None",
    "Object",
    "ObjectRef",
    "Ok",
    "Option",
    "Outcome",
    "Owners",
    "Plugin",
    "Primary",
    "Reconciler",
    "Request",
    "Result",
    "Serde",
    "Some",
    "Spec",
    "Status",
    "String",
    "Value",
    "Vec",
    "Watch",
    "Writes",
];

/// Why a plugin cannot have a name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It does not have the form of a name.
    #[error(
        "{0:?} cannot name a plugin: up to {LONGEST} lower-case letters, digits and dashes, beginning with a letter and ending \
         with a letter or digit, such as `my-shop`"
    )]
    Form(String),
    /// It means something else where it would stand: in YAML, in the SDK, in the sources.
    #[error(
        "{0:?} cannot name a plugin: it means something else in YAML, to the SDK or in the sources that it would stand in. Take another name, such as `my-{0}`"
    )]
    Taken(String),
}

/// The names of a plugin: what templates are filled with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// `my-shop`
    pub name: String,
    /// `MyShop`
    pub kind: String,
    /// `my_shop`
    pub module: String,
    /// `myshop`
    pub singular: String,
    /// `myshops`
    pub plural: String,
}

impl Names {
    /// Those of the plugin `name`.
    pub fn of(name: &str) -> Result<Self, NameError> {
        let is_form =
            is_dns_label(name) && name.len() <= LONGEST && name.starts_with(|first: char| first.is_ascii_lowercase());
        if !is_form {
            return Err(NameError::Form(name.to_owned()));
        }
        if TAKEN.contains(&name) {
            return Err(NameError::Taken(name.to_owned()));
        }
        let kind: String = name.split('-').map(capitalised).collect();
        if TAKEN_KINDS.contains(&&*kind) {
            return Err(NameError::Taken(name.to_owned()));
        }
        Ok(Self {
            name: name.to_owned(),
            module: name.replace('-', "_"),
            singular: kind.to_lowercase(),
            plural: plural(&kind),
            kind,
        })
    }

    /// `text` with the names in their places.
    #[must_use]
    pub fn fill(&self, text: &str) -> String {
        let Self { name, kind, module, singular, plural } = self;
        let places = [
            ("{{name}}", name),
            ("{{Kind}}", kind),
            ("{{module}}", module),
            ("{{singular}}", singular),
            ("{{plural}}", plural),
        ];
        places.into_iter().fold(text.to_owned(), |text, (place, name)| text.replace(place, name))
    }
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_names_follow_from_one() {
        let names = Names::of("my-2nd-policy").expect("a name");
        let Names { name, kind, module, singular, plural } = &names;
        assert_eq!(
            [name, kind, module, singular, plural],
            ["my-2nd-policy", "My2ndPolicy", "my_2nd_policy", "my2ndpolicy", "my2ndpolicies"]
        );
        assert_eq!(names.fill("{{Kind}} of {{name}}: {{plural}}"), "My2ndPolicy of my-2nd-policy: my2ndpolicies");
    }

    #[test]
    fn what_cannot_be_a_name_is_refused_with_an_example() {
        let long = "a".repeat(51);
        for bad in ["", "Shop", "my_shop", "-shop", "shop-", "2nd", "a.b", "../x", "ünder", &long] {
            let said = Names::of(bad).expect_err(bad).to_string();
            assert!(said.contains("my-shop"), "{said}");
        }
        for taken in TAKEN {
            assert_eq!(Names::of(taken), Err(NameError::Taken(taken.into())));
        }
        for taken in ["status", "spec", "api-error", "object-ref", "serde"] {
            assert_eq!(
                Names::of(taken),
                Err(NameError::Taken(taken.into())),
                "its kind is a name of the templates' own"
            );
        }
        let longest = Names::of(&"y".repeat(50)).expect("it fits");
        assert!(longest.plural.len() <= 63);
    }
}

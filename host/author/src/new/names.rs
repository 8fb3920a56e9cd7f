//! The names that are derived from a plugin's name.

use windlass_manifest::is_dns_label;

use windlass_core::object::plural;

/// The maximum length of a name. The plural of the kind is longer, and is the name of a resource, which has at most 63
/// characters.
const PLURAL_BYTES_MAX: usize = 50;
/// Names with another meaning in one of the generated files: YAML words that are not strings, and names of the SDKs.
const TAKEN: [&str; 12] =
    ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "windlass", "windlass-sdk", "sdk"];

/// Kinds with another meaning in the sources of a template, which define a type with the kind's name.
const TAKEN_KINDS: [&str; 48] = [
    "Api",
    "ApiError",
    "ApiReason",
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
    "CustomObject",
    "Default",
    "Deserialize",
    "Error",
    "Events",
    "Failures",
    "Host",
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
    "Predicate",
    "Primary",
    "Reconciler",
    "Request",
    "Result",
    "Self",
    "Serde",
    "Serialize",
    "Some",
    "Spec",
    "Status",
    "String",
    "Timestamp",
    "Value",
    "Vec",
    "Watch",
    "Writes",
];

/// The reason why a name is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It is not a valid name.
    #[error(
        "{0:?} cannot name a plugin: up to {PLURAL_BYTES_MAX} lower-case letters, digits and dashes, beginning with a letter and ending \
         with a letter or digit, such as `my-shop`"
    )]
    Form(String),
    /// The name has another meaning in YAML, in the SDK, or in the sources.
    #[error(
        "{0:?} cannot name a plugin: the name has another meaning in YAML, in the SDK or in the sources. Use another name, such as `my-{0}`"
    )]
    Taken(String),
    /// It is not a valid kind.
    #[error(
        "{0:?} cannot be a kind: up to {PLURAL_BYTES_MAX} letters and digits, beginning with a capital letter, such as `CronJob`"
    )]
    Kind(String),
    /// The template's own sources use the name.
    #[error("the kind {0:?} has another meaning in the sources of a template: use another one, such as `My{0}`")]
    TakenKind(String),
    /// It is not a valid group of a CRD.
    #[error(
        "{0:?} cannot be an API group: lower-case letters, digits and dashes in at least two parts, such as `shops.example.com`"
    )]
    Group(String),
    /// The group is reserved for Kubernetes.
    #[error(
        "the API group {0:?} is reserved for Kubernetes: use one below a domain that you own, such as `shops.example.com`"
    )]
    KubernetesGroup(String),
    /// It is not a valid version.
    #[error("{0:?} cannot be an API version: it is written as `v1`, `v2beta1` or `v1alpha1`")]
    Version(String),
}

/// The API of a plugin's objects, as far as the author chooses it. The plugin's name determines the rest.
#[derive(Clone, Debug)]
pub struct ApiWish {
    /// If it is `None`, the kind is derived from the plugin's name: `MyShop` for the plugin `my-shop`.
    pub kind: Option<String>,
    pub group: String,
    pub version: String,
}

impl ApiWish {
    /// The default group.
    pub const GROUP: &str = "example.com";
    pub const VERSION: &str = "v1";
}

impl Default for ApiWish {
    fn default() -> Self {
        Self { kind: None, group: Self::GROUP.to_owned(), version: Self::VERSION.to_owned() }
    }
}

/// The names that fill a template.
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
    /// `example.com`
    pub group: String,
    /// `v1`
    pub version: String,
}

impl Names {
    /// The names for the plugin `name`. `wish` is the API of its objects.
    pub fn of(name: &str, wish: &ApiWish) -> Result<Self, NameError> {
        check_name(name)?;
        let kind = match &wish.kind {
            Some(kind) => {
                check_kind(kind)?;
                kind.clone()
            }
            None => name.split('-').map(capitalised).collect(),
        };
        if TAKEN_KINDS.contains(&&*kind) {
            let is_given = wish.kind.is_some();
            return Err(if is_given { NameError::TakenKind(kind) } else { NameError::Taken(name.to_owned()) });
        }
        check_group(&wish.group)?;
        check_version(&wish.version)?;
        Ok(Self {
            name: name.to_owned(),
            module: name.replace('-', "_"),
            singular: kind.to_lowercase(),
            plural: plural(&kind),
            kind,
            group: wish.group.clone(),
            version: wish.version.clone(),
        })
    }

    /// Replaces the placeholders in `text` with the names.
    #[must_use]
    pub fn fill(&self, text: &str) -> String {
        let Self { name, kind, module, singular, plural, group, version } = self;
        let places = [
            ("{{name}}", name),
            ("{{Kind}}", kind),
            ("{{module}}", module),
            ("{{singular}}", singular),
            ("{{plural}}", plural),
            ("{{group}}", group),
            ("{{version}}", version),
        ];
        places.into_iter().fold(text.to_owned(), |text, (place, name)| text.replace(place, name))
    }
}

/// Checks the name of a plugin.
pub(super) fn check_name(name: &str) -> Result<(), NameError> {
    let is_form = is_dns_label(name)
        && name.len() <= PLURAL_BYTES_MAX
        && name.starts_with(|first: char| first.is_ascii_lowercase());
    if !is_form {
        return Err(NameError::Form(name.to_owned()));
    }
    if TAKEN.contains(&name) { Err(NameError::Taken(name.to_owned())) } else { Ok(()) }
}

fn check_kind(kind: &str) -> Result<(), NameError> {
    let is_form = kind.len() <= PLURAL_BYTES_MAX
        && kind.starts_with(|first: char| first.is_ascii_uppercase())
        && kind.chars().all(|letter| letter.is_ascii_alphanumeric());
    if is_form { Ok(()) } else { Err(NameError::Kind(kind.to_owned())) }
}

/// Checks a group as the API server does for a CRD.
fn check_group(group: &str) -> Result<(), NameError> {
    // The CRD's name consists of the plural and the group.
    let is_form = group.len() <= 253 - 64 && group.contains('.') && group.split('.').all(is_dns_label);
    if !is_form {
        return Err(NameError::Group(group.to_owned()));
    }
    let is_of = |domain: &str| group == domain || group.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    if is_of("k8s.io") || is_of("kubernetes.io") {
        return Err(NameError::KubernetesGroup(group.to_owned()));
    }
    Ok(())
}

/// Checks that a version follows Kubernetes' convention, by which kubectl finds the newest version.
fn check_version(version: &str) -> Result<(), NameError> {
    let is_number = |text: &str| {
        !text.starts_with('0') && (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_form = version.strip_prefix('v').is_some_and(|rest| {
        let stages = ["alpha", "beta"].into_iter().find_map(|stage| rest.split_once(stage));
        stages.map_or_else(|| is_number(rest), |(major, minor)| is_number(major) && is_number(minor))
    });
    if is_form { Ok(()) } else { Err(NameError::Version(version.to_owned())) }
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Result<Names, NameError> {
        Names::of(name, &ApiWish::default())
    }

    #[test]
    fn all_names_are_derived_from_the_plugins_name() {
        let names = of("my-2nd-policy").expect("a name");
        let Names { name, kind, module, singular, plural, group, version } = &names;
        assert_eq!(
            [name, kind, module, singular, plural, group, version],
            ["my-2nd-policy", "My2ndPolicy", "my_2nd_policy", "my2ndpolicy", "my2ndpolicies", "example.com", "v1"]
        );
        assert_eq!(names.fill("{{Kind}} of {{name}}: {{plural}}"), "My2ndPolicy of my-2nd-policy: my2ndpolicies");
    }

    #[test]
    fn invalid_names_are_refused_with_an_example() {
        let long = "a".repeat(51);
        for bad in ["", "Shop", "my_shop", "-shop", "shop-", "2nd", "a.b", "../x", "ünder", &long] {
            let error = of(bad).expect_err(bad).to_string();
            assert!(error.contains("my-shop"), "{error}");
        }
        for taken in TAKEN {
            assert_eq!(of(taken), Err(NameError::Taken(taken.into())));
        }
        for taken in ["status", "spec", "api-error", "object-ref", "serde"] {
            assert_eq!(of(taken), Err(NameError::Taken(taken.into())), "its kind is a name of the templates' own");
        }
        let longest = of(&"y".repeat(50)).expect("it fits");
        assert!(longest.plural.len() <= 63);
    }

    #[test]
    fn an_author_may_choose_the_api_of_the_objects() {
        let wish =
            ApiWish { kind: Some("CronJob".into()), group: "batch.example.dev".into(), version: "v1alpha1".into() };
        let names = Names::of("my-cron-job", &wish).expect("names");
        let filled = names.fill("{{name}}: {{plural}}.{{group}}, {{singular}}, {{group}}/{{version}} {{Kind}}");
        assert_eq!(filled, "my-cron-job: cronjobs.batch.example.dev, cronjob, batch.example.dev/v1alpha1 CronJob");
        let only_kind = Names::of("status", &ApiWish { kind: Some("Report".into()), ..ApiWish::default() });
        assert_eq!(only_kind.expect("its own kind is no matter then").group, "example.com");
    }

    #[test]
    fn invalid_apis_are_refused_with_an_example() {
        let kind = |kind: &str| ApiWish { kind: Some(kind.into()), ..ApiWish::default() };
        let group = |group: &str| ApiWish { group: group.into(), ..ApiWish::default() };
        let version = |version: &str| ApiWish { version: version.into(), ..ApiWish::default() };
        for (wishes, expected) in [
            (["", "cronJob", "Cron-Job", "Größe", "2Job"].map(kind).to_vec(), "such as `CronJob`"),
            (["Spec", "Self", "Predicate"].map(kind).to_vec(), "has another meaning"),
            (
                ["", "apps", "Shops.example.com", "a..b", "example.com/v1"].map(group).to_vec(),
                "such as `shops.example.com`",
            ),
            (["batch.k8s.io", "x.kubernetes.io"].map(group).to_vec(), "reserved for Kubernetes"),
            (["", "1", "v0", "v1.2", "v1gamma1", "valpha1", "v1beta", "V1"].map(version).to_vec(), "`v2beta1`"),
        ] {
            for wish in wishes {
                let error = Names::of("shop", &wish).expect_err(expected).to_string();
                assert!(error.contains(expected), "{wish:?}: {error}");
            }
        }
        for right in ["v1", "v12", "v1alpha1", "v2beta10"].map(version) {
            assert!(Names::of("shop", &right).is_ok(), "{right:?}");
        }
    }
}

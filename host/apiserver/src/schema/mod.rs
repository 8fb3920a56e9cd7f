//! The structural schema of one version of a custom resource, by which the API server defaults, prunes and validates.
//!
//! A schema is parsed once, when its definition is stored; parsing refuses what Kubernetes calls non-structural.
//! It is not a general `OpenAPI` validator: it refuses `$ref` and similar keywords. Its CEL rules are in [`rules`].
//! The custom resource handlers call it, and so does [`crate::merge::lists::Place`], which reads the list types from
//! it.
//!
//! Behaviour follows `k8s.io/apiextensions-apiserver/pkg/apiserver/schema` and `k8s.io/kube-openapi/pkg/validation`.
//! Recursion is bounded by the depth of the schema and of the object; `serde_json` reads at most 128 levels.

mod correlate;
mod embedded;
mod error;
mod format;
mod logic;
pub(crate) mod numbers;
mod openapi;
mod parse;
mod properties;
mod rules;
mod shape;
mod structural;
#[cfg(test)]
mod tests;
pub(crate) mod typed;
mod types;
mod validate;

use std::{ops::Deref, sync::Arc};

use serde_json::{Number, Value};

pub(crate) use embedded::{Malformed, decoded as decoded_metadata};
pub(crate) use error::{SchemaError, number_text};
pub(crate) use openapi::unrecognized_formats;
use properties::Properties;
pub(crate) use rules::Judgement;
use rules::Rule;
pub(crate) use validate::below;

use crate::cause::Cause;
use crate::pattern::{Pattern, PatternBudget};

/// A parsed structural schema. Cloning is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    root: Arc<Node>,
    /// Whether any node is an embedded resource.
    embeds: bool,
}

impl Schema {
    #[cfg(test)]
    pub(crate) fn parse(openapi: &Value) -> Result<Self, Vec<SchemaError>> {
        Self::parse_within(&PatternBudget::full(), openapi)
    }

    /// Reads an `openAPIV3Schema`, and refuses it if it is not structural. All versions of a definition share their
    /// patterns.
    pub(crate) fn parse_within(patterns: &PatternBudget, openapi: &Value) -> Result<Self, Vec<SchemaError>> {
        let written = openapi::check(openapi);
        // Most schemas that cannot be parsed also break a rule about how a schema is written.
        let mut root = match parse::node(openapi, &parse::Path::root(), patterns) {
            Ok(root) => root,
            Err(error) => return Err(if written.errors.is_empty() { vec![error] } else { written.errors }),
        };
        let mut errors = if written.is_expressible { structural::check(&root, openapi) } else { Vec::new() };
        errors.extend(written.errors);
        errors.extend(rules::check(&root));
        if errors.is_empty() {
            errors = rules::compile(&mut root);
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let embeds = embedded::is_in(&root);
        Ok(Self { root: Arc::new(root), embeds })
    }

    /// Drops nulls from fields that may not be null, and fills in defaults, as the server does whenever it decodes an
    /// object.
    pub(crate) fn default(&self, object: &mut Value) {
        shape::drop_forbidden_nulls(&self.root, object);
        shape::fill_defaults(&self.root, object);
    }

    /// Fills in defaults only. The server does not decode the result of an apply, so nulls stay and are validated.
    pub(crate) fn fill_defaults(&self, object: &mut Value) {
        shape::fill_defaults(&self.root, object);
    }

    /// Removes the fields that the schema does not name and returns their dotted paths.
    ///
    /// `apiVersion`, `kind` and `metadata` of the object, and of every embedded resource, always stay.
    pub(crate) fn prune(&self, object: &mut Value) -> Vec<String> {
        shape::prune(&self.root, object)
    }

    /// Normalises the types and metadata of embedded resources, and returns the unknown fields of the metadata.
    pub(crate) fn coerce_embedded(&self, object: &mut Value, malformed: Malformed) -> Result<Vec<String>, Cause> {
        if self.embeds { embedded::coerce(&self.root, object, malformed) } else { Ok(Vec::new()) }
    }

    /// Whether objects have embedded resources.
    pub(crate) fn embeds(&self) -> bool {
        self.embeds
    }

    /// All errors of the object, in document order. With an `old` object, only errors of what changed.
    pub(crate) fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        validate::run_on_change(&self.root, object, old)
    }

    /// The same for a write of the status; the errors name paths in the status.
    pub(crate) fn validate_status(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        validate::run_on_status_change(&self.root, object, old)
    }

    /// Evaluates the CEL rules on an object that is otherwise valid, including those on the change from an old object.
    pub(crate) fn check_rules(&self, object: &Value, old: Option<&Value>) -> Judgement {
        rules::run(&self.root, object, old)
    }

    /// Whether there is any rule.
    pub(crate) fn has_rules(&self) -> bool {
        self.root.has_rules
    }

    /// The node that describes the whole object.
    pub(crate) fn root(&self) -> &Node {
        &self.root
    }
}

/// The schema of one value.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// The declared type; `None` only where `int-or-string` or `preserve-unknown-fields` replaces it.
    pub(crate) kind: Option<Kind>,
    /// Named fields.
    pub(crate) properties: Properties<Node>,
    /// The schema of other fields.
    pub(crate) additional: Additional,
    /// The schema of each item of a list.
    pub(crate) items: Option<Box<Node>>,
    /// `default`.
    pub(crate) default: Option<Value>,
    /// How items of a list are identified.
    pub(crate) list: ListKind,
    /// The CEL rules of this node.
    rules: Vec<Rule>,
    /// The same rules as written, until they are compiled.
    written_rules: Vec<Value>,
    /// Whether this node or a node below has rules.
    has_rules: bool,
    /// Facts about this node beside its type.
    marks: Vec<Mark>,
    checks: SparseChecks,
}

impl Node {
    /// Whether the node has this mark.
    pub(crate) fn is(&self, mark: Mark) -> bool {
        self.marks.contains(&mark)
    }

    /// Whether a null is an error here.
    fn refuses_null(&self) -> bool {
        !self.is(Mark::Nullable) && (self.kind.is_some() || self.is(Mark::IntOrString))
    }
}

/// How the items of a list are identified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// Not at all: the list is one value with one owner.
    #[default]
    Atomic,
    /// By their values.
    Set,
    /// By these fields of each item.
    Map(Vec<String>),
}

/// A fact about a node beside its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// `x-kubernetes-map-type: atomic`.
    AtomicMap,
    /// `x-kubernetes-preserve-unknown-fields`.
    PreserveUnknown,
    /// `x-kubernetes-embedded-resource`.
    EmbeddedResource,
    /// `x-kubernetes-int-or-string`.
    IntOrString,
    /// `nullable`.
    Nullable,
    /// It has a title.
    Titled,
    /// It has a description.
    Described,
    /// The schema has a list type, a map type, or list keys.
    Listed,
    Mapped,
    Keyed,
    /// A text with a format, known or unknown, other than `byte`: its owners are tracked as for any scalar.
    AnyScalar,
}

/// `type` of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
}

impl Kind {
    const ALL: [Self; 6] = [Self::Array, Self::Boolean, Self::Integer, Self::Number, Self::Object, Self::String];

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Object => "object",
            Self::String => "string",
        }
    }
}

/// `additionalProperties`.
#[derive(Debug, Default)]
pub(crate) enum Additional {
    /// Fields that the schema does not name are unknown.
    #[default]
    Unknown,
    /// `true`: any value.
    Anything,
    /// Every other field has this schema.
    Like(Box<Node>),
}

impl Additional {
    /// The schema of the fields that are not named, if there is one.
    pub(crate) fn node(&self) -> Option<&Node> {
        match self {
            Self::Like(node) => Some(node),
            Self::Unknown | Self::Anything => None,
        }
    }
}

/// The parts of a schema that only say which values are valid.
#[derive(Debug)]
struct Checks {
    required: Vec<String>,
    one_of_values: Option<Vec<Value>>,
    minimum: Option<Bound>,
    maximum: Option<Bound>,
    multiple_of: Option<Number>,
    length: Range,
    items: Range,
    properties: Range,
    pattern: Option<Arc<Pattern>>,
    format: Option<format::Format>,
    all_of: Vec<Node>,
    any_of: Vec<Node>,
    one_of: Vec<Node>,
    not: Option<Box<Node>>,
}

/// The checks of a node. Boxed, as most nodes have none and [`Checks`] is large.
#[derive(Debug, Default)]
struct SparseChecks(Option<Box<Checks>>);

impl From<Checks> for SparseChecks {
    fn from(checks: Checks) -> Self {
        Self((!checks.is_empty()).then(|| Box::new(checks)))
    }
}

impl Deref for SparseChecks {
    type Target = Checks;

    fn deref(&self) -> &Checks {
        self.0.as_deref().unwrap_or(&NO_CHECKS)
    }
}

static NO_CHECKS: Checks = Checks {
    required: Vec::new(),
    one_of_values: None,
    minimum: None,
    maximum: None,
    multiple_of: None,
    length: Range::ANY,
    items: Range::ANY,
    properties: Range::ANY,
    pattern: None,
    format: None,
    all_of: Vec::new(),
    any_of: Vec::new(),
    one_of: Vec::new(),
    not: None,
};

impl Checks {
    /// Whether every value is valid.
    fn is_empty(&self) -> bool {
        let Self {
            required,
            one_of_values,
            minimum,
            maximum,
            multiple_of,
            length,
            items,
            properties,
            pattern,
            format,
            all_of,
            any_of,
            one_of,
            not,
        } = self;
        let has_no_bounds = minimum.is_none() && maximum.is_none() && multiple_of.is_none();
        let has_no_operators = all_of.is_empty() && any_of.is_empty() && one_of.is_empty() && not.is_none();
        let allows_any_text = pattern.is_none() && format.is_none();
        let allows_any_size = [length, items, properties].into_iter().all(|range| *range == Range::ANY);
        has_no_bounds
            && has_no_operators
            && allows_any_text
            && allows_any_size
            && required.is_empty()
            && one_of_values.is_none()
    }

    /// The nested schemas, with the keyword and index that lead to each.
    fn nested(&self) -> impl Iterator<Item = (String, &Node)> {
        fn numbered<'a>(keyword: &'a str, nodes: &'a [Node]) -> impl Iterator<Item = (String, &'a Node)> {
            nodes.iter().enumerate().map(move |(index, node)| (format!("{keyword}[{index}]"), node))
        }
        numbered("allOf", &self.all_of)
            .chain(numbered("anyOf", &self.any_of))
            .chain(numbered("oneOf", &self.one_of))
            .chain(self.not.as_deref().map(|node| ("not".to_owned(), node)))
    }
}

/// A limit on a number.
#[derive(Debug)]
struct Bound {
    at: Number,
    exclusive: bool,
}

/// Limits on a size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Range {
    least: Option<u64>,
    most: Option<u64>,
}

impl Range {
    const ANY: Range = Range { least: None, most: None };
}

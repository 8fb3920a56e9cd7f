//! The structural schema of one version of a custom resource. The API server uses it to default, prune and validate
//! objects.
//!
//! A schema is parsed once, when its definition is stored. Parsing refuses schemas that are not structural in
//! Kubernetes' sense. This is not a general `OpenAPI` validator: it refuses `$ref` and similar keywords. [`rules`] has
//! the CEL rules. The custom resource handlers call this module. [`crate::merge::lists::Place`] reads the list types
//! from it.
//!
//! The behaviour follows `k8s.io/apiextensions-apiserver/pkg/apiserver/schema` and
//! `k8s.io/kube-openapi/pkg/validation`. Recursion is limited by the depth of the schema and of the object;
//! `serde_json` reads at most 128 levels.

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
    /// Whether the schema contains an embedded resource.
    embeds: bool,
}

impl Schema {
    #[cfg(test)]
    pub(crate) fn parse(openapi: &Value) -> Result<Self, Vec<SchemaError>> {
        Self::parse_within(&PatternBudget::full(), openapi)
    }

    /// Parses an `openAPIV3Schema`. It is an error if the schema is not structural. All versions of a definition share
    /// their compiled patterns.
    pub(crate) fn parse_within(patterns: &PatternBudget, openapi: &Value) -> Result<Self, Vec<SchemaError>> {
        let written = openapi::check(openapi);
        // A schema that cannot be parsed usually also breaks a rule of `openapi`, whose errors are better.
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

    /// Drops null fields that may not be null, and fills in defaults. The server does this whenever it decodes an
    /// object.
    pub(crate) fn default(&self, object: &mut Value) {
        shape::drop_forbidden_nulls(&self.root, object);
        shape::fill_defaults(&self.root, object);
    }

    /// Fills in defaults, but keeps nulls, which are then validated. This is for the result of an apply, which the
    /// server does not decode.
    pub(crate) fn fill_defaults(&self, object: &mut Value) {
        shape::fill_defaults(&self.root, object);
    }

    /// Removes the fields that the schema does not declare, and returns their dotted paths.
    ///
    /// The fields `apiVersion`, `kind` and `metadata` of the object and of every embedded resource always stay.
    pub(crate) fn prune(&self, object: &mut Value) -> Vec<String> {
        shape::prune(&self.root, object)
    }

    /// Normalizes the type and metadata of embedded resources. Returns the unknown fields of their metadata.
    pub(crate) fn coerce_embedded(&self, object: &mut Value, malformed: Malformed) -> Result<Vec<String>, Cause> {
        if self.embeds { embedded::coerce(&self.root, object, malformed) } else { Ok(Vec::new()) }
    }

    /// Whether objects have embedded resources.
    pub(crate) fn embeds(&self) -> bool {
        self.embeds
    }

    /// All errors in the object, in the order of the document. With an `old` object, only errors in changed parts.
    pub(crate) fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        validate::run_on_change(&self.root, object, old)
    }

    /// Like [`Self::validate`], for a write to the status. Errors name paths in the status.
    pub(crate) fn validate_status(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        validate::run_on_status_change(&self.root, object, old)
    }

    /// Evaluates the CEL rules on an object that is otherwise valid. With an `old` object, this includes rules about
    /// the change.
    pub(crate) fn check_rules(&self, object: &Value, old: Option<&Value>) -> Judgement {
        rules::run(&self.root, object, old)
    }

    /// Whether the schema has CEL rules.
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
    /// The declared type. `None` only if `int-or-string` or `preserve-unknown-fields` stands in its place.
    pub(crate) kind: Option<Kind>,
    /// The declared fields.
    pub(crate) properties: Properties<Node>,
    /// The schema of all other fields.
    pub(crate) additional: Additional,
    /// The schema of each item of a list.
    pub(crate) items: Option<Box<Node>>,
    /// `default`.
    pub(crate) default: Option<Value>,
    /// The way in which items of a list are identified.
    pub(crate) list: ListKind,
    /// The CEL rules of this node.
    rules: Vec<Rule>,
    /// The JSON of the rules, until they are compiled.
    written_rules: Vec<Value>,
    /// Whether this node or a node below has rules.
    has_rules: bool,
    /// Properties of this node other than its type.
    marks: Vec<Mark>,
    checks: SparseChecks,
}

impl Node {
    /// Whether the node has this mark.
    pub(crate) fn is(&self, mark: Mark) -> bool {
        self.marks.contains(&mark)
    }

    /// Whether null is an invalid value here.
    fn refuses_null(&self) -> bool {
        !self.is(Mark::Nullable) && (self.kind.is_some() || self.is(Mark::IntOrString))
    }
}

/// The way in which the items of a list are identified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// Items are not identified: the list is one value with one owner.
    #[default]
    Atomic,
    /// Items are identified by their values.
    Set,
    /// Items are identified by these fields.
    Map(Vec<String>),
}

/// A property of a node other than its type.
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
    /// The schema has a title.
    Titled,
    /// The schema has a description.
    Described,
    /// The schema has a list type, a map type, or list keys.
    Listed,
    Mapped,
    Keyed,
    /// The value is a string with a format other than `byte`, even an unknown one. Server-side apply then accepts any
    /// scalar.
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
    /// Absent: fields that the schema does not declare are unknown.
    #[default]
    Unknown,
    /// `true`: other fields may have any value.
    Anything,
    /// A schema: all other fields have this schema.
    Like(Box<Node>),
}

impl Additional {
    /// The schema of fields that are not declared, if there is one.
    pub(crate) fn node(&self) -> Option<&Node> {
        match self {
            Self::Like(node) => Some(node),
            Self::Unknown | Self::Anything => None,
        }
    }
}

/// The parts of a schema that are needed only for validation.
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

/// The checks of a node. They are boxed, because most nodes have no checks and [`Checks`] is large.
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

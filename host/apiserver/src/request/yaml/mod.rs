//! Reads YAML like a real server: YAML 1.1, as read by `sigs.k8s.io/yaml` and `go.yaml.in/yaml/v2`. A YAML parser
//! provides the events, and this module interprets them.

mod scalar;

use std::collections::HashMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use granit_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Map, Value};

use scalar::Scalar;

/// The deepest allowed nesting. Go allows more, but objects that deep are refused anyway. An alias counts with the
/// depth of its node.
const DEPTH_MAX: usize = 200;
/// The memory limit for all copies of anchored nodes in a document. In Go, aliases share the node. Here each alias is a
/// copy, and each anchor keeps another copy for its aliases. A normal body has at most 3 MB and few aliases, but an
/// attacker's aliases could expand to gigabytes.
const COPIES_MAX_BYTES: usize = 64 << 20;
/// The memory of the smallest map, because the standard library allocates eleven entries at once.
const MAP_BYTES: usize = 11 * (size_of::<String>() + size_of::<Value>());

/// The error for invalid YAML, or for YAML that cannot be converted to JSON. In simple cases it has the words of Go's
/// reader.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct YamlError(String);

impl YamlError {
    fn new(line: Option<usize>, why: &str) -> YamlError {
        let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        YamlError(format!("yaml: {line}{why}"))
    }

    fn bare(why: String) -> YamlError {
        YamlError(why)
    }

    fn unsupported_number(number: f64) -> YamlError {
        let shown = match number {
            number if number.is_nan() => "NaN",
            number if number > 0.0 => "+Inf",
            _ => "-Inf",
        };
        YamlError(format!("json: unsupported value: {shown}"))
    }
}

/// A document, and its duplicate keys, each with its line and in the words of strict decoding.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Parsed {
    pub(crate) value: Value,
    pub(crate) duplicates: Vec<String>,
}

/// Parses the first document, or returns null if there is none. The text after it is not read: in the body of a
/// request, only the first document counts.
pub(crate) fn first(body: &[u8]) -> Result<Parsed, YamlError> {
    let Ok(text) = std::str::from_utf8(body) else { return Err(YamlError::new(None, "invalid leading UTF-8 octet")) };
    let mut reader = YamlReader::new(text);
    let value = reader.document()?.unwrap_or_default();
    Ok(Parsed { value, duplicates: reader.duplicates })
}

/// Parses all documents.
pub(crate) fn all(text: &str) -> Result<Vec<Value>, YamlError> {
    let mut reader = YamlReader::new(text);
    let mut documents = Vec::new();
    while let Some(document) = reader.document()? {
        documents.push(document);
    }
    Ok(documents)
}

/// A node that an alias may refer to.
struct Anchored {
    value: Value,
    nodes: u64,
    /// The nesting depth of the node's lists and maps, including the node itself.
    height: usize,
    /// The node's approximate memory use.
    bytes: usize,
}

struct YamlReader<'a> {
    parser: Parser<'a, granit_parser::StrInput<'a>>,
    anchors: HashMap<usize, Anchored>,
    depth: usize,
    /// The greatest depth reached within the current node.
    deepest: usize,
    /// The number of nodes in this document so far, and how many of them come from aliases.
    nodes: u64,
    aliased: u64,
    /// The memory used by this document so far, and by copies for anchors and aliases, in bytes.
    bytes: usize,
    copied: usize,
    /// The line of the last event, from 1.
    line: usize,
    duplicates: Vec<String>,
}

impl<'a> YamlReader<'a> {
    fn new(text: &'a str) -> YamlReader<'a> {
        YamlReader {
            parser: Parser::new_from_str(text),
            anchors: HashMap::new(),
            depth: 0,
            deepest: 0,
            nodes: 0,
            aliased: 0,
            bytes: 0,
            copied: 0,
            line: 1,
            duplicates: Vec::new(),
        }
    }

    /// Reads the next document. `None` at the end of the text.
    fn document(&mut self) -> Result<Option<Value>, YamlError> {
        loop {
            match self.event()? {
                None | Some(Event::StreamEnd) => return Ok(None),
                Some(Event::DocumentStart(..)) => {
                    self.anchors.clear();
                    (self.nodes, self.aliased, self.bytes, self.copied) = (0, 0, 0, 0);
                    return self.node().map(Some);
                }
                Some(_) => {}
            }
        }
    }

    fn event(&mut self) -> Result<Option<Event<'a>>, YamlError> {
        loop {
            match self.parser.next_event() {
                None => return Ok(None),
                Some(Ok((Event::Comment(..), _))) => {}
                Some(Ok((event, span))) => {
                    self.line = span.start.line();
                    return Ok(Some(event));
                }
                Some(Err(error)) => return Err(YamlError::new(Some(error.marker().line()), &error.info())),
            }
        }
    }

    fn node(&mut self) -> Result<Value, YamlError> {
        match self.event()? {
            Some(event) => self.node_of(event),
            None => Err(YamlError::new(None, "unexpected end of the text")),
        }
    }

    fn node_of(&mut self, event: Event<'a>) -> Result<Value, YamlError> {
        let (nodes, bytes) = (self.nodes, self.bytes);
        let around = std::mem::replace(&mut self.deepest, self.depth);
        self.nodes += 1;
        self.bytes += size_of::<Value>();
        let (value, anchor) = match event {
            Event::Alias(anchor) => (self.alias(anchor)?, 0),
            Event::Scalar(text, style, anchor, tag) => {
                self.bytes += text.len();
                (resolved(&text, style, tag.as_deref())?.into_value()?, anchor)
            }
            Event::SequenceStart(_, anchor, _) => (self.nested(YamlReader::sequence)?, anchor),
            Event::MappingStart(_, anchor, _) => {
                self.bytes += MAP_BYTES;
                (self.nested(YamlReader::mapping)?, anchor)
            }
            _ => return Err(YamlError::new(None, "did not find expected node content")),
        };
        if anchor != 0 {
            let (nodes, bytes) = (self.nodes - nodes, self.bytes - bytes);
            self.copy(bytes)?;
            let height = self.deepest - self.depth;
            self.anchors.insert(anchor, Anchored { value: value.clone(), nodes, height, bytes });
        }
        self.deepest = self.deepest.max(around);
        Ok(value)
    }

    fn nested(
        &mut self,
        read: impl FnOnce(&mut YamlReader<'a>) -> Result<Value, YamlError>,
    ) -> Result<Value, YamlError> {
        self.depth += 1;
        self.reach(self.depth)?;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn reach(&mut self, depth: usize) -> Result<(), YamlError> {
        if depth > DEPTH_MAX {
            return Err(YamlError::new(None, &format!("exceeded max depth of {DEPTH_MAX}")));
        }
        self.deepest = self.deepest.max(depth);
        Ok(())
    }

    /// Counts a copy of this size. It is an error if all copies of the document exceed their limit.
    fn copy(&mut self, bytes: usize) -> Result<(), YamlError> {
        self.copied += bytes;
        if self.copied > COPIES_MAX_BYTES {
            return Err(YamlError::new(None, "document's anchors and aliases take too much memory"));
        }
        Ok(())
    }

    /// Expands an alias. As in `failOnExcessiveAliasing`, almost all nodes of a small document may come from aliases,
    /// but fewer in a large document.
    fn alias(&mut self, anchor: usize) -> Result<Value, YamlError> {
        let Some(found) = self.anchors.get(&anchor) else {
            return Err(YamlError::new(None, "anchor value contains itself"));
        };
        let (nodes, height, bytes) = (found.nodes, found.height, found.bytes);
        self.nodes += nodes;
        self.aliased += nodes;
        if self.aliased > 100 && self.nodes > 1000 && ratio(self.aliased, self.nodes) > allowed_alias_ratio(self.nodes)
        {
            return Err(YamlError::new(None, "document contains excessive aliasing"));
        }
        self.reach(self.depth + height)?;
        self.bytes += bytes;
        self.copy(bytes)?;
        Ok(self.anchors[&anchor].value.clone())
    }

    fn sequence(&mut self) -> Result<Value, YamlError> {
        let mut items = Vec::new();
        loop {
            match self.event()? {
                Some(Event::SequenceEnd) => return Ok(Value::Array(items)),
                Some(event) => items.push(self.node_of(event)?),
                None => return Err(YamlError::new(None, "unexpected end of the text")),
            }
        }
    }

    /// Reads a map. If a key occurs several times, its last value counts, even if one of the values is merged in.
    fn mapping(&mut self) -> Result<Value, YamlError> {
        let mut map = Map::new();
        loop {
            let (key, shown) = match self.event()? {
                Some(Event::MappingEnd) => return Ok(Value::Object(map)),
                Some(Event::Scalar(text, ScalarStyle::Plain, 0, None)) if text == "<<" => {
                    merge(&mut map, self.node()?)?;
                    continue;
                }
                Some(Event::Scalar(text, style, anchor, tag)) => {
                    self.nodes += 1;
                    let bytes = size_of::<Value>() + text.len();
                    self.bytes += bytes;
                    let key = resolved(&text, style, tag.as_deref())?;
                    if anchor != 0 {
                        self.copy(bytes)?;
                        let value = key.clone().into_value()?;
                        self.anchors.insert(anchor, Anchored { value, nodes: 1, height: 0, bytes });
                    }
                    let is_text = matches!(key, Scalar::Text(_));
                    let key = key.into_key()?;
                    let shown = if is_text { format!("{key:?}") } else { key.clone() };
                    (key, shown)
                }
                Some(event) => {
                    let key = self.node_of(event)?;
                    let shown = key.to_string();
                    match key {
                        Value::String(text) => (text, shown),
                        Value::Number(_) | Value::Bool(_) => (shown.clone(), shown),
                        _ => return Err(YamlError::new(None, "invalid map key")),
                    }
                }
                None => return Err(YamlError::new(None, "unexpected end of the text")),
            };
            let Some(event) = self.event()? else { return Err(YamlError::new(None, "unexpected end of the text")) };
            let line = self.line;
            let value = self.node_of(event)?;
            if map.insert(key, value).is_some() {
                self.duplicates.push(format!("line {line}: key {shown} already set in map"));
            }
        }
    }
}

/// Merges the value of `<<`: a map, or several maps, of which the first takes precedence.
fn merge(map: &mut Map<String, Value>, merged: Value) -> Result<(), YamlError> {
    let maps = match merged {
        Value::Array(items) => items,
        other => vec![other],
    };
    for merged in maps.into_iter().rev() {
        let Value::Object(fields) = merged else {
            return Err(YamlError::new(None, "map merge requires map or sequence of maps as the value"));
        };
        map.extend(fields);
    }
    Ok(())
}

/// Finds the value of a scalar, like `scalar` in `go.yaml.in/yaml/v2/decode.go`.
fn resolved(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Scalar, YamlError> {
    match tag.filter(|tag| tag.handle() == "tag:yaml.org,2002:").map(Tag::suffix) {
        None if tag.is_some() || style != ScalarStyle::Plain => Ok(Scalar::Text(text.to_owned())),
        None => Ok(Scalar::of_plain(text)),
        Some("binary") => {
            let decoded = BASE64_STANDARD.decode(text.split_whitespace().collect::<String>());
            let decoded = decoded.map_err(|_| YamlError::new(None, "!!binary value contains invalid base64 data"))?;
            Ok(Scalar::Text(String::from_utf8_lossy(&decoded).into_owned()))
        }
        Some(tag) => Scalar::of_tagged(tag, text),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

/// The allowed share of nodes from aliases, like `allowedAliasRatio` in `go.yaml.in/yaml/v2/decode.go`.
fn allowed_alias_ratio(nodes: u64) -> f64 {
    const LOW: u64 = 400_000;
    const HIGH: u64 = 4_000_000;
    match nodes {
        nodes if nodes <= LOW => 0.99,
        nodes if nodes >= HIGH => 0.10,
        nodes => 0.99 - 0.89 * ratio(nodes - LOW, HIGH - LOW),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn value(text: &[u8]) -> Result<Value, YamlError> {
        first(text).map(|parsed| parsed.value)
    }

    #[test]
    fn the_first_of_several_documents_is_read() {
        for text in ["a: 1\n---\nb: 2\n", "---\na: 1\n...\nb: 2\n", "a: 1\n---\n}", "# text\n\na: 1\n"] {
            assert_eq!(value(text.as_bytes()), Ok(json!({ "a": 1 })), "{text:?}");
        }
        assert_eq!(value(b"---\n---\na: 1\n"), Ok(Value::Null));
        assert_eq!(all("a: 1\n---\n---\nb: 2\n"), Ok(vec![json!({ "a": 1 }), Value::Null, json!({ "b": 2 })]));
    }

    #[test]
    fn aliases_and_merges_apply_in_their_order() {
        let text =
            "base: &b {x: 1, z: 2}\none: {<<: *b, x: 3}\ntwo: {x: 3, <<: *b}\nthree: {<<: [{x: 4}, *b]}\nlist: [*b]\n";
        let expected = json!({
            "base": { "x": 1, "z": 2 },
            "one": { "x": 3, "z": 2 },
            "two": { "x": 1, "z": 2 },
            "three": { "x": 4, "z": 2 },
            "list": [{ "x": 1, "z": 2 }],
        });
        assert_eq!(value(text.as_bytes()), Ok(expected));
        assert!(first(b"a: &a [*a]").is_err());
        assert!(first(b"<<: 1").is_err());
    }

    #[test]
    fn the_last_of_two_keys_counts() {
        assert_eq!(value(b"a: 1\na: 2\n"), Ok(json!({ "a": 2 })));
        let twice = b"a: {b: 1,\n  b: 2}\n01: x\n1: y\n---\nc: 1\nc: 2\n";
        let lines = ["line 2: key \"b\" already set in map", "line 4: key 1 already set in map"];
        assert_eq!(first(twice).expect("a document").duplicates, lines);
    }

    #[test]
    fn a_small_text_cannot_expand_to_a_large_document() {
        let mut text = "a: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let alias = format!("*a{}", level - 1);
            let line = format!("b{level}: &a{level} [{}]\n", [alias.as_str(); 10].join(", "));
            text.push_str(&line);
        }
        let error = first(text.as_bytes()).expect_err("a billion");
        assert_eq!(error.to_string(), "yaml: document contains excessive aliasing");
        let deep = "[".repeat(100_000);
        assert!(first(deep.as_bytes()).is_err());
    }

    /// A text with a chain of anchors. Each has lists and maps around an alias to the previous anchor.
    fn chain(links: usize, levels: usize) -> String {
        let (open, close) = ("[{a: ".repeat(levels), "}]".repeat(levels));
        let links = (0..links).map(|link| {
            let inner = if link == 0 { "x".to_owned() } else { format!("*a{}", link - 1) };
            format!("&a{link} {open}{inner}{close}")
        });
        format!("[{}]", links.collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn an_expanded_alias_may_not_exceed_the_depth_limit() {
        // Each link has two levels, and there is a list around all links.
        assert!(value(chain(3, 33).as_bytes()).is_ok());
        assert!(value(chain(99, 1).as_bytes()).is_ok());
        for text in [chain(4, 33), chain(100, 1), chain(25, 99), "- &a {k: &b [x]}\n- ".to_owned() + &chain(100, 1)] {
            let shown = "yaml: exceeded max depth of 200";
            assert_eq!(value(text.as_bytes()).map(|_| ()).expect_err("deep").to_string(), shown);
            assert_eq!(all(&text).map(|_| ()).expect_err("deep").to_string(), shown);
        }
        // The depth of an alias counts from the place of the alias, not from the place of its anchor.
        assert!(value(format!("[{}, [[*a98]]]", &chain(99, 1)).as_bytes()).is_err());
        assert!(value(format!("[{0}, {0}]", chain(98, 1)).as_bytes()).is_ok());
    }

    #[test]
    fn aliases_that_copy_much_text_are_refused() {
        let much = "x".repeat(100_000);
        let text = |times: usize| format!("a: &a {much:?}\nb: [{}]\n", vec!["*a"; times].join(", "));
        assert!(value(text(600).as_bytes()).is_ok());
        let two_documents = format!("{}---\n{}", text(600), text(600));
        assert!(all(&two_documents).is_ok());
        let many = |alias: &str| vec![alias; 700].join(", ");
        let key = format!("? &a {much:?}\n: 1\n? b\n: [{}]\n", many("*a"));
        let keys = format!("a: &a {much:?}\nb: {{{}}}\n", many("*a : 1"));
        let anchors: Vec<String> = (0..190).map(|level| format!("&a{level} [")).collect();
        let anchors = anchors.concat();
        let anchors = format!("{anchors}{}, {much:?}, {much:?}, {much:?}, {much:?}{}", "x", "]".repeat(190));
        for text in [text(700), key, keys, anchors] {
            let error = value(text.as_bytes()).map(|_| ()).expect_err("much").to_string();
            assert_eq!(error, "yaml: document's anchors and aliases take too much memory");
        }
    }

    #[test]
    fn an_error_names_its_line() {
        assert!(first(b"a: 1\nb: [").expect_err("open").to_string().starts_with("yaml: line "));
    }
}

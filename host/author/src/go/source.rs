//! Edits of Go source files, by lines.
//!
//! gofmt has formatted the files, so a declaration of the top level begins in the first column, and its closing brace
//! is the next brace in the first column.

use std::collections::BTreeSet;

/// The import that replaces `net/http` in a file that only needs its constants.
pub(super) const CONSTANTS_PACKAGE: &str = "k8s.io/apimachinery/pkg/util/windlasshttp";
/// The names that [`CONSTANTS_PACKAGE`] has, by their prefix.
const CONSTANT_PREFIXES: [&str; 3] = ["Status", "Method", "ErrAbortHandler"];

/// The helper that prints an object, in each edited file.
const TEXT_HELPER: &str = "
// windlassText returns the JSON of an object. It replaces the generated code that printed objects field by field.
func windlassText(object any) string {
	text, err := windlassjson.Marshal(object)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
";

/// The edit of a `generated.pb.go`.
///
/// Go links the functions that marshal only if the program uses them. But it links each `String`, because any object
/// may be printed, and that code takes a megabyte. In the edited file, `String` returns JSON. Files that gogo/protobuf
/// generated, up to Kubernetes 0.34, also register all types, which links everything; the edited file does not.
pub(super) fn protobuf(text: &str) -> String {
    let mut edited = Vec::new();
    let mut is_skipped = false;
    for line in text.lines() {
        if is_skipped {
            is_skipped = !line.starts_with('}');
            continue;
        }
        match ProtobufLine::of(line) {
            ProtobufLine::Kept => edited.push(line.to_owned()),
            ProtobufLine::Dropped => is_skipped = opens_block(line),
            ProtobufLine::Text { receiver } => {
                let head = line.split_inclusive('{').next().unwrap_or(line);
                edited.push(format!("{head}\n\treturn windlassText({receiver})\n}}"));
                is_skipped = opens_block(line);
            }
        }
    }
    let mut edited = edited.join("\n");
    edited.push('\n');
    if edited.contains("return windlassText(") {
        edited = edited.replacen("import (\n", "import (\n\twindlassjson \"encoding/json\"\n", 1) + TEXT_HELPER;
    }
    without_unused_imports(&edited)
}

fn opens_block(line: &str) -> bool {
    line.trim_end().ends_with(['{', '('])
}

/// The fate of a line of the top level.
enum ProtobufLine<'l> {
    Kept,
    Dropped,
    /// The beginning of a method `String`.
    Text {
        receiver: &'l str,
    },
}

impl<'l> ProtobufLine<'l> {
    fn of(line: &'l str) -> Self {
        const REGISTERS: [&str; 5] =
            ["func init() {", "var xxx_messageInfo_", "var fileDescriptor_", "var _ = proto.", "const _ = proto."];
        if REGISTERS.iter().any(|start| line.starts_with(start)) {
            return Self::Dropped;
        }
        let Some((receiver, method)) = line.strip_prefix("func (").and_then(|rest| rest.split_once(") ")) else {
            return Self::Kept;
        };
        if method.starts_with("Descriptor() ") || method.starts_with("XXX_") {
            return Self::Dropped;
        }
        match receiver.split_once(' ') {
            Some((receiver, _)) if method.starts_with("String() string {") => Self::Text { receiver },
            _ => Self::Kept,
        }
    }
}

/// The file with [`CONSTANTS_PACKAGE`] instead of `net/http`, which takes five megabytes. `None` if it does not import
/// `net/http`, or needs more than constants of it.
pub(super) fn without_net_http(text: &str) -> Option<String> {
    const IMPORT: &str = "\t\"net/http\"\n";
    if !text.contains(IMPORT) {
        return None;
    }
    let code = code(text);
    let names = names_of("http", &code);
    let are_constants = names.iter().all(|name| CONSTANT_PREFIXES.iter().any(|prefix| name.starts_with(prefix)));
    are_constants.then(|| text.replacen(IMPORT, &format!("\thttp \"{CONSTANTS_PACKAGE}\"\n"), 1))
}

/// The edit of the file of structured-merge-diff that reads and writes JSON. It uses encoding/json, which each plugin
/// has, instead of json-iterator, which takes half a megabyte. `None` if the file has another form.
pub(super) fn json_values(text: &str) -> Option<String> {
    const READ: &str = "\tvar v interface{}
\tif err := windlassjson.Unmarshal(input, &v); err != nil {
\t\treturn nil, err
\t}
\treturn NewValueInterface(v), nil
}";
    const WRITE: &str = "\treturn windlassjson.Marshal(v.Unstructured())\n}";
    const EDITS: [(&str, Option<&str>); 5] = [
        ("func FromJSONFast(input []byte) (Value, error) {\n", Some(READ)),
        ("func ToJSON(v Value) ([]byte, error) {\n", Some(WRITE)),
        ("func readJSONIter(", None),
        ("func writeJSONStream(", None),
        ("var (\n\treadPool ", None),
    ];
    let mut edited = text.to_owned();
    for (start, body) in EDITS {
        let at = edited.find(&format!("\n{start}"))? + 1;
        let (head, end) = (edited[..at].to_owned(), if start.starts_with("var") { "\n)\n" } else { "\n}\n" });
        let after = edited[at..].split_once(end)?.1;
        let replaced = body.map_or_else(String::new, |body| format!("{start}{body}\n"));
        edited = format!("{head}{replaced}{after}");
    }
    let edited = edited.replacen("import (\n", "import (\n\twindlassjson \"encoding/json\"\n", 1);
    let edited = without_unused_imports(&edited);
    (!edited.contains("json-iterator")).then_some(edited)
}

/// The name of a package that is imported without an alias.
fn name_in_path(path: &str) -> &str {
    let is_version =
        |text: &str| text.strip_prefix('v').is_some_and(|rest| rest.starts_with(|it: char| it.is_ascii_digit()));
    let mut parts = path.rsplit('/').filter(|part| !is_version(part));
    let name = parts.next().unwrap_or(path);
    name.split_once('.').filter(|(_, version)| is_version(version)).map_or(name, |(name, _)| name)
}

/// Deletes imports that nothing uses, which Go refuses.
fn without_unused_imports(text: &str) -> String {
    let Some((before, rest)) = text.split_once("import (\n") else { return text.to_owned() };
    let Some((imports, after)) = rest.split_once("\n)\n") else { return text.to_owned() };
    let code = code(after);
    let is_used = |line: &&str| {
        let Some((alias, path)) = line.trim().trim_end_matches('"').split_once('"') else { return true };
        let alias = alias.trim();
        let name = if alias.is_empty() { name_in_path(path) } else { alias };
        name == "_" || !names_of(name, &code).is_empty()
    };
    let imports: Vec<_> = imports.lines().filter(is_used).collect();
    format!("{before}import (\n{}\n)\n{after}", imports.join("\n"))
}

/// The exported names of `package` that `code` uses.
fn names_of<'c>(package: &str, code: &'c str) -> BTreeSet<&'c str> {
    let is_of_name = |character: char| character.is_alphanumeric() || character == '_';
    let prefix = format!("{package}.");
    let uses = code.match_indices(&prefix).filter_map(|(at, _)| {
        let is_whole = !code[..at].ends_with(|before| is_of_name(before) || before == '.');
        let rest = &code[at + prefix.len()..];
        let name = &rest[..rest.find(|character| !is_of_name(character)).unwrap_or(rest.len())];
        (is_whole && name.starts_with(char::is_uppercase)).then_some(name)
    });
    uses.collect()
}

/// The text without line comments and the contents of strings.
fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    for line in text.lines() {
        let mut is_quoted = false;
        let mut characters = line.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\\' if is_quoted => drop(characters.next()),
                '"' => is_quoted = !is_quoted,
                '/' if !is_quoted && characters.peek() == Some(&'/') => break,
                _ if is_quoted => {}
                other => code.push(other),
            }
        }
        code.push('\n');
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENERATED: &str = r#"// Code generated by protoc-gen-gogo. DO NOT EDIT.

package v1

import (
	fmt "fmt"

	proto "github.com/gogo/protobuf/proto"

	strings "strings"
)

// Reference imports to suppress errors if they are not otherwise used.
var _ = proto.Marshal
var _ = fmt.Errorf

func (m *Shop) Reset()      { *m = Shop{} }
func (*Shop) ProtoMessage() {}
func (*Shop) Descriptor() ([]byte, []int) {
	return fileDescriptor_1, []int{0}
}

var xxx_messageInfo_Shop proto.InternalMessageInfo

func init() {
	proto.RegisterType((*Shop)(nil), "k8s.io.api.shop.v1.Shop")
}

var fileDescriptor_1 = []byte{
	0x1f, 0x8b,
}

func (m *Shop) Marshal() (dAtA []byte, err error) {
	return nil, fmt.Errorf("strings.None")
}

func (this *Shop) String() string {
	if this == nil {
		return "nil"
	}
	return strings.Join([]string{`&Shop{`, `}`}, "")
}
"#;

    #[test]
    fn generated_code_keeps_functions_but_prints_and_registers_nothing() {
        let edited = protobuf(GENERATED);
        for kept in
            ["func (m *Shop) Reset()", "func (*Shop) ProtoMessage()", "func (m *Shop) Marshal()", "var _ = fmt."]
        {
            assert!(edited.contains(kept), "{kept} is missing:\n{edited}");
        }
        assert!(edited.contains("func (this *Shop) String() string {\n\treturn windlassText(this)\n}\n"), "{edited}");
        for dropped in
            ["proto.", "gogo/protobuf", "fileDescriptor", "func init", "Descriptor()", "\"strings\"", "&Shop{"]
        {
            assert!(!edited.contains(dropped), "{dropped} is left:\n{edited}");
        }
        assert_eq!(edited.matches("windlassjson \"encoding/json\"").count(), 1);
    }

    #[test]
    fn a_generated_file_without_printing_stays_as_it_is() {
        let text =
            "package v1\n\nimport (\n\tfmt \"fmt\"\n)\n\nfunc (m *A) Size() (n int) { return len(fmt.Sprint(m)) }\n";
        assert_eq!(protobuf(text), text);
    }

    #[test]
    fn a_file_that_needs_only_constants_of_http_does_without_it() {
        let text = |uses: &str| format!("import (\n\t\"fmt\"\n\t\"net/http\"\n)\n\n// http.Client\nvar _ = {uses}\n");
        let edited = without_net_http(&text("http.StatusOK + http.MethodPost + \"http.Get\"")).expect("constants");
        assert!(
            edited.contains(&format!("\thttp \"{CONSTANTS_PACKAGE}\"\n")) && !edited.contains("net/http"),
            "{edited}"
        );
        assert_eq!(without_net_http(&text("http.StatusOK + http.DefaultClient")), None);
        assert_eq!(without_net_http("import \"fmt\"\n"), None);
    }

    const VALUES: &str = r#"package value

import (
	"bytes"

	jsoniter "github.com/json-iterator/go"

	"go.yaml.in/yaml/v2"
)

var (
	readPool  = jsoniter.NewIterator(jsoniter.ConfigCompatibleWithStandardLibrary).Pool()
)

// FromJSONFast is a helper.
func FromJSONFast(input []byte) (Value, error) {
	return readJSONIter(readPool.BorrowIterator(input))
}

func ToJSON(v Value) ([]byte, error) {
	buf := bytes.Buffer{}
	return buf.Bytes(), nil
}

func readJSONIter(iter *jsoniter.Iterator) (Value, error) {
	return nil, nil
}

func writeJSONStream(v Value, stream *jsoniter.Stream) {
	stream.WriteVal(v)
}

func ToYAML(v Value) ([]byte, error) {
	return yaml.Marshal(v)
}
"#;

    #[test]
    fn values_are_read_and_written_by_encoding_json() {
        let edited = json_values(VALUES).expect("it has the known form");
        for kept in [
            "windlassjson.Unmarshal(input, &v)",
            "windlassjson.Marshal(v.Unst",
            "yaml/v2\"",
            "return yaml.Marshal(v)\n}\n",
        ] {
            assert!(edited.contains(kept), "{kept} is missing:\n{edited}");
        }
        for dropped in ["jsoniter", "readPool", "JSONIter", "JSONStream", "bytes"] {
            assert!(!edited.contains(dropped), "{dropped} is left:\n{edited}");
        }
        for other in [VALUES.replace("readPool ", "pool "), format!("{VALUES}\nvar p = jsoniter.X\n")] {
            assert_eq!(json_values(&other), None);
        }
    }

    #[test]
    fn packages_are_named_by_the_end_of_their_path() {
        for (path, name) in [
            ("net/http", "http"),
            ("k8s.io/klog/v2", "klog"),
            ("gopkg.in/yaml.v2", "yaml"),
            ("gopkg.in/inf.v0", "inf"),
            ("io", "io"),
        ] {
            assert_eq!(name_in_path(path), name);
        }
    }

    #[test]
    fn names_are_found_in_code_only() {
        let text =
            "a := time.Now() // time.Sleep\nb := \"time.After\" + runtime.Time.X + mytime.Go\nc := time.second\n";
        assert_eq!(names_of("time", &code(text)), BTreeSet::from(["Now"]));
    }
}

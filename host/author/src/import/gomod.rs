//! Reads go.mod, and writes the go.mod of a plugin that is a module of its own inside a project.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use semver::Version;
use windlass_policy::draft::quoted;

/// A go.mod, as far as another module needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GoMod {
    pub module: String,
    /// The version of Go.
    pub go: String,
    pub requires: BTreeMap<String, String>,
    pub replaces: Vec<Replace>,
    /// The rest of each `exclude` line.
    pub excludes: Vec<String>,
}

/// A `replace` line. The versions are empty if it has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Replace {
    pub from: String,
    pub from_version: String,
    pub to: String,
    pub to_version: String,
}

/// go.mod cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum GoModError {
    #[error("go.mod:{line}: cannot be understood: {text:?}")]
    Line { line: usize, text: String },
    #[error("go.mod names no module, or a module whose path has unusual characters")]
    NoModule,
}

impl GoMod {
    pub(super) fn parse(text: &str) -> Result<Self, GoModError> {
        let mut found = Self::default();
        let mut block: Option<String> = None;
        for (index, line) in text.lines().enumerate() {
            let words = words(line);
            let words = words.as_ref().map(|words| words.iter().map(String::as_str).collect::<Vec<_>>());
            let understood = match (words.as_deref(), &block) {
                (None, _) => false,
                (Some([]), _) => true,
                (Some([")"]), Some(_)) => {
                    block = None;
                    true
                }
                (Some([verb, "("]), None) => {
                    block = Some((*verb).to_owned());
                    true
                }
                (Some(words), Some(verb)) => found.take(verb, words),
                (Some([verb, words @ ..]), None) => found.take(verb, words),
            };
            if !understood {
                return Err(GoModError::Line { line: index + 1, text: line.chars().take(100).collect() });
            }
        }
        if is_module_path(&found.module) { Ok(found) } else { Err(GoModError::NoModule) }
    }

    /// Takes the rest of a line. False if it does not fit its verb.
    fn take(&mut self, verb: &str, words: &[&str]) -> bool {
        match (verb, words) {
            ("module", [module]) => (*module).clone_into(&mut self.module),
            ("go", [version]) => (*version).clone_into(&mut self.go),
            ("require", [module, version]) => {
                self.requires.insert((*module).to_owned(), (*version).to_owned());
            }
            ("exclude", [module, version]) => self.excludes.push(format!("{} {}", word(module), word(version))),
            ("replace", words) => {
                let Some(arrow) = words.iter().position(|word| *word == "=>") else { return false };
                let side = |words: &[&str]| match words {
                    [path] => Some(((*path).to_owned(), String::new())),
                    [path, version] => Some(((*path).to_owned(), (*version).to_owned())),
                    _ => None,
                };
                let (Some(from), Some(to)) = (side(&words[..arrow]), side(&words[arrow + 1..])) else { return false };
                let (from, from_version, to, to_version) = (from.0, from.1, to.0, to.1);
                self.replaces.push(Replace { from, from_version, to, to_version });
            }
            ("module" | "go" | "require" | "exclude", _) => return false,
            // Other directives, such as `toolchain` and `retract`, do not matter to another module.
            _ => {}
        }
        true
    }

    /// The go.mod of a new module in `folder`, which is directly inside this module. The new module uses this one from
    /// its folder.
    pub(super) fn nested(&self, folder: &str) -> Self {
        let mut nested = self.clone();
        nested.module = format!("{}/{folder}", self.module);
        nested.requires.insert(self.module.clone(), "v0.0.0".to_owned());
        nested.replaces.retain(|replace| replace.from != self.module);
        for replace in &mut nested.replaces {
            // Go also takes a path for a folder if it begins like this.
            if matches!(&*replace.to, "." | "..") || replace.to.starts_with("./") || replace.to.starts_with("../") {
                let path = if replace.to == "." { "" } else { &replace.to };
                replace.to = format!("../{}", path.strip_prefix("./").unwrap_or(path));
            }
        }
        let (from, to) = (self.module.clone(), "../".to_owned());
        nested.replaces.push(Replace { from, from_version: String::new(), to, to_version: String::new() });
        nested
    }

    /// The required version of `module`, if it is lower than `least`.
    pub(super) fn older(&self, module: &str, least: &str) -> Option<&str> {
        self.requires.get(module).map(String::as_str).filter(|version| is_lower(version, least))
    }

    /// The text of the file.
    pub(super) fn text(&self) -> String {
        let Self { module, go, requires, replaces, excludes } = self;
        let mut text = format!("module {module}\n\n");
        // Writing to a `String` cannot fail.
        if !go.is_empty() {
            let _ = writeln!(text, "go {go}\n");
        }
        text.push_str("require (\n");
        for (module, version) in requires {
            let _ = writeln!(text, "\t{} {}", word(module), word(version));
        }
        text.push_str(")\n\nreplace (\n");
        for Replace { from, from_version, to, to_version } in replaces {
            let side = |path: &str, version: &str| match version {
                "" => word(path),
                _ => format!("{} {}", word(path), word(version)),
            };
            let _ = writeln!(text, "\t{} => {}", side(from, from_version), side(to, to_version));
        }
        text.push_str(")\n");
        for exclude in excludes {
            let _ = writeln!(text, "\nexclude {exclude}");
        }
        text
    }
}

/// The words of a line, without a comment. A word in quotes may contain blanks. `None` if quotes are not closed.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() && !rest.starts_with("//") {
        let word;
        (word, rest) = match rest.chars().next() {
            Some('`') => rest[1..].split_once('`').map(|(word, rest)| (word.to_owned(), rest))?,
            Some('"') => interpreted(&rest[1..])?,
            _ => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                let end = rest.find("//").unwrap_or(end).min(end);
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        words.push(word);
        rest = rest.trim_start();
    }
    Some(words)
}

/// The text up to the closing quote, and the rest of the line. Only quotes and backslashes can be escaped here: other
/// escapes are not needed in a path.
fn interpreted(text: &str) -> Option<(String, &str)> {
    let mut word = String::new();
    let mut letters = text.char_indices();
    loop {
        match letters.next()? {
            (at, '"') => return Some((word, &text[at + 1..])),
            (_, '\\') => word.push(letters.next().map(|(_, letter)| letter).filter(|it| matches!(it, '"' | '\\'))?),
            (_, letter) => word.push(letter),
        }
    }
}

/// A word of go.mod, in quotes if Go needs them.
fn word(text: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-._~/+!:@=$%^&*#".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) && !text.contains("//") && !text.contains("/*") {
        text.to_owned()
    } else {
        quoted(text)
    }
}

/// Whether `path` can be written to go.mod and to Go sources as it is.
fn is_module_path(path: &str) -> bool {
    !path.is_empty()
        && path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte))
        && !path.split('/').any(|part| matches!(part, "" | "." | ".."))
}

/// Whether one version of a module is lower than another. False if a version cannot be compared.
fn is_lower(one: &str, other: &str) -> bool {
    let version = |text: &str| text.strip_prefix('v').and_then(|text| Version::parse(text).ok());
    match (version(one), version(other)) {
        (Some(one), Some(other)) => one.cmp_precedence(&other).is_lt(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
module \"example.com/shop\" // the shop

go 1.24.0

toolchain go1.25.0

require (
\tk8s.io/api v0.33.0
\tk8s.io/utils v0.0.0-20241104100929-3ea5e8cea738 // indirect
)

require sigs.k8s.io/controller-runtime v0.21.0

replace (
\texample.com/a => ../a
\texample.com/b v1.0.0 => example.com/c v1.1.0
)

exclude example.com/d v1.0.0
";

    #[test]
    fn a_go_mod_is_read() {
        let found = GoMod::parse(TEXT).expect("it is right");
        assert_eq!((&*found.module, &*found.go, found.requires.len()), ("example.com/shop", "1.24.0", 3));
        assert_eq!(found.replaces[0].to, "../a");
        let versions = (&*found.replaces[1].from_version, &*found.replaces[1].to_version);
        assert_eq!(versions, ("v1.0.0", "v1.1.0"));
        assert_eq!(found.excludes, ["example.com/d v1.0.0"]);
        assert_eq!(GoMod::parse(&found.text()), Ok(found));
    }

    #[test]
    fn a_broken_go_mod_is_refused_with_its_line() {
        for (text, line) in [
            ("module a.b/c\nrequire x\n", 2),
            ("module a.b/c\n\nreplace x y z\n", 3),
            ("module a b\n", 1),
            ("module a.b/c\nrequire (\n x\n)\n", 3),
            ("module a.b/c\nreplace d => \"../e f\n", 2),
            ("module a.b/c\nreplace d => `../e\n", 2),
        ] {
            let error = GoMod::parse(text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("go.mod:{line}: ")), "{error}");
        }
        for text in ["", "go 1.26\n", "module a/../b\n", "module a\u{202e}b\n"] {
            assert_eq!(GoMod::parse(text), Err(GoModError::NoModule), "{text}");
        }
    }

    #[test]
    fn a_nested_module_builds_with_what_the_project_requires() {
        let nested = GoMod::parse(TEXT).expect("it is right").nested("windlass");
        assert_eq!((&*nested.module, &*nested.requires["example.com/shop"]), ("example.com/shop/windlass", "v0.0.0"));
        let to: Vec<_> = nested.replaces.iter().map(|replace| (&*replace.from, &*replace.to)).collect();
        let expected = [("example.com/a", "../../a"), ("example.com/b", "example.com/c"), ("example.com/shop", "../")];
        assert_eq!(to, expected);
        let text = nested.text();
        assert!(text.contains("\n\texample.com/b v1.0.0 => example.com/c v1.1.0\n"), "{text}");
    }

    #[test]
    fn replaced_folders_are_seen_from_the_plugins_folder() {
        for (written, expected) in [
            ("../a", "../../a"),
            ("./a", "../a"),
            (".", "../"),
            ("./", "../"),
            ("..", "../.."),
            (r#""../my libs/a""#, r#""../../my libs/a""#),
            ("`./my // libs` // there", r#""../my // libs""#),
            (r#""./a\"b\\c""#, r#""../a\"b\\c""#),
            ("/absolute", "/absolute"),
            ("d.e/f v1.0.0", "d.e/f v1.0.0"),
        ] {
            let project = GoMod::parse(&format!("module a.b/c\nreplace x.y/z => {written}\n")).expect(written);
            let text = project.nested("windlass").text();
            assert!(text.contains(&format!("\tx.y/z => {expected}\n")), "{written}: {text}");
            GoMod::parse(&text).expect("it can be read again");
        }
    }

    #[test]
    fn versions_are_compared_as_go_does() {
        let project = GoMod::parse(TEXT).expect("it is right");
        assert_eq!(project.older("k8s.io/api", "v0.34.0"), Some("v0.33.0"));
        assert_eq!(project.older("k8s.io/api", "v0.33.0"), None);
        assert_eq!(project.older("k8s.io/utils", "v0.0.0-20230101000000-aaaaaaaaaaaa"), None);
        assert_eq!(project.older("example.com/none", "v1.0.0"), None);
        assert!(!is_lower("v1.0.0", "v1.0.0+incompatible") && !is_lower("latest", "v1.0.0"));
    }
}

//! The Starlark interpreter for each of the two worlds. `tools/build-interpreter` built them before this binary.

use std::path::{Path, PathBuf};

use windlass_componentize::{ComponentizeError, componentize, labelled};
use windlass_wasm::{LoadError, LoadProblem};

use crate::file::PluginKind;
use crate::finish;

include!(concat!(env!("OUT_DIR"), "/interpreters.rs"));

/// The file of a Starlark plugin.
pub(crate) const SCRIPT: &str = "plugin.star";

/// The maximum size of a script. Scripts that people write are far smaller.
const SCRIPT_FILE_BYTES_MAX: u64 = 4 << 20;

/// The reason why a script and the interpreter cannot be combined to a component.
#[derive(Debug, thiserror::Error)]
pub enum StarlarkError {
    /// The script cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// The script is not text.
    #[error("{}:{line}: this is not UTF-8: save the file as UTF-8", path.display())]
    NotText {
        path: PathBuf,
        /// The line of the first invalid byte.
        line: usize,
    },
    /// This binary has no interpreter, or a damaged one.
    #[error("this windlass was built without the Starlark interpreter: `make build` includes it")]
    NoInterpreter,
    /// The interpreter belongs to another version.
    #[error("the Starlark interpreter does not fit this windlass: {0}")]
    Interpreter(#[from] ComponentizeError),
}

impl StarlarkError {
    /// Whether the script is the cause.
    pub(crate) fn is_of_the_script(&self) -> bool {
        match self {
            Self::NotText { .. } => true,
            Self::Unreadable { source, .. } => source.kind() == std::io::ErrorKind::FileTooLarge,
            Self::NoInterpreter | Self::Interpreter(_) => false,
        }
    }
}

/// Whether this binary can build Starlark plugins.
pub(crate) fn has_interpreter() -> bool {
    INTERPRETERS.iter().all(Option::is_some)
}

/// Combines the interpreter and the script at `path` into the component of a plugin.
pub(crate) fn component(path: &Path, kind: PluginKind) -> Result<Vec<u8>, StarlarkError> {
    let script = read(path)?;
    let [reconciler, composer] = INTERPRETERS;
    let packed = match kind {
        PluginKind::Reconciler => reconciler,
        PluginKind::Composer => composer,
    };
    let module = packed.and_then(|packed| lz4_flex::decompress_size_prepended(packed).ok());
    let interpreter = componentize(&module.ok_or(StarlarkError::NoInterpreter)?)?;
    let interpreter = labelled(interpreter, "Starlark");
    Ok(windlass_wasm::joined(&interpreter, &script))
}

/// The text of a script, without a byte order mark.
fn read(path: &Path) -> Result<String, StarlarkError> {
    let script = windlass_files::read_whole(path, SCRIPT_FILE_BYTES_MAX)
        .map_err(|source| StarlarkError::Unreadable { path: path.to_owned(), source })?;
    let script = String::from_utf8(script).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = String::from_utf8_lossy(before).matches('\n').count() + 1;
        StarlarkError::NotText { path: path.file_name().unwrap_or_default().into(), line }
    })?;
    Ok(script.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(script))
}

/// The reason why a plugin is refused, for the author of the script at `path`. It includes the position in the script
/// if that is known.
pub(crate) fn refusal(error: &LoadError, name: &str, path: &Path) -> String {
    let script = read(path).unwrap_or_default();
    match &error.problem {
        LoadProblem::Describe { message, .. } => described(message),
        LoadProblem::Manifest(problem) => {
            let problem = problem.to_string();
            format!("{}: its manifest is not valid: {problem}", place_of(&script, &problem))
        }
        LoadProblem::OtherName { .. } => format!("{}: {}", place_of(&script, "`name`"), finish::refusal(error, name)),
        _ => finish::refusal(error, name),
    }
}

/// The problem as the plugin's author should see it: as the interpreter logged it, with its position. If the host has
/// stopped the interpreter, nothing was logged; then this is the host's message, without the stack trace of the
/// interpreter.
fn described(message: &str) -> String {
    if let Some(logged) = finish::logged(message) {
        return logged.to_owned();
    }
    let problem = message.rsplit_once("; in function ").map_or(message, |(problem, _)| problem);
    format!("{SCRIPT}: while the script was read or asked for its manifest, {problem}")
}

/// The position in the script that a problem is about. This is the first field that the problem names in backticks.
/// Without such a field, it is the field at the end of the path with which the problem begins, or else the manifest.
fn place_of(script: &str, problem: &str) -> String {
    let is_manifest = |line: &str| {
        let rest = line.strip_prefix("def ").unwrap_or(line).strip_prefix("manifest");
        rest.is_some_and(|rest| rest.trim_start().starts_with(['=', '(']))
    };
    let Some(first) = script.lines().position(is_manifest) else { return SCRIPT.to_owned() };
    // If the name occurs twice, the position is unknown.
    let only = |field: &str| {
        let [key, name] = [format!("\"{field}\""), format!("{field} =")];
        let within = script.lines().enumerate().skip(first);
        let mut found = within.filter_map(|(line, text)| Some((line, text.find(&key).or_else(|| text.find(&name))?)));
        found.next().filter(|_| found.next().is_none())
    };
    let named = problem.split('`').skip(1).step_by(2);
    let last = problem.split_once(": ").and_then(|(path, _)| path.rsplit('.').next());
    let (line, bytes) = named.chain(last).find_map(only).unwrap_or((first, 0));
    let column = script.lines().nth(line).map_or(0, |text| text[..bytes].chars().count());
    format!("{SCRIPT}:{}:{}", line + 1, column + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_field_of_the_manifest_is_found_in_the_script() {
        let script = "x = {\"knd\": 1}\n\nmanifest = {\n    \"name\": \"größe\", \"knd\": 1,\n}\n";
        assert_eq!(place_of(script, "unknown field `knd`, expected one of `name`"), "plugin.star:4:22");
        assert_eq!(place_of(script, "missing field `version`"), "plugin.star:3:1");
        let twice = "manifest = {\n    \"a\": {\"knd\": 1},\n    \"b\": {\"knd\": 1},\n}\n";
        assert_eq!(place_of(twice, "unknown field `knd`"), "plugin.star:1:1");
        let selecting = "manifest = {\n    \"kind\": \"Pod\", \"labelSelector\": \"a in\",\n}\n";
        let problem =
            "controllers[0].primary.labelSelector: in the label selector \"a in\": expected '(', found the end";
        assert_eq!(place_of(selecting, problem), "plugin.star:2:20");
        assert_eq!(place_of("def manifest():\n    return {}\n", ""), "plugin.star:1:1");
        assert_eq!(place_of("manifesto = 1\n", ""), "plugin.star");
    }

    #[test]
    fn invalid_utf_8_is_reported_with_its_line() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join(SCRIPT);
        std::fs::write(&path, b"a = 1\nb = '\xff'\n").expect("it is written");
        let error = component(&path, PluginKind::Reconciler).expect_err("no text").to_string();
        assert!(error.starts_with("plugin.star:2: ") && error.contains("UTF-8"), "{error}");
    }

    #[test]
    fn errors_of_an_absurd_script_are_the_scripts_fault() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join(SCRIPT);
        let unreadable = read(&path).expect_err("it is not there");
        assert!(!unreadable.is_of_the_script());
        std::fs::File::create(&path).and_then(|file| file.set_len(SCRIPT_FILE_BYTES_MAX + 1)).expect("it is written");
        let large = read(&path).expect_err("it is too large");
        assert!(large.is_of_the_script() && large.to_string().contains("more than 4194304 bytes"), "{large}");
    }

    #[test]
    fn a_byte_order_mark_is_not_part_of_a_script() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join(SCRIPT);
        std::fs::write(&path, "\u{feff}a = 1\n").expect("it is written");
        assert_eq!(read(&path).expect("it is read"), "a = 1\n");
    }

    #[test]
    fn both_interpreters_exist_or_none() {
        assert_eq!(INTERPRETERS.iter().any(Option::is_some), has_interpreter());
    }
}

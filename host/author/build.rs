//! Embeds the SDKs in the binary. `windlass new` writes them into an author's folder, so that the SDK in a folder
//! always fits the binary.
//!
//! A build script does this, not a crate for embedding files, because name patterns alone cannot select the files, and
//! because new files must trigger a build.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The folders below `sdk/`, each of which must exist. To add an SDK, add a line here; its templates determine its
/// languages.
const SDKS: &[&str] = &["c", "go", "js", "python", "rust", "starlark"];

/// Go modules below `sdk/` that a build puts in the place of other modules. Authors get no copy of them.
const GO_MODULES: &[&str] = &["clientgo", "ctrlruntime"];

/// Entries of an SDK's top folder that authors do not need.
const NOT_OF_THE_SDK: &[&str] = &[
    "templates",
    "test",
    "tests",
    "target",
    "build",
    "interpreter",
    "Cargo.lock",
    "package-lock.json",
    "tsconfig.json",
];
/// Folders that tools create, at any depth.
const LEFT_BEHIND: &[&str] = &["node_modules", "__pycache__"];

/// SDKs whose top folder changes during builds: npm links installed packages there, and cargo may build the interpreter
/// there. Cargo would watch such a folder with everything below it, and would rebuild after each of these writes. So
/// these top folders are not watched, and a new file in one of them is only noticed together with another change.
const WRITTEN_INTO: &[&str] = &["js", "starlark"];

/// The Starlark interpreters, as `tools/build-interpreter` names them in its folder below cargo's.
const INTERPRETERS: [&str; 2] = ["starlark-reconciler.wasm", "starlark-composer.wasm"];

/// A text in a file of an SDK that refers to the interface in this repository, and the text that replaces it for an
/// author. The author's SDK contains the interface.
struct Reads {
    sdk: &'static str,
    file: &'static str,
    here: &'static str,
    there: &'static str,
}

/// The guide for authors. It lies beside the SDKs in this repository, and inside the SDK in an author's folder. READMEs
/// link to it.
const GUIDE: &str = "GUIDE.md";

/// Only the SDK for Rust reads the WIT files of the interface. For other languages, bindings are committed, or created
/// from files that `windlass build` provides.
const READS_INTERFACE: Reads =
    Reads { sdk: "rust", file: "src/bindings.rs", here: r#"path: "../../wit""#, there: r#"path: "wit""# };

fn main() -> io::Result<()> {
    let repository =
        PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..").canonicalize()?;
    let made = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    let sources = repository.join("sdk");
    let mut code = String::from("pub(crate) static SDKS: &[Sdk] = &[\n");
    for name in SDKS {
        let folder = sources.join(name);
        assert!(folder.is_dir(), "there is no folder {}: host/author/build.rs must list only SDKs", folder.display());
        if !WRITTEN_INTO.contains(name) {
            look_at(&folder);
        }
        let mut files = embedded(&folder, &wanted_of_sdk)?;
        if *name == READS_INTERFACE.sdk {
            bring_interface(&repository.join("wit"), &made, &mut files)?;
        }
        bring_guide(&sources, name, &made, &mut files)?;
        let templates = folder.join("templates");
        let templates = if templates.is_dir() {
            look_at(&templates);
            embedded(&templates, &wanted_of_template)?
        } else {
            Vec::new()
        };
        push_sdk(&mut code, name, &files, &templates);
    }
    // A Go module without a folder is not used.
    for name in GO_MODULES {
        let folder = sources.join(name);
        look_at(&folder);
        push_sdk(&mut code, name, &embedded(&folder, &wanted_of_sdk)?, &[]);
    }
    code.push_str("];\n");
    println!("cargo::rerun-if-changed=build.rs");
    fs::write(made.join("sdks.rs"), code)?;
    bring_interpreters(&repository, &made)
}

fn push_sdk(code: &mut String, name: &str, files: &[Embedded], templates: &[Embedded]) {
    let _ = writeln!(code, "Sdk {{\n  name: {name:?},\n  files: {},", list(files));
    let _ = writeln!(code, "  templates: {},\n}},", list(templates));
}

/// Embeds the Starlark interpreters that have been built. A binary without an interpreter reports this when an author
/// needs the interpreter.
fn bring_interpreters(repository: &Path, made: &Path) -> io::Result<()> {
    // Cargo's target directory, into which the tool writes. If cargo created it, it has a file that marks it.
    let marked = || made.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists()).map(Path::to_owned);
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from).or_else(marked);
    let folder = repository.join(target.unwrap_or_else(|| "target".into())).join("interpreter");
    // If the folder did not exist, cargo would run this script each time.
    fs::create_dir_all(&folder)?;
    look_at(&folder);
    let mut code = String::from(
        "/// The reconciler's and the composer's interpreter, packed with LZ4. `None` if it did not exist when this was built.\n",
    );
    code.push_str("static INTERPRETERS: [Option<&[u8]>; 2] = [\n");
    let modules: Vec<_> = INTERPRETERS.iter().map(|name| fs::read(folder.join(name)).ok()).collect();
    let are_there = modules.iter().all(Option::is_some);
    for (name, module) in INTERPRETERS.iter().zip(modules) {
        let packed = made.join(name).with_extension("lz4");
        match module.filter(|_| are_there) {
            Some(module) => {
                fs::write(&packed, lz4_flex::compress_prepend_size(&module))?;
                let _ = writeln!(code, "    Some(include_bytes!({:?})),", packed.display().to_string());
            }
            None => code.push_str("    None,\n"),
        }
    }
    code.push_str("];\n");
    fs::write(made.join("interpreters.rs"), code)
}

/// An embedded file: its path in an author's folder, and the path from which its content is embedded.
type Embedded = (PathBuf, PathBuf);

/// All wanted files below `folder`.
fn embedded(folder: &Path, wanted: &dyn Fn(&Path, bool) -> bool) -> io::Result<Vec<Embedded>> {
    let mut found = Vec::new();
    gather(folder, Path::new(""), wanted, &mut found)?;
    Ok(found.into_iter().map(|file| (file.clone(), folder.join(file))).collect())
}

/// Adds the interface to an SDK, and adapts the file that refers to it.
fn bring_interface(wit: &Path, made: &Path, files: &mut Vec<Embedded>) -> io::Result<()> {
    let Reads { file, here, there, .. } = READS_INTERFACE;
    reword(files, file, (here, there), made.join("bindings.rs"))?;
    look_at(wit);
    let is_wit = |path: &Path, _| path.extension().is_some_and(|extension| extension == "wit");
    files.extend(embedded(wit, &is_wit)?.into_iter().map(|(path, text)| (Path::new("wit").join(path), text)));
    Ok(())
}

/// Adds the guide to an SDK, and makes its README link to it.
fn bring_guide(sources: &Path, sdk: &str, made: &Path, files: &mut Vec<Embedded>) -> io::Result<()> {
    let links = (format!("](../{GUIDE}"), format!("]({GUIDE}"));
    reword(files, "README.md", (&links.0, &links.1), made.join(format!("{sdk}-README.md")))?;
    let guide = sources.join(GUIDE);
    look_at(&guide);
    files.push((GUIDE.into(), guide));
    Ok(())
}

/// Replaces the text `here` with `there` in an SDK's `file`, in a copy below `made`.
fn reword(files: &mut [Embedded], file: &str, (here, there): (&str, &str), made: PathBuf) -> io::Result<()> {
    let found = files.iter_mut().find(|(path, _)| path == Path::new(file));
    let (_, text) = found.unwrap_or_else(|| panic!("an SDK has no {file}"));
    let original = fs::read_to_string(&*text)?;
    assert!(
        original.contains(here),
        "{} does not contain {here}: update the text in host/author/build.rs",
        text.display()
    );
    *text = made;
    fs::write(&*text, original.replace(here, there))
}

/// Makes cargo run this script again when the path, or anything below it, is created, deleted or changed.
fn look_at(path: &Path) {
    println!("cargo::rerun-if-changed={}", path.display());
}

/// All wanted files below `at` in `root`, sorted.
fn gather(root: &Path, at: &Path, wanted: &dyn Fn(&Path, bool) -> bool, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(root.join(at))?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = at.join(entry.file_name());
        let is_folder = entry.path().is_dir();
        if !wanted(&path, is_folder) {
            continue;
        }
        look_at(&entry.path());
        if is_folder {
            gather(root, &path, wanted, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

fn wanted_of_sdk(path: &Path, _: bool) -> bool {
    let name = name(path);
    let is_top = path.components().count() == 1;
    let is_test = name.ends_with("_test.go") || path.extension().is_some_and(|extension| extension == "pyc");
    let is_left_out = is_top && NOT_OF_THE_SDK.contains(&&*name);
    let is_left_behind = name.starts_with('.') || LEFT_BEHIND.contains(&&*name);
    !(is_test || is_left_out || is_left_behind)
}

/// Whether the path belongs to the template itself. Files that a trial of the template has left behind do not.
fn wanted_of_template(path: &Path, is_folder: bool) -> bool {
    if is_folder {
        return !LEFT_BEHIND.contains(&&*name(path));
    }
    path.extension().is_some_and(|extension| extension == "tmpl")
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn list(files: &[Embedded]) -> String {
    let mut code = String::from("&[\n");
    for (file, text) in files {
        let (file, text) = (file.display().to_string(), text.display().to_string());
        let _ = writeln!(code, "    ({file:?}, include_bytes!({text:?})),");
    }
    code.push_str("  ]");
    code
}

//! Compiles the `.proto` files of Kubernetes' API modules to one compressed `FileDescriptorSet`. Adds facts about the
//! Go types that these files lack (`go.proto`): which fields are pointers, and their JSON names.
//!
//! `tools/build-descriptors` calls it with the file to write, and with the folder of each module as `path=folder`.

mod annotate;
mod go_types;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};
use protox::Compiler;
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};

/// The name under which the packages import our options.
const OPTIONS: &str = "windlass/go.proto";

/// Finds the file of a package in its module, and annotates it.
struct Modules(BTreeMap<String, PathBuf>);

impl Modules {
    fn path(&self, name: &str) -> Option<PathBuf> {
        self.0.iter().find_map(|(module, folder)| {
            let rest = name.strip_prefix(module.as_str())?.strip_prefix('/')?;
            Some(folder.join(rest))
        })
    }

    /// The files of all packages, by the names under which they import each other.
    fn names(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for (module, folder) in &self.0 {
            for path in proto_files(folder)? {
                let inside = path.strip_prefix(folder)?.display().to_string();
                names.push(format!("{module}/{inside}"));
            }
        }
        names.sort();
        Ok(names)
    }
}

impl FileResolver for Modules {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        if name == OPTIONS {
            return File::from_source(name, include_str!("go.proto"));
        }
        let path = self.path(name).ok_or_else(|| protox::Error::file_not_found(name))?;
        let source = annotate::annotated(&path).map_err(protox::Error::new)?;
        File::from_source(name, &source)
    }
}

fn proto_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        // Skip the made-up API groups that a module has for its own tests.
        let is_test = path.ends_with("testapigroup") || path.ends_with("examples") || path.ends_with("testing");
        if path.is_dir() && !is_test {
            found.extend(proto_files(&path)?);
        } else if path.ends_with("generated.proto") {
            found.push(path);
        }
    }
    Ok(found)
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let output = arguments.next().context("usage: windlass-descriptors OUTPUT MODULE=FOLDER…")?;
    let modules = arguments.map(|argument| {
        let (module, folder) = argument.split_once('=').with_context(|| format!("{argument} is not MODULE=FOLDER"))?;
        Ok((module.to_owned(), PathBuf::from(folder)))
    });
    let modules = Modules(modules.collect::<Result<_>>()?);
    let names = modules.names()?;
    let mut resolver = ChainFileResolver::new();
    resolver.add(modules);
    resolver.add(GoogleFileResolver::new());
    let mut compiler = Compiler::with_file_resolver(resolver);
    compiler.include_imports(true).include_source_info(false);
    compiler.open_files(&names)?;
    let set = compiler.encode_file_descriptor_set();
    // The header has no time, so that the same modules give the same bytes.
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    encoder.write_all(&set)?;
    let compressed = encoder.finish()?;
    println!("{} packages, {} bytes, {} compressed", names.len(), set.len(), compressed.len());
    fs::write(&output, compressed).with_context(|| format!("cannot write {output}"))
}

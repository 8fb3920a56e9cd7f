//! Advice about common failures of compilers that build for WebAssembly. The messages of the compilers lack this
//! advice.

use super::file::Language;

/// Words that a compiler's output must all contain, and the advice in that case.
type Hint = (&'static [&'static str], &'static str);

const RUST: &[Hint] = &[
    (
        &["target may not be installed"],
        "the toolchain that cargo used, which `rustup show active-toolchain` in this folder names, lacks Rust's standard library for \
         plugins: run `rustup target add wasm32-unknown-unknown` in this folder",
    ),
    (
        &["getrandom", "not supported"],
        "a dependency uses the operating system's random numbers, which a plugin does not have: turn that feature off (often \
         `default-features = false`), and take random numbers from `windlass_sdk::random`",
    ),
    (
        &["unsupported by mio"],
        "a dependency uses sockets or threads, which a plugin does not have: read and write the cluster with the SDK, \
         and fetch with `windlass_sdk::http`",
    ),
    (
        &["failed to run custom build command"],
        "a dependency compiles native code or needs a system library, which a plugin cannot have: use a dependency of \
         pure Rust, or a feature that makes this one so",
    ),
];

const GO: &[Hint] = &[
    (
        &["build constraints exclude all Go files"],
        "a package has no code for GOOS=wasip1: it needs an operating system or C. A plugin has neither files nor sockets; use what the \
         SDK has in its place, or a package of pure Go",
    ),
    (
        &["undefined: cache.New"],
        "a plugin has no informers, because the host has them and their caches: declare the kind with Owns or Watches of the controller, \
         and read it with the manager's client (mgr.GetClient())",
    ),
    (
        &["undefined: record.New"],
        "the host sends the events of a plugin: take the recorder from the manager (mgr.GetEventRecorderFor(NAME))",
    ),
    (
        &["undefined: client.NewWithWatch"],
        "a watch outlives a call, so a plugin has none: declare the kind with Owns or Watches of the controller, and read it with the \
         manager's client (mgr.GetClient())",
    ),
    (&["missing go.sum entry"], "go.sum does not know a package yet: go mod tidy"),
    (&["no required module provides package"], "a package is not in go.mod yet: go mod tidy"),
    (
        &["undefined: syscall."],
        "a package uses system calls that GOOS=wasip1 does not have: use what the SDK has in its place, or a newer version of it",
    ),
];

const PYTHON: &[Hint] = &[
    (
        &["ModuleNotFoundError"],
        "Python does not find a module. Packages of pure Python are installed beside the sources: pip install --target packages \
         NAME. One with native code (it has .so files) cannot be part of a plugin, unless it was compiled to WebAssembly",
    ),
    (
        &["ImportError"],
        "a module that is imported needs native code (.so), which cannot be part of a plugin unless it was compiled to WebAssembly: look \
         for a package of pure Python",
    ),
    (&["unresolved", "stub"], "an imported module uses files or sockets, which a plugin does not have"),
];

const JAVASCRIPT: &[Hint] = &[
    (
        &["Could not resolve \"windlass"],
        "the SDK is not installed: npm install, in this folder (its package.json has \"windlass\": \"file:./sdk\")",
    ),
    (
        &["The package", "built into node"],
        "a dependency needs modules of Node.js (files, sockets, processes), which a plugin does not have: use what the \
         SDK has in their place, or a package for browsers",
    ),
    (&["Could not resolve \"node:"], "a plugin has no modules of Node.js: use what the SDK has in their place"),
    (&["Could not resolve"], "a package is not installed: npm install, in this folder"),
];

const C: &[Hint] = &[
    (
        &["undefined symbol"],
        "a function is missing: its library was not compiled to WebAssembly, or belongs to an operating system, which \
         a plugin does not have",
    ),
    (
        &["file not found"],
        "a header is missing: put the library's sources beside yours. A plugin has no operating system: no sockets, \
         processes or threads",
    ),
];

/// The advice about a compiler's output. `None` if there is none.
pub(crate) fn hint(language: Language, output: &str) -> Option<&'static str> {
    let known = match language {
        Language::Rust => RUST,
        Language::Go => GO,
        Language::Python => PYTHON,
        Language::JavaScript | Language::TypeScript => JAVASCRIPT,
        Language::C => C,
        Language::Starlark | Language::Other => &[],
    };
    known.iter().find(|(words, _)| words.iter().all(|word| output.contains(word))).map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_that_cannot_be_compiled_is_explained() {
        for (language, output, hints) in [
            (Language::Go, "./main.go:9:8: undefined: cache.NewSharedIndexInformer", "mgr.GetClient()"),
            (Language::Go, "./main.go:9:9: undefined: record.NewBroadcaster", "GetEventRecorderFor"),
            (Language::Go, "./main.go:9:9: undefined: client.NewWithWatch", "Watches of the controller"),
            (Language::Go, "imports x: build constraints exclude all Go files in /go/x", "pure Go"),
            (
                Language::Rust,
                "error: the wasm*-unknown-unknown targets are not supported by default ... getrandom",
                "random",
            ),
            (
                Language::Rust,
                "= note: the `wasm32-unknown-unknown` target may not be installed",
                "`rustup target add wasm32-unknown-unknown` in this folder",
            ),
            (Language::Rust, "error: failed to run custom build command for `openssl-sys v0.9.1`", "pure Rust"),
            (Language::Python, "ModuleNotFoundError: No module named 'requests'", "pip install --target packages"),
            (Language::TypeScript, "X [ERROR] Could not resolve \"node:fs\"", "Node.js"),
            (Language::JavaScript, "X [ERROR] Could not resolve \"left-pad\"", "npm install"),
            (Language::C, "wasm-ld: error: x.o: undefined symbol: socket", "operating system"),
        ] {
            assert!(hint(language, output).is_some_and(|hint| hint.contains(hints)), "{output}");
        }
        assert_eq!(hint(Language::Go, "syntax error"), None);
    }
}

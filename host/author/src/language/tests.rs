//! Tests the build commands for each kind of folder.

use std::path::Path;

use super::super::file;
use super::*;

fn facts(text: &str) -> Facts {
    Facts {
        folder: "/author/shop".into(),
        file: file::parse(Path::new(file::NAME), text.as_bytes()).expect("a build file"),
        c_sources: vec!["plugin.c".into(), "sdk/windlass.c".into()],
        has_packages: false,
        places_go_sdk: true,
        has_typescript: false,
    }
}

/// Each step on one line.
fn commands(plan: &BuildPlan) -> Vec<String> {
    let name = |program: &Program| match program {
        Program::Tool(tool) => tool.name,
        Program::Shell => "sh -c",
    };
    let line = |step: &BuildStep| {
        let environment: String =
            step.environment.iter().fold(String::new(), |text, (name, value)| format!("{text}{name}={value} "));
        format!("{environment}{} {}", name(&step.program), step.arguments.join(" "))
    };
    plan.steps.iter().map(line).collect()
}

fn tools(plan: &BuildPlan) -> Vec<&'static str> {
    let name = |need: &BuildNeed| match need {
        BuildNeed::Tool(tool) => Some(tool.name),
        BuildNeed::RustTarget => Some("target"),
        BuildNeed::Interpreter => Some("interpreter"),
        BuildNeed::Path { .. } => None,
    };
    plan.needs.iter().filter_map(name).collect()
}

#[test]
fn every_language_is_built_by_its_own_compiler() {
    for (language, needs, runs, output) in [
        (
            "rust",
            &["cargo", "target"][..],
            &["cargo rustc --lib --release --target wasm32-unknown-unknown --message-format json-render-diagnostics \
               -- -C link-arg=--initial-heap=65536"][..],
            BuildOutput::ReportedByCargo,
        ),
        (
            "go",
            &["go"],
            &["GOOS=wasip1 GOARCH=wasm CGO_ENABLED=0 go build -buildmode=c-shared -trimpath -buildvcs=false \
               -ldflags=-checklinkname=0 -s -w -buildid= \
               -o build/.windlass/core.wasm ."],
            BuildOutput::File("build/.windlass/core.wasm".into()),
        ),
        (
            "python",
            &["componentize-py"],
            &[
                "componentize-py -d build/.windlass/wit -w mapping-reconciler-plugin componentize --stub-wasi -p . -p sdk app \
               -o build/.windlass/component.wasm",
            ],
            BuildOutput::File("build/.windlass/component.wasm".into()),
        ),
        (
            "js",
            &["node", "esbuild", "componentize-qjs"],
            &[
                "esbuild sdk/src/component/reconciler.js --alias:windlass-plugin=./plugin.js --bundle --format=esm --target=es2022 \
                 --external:windlass:* --log-level=warning --outfile=build/.windlass/plugin.js",
                "componentize-qjs -w build/.windlass/wit -j build/.windlass/plugin.js -n mapping-reconciler-plugin --sync \
                 --stub-wasi -o build/.windlass/component.wasm",
            ],
            BuildOutput::File("build/.windlass/component.wasm".into()),
        ),
        (
            "c",
            &["zig"],
            &[
                "zig cc --target=wasm32-wasi -mexec-model=reactor -Os -s -Wl,-z,stack-size=1048576 -I sdk -o build/.windlass/core.wasm plugin.c \
               sdk/windlass.c",
            ],
            BuildOutput::File("build/.windlass/core.wasm".into()),
        ),
        ("starlark", &["interpreter"], &[], BuildOutput::Joined("plugin.star".into())),
    ] {
        let plan = plan(&facts(&format!("name: shop\nlanguage: {language}\n")), false);
        assert_eq!((tools(&plan), commands(&plan)), (needs.to_vec(), runs.iter().map(ToString::to_string).collect()));
        assert_eq!(plan.output, output);
    }
}

#[test]
fn a_composer_is_built_for_its_own_world() {
    for language in ["python", "js", "ts"] {
        let plan = plan(&facts(&format!("name: shop\nlanguage: {language}\nplugin: composer\n")), false);
        assert!(commands(&plan).iter().any(|line| line.contains(" customizing-composer-plugin ")), "{language}");
        assert!(!commands(&plan).iter().any(|line| line.contains("reconciler")), "{language}");
    }
}

#[test]
fn javascript_starts_with_the_sdks_module_that_exports_the_world() {
    for (language, kind, source) in [("js", "composer", "plugin.js"), ("ts", "reconciler", "plugin.ts")] {
        let facts = facts(&format!("name: shop\nlanguage: {language}\nplugin: {kind}\nsdk: ../../sdk/js\n"));
        let plan = plan(&facts, false);
        let begins =
            format!("esbuild ../../sdk/js/src/component/{kind}.js --alias:windlass-plugin=./{source} --bundle ");
        assert!(commands(&plan)[0].starts_with(&begins), "{:?}", commands(&plan));
    }
}

#[test]
fn types_are_checked_if_typescript_is_installed() {
    let typescript = |has_typescript| {
        let plan = plan(&Facts { has_typescript, ..facts("name: shop\nlanguage: ts\n") }, false);
        (tools(&plan), commands(&plan).remove(0))
    };
    assert_eq!(typescript(true), (vec!["node", "esbuild", "componentize-qjs", "tsc"], "tsc --noEmit".into()));
    assert!(
        typescript(false).1.starts_with("esbuild sdk/src/component/reconciler.js --alias:windlass-plugin=./plugin.ts ")
    );
}

#[test]
fn python_packages_are_beside_the_sources() {
    let plan = plan(&Facts { has_packages: true, ..facts("name: shop\nlanguage: python\nsdk: ../sdk\n") }, false);
    assert!(commands(&plan)[0].contains(" -p . -p ../sdk -p packages app "), "{:?}", commands(&plan));
}

#[test]
fn a_base_in_python_is_built_for_scripts_without_the_plugin() {
    for (kind, world) in [("reconciler", "scripted-reconciler-plugin"), ("composer", "scripted-composer-plugin")] {
        let text = format!("name: shop\nlanguage: python\nsdk: ../sdk\nplugin: {kind}\n");
        let plan = python::base_plan(&Facts { has_packages: true, ..facts(&text) });
        let command = format!(
            "componentize-py -d build/.windlass/wit -w {world} componentize --stub-wasi -p build/.windlass/base -p ../sdk -p packages \
             windlass_base -o build/.windlass/component.wasm"
        );
        assert_eq!(commands(&plan), [command]);
    }
}

#[test]
fn the_module_of_a_base_reads_its_script_and_imports_further_modules() {
    let (more, without) = (["yaml".to_owned(), "csv".to_owned()].into(), ["pdb".to_owned()].into());
    let [(name, app), (file, script)] = python::base_files("{}", &more, &without);
    assert_eq!((&*name, &*file, &*script), ("windlass_base.py", "script.json", "{}"));
    assert!(
        app.contains("+ \"script.json\"") && app.contains("exports(script, [\"csv\",\"yaml\"], [\"pdb\"])"),
        "{app}"
    );
    let imports: Vec<_> = app.lines().filter(|line| line.contains("import ")).collect();
    assert_eq!(imports, ["from windlass import _script"], "a call could import these modules only in `windlass dev`");
}

#[test]
fn the_authors_own_command_takes_precedence() {
    for language in ["zig", "go"] {
        let own = format!("name: shop\nlanguage: {language}\nbuild: {{command: \"make x\", output: x.wasm}}\n");
        let plan = plan(&facts(&own), false);
        assert_eq!((tools(&plan), commands(&plan)), (vec![], vec!["sh -c make x".to_owned()]));
        assert_eq!(plan.output, BuildOutput::File("x.wasm".into()));
    }
}

/// With another environment or profile, cargo would compile all dependencies twice: for `build`, and for `dev` and
/// `check`.
#[test]
fn all_rust_builds_share_their_compiled_dependencies() {
    let [built, traced] = [false, true].map(|traceable| {
        let plan = plan(&facts("name: shop\nlanguage: rust\n"), traceable);
        assert!(plan.steps.iter().all(|step| step.environment.is_empty()));
        commands(&plan).concat()
    });
    assert_eq!(traced, format!("{built} -C strip=debuginfo"));
}

#[test]
fn traceable_builds_keep_names_and_lines_of_the_sources() {
    for (language, expected) in [
        ("rust", " -C strip=debuginfo"),
        ("ts", " --sourcemap=external "),
        ("c", " -g1 "),
        ("go", " -ldflags=-checklinkname=0 -w -buildid="),
    ] {
        let says_so = |traceable| {
            let plan = plan(&facts(&format!("name: shop\nlanguage: {language}\n")), traceable);
            (commands(&plan).iter().any(|line| line.contains(expected)), plan.source_map)
        };
        let map = (language == "ts").then(|| "build/.windlass/plugin.js.map".into());
        assert_eq!((says_so(true), says_so(false)), ((true, map), (false, None)), "{language}");
    }
}

#[test]
fn definitions_are_printed_by_the_generator_of_the_types() {
    let command = |definitions: &str| {
        let facts = facts(&format!("name: shop\nlanguage: go\ndefinitions: {definitions}\n"));
        let (needs, step) = definitions_step(&facts.file.definitions.expect("the file has the field"));
        (needs.len(), crate::run::shown_step(&step))
    };
    assert_eq!(command("{from: rust}"), (1, "cargo run --quiet --example crd".to_owned()));
    let go = command("{from: go, paths: [./api/..., ../more], version: v0.16.1}");
    let expected = "go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.16.1 crd paths=./api/... paths=../more output:stdout";
    assert_eq!(go, (1, expected.to_owned()));
    assert_eq!(command("{command: make crd}"), (0, "make crd".to_owned()));
}

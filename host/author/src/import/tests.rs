//! The decisions that need no Go: names, finalizers, the new main.go and the report. The story tests import whole
//! projects (`tests/cases/import.rs`).

use super::scan::{Finalizer, Import, SchemeCall, Setup, SourcePackage, SourcePlace};
use super::*;

fn place(file: &str, line: u32) -> SourcePlace {
    SourcePlace { file: file.into(), line }
}

fn package(folder: &str, name: &str, imports: &[&str]) -> SourcePackage {
    let imports = imports.iter().map(|it| (*it).to_owned()).collect();
    SourcePackage { folder: folder.into(), name: name.into(), imports, ..SourcePackage::default() }
}

fn controller(name: &str, receiver: &str) -> ImportedController {
    ImportedController {
        name: name.into(),
        other_name: None,
        place: place("internal/controller/a.go", 9),
        folder: "internal/controller".into(),
        receiver: receiver.into(),
        function: "SetupWithManager".into(),
        primary: ObjectKind { api_version: "example.com/v1".into(), kind: "Shop".into() },
        owns: vec![],
        watches: vec![],
        is_name_guessed: false,
        unknown: vec![],
    }
}

const CONTROLLERS: &str = "example.com/shop/internal/controller";

fn setup(go_type: &str, source: &str, reason: &str) -> Setup {
    Setup {
        place: place("cmd/main.go", 40),
        folder: "cmd".into(),
        source: source.into(),
        original: format!("controller.Original{go_type}(mgr, `\n\t*/ }}`)"),
        reason: reason.into(),
        imports: vec![Import { name: "controller".into(), path: CONTROLLERS.into() }],
        dropped: vec![],
        import: CONTROLLERS.into(),
        go_type: go_type.into(),
        returns: "error".into(),
    }
}

fn facts() -> SourceFacts {
    SourceFacts {
        packages: vec![
            package("cmd", "main", &[CONTROLLERS, "flag"]),
            package("internal/controller", "controller", &["example.com/shop/api/v1", "os"]),
            package("api/v1", "v1", &[]),
            package("test/e2e", "e2e", &[CONTROLLERS]),
        ],
        schemes: vec![SchemeCall {
            folder: "cmd".into(),
            import: Import { name: "shopv1".into(), path: "example.com/shop/api/v1".into() },
            call: "AddToScheme".into(),
        }],
        ..SourceFacts::default()
    }
}

#[test]
fn the_name_is_the_wish_the_projects_or_the_modules() {
    let request = |name: Option<&str>| ImportRequest {
        project: ".".into(),
        name: name.map(str::to_owned),
        folder: FOLDER.into(),
    };
    let go_mod = GoMod::parse("module example.com/Shop_Operator\n").expect("it is right");
    let project = ProjectFile::of(&json!({"projectName": "the-shop"}));
    let named =
        |wish, project: &ProjectFile| plugin_name(&request(wish), project, &go_mod).map_err(|error| error.to_string());
    assert_eq!(named(Some("mine"), &project).as_deref(), Ok("mine"));
    assert_eq!(named(None, &project).as_deref(), Ok("the-shop"));
    assert_eq!(named(None, &ProjectFile::default()).as_deref(), Ok("shop-operator"));
    assert!(named(Some("../x"), &project).expect_err("no name").contains("--name"));
}

#[test]
fn a_finalizer_that_is_no_constant_asks_for_all() {
    let finalizer = |name: &str| Finalizer { place: place("a.go", 1), name: name.into() };
    let of = |names: &[&str]| {
        finalizers(&SourceFacts {
            finalizers: names.iter().map(|it| finalizer(it)).collect(),
            ..SourceFacts::default()
        })
    };
    assert_eq!(of(&["b/x", "a/x", "b/x"]), ["a/x", "b/x"]);
    assert_eq!(of(&["b/x", ""]), ["*"]);
    assert!(of(&[]).is_empty());
}

#[test]
fn only_the_packages_that_the_plugin_runs_are_judged() {
    let facts = facts();
    let main = MainCalls { old: vec!["cmd".into()], ..MainCalls::default() };
    let running = running(&facts, &[controller("shop", "R")], &main, "example.com/shop");
    assert_eq!(running.into_iter().collect::<Vec<_>>(), ["api/v1", "internal/controller"]);
}

#[test]
fn main_sets_up_what_the_old_main_did() {
    let controllers = [controller("shop", "ShopReconciler"), controller("cart", "CartReconciler")];
    let source = "(&controller.ShopReconciler{\n\tClient: mgr.GetClient(),\n}).SetupWithManager(mgr)";
    let facts = SourceFacts { setups: vec![setup("ShopReconciler", source, "")], ..facts() };
    let main = setups::main_calls(&facts, &controllers, "example.com/shop");
    assert_eq!((&*main.unused, &*main.old), (&["cart".to_owned()][..], &["cmd".to_owned()][..]));
    let text = sources::main_go("shop", &main, &[("IMAGE".into(), "a\"b".into())]);
    let expected = "\
import (
\t\"fmt\"
\t\"os\"

\tshopv1 \"example.com/shop/api/v1\"
\t\"example.com/shop/internal/controller\"
\t\"k8s.io/apimachinery/pkg/runtime\"
\tutilruntime \"k8s.io/apimachinery/pkg/util/runtime\"
\tctrl \"sigs.k8s.io/controller-runtime\"
)

var scheme = runtime.NewScheme()

// The environment of config/manager. A plugin has no other.
func init() {
\tutilruntime.Must(os.Setenv(\"IMAGE\", \"a\\\"b\"))
}

func init() {
\tutilruntime.Must(shopv1.AddToScheme(scheme))
}

func main() {
\tmgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Scheme: scheme})
\tif err != nil {
\t\tfail(err)
\t}
\tif err := (&controller.ShopReconciler{
\t\tClient: mgr.GetClient(),
\t}).SetupWithManager(mgr); err != nil {
\t\tfail(err)
\t}
";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_call_that_needs_more_stays_a_comment() {
    let facts = SourceFacts { setups: vec![setup("ShopReconciler", "", "flags,\n image")], ..facts() };
    let main = setups::main_calls(&facts, &[controller("shop", "ShopReconciler")], "example.com/shop");
    let text = sources::main_go("shop", &main, &[]);
    assert!(text.contains("\t// Complete this call of cmd/main.go:40: it needs flags, image.\n"), "{text}");
    // Each line of the source is within the comment.
    assert!(text.contains("\t//\tcontroller.OriginalShopReconciler(mgr, `\n\t//\t    */ }`)\n"), "{text}");
    assert!(!text.contains(CONTROLLERS), "an import that is not used does not build: {text}");
}

#[test]
fn without_a_main_the_fields_of_a_reconciler_are_enough() {
    let structure = |fields: &[&str]| scan::GoStruct {
        folder: "internal/controller".into(),
        name: "ShopReconciler".into(),
        fields: fields.iter().map(|it| (*it).to_owned()).collect(),
    };
    let controllers = [controller("shop", "ShopReconciler")];
    let main = |fields: &[&str]| {
        let facts = SourceFacts { structs: vec![structure(fields)], ..SourceFacts::default() };
        setups::main_calls(&facts, &controllers, "example.com/shop")
    };
    let call = &main(&["Client", "Scheme"]).calls[0];
    let source = "(&controller1.ShopReconciler{\n\tClient: mgr.GetClient(),\n\tScheme: mgr.GetScheme(),\n}).SetupWithManager(mgr)";
    assert_eq!((&*call.source, &*call.open), (source, ""));
    let call = &main(&["Client", "Image"]).calls[0];
    assert_eq!(call.open, "it needs values for Image");
}

#[test]
fn rights_are_written_as_go_and_stay_in_their_quotes() {
    let rule = Rule {
        groups: vec!["apps".into()],
        resources: vec!["deploy\"}\n".into()],
        verbs: vec!["get".into()],
        names: vec!["a".into()],
        ..Rule::default()
    };
    let read = |import: &str, name: &str| (import.to_owned(), name.to_owned());
    let reads = [read("k8s.io/api/core/v1", "Pod"), read("k8s.io/api/core/v1", "Secret")].into();
    let file = PluginFile {
        name: "shop",
        version: "0.1.0",
        rules: &[rule],
        finalizers: &["example.com/f".into()],
        reads: &reads,
        environment: &["IMAGE".into()],
    };
    let text = file.text();
    assert!(text.contains("\tkinds1 \"k8s.io/api/core/v1\"\n\t\"sigs.k8s.io/"), "{text}");
    assert!(text.contains("\twindlass.Reads(&kinds1.Pod{}, &kinds1.Secret{})\n"), "{text}");
    assert!(text.contains("\twindlass.Environment(\"IMAGE\")\n"), "{text}");
    let expected = "\t\t\t{APIGroups: []string{\"apps\"}, Resources: []string{\"deploy\\\"}\\U0000000a\"}, Verbs: []string{\"get\"}, Names: []string{\"a\"}},\n";
    assert!(text.contains(expected) && text.contains("Finalizers: []string{\"example.com/f\"},"), "{text}");
    let none = PluginFile { rules: &[], finalizers: &[], reads: &[].into(), environment: &[], ..file }.text();
    assert!(none.contains("\t\tPermissions: []manifest.Permission{},\n\n") && none.contains("Reads()"), "{none}");
}

#[test]
fn the_report_cannot_be_broken_by_the_project() {
    let limitation = unserved::Limitation {
        severity: unserved::Severity::Unserved,
        what: "files",
        way: "A way.",
        places: vec![(place("a`|\n# b.go", 1), "os.Open `x`".into())],
    };
    let report = Report {
        name: "shop".into(),
        module: "example.com/shop".into(),
        folder: FOLDER.into(),
        controllers: vec![controller("shop", "R")],
        main: MainCalls::default(),
        environment: vec![],
        rights: Rights::default(),
        limitations: vec![limitation],
        left_behind: vec![],
        live_reads: [(
            ObjectKind { api_version: "a.b/v1".into(), kind: "Probe".into() },
            ("a.b/probes/v1".to_owned(), "Probe".to_owned()),
        )]
        .into(),
        definitions: vec![],
        samples: vec![],
        notes: vec!["<script> [x](y)".into()],
        left_out: vec![folder::LeftOut { path: "a\u{1b}[0m".into(), why: "it is a link" }],
    };
    let text = report.markdown();
    assert!(text.contains("  - `a'' # b.go:1`: `os.Open 'x'`\n"), "{text}");
    let line = "- `a.b/v1 Probe`: `windlass.Reads(&kinds.Probe{})`, with `import kinds \"a.b/probes/v1\"`\n";
    assert!(text.contains(line) && report.summary().contains("  read live    a.b/v1 Probe"), "{text}");
    assert!(text.contains("- \\<script\\> \\[x\\](y)\n") && !text.contains('\u{1b}'), "{text}");
    assert!(report.summary().contains("cannot       files: a`|\n# b.go:1"), "{}", report.summary());
}

#[test]
fn dev_follows_the_sources_that_the_plugin_runs() {
    let running: BTreeSet<String> = [".", "api/v1", "internal/a", "internal/b"].map(str::to_owned).into();
    let text = build_file("shop", &running);
    assert!(text.contains(r#"watch: ["**/*.go", "../*.go", "../api/**/*.go", "../internal/**/*.go"]"#), "{text}");
    let file = crate::file::parse(Path::new("f"), text.as_bytes()).expect("it is right");
    assert_eq!((&*file.name, file.watch.len()), ("shop", 4));
}

#[test]
fn the_policy_grants_what_the_manifest_asks_for() {
    let rule = Rule {
        groups: vec![String::new()],
        resources: vec!["secrets".into()],
        verbs: vec!["get".into()],
        ..Rule::default()
    };
    let manifest =
        manifest(("shop", "0.1.0"), &[controller("shop", "R")], &[rule], &["example.com/f".into()]).expect("valid");
    let asked = asks(&manifest, &ClusterNames::default());
    let text = draft(&manifest, "for a test", &asked, true, Instances::Reuse);
    assert!(text.contains("\"shops/status\"") && text.contains("\"secrets\"") && text.contains("SENSITIVE"), "{text}");
    assert!(!text.contains("paused") && text.ends_with("\n- \"example.com/f\"\n"), "{text}");
}

#[test]
fn an_author_s_version_stays_in_a_later_import() {
    for (text, expected) in [
        ("windlass.Describe(manifest.Manifest{\n\t\tName:    \"shop\",\n\t\tVersion: \"1.2.0-rc.1\",\n", "1.2.0-rc.1"),
        ("Version: version,\n", "0.1.0"),
        ("Version: \"\\\"+x", "0.1.0"),
        ("", "0.1.0"),
    ] {
        assert_eq!(sources::version(text), expected, "{text}");
    }
}

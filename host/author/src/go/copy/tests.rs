//! Tests the copies of Go modules with a small module in the place of Kubernetes' own.

use std::sync::Barrier;
use std::time::SystemTime;

use super::*;

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    std::fs::write(path, content)
}

fn api() -> &'static GuestModule {
    GuestModule::named("k8s.io/api").expect("it is listed")
}

/// A module with a package, documentation and tests.
fn original() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    for (path, text) in [
        ("go.mod", "module k8s.io/api\n"),
        ("doc.md", "text"),
        ("shop/v1/types.go", "package v1\n"),
        ("shop/v1/types_test.go", "package v1\n"),
        ("shop/v1/types_swagger_doc_generated.go", "package v1\n"),
        ("testdata/shop.go", "package testdata\n"),
    ] {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
        std::fs::write(path, text).expect("it is written");
    }
    folder
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("it is there");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

#[test]
fn a_copy_has_only_the_code_and_is_found_again() {
    let (original, directory) = (original(), tempfile::tempdir().expect("a directory"));
    let copies = Copies { directory: directory.path(), write };
    assert_eq!(copies.existing(api(), "v1.0.0", "h1:a"), None);
    let made = copies.make(api(), "v1.0.0", "h1:a", Some(original.path())).expect("it is made");
    assert_eq!(names(&made), ["go.mod", "shop", RECORD]);
    assert_eq!(names(&made.join("shop/v1")), ["types.go"]);
    assert_eq!(copies.existing(api(), "v1.0.0", "h1:a"), Some(made));
    for (version, sum) in [("v1.0.1", "h1:a"), ("v1.0.0", "h1:b")] {
        assert_eq!(copies.existing(api(), version, sum), None, "{version} {sum} is another module");
    }
    assert_eq!(names(directory.path()).len(), 1, "nothing unfinished is left");
}

#[test]
fn two_builds_that_copy_at_once_get_the_same_copy() {
    let (original, directory) = (original(), tempfile::tempdir().expect("a directory"));
    let barrier = Barrier::new(2);
    let made = std::thread::scope(|scope| {
        let build = || {
            let copies = Copies { directory: directory.path(), write };
            barrier.wait();
            copies.make(api(), "v1.0.0", "h1:a", Some(original.path())).expect("it is made")
        };
        [scope.spawn(build), scope.spawn(build)].map(|build| build.join().expect("it ends"))
    });
    assert_eq!(made[0], made[1]);
    assert_eq!(names(directory.path()).len(), 1, "nothing unfinished is left");
    // The second of two builds also succeeds if the first one ended long ago.
    let copies = Copies { directory: directory.path(), write };
    assert_eq!(copies.make(api(), "v1.0.0", "h1:a", Some(original.path())).expect("it is there"), made[0]);
    assert_eq!(copies.existing(api(), "v1.0.0", "h1:a").as_ref(), Some(&made[0]));
}

#[test]
fn files_of_a_killed_build_with_this_process_id_are_not_in_a_copy() {
    let (original, directory) = (original(), tempfile::tempdir().expect("a directory"));
    for count in 0..1_000 {
        let left = directory.path().join(format!("{UNFINISHED}{}-{count}", std::process::id()));
        std::fs::create_dir(&left).expect("it is made");
        std::fs::write(left.join("old.go"), "package old\n").expect("it is written");
    }
    let copies = Copies { directory: directory.path(), write };
    let made = copies.make(api(), "v1.0.0", "h1:a", Some(original.path())).expect("it is made");
    assert_eq!(names(&made), ["go.mod", "shop", RECORD]);
}

#[test]
fn a_full_disk_is_reported_and_leaves_nothing() {
    fn full(path: &Path, content: &[u8]) -> io::Result<()> {
        if path.ends_with("types.go") { Err(ErrorKind::StorageFull.into()) } else { std::fs::write(path, content) }
    }
    let (original, directory) = (original(), tempfile::tempdir().expect("a directory"));
    let copies = Copies { directory: directory.path(), write: full };
    let error = copies.make(api(), "v1.0.0", "h1:a", Some(original.path())).expect_err("no room").to_string();
    assert!(error.contains("cannot copy k8s.io/api to") && error.contains("nothing of an unfinished one"), "{error}");
    assert_eq!(names(directory.path()), Vec::<String>::new());
    assert_eq!(copies.existing(api(), "v1.0.0", "h1:a"), None);
}

#[test]
fn a_damaged_copy_is_made_again() {
    let (original, directory) = (original(), tempfile::tempdir().expect("a directory"));
    let copies = Copies { directory: directory.path(), write };
    let copy = || copies.make(api(), "v1.0.0", "h1:a", Some(original.path())).expect("it is made");
    let made = copy();
    let types = made.join("shop/v1/types.go");
    for damage in [|path: &Path| std::fs::write(path, ""), |path: &Path| std::fs::remove_file(path)] {
        damage(&types).expect("it is damaged");
        assert_eq!(copies.existing(api(), "v1.0.0", "h1:a"), None);
        assert_eq!(copy(), made);
        assert_eq!(std::fs::read(&types).expect("it is there"), b"package v1\n");
        assert_eq!(copies.existing(api(), "v1.0.0", "h1:a").as_ref(), Some(&made));
    }
}

#[test]
fn copies_unused_for_long_are_deleted_when_another_is_made() {
    let (original, directory) = (original(), tempfile::tempdir().expect("a directory"));
    let copies = Copies { directory: directory.path(), write };
    let make = |version| copies.make(api(), version, "h1:a", Some(original.path())).expect("it is made");
    let (old, used) = (make("v1.0.0"), make("v1.1.0"));
    let left = directory.path().join(format!("{UNFINISHED}1-1"));
    std::fs::create_dir(&left).expect("it is made");
    let set_age = |path: &Path, age| {
        let file = std::fs::File::open(path).expect("it is there");
        file.set_modified(SystemTime::now() - age).expect("its time is set");
    };
    for (path, age) in
        [(&old.join(RECORD), COPY_UNUSED_MAX), (&used.join(RECORD), COPY_UNUSED_MAX), (&left, COPY_MADE_WITHIN)]
    {
        set_age(path, age + Duration::from_mins(1));
    }
    assert!(copies.existing(api(), "v1.1.0", "h1:a").is_some(), "this is a use");
    make("v1.2.0");
    assert!(!old.exists() && used.exists() && !left.exists(), "{:?}", names(directory.path()));
}

//! Tests the cache as hosts use it, and against an attacker who wants a host to run other code.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::{Duration, SystemTime};

use super::*;
use crate::engine;
use crate::limits::Limits;

const SIZE: u64 = 42;

struct Fixture {
    directory: tempfile::TempDir,
    engine: Engine,
    code: Vec<u8>,
}

impl Fixture {
    fn new() -> Self {
        let engine = engine::for_compiling(&Limits::default(), CompileEffort::Full).expect("an engine");
        let bytes = wat::parse_str("(component)").expect("well-formed");
        let code = engine.precompile_component(&bytes).expect("compiled");
        Self { directory: tempfile::tempdir().expect("a directory"), engine, code }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("cache")
    }

    fn open(&self) -> Artefacts {
        Artefacts::open(&self.path(), &self.engine).expect("a cache")
    }

    /// A cache with the component of [`digest`] 1.
    fn filled(&self) -> Artefacts {
        let artefacts = self.open();
        artefacts.keep(&self.engine, (&whole(1), CompileEffort::Full), &self.code, SIZE).expect("kept");
        artefacts
    }

    fn code_file(&self, artefacts: &Artefacts) -> PathBuf {
        self.path().join(artefacts.code_name(&digest(1), CompileEffort::Full))
    }

    fn finds(&self, artefacts: &Artefacts) -> bool {
        artefacts.find(&self.engine, &whole(1), CompileEffort::Full).is_some()
    }
}

fn digest(number: u8) -> String {
    digest::sha256(&[number])
}

fn whole(number: u8) -> Digests {
    Digests::of_whole(&digest(number))
}

fn mode(path: &Path) -> u32 {
    path.metadata().expect("it is there").permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set");
}

#[test]
fn a_kept_artefact_is_found_by_this_host_and_the_next() {
    let fixture = Fixture::new();
    let first = fixture.filled();
    first.keep_manifest(&digest(1), "{}");
    for artefacts in [first, fixture.open()] {
        let found = artefacts.find(&fixture.engine, &whole(1), CompileEffort::Full).expect("it is there");
        assert_eq!((found.size, found.manifest.as_deref()), (SIZE, Some("{}")));
        assert!(artefacts.find(&fixture.engine, &whole(2), CompileEffort::Full).is_none());
    }
}

#[test]
fn two_scripts_of_one_interpreter_share_its_code_but_not_their_manifest() {
    let fixture = Fixture::new();
    let artefacts = fixture.filled();
    for (number, script) in [(2, "one"), (3, "two")] {
        let digests = Digests { file: digest(number), code: digest(1) };
        artefacts.keep_script(&digests, script, SIZE + 3);
        artefacts.keep_manifest(&digests.file, script);
    }
    for (number, script) in [(2, "one"), (3, "two")] {
        let kept = artefacts.script(&digest(number)).expect("it is there");
        assert_eq!((&*kept.script, kept.size, &kept.digests.code), (script, SIZE + 3, &digest(1)));
        let found =
            artefacts.find(&fixture.engine, &kept.digests, CompileEffort::Full).expect("its interpreter is there");
        assert_eq!(found.manifest.as_deref(), Some(script));
    }
    assert!(artefacts.script(&digest(1)).is_none());
}

#[test]
fn only_this_user_can_use_the_directory_its_key_and_its_files() {
    let fixture = Fixture::new();
    let artefacts = fixture.filled();
    assert_eq!(mode(&fixture.path()), 0o700);
    assert_eq!(mode(&fixture.path().join("windlass-cache.key")), 0o600);
    assert_eq!(mode(&fixture.code_file(&artefacts)), 0o400);
    let files = std::fs::read_dir(fixture.path()).expect("readable").count();
    assert_eq!(files, 2, "the key, the code, and nothing unfinished");
}

#[test]
fn a_directory_that_others_may_write_to_is_refused() {
    let fixture = Fixture::new();
    for open_to_others in [0o777, 0o770, 0o1777] {
        std::fs::create_dir_all(fixture.path()).expect("made");
        set_mode(&fixture.path(), open_to_others);
        let error = Artefacts::open(&fixture.path(), &fixture.engine).expect_err("unsafe").to_string();
        assert!(error.contains("may be written to by other users"), "{error}");
    }
}

#[test]
fn a_directory_that_cannot_be_made_is_an_error_that_names_it() {
    let fixture = Fixture::new();
    std::fs::write(fixture.path(), "a file").expect("written");
    let error = Artefacts::open(&fixture.path().join("below"), &fixture.engine).expect_err("no directory").to_string();
    assert!(error.contains("cache/below"), "{error}");
}

#[test]
fn changed_truncated_or_planted_code_is_removed_and_not_run() {
    let fixture = Fixture::new();
    let whole = {
        let artefacts = fixture.filled();
        std::fs::read(fixture.code_file(&artefacts)).expect("readable")
    };
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    let other_key = SealKey::new([9; seal::KEY_BYTES]).seal("x", &fixture.code, SIZE);
    let foreign = [fixture.code.as_slice(), &other_key].concat();
    let cases: [(&str, &[u8]); 6] = [
        ("flipped", &flipped),
        ("cut", &whole[..whole.len() - 1]),
        ("empty", b""),
        ("without a seal", &fixture.code),
        ("with another's seal", &foreign),
        ("longer", &[whole.as_slice(), b"x"].concat()),
    ];
    for (what, content) in cases {
        let artefacts = fixture.filled();
        assert!(fixture.finds(&artefacts), "before it was {what}");
        let file = fixture.code_file(&artefacts);
        std::fs::remove_file(&file).expect("removed");
        std::fs::write(&file, content).expect("written");
        set_mode(&file, 0o400);
        assert!(!fixture.finds(&artefacts), "{what}");
        assert!(!file.exists(), "{what}: it is removed");
    }
}

#[test]
fn the_code_of_another_component_is_not_used() {
    let fixture = Fixture::new();
    let artefacts = fixture.filled();
    let other = fixture.path().join(artefacts.code_name(&digest(2), CompileEffort::Full));
    std::fs::rename(fixture.code_file(&artefacts), &other).expect("renamed");
    assert!(artefacts.find(&fixture.engine, &whole(2), CompileEffort::Full).is_none());
}

#[test]
fn a_file_that_is_writable_or_not_regular_is_not_read() {
    let fixture = Fixture::new();
    let artefacts = fixture.filled();
    let file = fixture.code_file(&artefacts);
    set_mode(&file, 0o600);
    assert!(!fixture.finds(&artefacts), "writable");
    fixture.filled();
    let elsewhere = fixture.directory.path().join("elsewhere");
    std::fs::rename(&file, &elsewhere).expect("moved");
    symlink(&elsewhere, &file).expect("linked");
    assert!(!fixture.finds(&artefacts), "a link");
    std::fs::create_dir(&file).expect("made");
    assert!(!fixture.finds(&artefacts), "a directory");
}

#[test]
fn another_engine_has_other_files() {
    let fixture = Fixture::new();
    let mut config = wasmtime::Config::new();
    config.cranelift_nan_canonicalization(false);
    let other = Engine::new(&config).expect("an engine");
    let ours = fixture.filled();
    let theirs = Artefacts::open(&fixture.path(), &other).expect("a cache");
    assert!(theirs.find(&other, &whole(1), CompileEffort::Full).is_none());
    assert!(fixture.finds(&ours), "and they stay");
}

/// Creates a file as another version of the host would.
fn put(path: &Path, name: &str, content: &[u8], age: Duration) -> PathBuf {
    let file = path.join(name);
    std::fs::write(&file, content).expect("written");
    let opened = std::fs::File::options().append(true).open(&file).expect("there");
    opened.set_modified(SystemTime::now() - age).expect("set");
    set_mode(&file, 0o400);
    file
}

/// The bytes of this test were made by hand according to `seal.rs`. A change of that format needs another [`FORMAT`],
/// because a host of an earlier version may share the directory.
#[test]
fn a_file_in_this_formats_fixed_encoding_is_read() {
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.path()).expect("made");
    set_mode(&fixture.path(), 0o700);
    let key: Vec<u8> = (0..32).collect();
    set_mode(&put(&fixture.path(), "windlass-cache.key", &key, Duration::ZERO), 0o600);
    let seal = "6708136c409a5a4fcc85d8e2f95262d5f84f1290747234f6aeb5c25e1c9fc2fd";
    let seal = (0..seal.len()).step_by(2).map(|at| u8::from_str_radix(&seal[at..at + 2], 16).expect("hexadecimal"));
    let content =
        [b"{\"name\":\"webapp\"}".as_slice(), &0_u64.to_le_bytes(), b"windlas1", &seal.collect::<Vec<_>>()].concat();
    put(&fixture.path(), &format!("{}.1.manifest", digest(1)), &content, Duration::ZERO);
    assert_eq!(fixture.open().manifest(&digest(1)).as_deref(), Some(r#"{"name":"webapp"}"#));
}

#[test]
fn another_versions_artefacts_are_kept_unread_until_unused_for_a_month() {
    let fixture = Fixture::new();
    drop(fixture.filled());
    let day = Duration::from_hours(24);
    let at = |ending: &str, days: u32| {
        let name = format!("{}.{ending}", digest(1));
        put(&fixture.path(), &name, b"in a form that this version does not know", day * days)
    };
    let [code, manifest, kind] =
        [at(&format!("{}.code", "f".repeat(32)), 29), at("2.manifest", 29), at("2.profile", 999)];
    let old = at(&format!("{}.refusal", "e".repeat(32)), 31);
    let bounds = Bounds { interval: Duration::ZERO, ..Bounds::default() };
    let artefacts = Artefacts::bounded(&fixture.path(), &fixture.engine, bounds).expect("a cache");
    assert!(fixture.finds(&artefacts), "its own, and then it cleans up");
    assert_eq!(artefacts.manifest(&digest(1)), None);
    assert!(code.exists() && manifest.exists(), "their version may start again");
    assert!(kind.exists(), "a kind of file that this version does not know is not its to remove");
    assert!(!old.exists(), "not used for a month");
}

#[test]
fn the_pool_does_not_affect_the_code() {
    let limits = Limits { memory_bytes: 1 << 20, table_elements: 7, ..Limits::default() };
    let pooling = engine::new(&limits, 3, 2).expect("an engine");
    let compiling = engine::for_compiling(&Limits::default(), CompileEffort::Full).expect("an engine");
    assert_eq!(engine_name(&pooling), engine_name(&compiling));
}

#[test]
fn with_another_key_everything_is_compiled_again() {
    let fixture = Fixture::new();
    let artefacts = fixture.filled();
    drop(artefacts);
    let key = fixture.path().join("windlass-cache.key");
    std::fs::remove_file(&key).expect("removed");
    assert!(!fixture.finds(&fixture.open()));
    // A key that other users may have read is replaced.
    fixture.filled();
    set_mode(&key, 0o644);
    assert!(!fixture.finds(&fixture.open()));
    assert_eq!(mode(&key), 0o600);
}

#[test]
fn files_of_another_program_in_the_directory_are_not_touched() {
    let fixture = Fixture::new();
    drop(fixture.filled());
    let theirs = fixture.path().join("app.manifest");
    std::fs::write(&theirs, "theirs").expect("written");
    let bounds = Bounds { age: Duration::ZERO, interval: Duration::ZERO, bytes: 0 };
    let artefacts = Artefacts::bounded(&fixture.path(), &fixture.engine, bounds).expect("a cache");
    drop(artefacts.keep(&fixture.engine, (&whole(3), CompileEffort::Full), &fixture.code, SIZE));
    assert!(theirs.exists());
    // The key's file is left alone too, if another program wrote it.
    let key = fixture.path().join("windlass-cache.key");
    std::fs::write(&key, "theirs, and longer than ours").expect("written");
    let error = Artefacts::open(&fixture.path(), &fixture.engine).expect_err("no key of ours").to_string();
    assert!(error.contains("use another directory"), "{error}");
    assert_eq!(std::fs::read(&key).expect("still there"), b"theirs, and longer than ours");
}

#[test]
fn hosts_that_make_the_key_at_the_same_time_have_the_same() {
    let fixture = Fixture::new();
    let path = fixture.path();
    let keys = std::thread::scope(|scope| {
        let opened: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| Directory::open(&path).and_then(|it| it.key()).expect("a key").seal("a", b"", 0)))
            .collect();
        opened.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    assert!(keys.iter().all(|key| *key == keys[0]));
}

#[test]
fn an_artefact_in_use_outlives_an_unused_one() {
    let fixture = Fixture::new();
    let bounds = Bounds { age: Duration::from_hours(1), interval: Duration::ZERO, ..Bounds::default() };
    let artefacts = Artefacts::bounded(&fixture.path(), &fixture.engine, bounds).expect("a cache");
    let in_use = artefacts.keep(&fixture.engine, (&whole(1), CompileEffort::Full), &fixture.code, SIZE).expect("kept");
    drop(artefacts.keep(&fixture.engine, (&whole(2), CompileEffort::Full), &fixture.code, SIZE).expect("kept"));
    for number in [1, 2] {
        let file = std::fs::File::open(fixture.path().join(artefacts.code_name(&digest(number), CompileEffort::Full)))
            .expect("there");
        file.set_modified(SystemTime::now() - Duration::from_hours(3)).expect("set");
    }
    artefacts.keep(&fixture.engine, (&whole(3), CompileEffort::Full), &fixture.code, SIZE).expect("kept");
    let there =
        [1, 2, 3].map(|number| fixture.path().join(artefacts.code_name(&digest(number), CompileEffort::Full)).exists());
    assert_eq!(there, [true, false, true]);
    drop(in_use);
}

#[test]
fn running_code_survives_the_removal_of_its_file() {
    let fixture = Fixture::new();
    let artefacts = fixture.filled();
    let found = artefacts.find(&fixture.engine, &whole(1), CompileEffort::Full).expect("there");
    std::fs::remove_dir_all(fixture.path()).expect("removed");
    assert_eq!(found.component.component_type().exports(&fixture.engine).count(), 0);
    // Storing more fails, which is logged once and has no further consequences.
    assert!(artefacts.keep(&fixture.engine, (&whole(2), CompileEffort::Full), &fixture.code, SIZE).is_none());
}

//! Changes of files, and the resulting steps.

use super::*;
use crate::files::{Change, Content};
use crate::object_names::ObjectNames;
use crate::rejections::Rejection;

/// A fake directory in which each file's content is a single letter.
struct Scene {
    catalog: Catalog<()>,
}

fn content(letter: char) -> Content {
    Content::Is([u8::try_from(letter).expect("a letter"); 32])
}

fn digest(letter: char) -> Digest {
    hexadecimal(&[u8::try_from(letter).expect("a letter"); 32])
}

/// A loaded file without definitions.
fn brings(letter: char) -> LoadedFile<()> {
    LoadedFile { digest: digest(letter), definitions: vec![], generation: () }
}

fn rejection(letter: char, former: Option<char>) -> Rejection {
    Rejection::new(digest(letter), "it traps".to_owned(), former.map(digest).as_deref())
}

fn failure() -> FileRefusal {
    FileRefusal::NotLoaded { reason: "compile", message: "broken".to_owned() }
}

fn allowed(letters: &str) -> Allowed {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("allowed");
    let lines: Vec<_> = letters.chars().map(|letter| digest(letter).to_string()).collect();
    std::fs::write(&path, format!("# all\n{}\n", lines.join("\n"))).expect("written");
    Allowed::read(&path).expect("a list")
}

impl Scene {
    fn new() -> Self {
        Self { catalog: Catalog::new(2, None) }
    }

    /// Sets files: `plugin=letter` for the new content, `plugin=` to delete one.
    fn files(&mut self, files: &[&str]) -> Vec<String> {
        let change = |file: &&str| {
            let (plugin, letter) = file.split_once('=').expect("an equals sign");
            let content = letter.chars().next().map_or(Content::Gone, content);
            Change { path: PathBuf::from(format!("{plugin}.wasm")), content }
        };
        self.catalog.take(&files.iter().map(change).collect::<Vec<_>>());
        self.next()
    }

    fn next(&mut self) -> Vec<String> {
        let short =
            |digest: &Digest| char::from(u8::from_str_radix(&digest[..2], 16).expect("hexadecimal")).to_string();
        let shown = |step| match step {
            DirectoryStep::Load { plugin, digest, .. } => format!("load {plugin} {}", short(&digest)),
            DirectoryStep::Start { plugin, loaded } => format!("start {plugin} {}", short(&loaded.digest)),
            DirectoryStep::Replace { plugin, loaded } => format!("replace {plugin} {}", short(&loaded.digest)),
            DirectoryStep::Stop { plugin, why: StopReason::Deleted } => format!("stop {plugin}: deleted"),
            DirectoryStep::Stop { plugin, why: StopReason::NotAllowed { digest, .. } } => {
                format!("stop {plugin}: {} is not allowed", short(&digest))
            }
            DirectoryStep::Stop { plugin, why: StopReason::Rejected { digest, .. } } => {
                format!("stop {plugin}: {} was rejected", short(&digest))
            }
            DirectoryStep::Withdraw { plugin, digest } => format!("withdraw {plugin} {}", short(&digest)),
            DirectoryStep::Refuse { plugin, refusal, runs, .. } => {
                format!("refuse {plugin}: {}{}", refusal.reason(), if runs { ", the former runs" } else { "" })
            }
            DirectoryStep::Agree { plugin } => format!("agree {plugin}"),
            DirectoryStep::Pardon { plugin, digest } => format!("pardon {plugin} {}", short(&digest)),
            DirectoryStep::Forget { plugin } => format!("forget {plugin}"),
        };
        self.catalog.next().into_iter().map(shown).collect()
    }

    fn loaded(&mut self, plugin: &str, letter: char, definitions: &[&str]) -> Vec<String> {
        let definitions = definitions.iter().map(|&it| it.to_owned()).collect();
        let loaded = LoadedFile { digest: digest(letter), definitions, generation: () };
        self.catalog.loaded(plugin, &digest(letter), Some(Ok(loaded)));
        self.next()
    }

    fn fails(&mut self, plugin: &str, letter: char) -> Vec<String> {
        self.catalog.loaded(plugin, &digest(letter), Some(Err(failure())));
        self.next()
    }

    fn settled(&mut self, plugin: &str, letter: char) -> Vec<String> {
        self.catalog.settled(plugin, &digest(letter));
        self.next()
    }

    fn took_over(&mut self, plugin: &str, letter: char) -> Vec<String> {
        self.catalog.took_over(plugin, &brings(letter));
        self.next()
    }

    fn ended(&mut self, plugin: &str) -> Vec<String> {
        self.catalog.ended(plugin);
        self.next()
    }

    /// A scene in which these files (`plugin=letter`) run.
    fn running(files: &[&str]) -> Self {
        Self::new().with(files)
    }

    /// A scene in which `a=x` runs, and only the digests in `listed` are allowed.
    fn running_within(listed: &str) -> Self {
        Self { catalog: Catalog::new(2, Some(allowed(listed))) }.with(&["a=x"])
    }

    fn with(mut self, files: &[&str]) -> Self {
        for file in files {
            let (plugin, letter) = file.split_once('=').expect("an equals sign");
            self.files(&[file]);
            self.loaded(plugin, letter.chars().next().expect("a letter"), &[]);
        }
        self
    }
}

const NOTHING: [&str; 0] = [];

#[test]
fn a_file_is_loaded_started_and_replaced_and_stopped_when_deleted() {
    let mut scene = Scene::new();
    assert_eq!(scene.files(&["a=x"]), ["load a x"]);
    assert_eq!(scene.loaded("a", 'x', &[]), ["start a x"]);
    assert_eq!(scene.next(), NOTHING);
    assert_eq!(scene.files(&["a=y"]), ["load a y"]);
    assert_eq!(scene.loaded("a", 'y', &[]), ["replace a y"]);
    assert_eq!(scene.files(&["a="]), ["stop a: deleted"]);
    assert_eq!(scene.ended("a"), ["forget a"]);
    assert_eq!(scene.next(), NOTHING);
}

#[test]
fn the_bytes_that_run_are_not_loaded_again() {
    let mut scene = Scene::running(&["a=x"]);
    assert_eq!(scene.files(&["a=x"]), NOTHING);
    scene.files(&["a=y"]);
    assert_eq!(scene.files(&["a=x"]), NOTHING, "the file changed and changed back");
    assert_eq!(scene.loaded("a", 'y', &[]), NOTHING);
}

#[test]
fn a_broken_file_is_reported_once_when_settled_and_replaces_nothing() {
    let mut scene = Scene::running(&["a=x"]);
    scene.files(&["a=y"]);
    assert_eq!(scene.fails("a", 'y'), NOTHING, "it may be half a file");
    assert_eq!(scene.settled("a", 'y'), ["refuse a: compile, the former runs"]);
    assert_eq!(scene.next(), NOTHING);
    assert_eq!(scene.files(&["a=x"]), ["agree a"]);
    // The file was written in two parts.
    scene.files(&["a=h"]);
    scene.fails("a", 'h');
    assert_eq!(scene.files(&["a=z"]), ["load a z"]);
    assert_eq!(scene.settled("a", 'h'), NOTHING);
    assert_eq!(scene.loaded("a", 'z', &[]), ["replace a z"]);
}

#[test]
fn a_file_that_changes_while_it_is_loaded_is_loaded_again() {
    let mut scene = Scene::new();
    scene.files(&["a=x"]);
    assert_eq!(scene.files(&["a=y"]), NOTHING);
    assert_eq!(scene.loaded("a", 'x', &[]), ["load a y"]);
    scene.catalog.loaded("a", &digest('y'), None);
    assert_eq!(scene.next(), ["load a y"], "the content that was read was different once more");
    assert_eq!(scene.loaded("a", 'y', &[]), ["start a y"]);
}

#[test]
fn concurrent_loads_are_bounded_by_the_slots() {
    let mut scene = Scene::new();
    assert_eq!(scene.files(&["a=x", "b=x", "c=x", "d=x"]), ["load a x", "load b x"]);
    assert_eq!(scene.loaded("b", 'x', &[]), ["start b x", "load c x"]);
    assert_eq!(scene.files(&["a="]), ["forget a"]);
    assert!(!scene.catalog.is_settled());
    assert_eq!(scene.loaded("a", 'x', &[]), ["load d x"], "its slot is free");
    scene.loaded("c", 'x', &[]);
    assert_eq!(scene.fails("d", 'x'), NOTHING);
    assert_eq!(scene.settled("d", 'x'), ["refuse d: compile"]);
    assert!(scene.catalog.is_settled());
    assert_eq!(scene.catalog.running(), 2);
}

#[test]
fn a_plugin_that_returns_while_it_ends_starts_after_its_end() {
    let mut scene = Scene::running(&["a=x"]);
    scene.files(&["a="]);
    assert_eq!(scene.files(&["a=x"]), ["load a x"]);
    assert_eq!(scene.loaded("a", 'x', &[]), NOTHING);
    assert_eq!(scene.ended("a"), ["start a x"]);
}

#[test]
fn a_plugin_that_can_never_run_is_restarted_only_by_a_new_file() {
    let mut scene = Scene::running(&["a=x"]);
    assert_eq!(scene.ended("a"), NOTHING);
    scene.files(&["a=y"]);
    assert_eq!(scene.loaded("a", 'y', &[]), ["start a y"]);
    scene.ended("a");
    assert_eq!(scene.files(&["a="]), ["forget a"]);
}

#[test]
fn of_two_plugins_with_one_definition_only_the_first_by_name_runs() {
    let mut scene = Scene::new();
    scene.files(&["a=x", "b=y"]);
    assert_eq!(scene.loaded("b", 'y', &["ws.e.com"]), NOTHING, "a may bring it too");
    assert_eq!(scene.loaded("a", 'x', &["ws.e.com"]), ["start a x", "refuse b: rival"]);
    assert_eq!(scene.files(&["a="]), ["stop a: deleted"]);
    assert_eq!(scene.ended("a"), ["forget a", "start b y"]);
    // A running plugin has precedence over a new one.
    scene.files(&["a=x"]);
    assert_eq!(scene.loaded("a", 'x', &["ws.e.com"]), ["refuse a: rival"]);
    scene.files(&["b=z"]);
    assert_eq!(scene.loaded("b", 'z', &[]), ["replace b z"]);
    assert_eq!(scene.next(), ["start a x"], "b does not bring it any more");
}

#[test]
fn only_allowed_bytes_are_loaded_and_bytes_off_the_list_stop() {
    let mut scene = Scene { catalog: Catalog::new(2, Some(allowed("x"))) };
    assert_eq!(scene.files(&["a=x", "b=y"]), ["load a x", "refuse b: not-allowed"]);
    assert_eq!(scene.loaded("a", 'x', &[]), ["start a x"]);
    assert_eq!(scene.files(&["a=y"]), ["refuse a: not-allowed, the former runs"]);
    scene.catalog.allow(allowed("y"));
    assert_eq!(scene.next(), ["stop a: x is not allowed", "load a y", "load b y"]);
    assert_eq!(scene.loaded("a", 'y', &[]), NOTHING);
    assert_eq!(scene.ended("a"), ["start a y"]);
    scene.catalog.allow(allowed(""));
    assert_eq!(scene.next(), ["stop a: y is not allowed", "refuse a: not-allowed", "refuse b: not-allowed"]);
    assert_eq!(scene.ended("a"), NOTHING);
    assert_eq!(scene.catalog.running(), 0);
}

#[test]
fn a_rolled_back_file_is_not_run_again_before_it_changes() {
    let mut scene = Scene::running(&["a=x"]);
    scene.files(&["a=y"]);
    scene.loaded("a", 'y', &[]);
    scene.took_over("a", 'y');
    let rejection = rejection('y', Some('x'));
    scene.catalog.rolled_back("a", rejection.clone(), &brings('x'));
    assert_eq!(scene.next(), ["refuse a: rejected, the former runs"]);
    assert_eq!(scene.files(&["a=x"]), ["pardon a y", "agree a"]);
    assert_eq!(scene.files(&["a=y"]), ["load a y"], "it is wanted again");

    // This is another replica, which has started the rejected version.
    let mut scene = Scene::running(&["a=y"]);
    assert!(scene.catalog.reject("a", &rejection));
    assert_eq!(scene.next(), ["stop a: y was rejected", "refuse a: rejected"]);
    assert!(scene.catalog.revive("a", &brings('x')).is_err(), "it has not ended yet");
    assert_eq!(scene.ended("a"), ["refuse a: rejected"]);
    assert!(scene.catalog.revive("a", &brings('z')).is_err(), "that is not what ran before it");
    assert_eq!(scene.catalog.revive("a", &brings('x')), Ok(()));
    assert_eq!(scene.next(), NOTHING);
    assert_eq!(scene.files(&["a=z"]), ["pardon a y", "load a z"]);
    assert_eq!(scene.loaded("a", 'z', &[]), ["replace a z"]);

    // After a restart.
    let mut scene = Scene::new();
    scene.catalog.take(&[Change { path: "a.wasm".into(), content: content('y') }]);
    assert!(scene.catalog.reject("a", &rejection));
    assert_eq!(scene.next(), ["refuse a: rejected"]);
    assert!(!scene.catalog.reject("a", &Rejection::new(digest('z'), "it trapped too".to_owned(), None)));
    assert_eq!(scene.files(&["a=z"]), ["pardon a y", "load a z"], "a result for another digest is ignored");
    assert_eq!(scene.files(&["a="]), ["forget a"]);
}

#[test]
fn the_allow_list_applies_to_the_running_version_and_its_replacement() {
    let pending = |list| {
        let mut scene = Scene::running_within("xyz");
        scene.files(&["a=y"]);
        assert_eq!(scene.loaded("a", 'y', &[]), ["replace a y"]);
        scene.catalog.allow(allowed(list));
        scene
    };
    let mut scene = pending("y");
    assert_eq!(scene.next(), ["stop a: x is not allowed", "load a y"]);
    assert_eq!(scene.loaded("a", 'y', &[]), NOTHING);
    assert_eq!(scene.ended("a"), ["start a y"]);

    let mut scene = pending("x");
    assert_eq!(scene.next(), ["withdraw a y", "refuse a: not-allowed, the former runs"]);
    assert_eq!(scene.took_over("a", 'x'), NOTHING, "it was wanted again");
    scene.catalog.allow(allowed("xy"));
    assert_eq!(scene.next(), ["load a y"]);
    assert_eq!(scene.loaded("a", 'y', &[]), ["replace a y"]);
    assert_eq!(scene.took_over("a", 'y'), NOTHING);
    scene.catalog.allow(allowed("y"));
    assert_eq!(scene.next(), NOTHING, "the previous version has ended");
    scene.catalog.allow(allowed("x"));
    assert_eq!(scene.next(), ["stop a: y is not allowed", "refuse a: not-allowed"]);

    // The same applies to a version that another replica has rolled back.
    let mut scene = pending("xy");
    assert!(scene.catalog.reject("a", &rejection('y', Some('x'))));
    assert_eq!(scene.next(), ["withdraw a y", "refuse a: rejected, the former runs"]);
}

/// A generation that was rolled back runs until the previous one can take over.
#[test]
fn a_rolled_back_version_obeys_the_allow_list_while_it_still_runs() {
    let rolled_back = || {
        let mut scene = Scene::running_within("xyz");
        scene.files(&["a=y"]);
        scene.loaded("a", 'y', &[]);
        scene.took_over("a", 'y');
        scene.catalog.rolled_back("a", rejection('y', Some('x')), &brings('x'));
        assert_eq!(
            scene.next(),
            ["refuse a: rejected, the former runs"],
            "it is not stopped until the other takes over again"
        );
        scene
    };
    let mut scene = rolled_back();
    scene.catalog.allow(allowed("x"));
    assert_eq!(scene.next(), ["stop a: y is not allowed"]);
    assert_eq!(scene.ended("a"), ["start a x", "refuse a: rejected, the former runs"]);
    // A version that may not come back is prevented from running, whatever happens to the other one.
    let mut scene = rolled_back();
    scene.catalog.allow(allowed("y"));
    assert_eq!(scene.next(), ["stop a: x is not allowed"]);
    assert_eq!(scene.ended("a"), ["refuse a: rejected"]);
    // If a newer version is withdrawn meanwhile, the returning one takes over.
    let mut scene = rolled_back();
    assert_eq!(scene.files(&["a=z"]), ["pardon a y", "load a z"]);
    assert_eq!(scene.loaded("a", 'z', &[]), ["replace a z"]);
    scene.catalog.allow(allowed("xy"));
    assert_eq!(scene.next(), ["withdraw a z", "refuse a: not-allowed, the former runs"]);
    assert_eq!(scene.took_over("a", 'x'), NOTHING);
    scene.catalog.allow(allowed("x"));
    assert_eq!(scene.next(), ["refuse a: not-allowed, the former runs"], "the failed generation has ended");
}

#[test]
fn a_generation_that_ends_before_its_rollback_is_followed_by_the_old_one() {
    let mut scene = Scene::running(&["a=x"]);
    scene.files(&["a=y"]);
    scene.loaded("a", 'y', &[]);
    scene.took_over("a", 'y');
    scene.catalog.rolled_back("a", rejection('y', Some('x')), &brings('x'));
    scene.next();
    assert_eq!(scene.ended("a"), ["start a x", "refuse a: rejected, the former runs"]);
}

#[test]
fn a_plugin_that_fell_by_the_hosts_fault_restarts_after_its_delay() {
    let mut scene = Scene::running(&["a=x", "b=x"]);
    assert_eq!(scene.catalog.at_work().count(), 2);
    scene.catalog.fell("a");
    assert_eq!(scene.next(), NOTHING);
    assert_eq!(scene.files(&["a=y"]), NOTHING, "not yet");
    assert_eq!(scene.catalog.at_work().count(), 1);
    scene.catalog.again("a");
    assert_eq!(scene.next(), ["load a y"]);
    assert_eq!(scene.loaded("a", 'y', &[]), ["start a y"]);
    scene.catalog.fell("a");
    assert_eq!(scene.files(&["a="]), ["forget a"]);
    scene.catalog.again("a");
    assert_eq!(scene.next(), NOTHING);
    // Here the plugin starts again in place of a file that was rolled back.
    let mut scene = Scene::new();
    scene.catalog.take(&[Change { path: "a.wasm".into(), content: content('y') }]);
    scene.catalog.reject("a", &rejection('y', Some('x')));
    assert_eq!(scene.next(), ["refuse a: rejected"]);
    assert_eq!(scene.catalog.revive("a", &brings('x')), Ok(()));
    scene.catalog.fell("a");
    assert_eq!(scene.next(), NOTHING);
    scene.catalog.again("a");
    assert_eq!(scene.next(), ["start a x", "refuse a: rejected, the former runs"]);
    // Here the plugin starts again before the returning generation could take over.
    let mut scene = Scene::running(&["a=x"]);
    scene.files(&["a=y"]);
    scene.loaded("a", 'y', &[]);
    scene.took_over("a", 'y');
    scene.catalog.rolled_back("a", rejection('y', Some('x')), &brings('x'));
    scene.next();
    scene.catalog.fell("a");
    assert_eq!(scene.next(), NOTHING);
    scene.catalog.again("a");
    assert_eq!(scene.next(), ["start a x", "refuse a: rejected, the former runs"]);
}

#[test]
fn a_fallen_plugin_restarts_in_time_beside_a_file_that_is_not_allowed() {
    let mut scene = Scene::running_within("x");
    assert_eq!(scene.files(&["a=y"]), ["refuse a: not-allowed, the former runs"]);
    scene.catalog.fell("a");
    assert_eq!(scene.next(), NOTHING, "not yet");
    scene.catalog.again("a");
    assert_eq!(scene.next(), ["start a x", "refuse a: not-allowed, the former runs"], "it is reported again what runs");
    // Here another replica rolls the version back while nothing may be started.
    let mut scene = Scene::running(&["a=y"]);
    scene.catalog.fell("a");
    scene.catalog.reject("a", &rejection('y', Some('x')));
    scene.next();
    assert_eq!(scene.catalog.revive("a", &brings('x')), Err(NotRevived::Superfluous));
    scene.catalog.again("a");
    scene.next();
    assert_eq!(scene.catalog.revive("a", &brings('x')), Ok(()));
}

#[test]
fn a_version_taking_over_while_withdrawn_is_stopped_for_its_predecessor() {
    let took_over = || {
        let mut scene = Scene::running_within("xyz");
        scene.files(&["a=y"]);
        scene.loaded("a", 'y', &[]);
        scene.catalog.allow(allowed("xz"));
        assert_eq!(scene.next(), ["withdraw a y", "refuse a: not-allowed, the former runs"]);
        assert_eq!(scene.took_over("a", 'y'), ["stop a: y is not allowed"]);
        scene
    };
    let mut scene = took_over();
    assert_eq!(scene.took_over("a", 'x'), NOTHING, "it ends, whichever generation runs by now");
    assert_eq!(scene.ended("a"), ["start a x", "refuse a: not-allowed, the former runs"]);
    // The former version is not started if it is not allowed either, or if another version is wanted.
    let mut scene = took_over();
    scene.catalog.allow(allowed("z"));
    assert_eq!(scene.ended("a"), ["refuse a: not-allowed"]);
    let mut scene = took_over();
    assert_eq!(scene.files(&["a=z"]), ["load a z"]);
    assert_eq!(scene.ended("a"), NOTHING);
    assert_eq!(scene.loaded("a", 'z', &[]), ["start a z"]);
}

#[test]
fn a_rollback_over_two_generations_returns_to_the_one_it_names() {
    let mut scene = Scene::running(&["a=x"]);
    for letter in ['y', 'z'] {
        scene.files(&[&format!("a={letter}")]);
        scene.loaded("a", letter, &[]);
        scene.took_over("a", letter);
    }
    scene.catalog.rolled_back("a", rejection('z', Some('x')), &brings('x'));
    assert_eq!(scene.next(), ["refuse a: rejected, the former runs"]);
    assert_eq!(scene.took_over("a", 'x'), NOTHING);
    assert_eq!(scene.files(&["a=y"]), ["pardon a z", "load a y"], "it does not run");
    assert_eq!(scene.loaded("a", 'y', &[]), ["replace a y"]);
    scene.took_over("a", 'y');
    assert_eq!(scene.files(&["a=x"]), ["load a x"]);
    // A rollback does not stop a newer version that is already getting ready.
    let mut scene = Scene::running(&["a=x"]);
    scene.files(&["a=y"]);
    scene.loaded("a", 'y', &[]);
    scene.took_over("a", 'y');
    scene.files(&["a=z"]);
    assert_eq!(scene.loaded("a", 'z', &[]), ["replace a z"]);
    scene.catalog.rolled_back("a", rejection('y', Some('x')), &brings('x'));
    assert_eq!(scene.next(), ["pardon a y"]);
}

#[test]
fn a_file_delivered_as_the_former_version_ended_is_started() {
    let mut scene = Scene::running(&["a=x"]);
    scene.files(&["a=y"]);
    assert_eq!(scene.loaded("a", 'y', &[]), ["replace a y"]);
    assert_eq!(scene.ended("a"), ["load a y"], "it was never tried");
    assert_eq!(scene.loaded("a", 'y', &[]), ["start a y"]);
    assert_eq!(scene.ended("a"), NOTHING, "now it was");
}

#[test]
fn the_former_version_starts_even_if_the_rejected_file_is_not_allowed() {
    let mut scene = Scene { catalog: Catalog::new(2, Some(allowed("x"))) };
    scene.catalog.take(&[Change { path: "a.wasm".into(), content: content('y') }]);
    assert!(scene.catalog.reject("a", &rejection('y', Some('x'))));
    assert_eq!(scene.next(), ["refuse a: rejected"]);
    scene.catalog.allow(allowed("z"));
    let problem = scene.catalog.revive("a", &brings('x')).expect_err("it is not allowed any more");
    assert!(problem.to_string().contains(&*digest('x')), "{problem}");
    scene.catalog.allow(allowed("xz"));
    assert_eq!(scene.next(), ["refuse a: rejected"], "so it is looked for again");
    assert_eq!(scene.catalog.revive("a", &brings('x')), Ok(()));
    assert_eq!(scene.next(), NOTHING);
}

#[test]
fn a_former_version_that_an_objects_policy_does_not_cover_never_runs() {
    let names = ObjectNames::new(Path::new("/objects"), [("a".to_owned(), [digest('y').to_string()].into())].into());
    let rejection = rejection('y', Some('x'));

    // After a restart, with the former version in the cache.
    let mut scene = Scene { catalog: Catalog::new(2, None).with_objects(names.clone()) };
    scene.catalog.take(&[Change { path: "a.wasm".into(), content: content('y') }]);
    assert!(scene.catalog.reject("a", &rejection));
    assert_eq!(scene.next(), ["refuse a: rejected"]);
    let refused = Err(NotRevived::NotCovered { digest: digest('x') });
    assert_eq!(scene.catalog.revive("a", &brings('x')), refused);

    // In the same process, with the former version in memory.
    let mut scene = Scene { catalog: Catalog::new(2, None).with_objects(names.clone()) }.with(&["a=x", "a=y"]);
    scene.took_over("a", 'y');
    scene.catalog.rolled_back("a", rejection, &brings('x'));
    scene.next();
    assert_eq!(scene.ended("a"), ["refuse a: rejected"]);
    names.claim("a", ['x', 'y'].map(|letter| digest(letter).to_string()).into());
    assert_eq!(scene.catalog.revive("a", &brings('x')), Ok(()));
}

#[test]
fn only_wasm_files_are_plugins() {
    assert!(is_plugin(Path::new("p/a.wasm")) && !is_plugin(Path::new("p/a.policy.yaml")));
}

#[test]
fn a_version_off_the_allow_list_stops_even_if_its_file_is_unreadable() {
    for (content, why) in [(Content::TooLarge(1), "too-large"), (Content::Unreadable("no".into()), "read")] {
        let mut scene = Scene::running_within("x");
        scene.catalog.take(&[Change { path: "a.wasm".into(), content }]);
        assert_eq!(scene.next(), [format!("refuse a: {why}, the former runs")]);
        scene.catalog.allow(allowed(""));
        assert_eq!(scene.next(), ["stop a: x is not allowed".to_owned()]);
    }
}

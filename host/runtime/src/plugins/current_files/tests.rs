//! Files of plugins whose new versions wait, with a host whose policies say so.

use std::sync::Mutex;

use super::*;
use crate::leadership::LeaseMode;
use crate::plugins::directory::is_plugin;
use crate::policies::GrantMode;
use crate::tests::stage::Stage;

const POLICY: &str = "apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: shop\n";

/// A directory of plugins, and the reported changes.
struct Scene {
    stage: Stage,
    files: Files,
    current: CurrentFiles,
    /// The digest of the running version of `shop`.
    runs: Arc<Mutex<Option<Digest>>>,
}

fn digest(text: &str) -> Digest {
    hexadecimal(&<sha2::Sha256 as sha2::Digest>::digest(text).into())
}

impl Scene {
    async fn new() -> Self {
        let stage = Stage::with(LeaseMode::None, GrantMode::Policy).await;
        let (files, mut current) =
            (Files::follow(vec![stage.plugins.clone()], u64::MAX, is_plugin), CurrentFiles::new(stage.host.clone()));
        let runs = Arc::<Mutex<Option<Digest>>>::default();
        let of = runs.clone();
        current.runs = Arc::new(move |plugin| of.lock().expect("no panic").clone().filter(|_| plugin == "shop"));
        Self { stage, files, current, runs }
    }

    /// A scene in which a version runs that was kept and reported.
    async fn of_current(text: &str) -> Self {
        let mut scene = Self::new().await;
        scene.says("rollout: shadow");
        scene.put("shop.wasm", text);
        assert_eq!(scene.reported().await, ["shop.wasm is there"]);
        scene.loads(text).await.expect("it can be kept");
        scene.runs(text);
        assert_eq!(scene.reported().await, ["shop.current.wasm is there"]);
        scene
    }

    /// Loads `shop.wasm` with this content.
    async fn loads(&self, text: &str) -> Result<(), NotKept> {
        let file = self.stage.plugins.join("shop.wasm");
        keep_first(&self.stage.host, &"shop".into(), &file, &digest(text)).await
    }

    /// Makes this version of `shop` the running one.
    fn runs(&self, text: &str) {
        *self.runs.lock().expect("no panic") = Some(digest(text));
    }

    /// Removes the policy.
    fn says_nothing(&self) {
        let path = self.stage.plugins.join("shop.policy.yaml");
        std::fs::remove_file(&path).expect("it is there");
        self.stage.host.policies.take(&[Change { path, content: Content::Gone }]);
    }

    fn says(&self, rollout: &str) {
        let path = self.stage.plugins.join("shop.policy.yaml");
        std::fs::write(&path, format!("{POLICY}{rollout}\n")).expect("it can be written");
        self.stage.host.policies.take(&[Change { path, content: Content::Is([0; 32]) }]);
    }

    fn put(&self, name: &str, text: &str) {
        std::fs::write(self.stage.plugins.join(name), text).expect("it can be written");
    }

    fn has(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.stage.plugins.join(name)).ok()
    }

    /// The next reported files, and their states.
    async fn reported(&mut self) -> Vec<String> {
        let changes = tokio::time::timeout(Duration::from_mins(1), self.current.changes(&mut self.files)).await;
        let texts = changes.expect("the change is reported").into_iter().map(|Change { path, content }| {
            let what = match content {
                Content::Is(_) => "is there",
                Content::Gone => "is gone",
                Content::TooLarge(_) => "is too large",
                Content::Withheld(problem) if problem.contains("cannot be kept") => "is not kept",
                Content::Withheld(problem) if problem.contains("is not the version that ran last") => {
                    "was another version"
                }
                Content::Withheld(_) | Content::Unreadable(_) => "cannot be read",
            };
            format!("{} {what}", path.file_name().unwrap_or_default().to_string_lossy())
        });
        texts.collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_version_that_loads_is_kept_and_later_ones_are_reported() {
    let mut scene = Scene::new().await;
    scene.says("rollout: shadow");
    scene.put("shop.wasm", "does not load");
    assert_eq!(scene.reported().await, ["shop.wasm is there"]);
    scene.put("shop.wasm", "old");
    assert_eq!(scene.reported().await, ["shop.wasm is there"]);
    assert_eq!(scene.has("shop.current.wasm"), None, "it is not known yet whether it loads");
    scene.loads("old").await.expect("it can be kept");
    assert_eq!(scene.reported().await, ["shop.current.wasm is there"]);
    scene.put("shop.wasm", "new");
    assert_eq!(scene.reported().await, ["shop.wasm is there"]);
    assert_eq!(scene.has("shop.current.wasm").as_deref(), Some("old"));
    assert!(matches!(scene.loads("new").await, Err(NotKept::Others)), "it was seen before the other was kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_rollout_policy_keeps_the_running_version() {
    let mut scene = Scene::new().await;
    scene.put("shop.wasm", "old");
    assert_eq!(scene.reported().await, ["shop.wasm is there"]);
    scene.runs("old");
    scene.says("rollout: shadow");
    assert_eq!(scene.reported().await, ["shop.current.wasm is there"]);
    assert_eq!(scene.has("shop.current.wasm").as_deref(), Some("old"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_version_deleted_unseen_is_kept_again() {
    let mut scene = Scene::new().await;
    scene.put("shop.wasm", "old");
    assert_eq!(scene.reported().await, ["shop.wasm is there"]);
    scene.runs("old");
    scene.says("rollout: shadow");
    assert_eq!(scene.current.settle_all().await, [], "only seen files are reported");
    std::fs::remove_file(scene.stage.plugins.join("shop.current.wasm")).expect("it was kept");
    scene.says("rollout: {strategy: shadow}");
    assert_eq!(scene.reported().await, ["shop.current.wasm is there"]);
    assert_eq!(scene.has("shop.current.wasm").as_deref(), Some("old"));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_version_that_comes_with_the_policy_does_not_run() {
    let mut scene = Scene::new().await;
    scene.put("shop.wasm", "old");
    assert_eq!(scene.reported().await, ["shop.wasm is there"]);
    scene.runs("old");
    scene.put("shop.wasm", "new");
    scene.says("rollout: shadow");
    // Copying the running version fails, because its file has gone. Then the new file is seen.
    assert_eq!(scene.reported().await, ["shop.wasm is there", "shop.current.wasm was another version"]);
    assert_eq!(scene.has("shop.current.wasm"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_current_version_is_restored_only_from_the_same_bytes() {
    let mut scene = Scene::of_current("old").await;
    let current = scene.stage.plugins.join("shop.current.wasm");
    std::fs::remove_file(&current).expect("it is there");
    scene.put("web.wasm", "other");
    assert_eq!(scene.reported().await, ["web.wasm is there"]);
    assert_eq!(scene.has("shop.current.wasm").as_deref(), Some("old"));
    scene.put("shop.wasm", "new");
    assert_eq!(scene.reported().await, ["shop.wasm is there"]);
    std::fs::remove_file(&current).expect("it is there");
    assert_eq!(scene.reported().await, ["shop.current.wasm was another version"]);
    assert_eq!(scene.has("shop.current.wasm"), None);
    scene.says("paused: true");
    assert_eq!(scene.reported().await, ["shop.current.wasm is gone"], "the policy no longer asks for it");
    scene.runs("new");
    scene.says("rollout: shadow");
    assert_eq!(scene.reported().await, ["shop.current.wasm is there"], "it runs by now");
    assert_eq!(scene.has("shop.current.wasm").as_deref(), Some("new"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_is_removed_and_restored_runs_no_unpromoted_version() {
    let mut scene = Scene::of_current("old").await;
    scene.put("shop.wasm", "new");
    assert_eq!(scene.reported().await, ["shop.wasm is there"]);
    scene.says_nothing();
    scene.put("api.wasm", "other");
    assert_eq!(scene.reported().await, ["api.wasm is there"], "the current version runs on");
    std::fs::remove_file(scene.stage.plugins.join("shop.current.wasm")).expect("it is there");
    assert_eq!(scene.reported().await, ["shop.current.wasm was another version"]);
    scene.says("rollout: shadow");
    scene.put("web.wasm", "other");
    assert_eq!(scene.reported().await, ["web.wasm is there"]);
    assert_eq!(scene.has("shop.current.wasm"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_cannot_be_kept_waits_for_a_policy_change_to_retry() {
    let mut scene = Scene::new().await;
    scene.put("shop.wasm", "old");
    assert_eq!(scene.reported().await, ["shop.wasm is there"]);
    scene.runs("old");
    // A directory in its place cannot be replaced.
    let current = scene.stage.plugins.join("shop.current.wasm");
    std::fs::create_dir(&current).expect("it can be made");
    scene.says("rollout: shadow");
    assert_eq!(scene.reported().await, ["shop.wasm is not kept"]);
    assert!(matches!(scene.loads("old").await, Err(NotKept::Failed(why)) if why.contains("let the host write")));
    std::fs::remove_dir(&current).expect("it is empty");
    scene.says("rollout: {strategy: shadow}");
    assert_eq!(scene.reported().await, ["shop.wasm is there", "shop.current.wasm is there"]);
}

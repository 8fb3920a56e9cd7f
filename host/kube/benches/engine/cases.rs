//! The measured cases, each in a separate process. A case prints its figures, one name and number per line.

use std::hint::black_box;
use std::io::Write as _;
use std::time::{Duration, Instant};

use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;
use tokio::sync::oneshot;
use windlass_core::cache::watch::{Projection, WatchSpec};
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_kube::client::connect;
use windlass_kube::{ConnectOptions, Discovery, InformerOptions, Informers, Store, Subscription};

use crate::process::{self, Memory};

const ROUNDS: usize = 5;
const LOOKUPS: usize = 1_000_000;
/// The time after which unread objects are packed: shorter than the host's own setting, but longer than it takes to
/// pack 100,000 objects.
const COLD_AFTER: Duration = Duration::from_secs(10);

/// The kind of cache that a process measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    /// A connection with an informer without objects, as the baseline for the other cases.
    Empty,
    /// Whole objects.
    Full,
    /// Only the metadata of objects, in memory and on the wire.
    Metadata,
    /// Whole objects that have not been read for a long time.
    Cold,
}

impl Case {
    pub(crate) const ALL: [(&str, Self); 4] =
        [("empty", Self::Empty), ("full", Self::Full), ("metadata", Self::Metadata), ("cold", Self::Cold)];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, case)| *case == self).expect("all have names").0
    }

    /// The watch to subscribe to.
    fn spec(self) -> WatchSpec {
        let pods = WatchSpec::all(ObjectKind::new("v1", "Pod"));
        match self {
            Self::Empty => WatchSpec { namespace: Some("none".into()), ..pods },
            Self::Full | Self::Cold => pods,
            Self::Metadata => WatchSpec { projection: Projection::Metadata, ..pods },
        }
    }

    /// Whether the objects are measured in their packed state. The host hardly ever reads metadata, so it keeps them
    /// packed.
    fn is_cold(self) -> bool {
        matches!(self, Self::Metadata | Self::Cold)
    }

    /// The number of objects that are read during the measurement. It is small for a packed cache, because reads cause
    /// objects to be unpacked.
    fn lookups(self) -> usize {
        if self.is_cold() { LOOKUPS / 50 } else { LOOKUPS }
    }
}

/// Waits until a whole round of packing changes nothing.
fn cool(store: &Store) {
    let mut before = 0;
    while before != store.bytes() {
        before = store.bytes();
        std::thread::sleep(2 * COLD_AFTER);
    }
}

/// Fills a cache of `count` objects from the server on `port`, and prints the cost.
pub(crate) fn run(case: Case, port: u16, lists: &str, count: usize) {
    let runtime = crate::runtime();
    let spec = case.spec();
    let streaming_lists = lists == "streaming";
    let informers = runtime.block_on(async {
        let client = client(port).await;
        let cold_after = case.is_cold().then_some(COLD_AFTER);
        let options =
            InformerOptions { streaming_lists, cold_after, most_bytes: 2 << 30, ..InformerOptions::default() };
        Informers::with_options(client.clone(), Discovery::new(client), options)
    });
    let (began, cpu_before) = (Instant::now(), process::cpu());
    let store = runtime.block_on(fill(&informers, spec, count));
    let (wall, cpu) = (began.elapsed(), process::cpu().saturating_sub(cpu_before));
    assert_eq!(store.len(), count);
    if case.is_cold() && count > 0 {
        cool(&store);
    }
    let Memory { resident, anonymous, peak } = process::settled();
    print("resident", resident);
    print("anonymous", anonymous);
    print("peak", peak);
    print("wall", wall.as_nanos());
    print("cpu", cpu.as_nanos());
    if count > 0 {
        let (keys, owners) = questions(&store);
        let asked = keys.iter().cycle();
        print("get", each(case.lookups(), &asked, |key| store.get(key)).as_nanos());
        print("text", each(case.lookups(), &asked, |key| store.get(key).map(|object| object.text())).as_nanos());
        if case == Case::Full {
            print("owned", each(LOOKUPS / 10, &owners.iter().cycle(), |uid| store.owned_by(uid)).as_nanos());
        }
    }
    // The store and its informer must live until the measurement has ended.
    drop((store, informers));
}

async fn client(port: u16) -> kube::Client {
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: bench, clusters: [{{name: bench, cluster: \
         {{server: 'http://127.0.0.1:{port}'}}}}], users: [{{name: bench, user: {{}}}}], contexts: [{{name: bench, context: \
         {{cluster: bench, user: bench}}}}]}}"
    );
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("a file");
    let options = ConnectOptions { kubeconfig: Some(file.path().into()), ..ConnectOptions::default() };
    connect(&options).await.expect("a client").client
}

/// Subscribes, and completes when the store is complete and the subscriber has received all events. The subscriber
/// drops the events, as a feeder does.
pub(crate) async fn fill(informers: &Informers, spec: WatchSpec, count: usize) -> Store {
    let subscription = informers.subscribe(spec);
    let store = subscription.store().clone();
    if count == 0 {
        assert!(subscription.synced().await);
    }
    let (all, complete) = oneshot::channel();
    tokio::spawn(drain(subscription, count, all));
    complete.await.expect("the informer runs");
    store
}

async fn drain(mut subscription: Subscription, count: usize, all: oneshot::Sender<()>) {
    for _ in 0..count {
        drop(subscription.next().await.expect("the informer runs"));
    }
    assert!(subscription.synced().await);
    let _ = all.send(());
    while subscription.next().await.is_some() {}
}

/// All keys and all controllers' UIDs in random order, in memory that the store does not share.
fn questions(store: &Store) -> (Vec<ObjectKey>, Vec<String>) {
    let objects = store.all();
    let mut random = SmallRng::seed_from_u64(crate::SEED);
    let mut keys: Vec<_> = objects.iter().map(|object| object.header.key.to_string()).collect();
    let mut owners: Vec<_> =
        objects.iter().filter_map(|object| Some(object.header.controller()?.uid.to_string())).collect();
    owners.sort_unstable();
    owners.dedup();
    keys.shuffle(&mut random);
    owners.shuffle(&mut random);
    let key = |key: &String| {
        let (namespace, name) = key.split_once('/').expect("a namespaced key");
        ObjectKey::namespaced(namespace, name)
    };
    (keys.iter().map(key).collect(), owners)
}

/// The time for one question, including dropping its answer. It is the median of several rounds.
fn each<Q, A>(count: usize, questions: &(impl Iterator<Item = Q> + Clone), ask: impl Fn(Q) -> A) -> Duration {
    let mut rounds: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            for question in questions.clone().take(count) {
                drop(black_box(ask(question)));
            }
            began.elapsed() / u32::try_from(count).expect("a small number")
        })
        .collect();
    rounds.sort_unstable();
    rounds[ROUNDS / 2]
}

pub(crate) fn print(name: &str, value: impl std::fmt::Display) {
    println!("{name} {value}");
}

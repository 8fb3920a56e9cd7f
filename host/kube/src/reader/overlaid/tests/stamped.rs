//! Equal stamps mean equal answers, over random histories of caches. Saved calls rest on this (ADR 46).

use windlass_core::call::read_set::{AnswerDigest, Read, ReadQuestion};
use windlass_core::call::read_tracker::ReadTracker;
use windlass_core::defect::Defect;

use super::*;
use crate::informer::store::Contents;

/// An answer: the objects and the next page, or the object, or why there is none.
type Answered = Result<(Vec<Arc<str>>, Option<String>), String>;

/// Watches whose caches a test changes.
struct Caches {
    watches: Vec<(WatchSpec, StoreWriter)>,
    reader: Reader,
}

impl Caches {
    fn new(specs: &[WatchSpec], world: &World) -> Self {
        let (readable, writers): (Vec<_>, Vec<_>) = specs.iter().map(|spec| readable(spec, world, 1)).unzip();
        Self { watches: specs.iter().cloned().zip(writers).collect(), reader: Reader::new(readable) }
    }

    /// Makes one random change to one watch, or none, as a bookmark or a list without news.
    fn change(&mut self, random: &mut Random, version: usize) {
        let at = random.0.random_range(0..self.watches.len());
        let (spec, writer) = &mut self.watches[at];
        let (key, text_version) = (random.key(), version.to_string());
        let at = ObjectKey::namespaced(&*key.0, &*key.1);
        match random.0.random_range(0..10) {
            0..4 => {
                let object = random.object(&key, version).to_string();
                let object = ObjectParser::new(spec).expect("pointers").object(&object).expect("an object");
                writer.update(|contents| contents.insert(&object));
            }
            4..7 => drop(writer.update(|contents| contents.remove(&at))),
            7 => writer.update(|contents| contents.set_version(text_version.as_str().into())),
            8 => writer.update(|contents| {
                contents.set_listed(resource(), text_version.as_str().into(), Stamp::take(), None);
            }),
            _ => writer.update(Contents::rebuild),
        }
    }

    fn ask(&self, call: &CallContext, question: &ReadQuestion) -> (Answered, Option<Read>) {
        let tracker = ReadTracker::begin();
        let call = CallContext { reads: tracker.clone(), ..call.clone() };
        tracker.asks(question.clone());
        let answer = match question {
            ReadQuestion::Get { target, fields } => {
                self.reader.get(&call, target, fields.as_deref()).map(|object| (Vec::from_iter(object), None))
            }
            ReadQuestion::List(query) => self.reader.list(&call, query).map(|page| (page.items, page.next_token)),
            ReadQuestion::Primary | ReadQuestion::SkippedWrite { .. } => unreachable!("these are not asked"),
        };
        tracker.answered(Some(AnswerDigest([0; 16])));
        (answer.map_err(|error| error.to_string()), tracker.end().and_then(|tracked| tracked.reads.into_iter().next()))
    }
}

fn question(random: &mut Random) -> ReadQuestion {
    if random.0.random_bool(0.5) {
        return ReadQuestion::List(Box::new(random.query()));
    }
    let key = random.key();
    let key = match random.0.random_range(0..4) {
        0 => ObjectKey::cluster(&*key.1),
        _ => ObjectKey::namespaced(&*key.0, &*key.1),
    };
    let uid = random.0.random_bool(0.2).then(|| "prod-a".into());
    let fields = random.0.random_bool(0.3).then(|| ["/data/tier".to_owned()].into());
    ReadQuestion::Get { target: ObjectRef { kind: kind(), key, uid }, fields }
}

/// Asks questions while caches change. Returns how many answers had an equal stamp later, or the first one that was
/// another answer by then.
fn history(seed: u64) -> Result<usize, String> {
    let mut random = Random(SmallRng::seed_from_u64(seed));
    let specs: Vec<_> = (0..random.0.random_range(1..3)).map(|_| random.spec()).collect();
    let mut caches = Caches::new(&specs, &World::new());
    let call = call(Overlay::default());
    let (mut asked, mut equal): (Vec<(ReadQuestion, Answered, Stamp)>, usize) = (Vec::new(), 0);
    for version in 2..60 {
        caches.change(&mut random, version);
        for _ in 0..3 {
            let question = question(&mut random);
            let (answer, read) = caches.ask(&call, &question);
            let noted = read.and_then(|read| read.stamp);
            if noted.is_some() && noted != caches.reader.stamp(&call, &question) {
                return Err(format!("seed {seed}: {question:?} has another stamp than its answer"));
            }
            asked.extend(noted.map(|stamp| (question, answer, stamp)));
        }
        for (question, answer, stamp) in &asked {
            if caches.reader.stamp(&call, question) == Some(*stamp) {
                equal += 1;
                let now = caches.ask(&call, question).0;
                if now != *answer {
                    return Err(format!("seed {seed}, step {version}: {question:?} was {answer:?}, and is {now:?}"));
                }
            }
        }
    }
    Ok(equal)
}

#[test]
fn an_equal_stamp_means_an_equal_answer() {
    let equal: usize = (0..150).map(|seed| history(seed).unwrap_or_else(|wrong| panic!("{wrong}"))).sum();
    assert!(equal > 10_000, "only {equal} answers had an equal stamp");
}

#[test]
fn a_removal_that_is_not_counted_is_found() {
    let _seeded = Defect::RemovalIsNotCounted.seed();
    assert!((0..150).any(|seed| history(seed).is_err()));
}

#[test]
fn only_lists_by_an_index_or_an_owner_are_read_again() {
    let mut random = Random(SmallRng::seed_from_u64(1));
    let key = ("prod".to_owned(), "a".to_owned());
    let caches = Caches::new(&[WatchSpec::all(kind())], &World::from([(key.clone(), random.object(&key, 1))]));
    let call = call(Overlay::default());
    let all = ListQuery { limit: 5, owned: false, index: None, namespace: None, ..random.query() };
    for (query, is_read_again) in [
        (ListQuery { owned: true, ..all.clone() }, true),
        (ListQuery { namespace: Some("prod".into()), ..all.clone() }, false),
        (all, false),
    ] {
        let (_, read) = caches.ask(&call, &ReadQuestion::List(Box::new(query.clone())));
        assert_eq!(read.expect("it is noted").answer.is_some(), is_read_again, "{query:?}");
    }
}

#[test]
fn a_bookmark_and_a_list_without_news_change_no_stamp() {
    let mut random = Random(SmallRng::seed_from_u64(1));
    let key = ("prod".to_owned(), "a".to_owned());
    let world = World::from([(key.clone(), random.object(&key, 1))]);
    let mut caches = Caches::new(&[WatchSpec::all(kind())], &world);
    let call = call(Overlay::default());
    let target = ObjectRef { kind: kind(), key: ObjectKey::namespaced("prod", "a"), uid: None };
    let list = ListQuery { limit: 5, owned: false, index: None, label_selector: None, ..random.query() };
    let questions = [ReadQuestion::Get { target, fields: None }, ReadQuestion::List(Box::new(list))];
    let before = questions.each_ref().map(|question| caches.reader.stamp(&call, question));
    assert!(before.iter().all(Option::is_some));
    caches.watches[0].1.update(|contents| {
        contents.set_version("7".into());
        contents.set_listed(resource(), "8".into(), Stamp::take(), None);
    });
    assert_eq!(questions.each_ref().map(|question| caches.reader.stamp(&call, question)), before);
    caches.watches[0].1.update(Contents::set_gone);
    assert_eq!(questions.map(|question| caches.reader.stamp(&call, &question)), [None, None], "it is not served");
}

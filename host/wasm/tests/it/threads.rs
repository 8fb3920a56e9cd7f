//! Where a call runs, what it asks for elsewhere, and to whom it leaves its turn.

use crate::calls::WEBAPP;
use crate::support;

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use support::guests::{Core, chameleon, escaped, webapp};
use support::ports::quiet;
use support::{call_of, call_with, load, reconcile, reconcile_object, sandbox, trapped};
use tokio::runtime::Handle;
use tokio::task;
use windlass_core::error::ApiError;
use windlass_core::fair::{CallPermit, Fair, leave_thread};
use windlass_core::object::{ObjectKey, ObjectRef};
use windlass_core::outcome::CallResult;
use windlass_core::ports::{Absent, Answer, CallContext, ListPage, ListQuery, Ports, Reads, port_fn};
use windlass_wasm::{CallLimits, Called, Limits, Plugin, Sandbox, SandboxOptions};

/// Remembers in which task it is read; none is that of who blocks on a future.
#[derive(Clone, Debug, Default)]
struct Within(Arc<Mutex<Vec<Option<task::Id>>>>);

impl Within {
    /// The one task in which everything was read since this was asked.
    fn only(&self) -> Option<task::Id> {
        let mut seen = std::mem::take(&mut *self.0.lock().expect("not poisoned"));
        seen.dedup();
        assert_eq!(seen.len(), 1, "one task for all reads of a call: {seen:?}");
        seen[0]
    }
}

impl Reads for Within {
    fn get(&self, _: &CallContext, _: &ObjectRef, _: Option<&[String]>) -> Result<Option<Arc<str>>, ApiError> {
        self.0.lock().expect("not poisoned").push(task::try_id());
        Ok(None)
    }

    fn list(&self, _: &CallContext, _: &ListQuery) -> Result<ListPage, ApiError> {
        unreachable!("the guest gets one object")
    }
}

#[tokio::test]
async fn a_call_from_beside_the_guests_runs_in_place_and_another_in_a_task_of_its_own() {
    let plugin = load(&sandbox(Limits::default()), "webapp", &webapp()).await.expect("it loads");
    let seen = Within::default();
    let ports = Ports { reads: Arc::new(seen.clone()), ..quiet() };
    let (called, asked) = (plugin.clone(), ports.clone());
    let beside = plugin.threads().spawn(async move { reconcile_object(&called, &asked, Some(WEBAPP)).await });
    let place = beside.id();
    beside.await.expect("no panic");
    assert_eq!(seen.only(), Some(place), "in place");
    reconcile_object(&plugin, &ports, Some(WEBAPP)).await;
    assert!(seen.only().is_some_and(|it| it != place), "in a task of its own");
}

/// Remembers on which runtime and in which task it writes, before and after it has waited.
#[derive(Clone, Debug, Default)]
struct Where(Arc<Mutex<Vec<Place>>>);

/// A runtime, and the task that is there.
type Place = (tokio::runtime::Id, Option<task::Id>);

impl Where {
    fn here(&self) {
        self.0.lock().expect("not poisoned").push((Handle::current().id(), task::try_id()));
    }
}

#[tokio::test]
async fn what_a_call_asks_for_begins_in_its_place_and_goes_on_in_a_task_of_the_hosts() {
    let writing = load(&sandbox(Limits::default()), "chameleon", &chameleon("batch")).await.expect("it loads");
    let seen = Where::default();
    let place = seen.clone();
    let outside = port_fn(move |_, ask| {
        let seen = place.clone();
        async move {
            seen.here();
            task::yield_now().await;
            seen.here();
            Answer::Batch(ask.operations().iter().map(|_| Ok(None)).collect())
        }
        .boxed()
    });
    let ports = Ports { outside, ..Absent::ports() };
    let called = writing.clone();
    let beside = writing.threads().spawn(async move { reconcile(&called, &ports).await });
    let place = Some(beside.id());
    beside.await.expect("no panic");
    let seen = seen.0.lock().expect("not poisoned").clone();
    let [begun, ended] = seen[..] else { panic!("one write: {seen:?}") };
    assert_eq!([begun.0, ended.0], [Handle::current().id(); 2], "what it uses is the host's");
    assert_eq!(begun.1, place, "what is done at once wakes nobody");
    assert_ne!(ended.1, place, "a busy guest does not delay what waits");
}

/// A cache with a bug.
#[derive(Debug)]
struct Broken;

impl Reads for Broken {
    fn get(&self, _: &CallContext, _: &ObjectRef, _: Option<&[String]>) -> Result<Option<Arc<str>>, ApiError> {
        panic!("the cache has a bug")
    }

    fn list(&self, _: &CallContext, _: &ListQuery) -> Result<ListPage, ApiError> {
        panic!("the cache has a bug")
    }
}

#[tokio::test]
async fn a_panic_of_the_hosts_own_fails_a_call_in_place_and_not_its_caller() {
    let plugin = load(&sandbox(Limits::default()), "webapp", &webapp()).await.expect("it loads");
    let ports = Ports { reads: Arc::new(Broken), ..quiet() };
    let called = plugin.clone();
    let result = plugin.threads().spawn(async move { reconcile_object(&called, &ports, Some(WEBAPP)).await });
    let (reason, message) = trapped(result.await.expect("no panic"));
    assert!(reason == "host" && message.contains("the cache has a bug"), "{reason}: {message}");
}

/// A call with this permit, by a task beside the guests.
fn call(plugin: &Arc<Plugin>, permit: CallPermit) -> task::JoinHandle<Called> {
    let call = CallContext {
        cpu_permit: permit.cpu_permit(),
        ..CallContext::clone(&call_of(plugin, &ObjectKey::namespaced("prod", "shop")))
    };
    let called = plugin.clone();
    plugin.threads().spawn(async move {
        let called = call_with(&called, &quiet(), Arc::new(call), None, CallLimits::default()).await;
        permit.finish(called.cpu);
        called
    })
}

#[tokio::test]
async fn a_call_that_spins_leaves_the_only_turn_to_its_neighbour_half_way_and_then_goes_on() {
    // Far more than the spinner has used of it by the time that the neighbour has come and gone five times.
    let (cpu, long) = (Duration::from_secs(4), Duration::from_mins(5));
    let limits = Limits { cpu, deadline: long, ..Limits::default() };
    let options = SandboxOptions { limits, threads: 1, concurrent_calls: 4, ..SandboxOptions::default() };
    let sandbox = Sandbox::new(options).expect("a sandbox");
    let spinning = load(&sandbox, "chameleon", &chameleon("reconcile-loops")).await.expect("it loads");
    let good = load(&sandbox, "chameleon", &chameleon("good")).await.expect("it loads");
    let fair = Fair::new(1, 8);
    let [spins, neighbour] = [(); 2].map(|()| fair.share(NonZeroU32::MIN));
    let spinner = call(&spinning, spins.acquire().await);
    for _ in 0..5 {
        let permit = neighbour.acquire().await;
        assert_eq!(call(&good, permit).await.expect("no panic").result, CallResult::Done);
        assert!(!spinner.is_finished(), "it has not had its processor time");
    }
    let (reason, message) = trapped(spinner.await.expect("no panic").result);
    assert_eq!(reason, "cpu", "{message}");
}

/// A cache that is slow, and remembers of each list how many objects were asked for and how far its neighbour had come.
#[derive(Clone, Debug, Default)]
struct Slow {
    lists: Arc<Mutex<Vec<(u32, usize)>>>,
    neighbour: Arc<AtomicUsize>,
}

impl Slow {
    const LISTED_OBJECTS: u32 = 100;
}

impl Reads for Slow {
    fn get(&self, _: &CallContext, _: &ObjectRef, _: Option<&[String]>) -> Result<Option<Arc<str>>, ApiError> {
        unreachable!("the guest lists")
    }

    fn list(&self, _: &CallContext, query: &ListQuery) -> Result<ListPage, ApiError> {
        // As long as it takes to list many objects, on the guest's own thread.
        std::thread::sleep(Duration::from_millis(2));
        self.lists.lock().expect("not poisoned").push((query.limit, self.neighbour.load(Ordering::SeqCst)));
        let before = query.page_token.as_deref().map_or(0, |token| token.parse().expect("a number"));
        let end = Self::LISTED_OBJECTS.min(before + query.limit);
        let next_token = (end < Self::LISTED_OBJECTS).then(|| end.to_string());
        Ok(ListPage { items: (before..end).map(|_| "{}".into()).collect(), next_token })
    }
}

/// A guest that lists 100 objects, with a field or without, and traps if it is given fewer.
fn listing(with_fields: bool) -> Vec<u8> {
    let number = |number: u32| number.to_le_bytes();
    let text = |at: u32, length: u32| [number(at), number(length)].concat();
    let query = [
        [text(2048, 2), text(2050, 9)].concat(),
        vec![0; 12 + 12 + 20 + 4],
        [number(with_fields.into()).to_vec(), text(3300, 1)].concat(),
        number(Slow::LISTED_OBJECTS).to_vec(),
        vec![0; 8 + 12],
        [text(3308, 5), b"/data".to_vec()].concat(),
    ];
    let query = escaped(&query.concat());
    Core {
        imports: r#"(import "windlass:plugin/cache@0.2.0" "list" (func $list (param i32 i32)))"#.to_owned(),
        items: format!(r#"(data (i32.const 3200) "{query}")"#),
        reconcile: "(call $list (i32.const 3200) (i32.const 1024))
            (if (i32.load8_u (i32.const 1024)) (then unreachable))
            (if (i32.ne (i32.load offset=8 (i32.const 1024)) (i32.const 100)) (then unreachable))"
            .to_owned(),
        ..Core::default()
    }
    .component()
}

#[tokio::test]
async fn a_list_whose_objects_are_parsed_leaves_the_thread_in_between_and_another_is_of_one_state() {
    let options = SandboxOptions { threads: 1, concurrent_calls: 4, ..SandboxOptions::default() };
    let sandbox = Sandbox::new(options).expect("a sandbox");
    for (with_fields, parts) in [(true, &[32, 32, 32, 4][..]), (false, &[100][..])] {
        let plugin = load(&sandbox, "guest", &listing(with_fields)).await.expect("it loads");
        let slow = Slow::default();
        let neighbour = slow.neighbour.clone();
        let busy = plugin.threads().spawn(async move {
            loop {
                neighbour.fetch_add(1, Ordering::SeqCst);
                leave_thread().await;
            }
        });
        let ports = Ports { reads: Arc::new(slow.clone()), ..Absent::ports() };
        assert_eq!(reconcile(&plugin, &ports).await, CallResult::Done);
        busy.abort();
        let lists = slow.lists.lock().expect("not poisoned").clone();
        assert_eq!(lists.iter().map(|(limit, _)| *limit).collect::<Vec<_>>(), parts);
        assert!(lists.windows(2).all(|two| two[0].1 < two[1].1), "the neighbour goes on: {lists:?}");
    }
}

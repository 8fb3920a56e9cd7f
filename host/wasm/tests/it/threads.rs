//! The thread on which a call runs, and when it yields its thread and its CPU permit.

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
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task;
use windlass_core::budget::fair::{CallPermit, Fair, leave_thread};
use windlass_core::call::ports::{Absent, Answer, CallContext, ListPage, ListQuery, Ports, Reads, port_fn};
use windlass_core::error::ApiError;
use windlass_core::object::{ObjectKey, ObjectRef};
use windlass_core::queue::outcome::CallResult;
use windlass_wasm::{CallLimits, Called, Limits, Plugin, Sandbox, SandboxOptions};

/// Records the task of each request.
#[derive(Clone, Debug, Default)]
struct Within(Arc<Mutex<Vec<Option<task::Id>>>>);

impl Within {
    fn here(&self) {
        self.0.lock().expect("not poisoned").push(task::try_id());
    }
}

impl Reads for Within {
    fn get(&self, _: &CallContext, _: &ObjectRef, _: Option<&[String]>) -> Result<Option<Arc<str>>, ApiError> {
        self.here();
        Ok(None)
    }

    fn list(&self, _: &CallContext, _: &ListQuery) -> Result<ListPage, ApiError> {
        unreachable!("the guest gets one object")
    }
}

#[tokio::test]
async fn a_call_runs_in_the_task_that_makes_it() {
    let plugin = load(&sandbox(Limits::default()), "webapp", &webapp()).await.expect("it loads");
    let seen = Within::default();
    let ports = Ports { reads: Arc::new(seen.clone()), ..quiet() };
    let call = tokio::spawn(async move { reconcile_object(&plugin, &ports, Some(WEBAPP)).await });
    let place = Some(call.id());
    call.await.expect("no panic");
    let mut seen = seen.0.lock().expect("not poisoned").clone();
    seen.dedup();
    assert_eq!(seen, [place]);
}

#[tokio::test]
async fn a_write_is_carried_out_in_the_task_of_its_call() {
    let plugin = load(&sandbox(Limits::default()), "chameleon", &chameleon("batch")).await.expect("it loads");
    let seen = Within::default();
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
    let call = tokio::spawn(async move { reconcile(&plugin, &ports).await });
    let place = Some(call.id());
    call.await.expect("no panic");
    assert_eq!(*seen.0.lock().expect("not poisoned"), [place; 2], "before and after it has waited");
}

#[tokio::test]
async fn timers_and_connections_run_beside_a_guest_spinning_on_the_only_thread() {
    let limits = Limits { cpu: Duration::from_mins(1), deadline: Duration::from_mins(5), ..Limits::default() };
    let options = SandboxOptions { limits, threads: 1, concurrent_calls: 1, ..SandboxOptions::default() };
    let sandbox = Sandbox::new(options).expect("a sandbox");
    let plugin = load(&sandbox, "chameleon", &chameleon("reconcile-loops")).await.expect("it loads");
    let spinner = tokio::spawn(async move { reconcile(&plugin, &quiet()).await });
    // Like leases, informers and the admin address: each waits for a timer and for a response.
    let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = server.local_addr().expect("an address");
    tokio::spawn(async move {
        let (mut asked, _) = server.accept().await.expect("a connection");
        let (mut from, mut to) = asked.split();
        tokio::io::copy(&mut from, &mut to).await
    });
    let mut asks = tokio::net::TcpStream::connect(address).await.expect("it listens");
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        asks.write_all(b"?").await.expect("it is sent");
        asks.read_exact(&mut [0]).await.expect("it is answered");
    }
    assert!(!spinner.is_finished(), "it has a minute of processor time");
    spinner.abort();
    assert!(spinner.await.is_err_and(|error| error.is_cancelled()), "it is stopped where it yields");
}

/// A cache that panics.
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
async fn a_panic_in_the_host_fails_the_call_and_not_its_caller() {
    let plugin = load(&sandbox(Limits::default()), "webapp", &webapp()).await.expect("it loads");
    let ports = Ports { reads: Arc::new(Broken), ..quiet() };
    let result = tokio::spawn(async move { reconcile_object(&plugin, &ports, Some(WEBAPP)).await });
    let (reason, message) = trapped(result.await.expect("no panic"));
    assert!(reason == "host" && message.contains("the cache has a bug"), "{reason}: {message}");
}

/// A call with this permit, in a separate task.
fn call(plugin: &Arc<Plugin>, permit: CallPermit) -> task::JoinHandle<Called> {
    let call = CallContext {
        cpu_permit: permit.cpu_permit(),
        ..CallContext::clone(&call_of(plugin, &ObjectKey::namespaced("prod", "shop")))
    };
    let called = plugin.clone();
    tokio::spawn(async move {
        let called = call_with(&called, &quiet(), Arc::new(call), None, CallLimits::default()).await;
        permit.finish(called.cpu);
        called
    })
}

#[tokio::test]
async fn a_spinning_call_yields_its_permit_half_way_and_then_continues() {
    // Far more than the spinning call has used by the time that the neighbour has run five times.
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

#[tokio::test]
async fn a_call_waits_for_a_sandbox_permit_without_its_cpu_permit() {
    let options = SandboxOptions { threads: 1, concurrent_calls: 1, ..SandboxOptions::default() };
    let sandbox = Sandbox::new(options).expect("a sandbox");
    let plugin = load(&sandbox, "chameleon", &chameleon("batch")).await.expect("it loads");
    let fair = Fair::new(1, 8);
    let [share, neighbour] = [(); 2].map(|()| fair.share(NonZeroU32::MIN));
    let (answer, answered) = tokio::sync::watch::channel(false);
    let outside = port_fn(move |_, ask| {
        let mut answered = answered.clone();
        let outcomes = ask.operations().iter().map(|_| Ok(None)).collect();
        async move {
            answered.wait_for(|answered| *answered).await.expect("it is answered");
            Answer::Batch(outcomes)
        }
        .boxed()
    });
    let ports = Ports { outside, ..Absent::ports() };
    let called = |permit: CallPermit| {
        let context = call_of(&plugin, &ObjectKey::namespaced("prod", "shop"));
        let context = CallContext { cpu_permit: permit.cpu_permit(), ..CallContext::clone(&context) };
        let (plugin, ports) = (plugin.clone(), ports.clone());
        async move {
            let called = call_with(&plugin, &ports, Arc::new(context), None, CallLimits::default()).await;
            permit.finish(called.cpu);
        }
    };
    // The first call has the only permit of the sandbox, and waits for its write.
    let first = tokio::spawn(called(share.acquire().await));
    // The second call waits for that permit.
    let second = tokio::spawn(called(share.acquire().await));
    let free = tokio::time::timeout(Duration::from_secs(30), neighbour.acquire()).await;
    free.expect("both wait without the CPU permit").unused();
    answer.send_replace(true);
    for call in [first, second] {
        call.await.expect("no panic");
    }
}

/// A slow cache that records for each list how many objects were requested and how far its neighbour had got.
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
        // As long as listing many objects takes, on the guest's own thread.
        std::thread::sleep(Duration::from_millis(2));
        self.lists.lock().expect("not poisoned").push((query.limit, self.neighbour.load(Ordering::SeqCst)));
        let before = query.page_token.as_deref().map_or(0, |token| token.parse().expect("a number"));
        let end = Self::LISTED_OBJECTS.min(before + query.limit);
        let next_token = (end < Self::LISTED_OBJECTS).then(|| end.to_string());
        Ok(ListPage { items: (before..end).map(|_| "{}".into()).collect(), next_token })
    }
}

/// A guest that lists 100 objects, with a field or without, and traps if it gets fewer.
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
        imports: r#"(import "windlass:plugin/cache@0.3.0" "list" (func $list (param i32 i32)))"#.to_owned(),
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
async fn parsing_a_list_yields_the_thread_but_an_unparsed_list_is_one_state() {
    let options = SandboxOptions { threads: 1, concurrent_calls: 4, ..SandboxOptions::default() };
    let sandbox = Sandbox::new(options).expect("a sandbox");
    for (with_fields, parts) in [(true, &[32, 32, 32, 4][..]), (false, &[100][..])] {
        let plugin = load(&sandbox, "guest", &listing(with_fields)).await.expect("it loads");
        let slow = Slow::default();
        let neighbour = slow.neighbour.clone();
        let busy = tokio::spawn(async move {
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

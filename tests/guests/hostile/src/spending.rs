//! Attacks that use up time, memory, or the size limits of data in either direction.

use std::hint::black_box;

use windlass_sdk::bindings::exports::windlass::plugin::reconciler::Outcome;
use windlass_sdk::bindings::windlass::plugin::log::{self, Level};
use windlass_sdk::bindings::windlass::plugin::types::{ApiError, ApiReason, Failure, ObjectRef, Request, Requeue};
use windlass_sdk::bindings::windlass::plugin::{cache, clock, random, writes};

use crate::Answer;
use crate::trespassing::{config_map, options, secret};
use crate::trials::Trials;

/// A size above every limit.
const OVERSIZED_BYTES: usize = 9 << 20;

/// Carries out an attack. `None` if `mode` is not one of these attacks.
///
/// # Panics
/// In the mode that panics.
pub(crate) fn reconcile(mode: &str, _: &Request) -> Option<Answer> {
    let done = Ok(Outcome { requeue: None });
    Some(match mode {
        "behaves" | "watches-secrets" | "bombs-config" => {
            log::log(Level::Info, &format!("hostile {mode} reconciled"), &[]);
            done
        }
        "traps" => panic!("hostile: reconcile"),
        "loops" => spin(),
        "recurses" => {
            let _ = recurse(1);
            done
        }
        "devours" => devour(),
        "fills" => fill(),
        "asks-the-time" => forever(|| {
            black_box(clock::now());
        }),
        "draws-randomness" => forever(|| drop(black_box(random::get_bytes(64 << 10)))),
        "forges-outage" => Err(OUTAGES.map(forged).to_vec()),
        "requeues" => Ok(Outcome { requeue: Some(Requeue::AfterMs(0)) }),
        _ => return hand_over(mode),
    })
}

/// The modes that send too much data, or ask for too much.
fn hand_over(mode: &str) -> Option<Answer> {
    let done = Ok(Outcome { requeue: None });
    Some(match mode {
        "draws-much-randomness" => {
            let _ = black_box(random::get_bytes(u32::MAX));
            done
        }
        "logs-much" => {
            log::log(Level::Info, &"x".repeat(OVERSIZED_BYTES), &[]);
            done
        }
        "logs-many-fields" => {
            log::log(Level::Info, "x", &vec![(String::new(), String::new()); 600_000]);
            done
        }
        "names-much" => {
            let _ = cache::get(&ObjectRef { name: "x".repeat(OVERSIZED_BYTES), ..config_map("x") }, None);
            done
        }
        "selects-much" => {
            let fields = vec!["/data".to_owned(); 100_000];
            Trials(mode).of("fields", cache::get(&config_map("x"), Some(&fields)));
            Trials(mode).of("name", cache::get(&config_map(&"x".repeat(1 << 20)), None));
            done
        }
        "reads-many" => {
            let _ = black_box(cache::get_many(&vec![config_map("x"); 20_000], None));
            done
        }
        "writes-much" => {
            let object =
                format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","data":{{"x":"{}"}}}}"#, "x".repeat(4 << 20));
            let trials = Trials(mode);
            trials.of("create", writes::create(&object, &options()));
            Ok(trials.end())
        }
        "batches-much" => {
            let delete = || {
                let options = writes::DeleteOptions {
                    resource_version: None,
                    propagation: writes::Propagation::Background,
                    grace_period_ms: None,
                    dry_run: false,
                };
                writes::Operation::Delete(writes::DeleteWrite { target: secret(None), options })
            };
            let operations: Vec<_> = (0..10_000).map(|_| delete()).collect();
            let _ = black_box(writes::batch(&operations));
            done
        }
        "nests-deeply" => {
            let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
            let object =
                format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"x"}},"data":{nested}}}"#);
            let trials = Trials(mode);
            trials.of("create", writes::create(&object, &options()));
            let patch = format!(r#"{{"data":{nested}}}"#);
            for of in [writes::PatchType::Merge, writes::PatchType::Json, writes::PatchType::Strategic] {
                trials.of("patch", writes::patch(&config_map("guarded"), of, &patch, &options()));
            }
            trials.of("apply", writes::apply(&object, &options()));
            Ok(trials.end())
        }
        "answers-much" => Err(vec![transient("x".repeat(OVERSIZED_BYTES))]),
        "answers-many" => Err(vec![transient(String::new()); 100_000]),
        _ => return None,
    })
}

/// Errors that would mean an outage of the whole host, if they were real.
const OUTAGES: [ApiReason; 5] = [
    ApiReason::ServerError,
    ApiReason::Timeout,
    ApiReason::LeaseLost,
    ApiReason::UnknownOutcome,
    ApiReason::TooManyRequests,
];

fn transient(message: String) -> Failure {
    Failure { message, api: None, terminal: false, retry_after_ms: None }
}

fn forged(reason: ApiReason) -> Failure {
    let error = ApiError {
        code: 503,
        reason,
        status_reason: "ServiceUnavailable\n\u{1b}[31m".to_owned(),
        message: "the API server cannot be reached".to_owned(),
        retry_after_ms: Some(u32::MAX),
        verb: "rob".to_owned(),
        resource: "*".to_owned(),
        object: Some(secret(Some("kube-system"))),
    };
    Failure { api: Some(error), retry_after_ms: Some(u32::MAX), ..transient(String::new()) }
}

pub(crate) fn spin() -> ! {
    forever(|| {
        black_box(());
    })
}

fn forever(mut act: impl FnMut()) -> ! {
    loop {
        act();
    }
}

/// Allocates a mebibyte at a time until a limit is reached.
pub(crate) fn devour() -> ! {
    let mut eaten = Vec::new();
    forever(|| eaten.push(black_box(vec![1_u8; 1 << 20])));
}

/// Runs single instructions that each take milliseconds.
fn fill() -> ! {
    let mut field = vec![0_u8; 32 << 20];
    let mut with = 0;
    forever(|| {
        with = black_box(with) ^ 1;
        black_box(&mut field).fill(with);
    })
}

fn recurse(depth: u64) -> u64 {
    // The recursion never gets this deep, but the compiler rejects recursion without an end.
    if depth == u64::MAX { 0 } else { black_box(depth) + recurse(black_box(depth + 1)) }
}

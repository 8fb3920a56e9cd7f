//! The scripts in `scripts/`, on the embedded API server and on a real one.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};
use windlass_differential::accepted::Accepted;
use windlass_differential::generate::{self, Vocabulary};
use windlass_differential::run;
use windlass_differential::script::Script;
use windlass_differential::servers::Servers;
use windlass_differential::suite;

#[tokio::test(flavor = "multi_thread")]
async fn each_step_gets_the_same_answer_from_both_servers() {
    let accepted = Accepted::read(&suite::accepted_file()).expect("the accepted differences");
    let scripts = suite::scripts(&[]).expect("the scripts");
    let servers = Arc::new(Servers::start().await.expect("both servers"));
    let outcomes = suite::run_all(Arc::clone(&servers), scripts).await.expect("all scripts run");
    Arc::into_inner(servers).expect("all scripts have ended").stop().await;

    let verdict = suite::judge(&outcomes, &accepted);
    println!("figures: {} steps, {} with accepted differences", verdict.steps, verdict.differ);
    assert!(verdict.new.is_empty(), "new differences (tests/differential/README.md):\n{}", verdict.new);
    assert!(verdict.gone.is_empty(), "accepted, but equal now; `--update` removes them:\n{}", verdict.gone);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_embedded_servers_give_the_same_answers() {
    let scripts = suite::scripts(&[]).expect("the scripts");
    let servers = Arc::new(Servers::start_twins().await.expect("both servers"));
    let outcomes = suite::run_all(Arc::clone(&servers), scripts).await.expect("all scripts run");
    Arc::into_inner(servers).expect("all scripts have ended").stop().await;
    let differences = suite::judge(&outcomes, &Accepted::default()).new;
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn the_scripts_have_at_least_600_compared_steps() {
    let scripts = suite::scripts(&[]).expect("the scripts");
    let steps = scripts.iter().flat_map(|script| &script.steps).filter(|step| !step.quiet).count();
    assert!(steps >= 600, "{steps}");
}

/// The variable with the number of random operations, which `make soak` sets. Without it, there are only a few, which
/// are the same in each run.
const OPERATIONS: &str = "WINDLASS_OPERATIONS";
const SOME_OPERATIONS: u32 = 200;
const SOME_SEED: u64 = 1;

#[test]
fn random_operations_get_the_same_answers_from_both_servers() {
    let asked_for = std::env::var(OPERATIONS).ok().map(|number| number.parse().expect(OPERATIONS));
    let operations: u32 = asked_for.unwrap_or(SOME_OPERATIONS);
    let vocabulary = Arc::new(Vocabulary::read(&suite::vocabulary_file()).expect("the vocabulary"));
    let seed = match Config::default().rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random if asked_for.is_none() => SOME_SEED,
        RngSeed::Random => RandomState::new().hash_one(()),
    };
    let average = u32::try_from(generate::CASE_OPERATIONS_MAX.div_ceil(2)).expect("a few");
    let config = Config {
        cases: operations.div_ceil(average),
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 500,
        ..Config::default()
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let servers = runtime.block_on(Servers::start()).expect("both servers");
    let (cases, sent) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let result = TestRunner::new(config).run(&generate::cases(&vocabulary), |steps| {
        let case = cases.fetch_add(1, Ordering::Relaxed);
        sent.fetch_add(steps.len(), Ordering::Relaxed);
        let script = Script::of(&format!("generated-{case}"), steps);
        let outcomes = runtime.block_on(run::run(&servers, &script));
        let differing = outcomes.into_iter().find(|outcome| !outcome.differences.is_empty());
        differing.map_or(Ok(()), |outcome| {
            let differences: Vec<String> = outcome.differences.iter().map(|found| format!("    {found}\n")).collect();
            Err(TestCaseError::fail(format!("{}\n{}", outcome.step, differences.concat())))
        })
    });
    runtime.block_on(servers.stop());
    println!("figures: {} random operations in {} cases, seed {seed}", sent.into_inner(), cases.into_inner());
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, steps)) => {
            panic!("seed {seed}, the shortest failing case:\n{}\n{reason}", generate::script_text(&steps))
        }
        Err(error) => panic!("{error}"),
    }
}

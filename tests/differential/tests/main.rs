//! The scripts in `scripts/`, on the embedded API server and on a real one.

use std::sync::Arc;

use windlass_differential::servers::Servers;
use windlass_differential::{accepted, suite};

#[tokio::test(flavor = "multi_thread")]
async fn each_step_is_answered_as_a_real_server_answers_it() {
    let accepted = accepted::read(&suite::accepted_file()).expect("the accepted differences");
    let scripts = suite::scripts(&[]).expect("the scripts");
    let servers = Arc::new(Servers::start().await.expect("both servers"));
    let outcomes = suite::run_all(Arc::clone(&servers), scripts).await.expect("all scripts run");
    Arc::into_inner(servers).expect("nothing runs any more").stop().await.expect("both stop");

    let verdict = suite::judge(&outcomes, &accepted);
    println!("figures: {} steps, {} with accepted differences", verdict.steps, verdict.differ);
    assert!(verdict.new.is_empty(), "new differences (tests/differential/README.md):\n{}", verdict.new);
    assert!(verdict.stale.is_empty(), "accepted, but equal now; take these entries out:\n{}", verdict.stale);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_differs_in_nothing_from_its_twin() {
    let scripts = suite::scripts(&[]).expect("the scripts");
    let servers = Arc::new(Servers::start_twins().await.expect("both servers"));
    let outcomes = suite::run_all(Arc::clone(&servers), scripts).await.expect("all scripts run");
    Arc::into_inner(servers).expect("nothing runs any more").stop().await.expect("both stop");
    let differences = suite::judge(&outcomes, &[]).new;
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn the_scripts_have_the_steps_that_were_asked_for() {
    let scripts = suite::scripts(&[]).expect("the scripts");
    let steps = scripts.iter().flat_map(|script| &script.steps).filter(|step| !step.quiet).count();
    assert!(steps >= 600, "{steps}");
}

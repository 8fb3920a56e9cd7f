//! Public operators in Go, each as a plugin and as its own program. Both must bring the samples to the same state, and
//! the operator's own test suite must pass while the plugin reconciles. The README has details.

mod operator;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use kube::api::{DeleteParams, PostParams};
use tokio::process::Command;
use windlass_tests::process::mebibytes;
use windlass_tests::server::{Kind, Server};
use windlass_tests::state::{State, api};
use windlass_tests::wait::{until, until_within};

use operator::{By, CRONJOB, DEPLOY_IMAGE, Operator, RAY, Running, start_host};

/// The time that an operator may take for its samples. One of them acts at the start of each minute.
const RECONCILED_TIMEOUT: Duration = Duration::from_mins(4);

/// An operator has settled if nothing changes for this time.
const SETTLED_TIME: Duration = Duration::from_secs(2);

/// A suite that runs longer than this hangs. It then ends itself, and prints its stacks.
const SUITE_LIMIT: &str = "-test.timeout=10m";

/// Installs the definitions, and waits until the server serves their kinds.
async fn install(operator: &Operator, server: &Server) -> anyhow::Result<()> {
    for definition in operator.definitions()? {
        server.objects().apply(&definition).await?;
    }
    let (client, namespace) = (server.objects().client(), server.objects().namespace());
    until("the server serves the kinds", || State::read(client, namespace, operator.kinds)).await?;
    Ok(())
}

/// Creates the samples while an operator runs, waits for its work, deletes the samples, and waits until they are gone.
/// Returns both states. If `expected` has the states of another run, waits for the same states.
async fn story(operator: &Operator, server: &Server, expected: Option<&[State; 2]>) -> anyhow::Result<[State; 2]> {
    let (client, namespace) = (server.objects().client(), server.objects().namespace());
    let samples = operator.sample_objects()?;
    for sample in &samples {
        let kind = operator.kinds.iter().find(|kind| sample["kind"] == kind.2).context("a sample of a known kind")?;
        let object = serde_json::from_value(sample.clone())?;
        api(client, namespace, kind).create(&PostParams::default(), &object).await?;
    }
    let made = until_within(RECONCILED_TIMEOUT, "the samples are reconciled", || async {
        let state = State::read(client, namespace, operator.kinds).await?;
        if let Some([expected, _]) = expected {
            ensure!(state == *expected, "{}", state.difference(expected));
            return Ok(state);
        }
        ensure!((operator.settled)(&state), "{state}");
        tokio::time::sleep(SETTLED_TIME).await;
        let later = State::read(client, namespace, operator.kinds).await?;
        ensure!(state == later, "{}", later.difference(&state));
        Ok(state)
    });
    let made = made.await?;
    for sample in &samples {
        let kind = operator.kinds.iter().find(|kind| sample["kind"] == kind.2).context("a sample of a known kind")?;
        let name = sample["metadata"]["name"].as_str().context("a sample has a name")?;
        api(client, namespace, kind).delete(name, &DeleteParams::default()).await?;
    }
    let gone = until("the samples and their children are gone", || async {
        let state = State::read(client, namespace, operator.kinds).await?;
        ensure!(state.0.is_empty(), "{state}");
        let events = State::read_events(client, namespace, operator.kinds).await?;
        if let Some([_, expected]) = expected.filter(|_| operator.has_equal_events) {
            ensure!(events == *expected, "{}", events.difference(expected));
        }
        Ok(events)
    });
    Ok([made, gone.await?])
}

/// Runs the story on a separate server.
async fn reconciles(
    operator: &Operator,
    by: By,
    kind: Kind,
    expected: Option<&[State; 2]>,
) -> anyhow::Result<[State; 2]> {
    let server = Server::start(kind).await?;
    install(operator, &server).await?;
    let running = operator.start(by, server.kubeconfig()).await?;
    let states = story(operator, &server, expected).await;
    running.end(states).await
}

async fn the_plugin_makes_the_same_as_the_program(operator: &Operator, kind: Kind) -> anyhow::Result<()> {
    let expected = reconciles(operator, By::Program, kind, None).await?;
    reconciles(operator, By::Plugin, kind, Some(&expected)).await?;
    Ok(())
}

/// Runs the operator's suite, whose set-up starts no manager, while the program or the plugin reconciles.
async fn the_suite_passes(operator: &Operator, by: By, kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    install(operator, &server).await?;
    let running = operator.start(by, server.kubeconfig()).await?;
    let ran = suite(operator, server.kubeconfig()).await;
    running.end(ran).await
}

async fn suite(operator: &Operator, kubeconfig: &Path) -> anyhow::Result<()> {
    let folder = operator.folder()?;
    let output = Command::new(folder.join("suite.test"))
        .args(["-test.v", SUITE_LIMIT, "-ginkgo.no-color", "-ginkgo.seed=1", "-ginkgo.focus", operator.focus])
        .current_dir(folder.join("suite").join(operator.suite))
        .env("USE_EXISTING_CLUSTER", "true")
        .env("KUBECONFIG", kubeconfig)
        .output()
        .await?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let passed = format!("{} Passed | 0 Failed", operator.specs);
    ensure!(output.status.success() && text.contains(&passed), "the suite of {}:\n{text}", operator.name);
    Ok(())
}

/// Measures the memory of the three programs, and of one host with the three plugins, when each has reconciled the
/// samples and is idle.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/soak operators builds what it needs"]
async fn embedded_memory_of_the_programs_and_of_one_host() -> anyhow::Result<()> {
    let operators = [&DEPLOY_IMAGE, &CRONJOB, &RAY];
    let (server, mut programs, mut sum) = (Server::start(Kind::Embedded).await?, Vec::new(), 0);
    for operator in operators {
        install(operator, &server).await?;
        programs.push(operator.start(By::Program, server.kubeconfig()).await?);
        story(operator, &server, None).await?;
    }
    for (operator, program) in operators.iter().zip(programs) {
        program.process()?.at_rest(RECONCILED_TIMEOUT).await?;
        let memory = program.process()?.memory()?;
        println!("figures: the program of {} takes {:.0} MiB", operator.name, mebibytes(memory.proportional));
        sum += memory.proportional;
        program.end(Ok(())).await?;
    }

    let (server, plugins) = (Server::start(Kind::Embedded).await?, tempfile::tempdir()?);
    for operator in operators {
        install(operator, &server).await?;
        operator.build_plugin(plugins.path()).await?;
    }
    let host = Running::Plugin(start_host(server.kubeconfig(), plugins.path()).await?, plugins);
    for operator in operators {
        story(operator, &server, None).await?;
    }
    host.process()?.at_rest(RECONCILED_TIMEOUT).await?;
    let memory = host.process()?.memory()?.proportional;
    println!(
        "figures: one host with the plugins takes {:.0} MiB, the programs take {:.0}",
        mebibytes(memory),
        mebibytes(sum)
    );
    ensure!(memory < sum, "the host takes {memory} bytes, and the programs {sum}");
    host.end(Ok(())).await
}

/// The project's own Makefile has generated the definitions, with the version of controller-gen that they name.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/test operators builds what it needs"]
async fn embedded_definitions_of_deploy_image_follow_from_its_types() -> anyhow::Result<()> {
    DEPLOY_IMAGE.definitions_follow_from_types().await
}

/// A control: it fails if the comparison reports differences that are random.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/test operators builds what it needs"]
async fn embedded_two_runs_of_the_program_of_deploy_image_are_equal() -> anyhow::Result<()> {
    let expected = reconciles(&DEPLOY_IMAGE, By::Program, Kind::Embedded, None).await?;
    reconciles(&DEPLOY_IMAGE, By::Program, Kind::Embedded, Some(&expected)).await?;
    Ok(())
}

/// A control: it fails if the edits have broken the suite.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/test operators builds what it needs"]
async fn embedded_the_suite_of_deploy_image_passes_beside_its_program() -> anyhow::Result<()> {
    the_suite_passes(&DEPLOY_IMAGE, By::Program, Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/test operators builds what it needs"]
async fn embedded_the_plugin_of_deploy_image_makes_the_same_as_its_program() -> anyhow::Result<()> {
    the_plugin_makes_the_same_as_the_program(&DEPLOY_IMAGE, Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/test operators builds what it needs"]
async fn embedded_the_suite_of_deploy_image_passes_beside_its_plugin() -> anyhow::Result<()> {
    the_suite_passes(&DEPLOY_IMAGE, By::Plugin, Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/soak operators builds what it needs"]
async fn real_the_plugin_of_deploy_image_makes_the_same_as_its_program() -> anyhow::Result<()> {
    the_plugin_makes_the_same_as_the_program(&DEPLOY_IMAGE, Kind::Real).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/soak operators builds what it needs"]
async fn real_the_suite_of_deploy_image_passes_beside_its_plugin() -> anyhow::Result<()> {
    the_suite_passes(&DEPLOY_IMAGE, By::Plugin, Kind::Real).await
}

/// A control: it fails if the comparison reports differences that are random.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/test operators builds what it needs"]
async fn embedded_two_runs_of_the_program_of_cronjob_are_equal() -> anyhow::Result<()> {
    let expected = reconciles(&CRONJOB, By::Program, Kind::Embedded, None).await?;
    reconciles(&CRONJOB, By::Program, Kind::Embedded, Some(&expected)).await?;
    Ok(())
}

/// A control: it fails if the edits have broken the suite.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/test operators builds what it needs"]
async fn embedded_the_suite_of_cronjob_passes_beside_its_program() -> anyhow::Result<()> {
    the_suite_passes(&CRONJOB, By::Program, Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/test operators builds what it needs"]
async fn embedded_the_plugin_of_cronjob_makes_the_same_as_its_program() -> anyhow::Result<()> {
    the_plugin_makes_the_same_as_the_program(&CRONJOB, Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/test operators builds what it needs"]
async fn embedded_the_suite_of_cronjob_passes_beside_its_plugin() -> anyhow::Result<()> {
    the_suite_passes(&CRONJOB, By::Plugin, Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/soak operators builds what it needs"]
async fn real_the_plugin_of_cronjob_makes_the_same_as_its_program() -> anyhow::Result<()> {
    the_plugin_makes_the_same_as_the_program(&CRONJOB, Kind::Real).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/soak operators builds what it needs"]
async fn real_the_suite_of_cronjob_passes_beside_its_plugin() -> anyhow::Result<()> {
    the_suite_passes(&CRONJOB, By::Plugin, Kind::Real).await
}

/// A control: it fails if the comparison reports differences that are random.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/soak operators builds what it needs"]
async fn embedded_two_runs_of_the_program_of_ray_are_equal() -> anyhow::Result<()> {
    let expected = reconciles(&RAY, By::Program, Kind::Embedded, None).await?;
    reconciles(&RAY, By::Program, Kind::Embedded, Some(&expected)).await?;
    Ok(())
}

/// A control: it fails if the edits have broken the suite.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/soak operators builds what it needs"]
async fn embedded_the_suite_of_ray_passes_beside_its_program() -> anyhow::Result<()> {
    the_suite_passes(&RAY, By::Program, Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/soak operators builds what it needs"]
async fn embedded_the_plugin_of_ray_makes_the_same_as_its_program() -> anyhow::Result<()> {
    the_plugin_makes_the_same_as_the_program(&RAY, Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/soak operators builds what it needs"]
async fn embedded_the_suite_of_ray_passes_beside_its_plugin() -> anyhow::Result<()> {
    the_suite_passes(&RAY, By::Plugin, Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/soak operators builds what it needs"]
async fn real_the_plugin_of_ray_makes_the_same_as_its_program() -> anyhow::Result<()> {
    the_plugin_makes_the_same_as_the_program(&RAY, Kind::Real).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/soak operators builds what it needs"]
async fn real_the_suite_of_ray_passes_beside_its_plugin() -> anyhow::Result<()> {
    the_suite_passes(&RAY, By::Plugin, Kind::Real).await
}

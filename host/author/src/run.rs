//! Runs the commands of a plan in the author's folder, and passes their output through.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures::future::join;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::plan::{BuildOutput, BuildPlan, BuildStep, Program};
use super::tools::Toolbox;

/// The number of bytes at the end of a command's output that are kept for hints, in case it fails.
const KEPT_OUTPUT_BYTES_MAX: usize = 64 << 10;
/// The time to read a command's remaining output after it has ended.
const OUTPUT_END_TIMEOUT: Duration = Duration::from_secs(2);

/// The reason why a command did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("cannot start `{command}`: {source}")]
    Start { command: String, source: std::io::Error },
    #[error("`{command}` failed ({status}){}", untried.as_ref().map(|it| format!("; {it}")).unwrap_or_default())]
    Failed {
        command: String,
        status: ExitStatus,
        /// The end of its output.
        output: String,
        /// A tool version that Windlass was not tested with.
        untried: Option<String>,
    },
}

/// Runs all steps. Returns the standard output of the last one, if that is needed.
pub(crate) async fn run(plan: &BuildPlan, tools: &Toolbox, folder: &Path, verbose: bool) -> Result<Vec<u8>, RunError> {
    let mut output = Vec::new();
    for step in &plan.steps {
        output = one(step, plan.output == BuildOutput::ReportedByCargo, tools, folder, verbose).await?;
    }
    Ok(output)
}

/// Runs a step. If its output is not to `keep`, it is passed through, and only its end is returned.
pub(crate) async fn one(
    step: &BuildStep,
    keep: bool,
    tools: &Toolbox,
    folder: &Path,
    verbose: bool,
) -> Result<Vec<u8>, RunError> {
    let (program, first): (PathBuf, &[&str]) = match &step.program {
        Program::Tool(tool) => tools.command(tool),
        Program::Shell => ("/bin/sh".into(), &["-c"]),
    };
    let shown = shown(&program, first, step);
    if verbose {
        eprintln!("+ {shown}");
    }
    let mut command = Command::new(&program);
    command.args(first).args(&step.arguments).envs(step.environment.iter().copied()).current_dir(folder);
    if std::io::IsTerminal::is_terminal(&std::io::stderr()) {
        // By default, tools do not color output to a pipe.
        command.env("CARGO_TERM_COLOR", "always").env("FORCE_COLOR", "1");
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let start = |source| RunError::Start { command: shown.clone(), source };
    let mut process = command.spawn().map_err(start)?;
    let (stdout, stderr) = (process.stdout.take(), process.stderr.take());
    let (mut output, mut shown_output) = (Vec::new(), Vec::new());
    let errors = pass(stderr, &mut shown_output, KEPT_OUTPUT_BYTES_MAX);
    let ended = if keep {
        let all = async {
            if let Some(mut out) = stdout {
                // If the output cannot be read completely, its reader reports that.
                let _ = out.read_to_end(&mut output).await;
            }
        };
        to_the_end(&mut process, join(all, errors)).await
    } else {
        let out = pass(stdout, &mut output, KEPT_OUTPUT_BYTES_MAX);
        to_the_end(&mut process, join(out, errors)).await
    };
    let status = ended.map_err(start)?;
    if status.success() {
        return Ok(output);
    }
    if !keep {
        shown_output.extend(output);
    }
    let untried = match &step.program {
        Program::Tool(tool) => tools.untried(tool),
        Program::Shell => None,
    };
    Err(RunError::Failed {
        command: shown,
        status,
        output: String::from_utf8_lossy(&shown_output).into_owned(),
        untried,
    })
}

/// Waits for the end of a process while `reading` its output. Reading does not delay the end: a child that the process
/// leaves running may keep the output open forever.
async fn to_the_end(process: &mut Child, reading: impl Future<Output = ((), ())>) -> std::io::Result<ExitStatus> {
    let mut reading = pin!(reading);
    let status = tokio::select! {
        biased;
        _ = &mut reading => return process.wait().await,
        status = process.wait() => status?,
    };
    // By now the process has written all its output, which only has to be read.
    let _ = timeout(OUTPUT_END_TIMEOUT, reading).await;
    Ok(status)
}

/// Copies output to standard error, and keeps the end of it.
async fn pass(from: Option<impl AsyncRead + Unpin>, end: &mut Vec<u8>, most: usize) {
    let Some(mut from) = from else { return };
    let (mut errors, mut block) = (tokio::io::stderr(), vec![0; 8 << 10]);
    while let Ok(read @ 1..) = from.read(&mut block).await {
        // If standard error is closed, the build still continues.
        let _ = errors.write_all(&block[..read]).await;
        let _ = errors.flush().await;
        end.extend_from_slice(&block[..read]);
        if end.len() > 2 * most {
            end.drain(..end.len() - most);
        }
    }
}

/// The command as a user would type it.
fn shown(program: &Path, first: &[&str], step: &BuildStep) -> String {
    let environment = step.environment.iter().map(|(name, value)| format!("{name}={value}"));
    let arguments = first.iter().copied().chain(step.arguments.iter().map(String::as_str)).map(quoted);
    let program = std::iter::once(program.display().to_string());
    environment.chain(program).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// The command without the place of its program.
pub(crate) fn shown_step(step: &BuildStep) -> String {
    match &step.program {
        Program::Tool(tool) => shown(Path::new(tool.name), &[], step),
        Program::Shell => step.arguments.join(" "),
    }
}

fn quoted(argument: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_./=:,+@%".contains(character);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

/// The component or module that cargo reports for `manifest` in its standard output.
pub(crate) fn made_by_cargo(output: &[u8], manifest: &Path) -> Option<PathBuf> {
    let messages = output.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    let mut made = messages.filter_map(|message: serde_json::Value| {
        let of = Path::new(message["manifest_path"].as_str()?).canonicalize().ok()?;
        let files = message["filenames"].as_array().filter(|_| of == manifest)?;
        let mut files = files.iter().filter_map(serde_json::Value::as_str).map(PathBuf::from);
        files.find(|file| file.extension().is_some_and(|extension| extension == "wasm"))
    });
    made.next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_reports_the_path_of_the_plugin() {
        let folder = tempfile::tempdir().expect("a directory");
        let folder = folder.path().canonicalize().expect("it is there");
        let (ours, sdk) = (folder.join("Cargo.toml"), folder.join("sdk.toml"));
        for manifest in [&ours, &sdk] {
            std::fs::write(manifest, "").expect("it is written");
        }
        let message = |manifest: &Path, file: &str| {
            format!(
                "{}\n",
                serde_json::json!({"reason": "compiler-artifact", "manifest_path": manifest, "filenames": [file]})
            )
        };
        let output =
            [message(&sdk, "/t/sdk.wasm"), "no JSON\n".into(), message(&ours, "/t/shop.wasm"), "{}\n".into()].concat();
        assert_eq!(made_by_cargo(output.as_bytes(), &ours), Some("/t/shop.wasm".into()));
        assert_eq!(made_by_cargo(b"{}\n", &ours), None);
    }

    /// This test uses real time, because the process does. If the build waited for the remaining process, it would wait
    /// for a minute.
    #[tokio::test]
    async fn a_process_left_running_does_not_block_the_build() {
        for keep in [true, false] {
            let command = "echo built; sleep 60 & echo $!";
            let mut process = Command::new("/bin/sh").args(["-c", command]).stdout(Stdio::piped()).spawn().expect("sh");
            let (mut out, mut printed) = (process.stdout.take(), Vec::new());
            let reading = async {
                if keep {
                    let _ = out.as_mut().expect("piped").read_to_end(&mut printed).await;
                } else {
                    pass(out.take(), &mut printed, KEPT_OUTPUT_BYTES_MAX).await;
                }
            };
            let status = to_the_end(&mut process, join(reading, async {})).await.expect("it ends");
            let printed = String::from_utf8(printed).expect("text");
            let left = printed.strip_prefix("built\n").expect("it was read").trim().to_owned();
            let killed = Command::new("kill").arg(&left).status().await.expect("kill");
            assert!(status.success() && killed.success(), "{left} still ran when the build went on");
        }
    }

    #[test]
    fn commands_are_shown_as_one_would_type_them() {
        let step = BuildStep {
            program: Program::Shell,
            arguments: vec!["make it's".into()],
            environment: vec![("GOOS", "wasip1")],
        };
        assert_eq!(shown(Path::new("/bin/sh"), &["-c"], &step), r"GOOS=wasip1 /bin/sh -c 'make it'\''s'");
    }
}

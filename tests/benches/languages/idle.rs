//! The cost of idle plugins: many different plugins, mapped from the cache, in a separate process.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use crate::Language;

/// The argument with which this program measures itself.
pub(crate) const WORD: &str = "idle-in-this-process";

/// Starts this program twice: the first run compiles the plugins, and the second run is measured.
pub(crate) fn measure(language: &Language) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    for number in 0..language.idle {
        write(language, number, directory.path())?;
    }
    let measured = || -> anyhow::Result<String> {
        let mut again = Command::new(std::env::current_exe()?);
        let output = again.args([WORD, language.name]).arg(directory.path()).output()?;
        anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    };
    measured()?;
    print!("{}", measured()?);
    Ok(())
}

/// Writes a copy of the plugin into a separate directory, with different bytes: a custom section at the end.
fn write(language: &Language, number: usize, directory: &Path) -> anyhow::Result<()> {
    let plugin = language.webapp()?;
    let folder = directory.join(number.to_string());
    std::fs::create_dir(&folder)?;
    let copy = folder.join(plugin.file_name().expect("a file has a name"));
    std::fs::copy(&plugin, &copy)?;
    let section = [&[0, 9, 4][..], b"idle", &u32::try_from(number)?.to_le_bytes()].concat();
    std::fs::OpenOptions::new().append(true).open(copy)?.write_all(&section)?;
    Ok(())
}

pub(crate) fn in_this_process(language: &Language, directory: &Path) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let sandbox = crate::sandbox(Some(&directory.join("cache")))?;
    let file = language.webapp()?;
    let file = file.file_name().expect("a file has a name");
    let mut plugins = Vec::new();
    let mut before = [0.0; 2];
    for number in 0..language.idle {
        plugins.push(runtime.block_on(sandbox.load(&directory.join(number.to_string()).join(file)))?);
        if number == 0 {
            before = memory()?;
        }
    }
    let after = memory()?;
    let each = |at: usize| (after[at] - before[at]) / (language.idle - 1) as f64;
    println!("  {} idle plugins: {:.0} KiB each, {:.0} of it anonymous", language.idle, each(0), each(1));
    drop(plugins);
    Ok(())
}

/// The share of this process in the machine's memory, in KiB, with shared memory divided among its users; and the part
/// that no file backs.
fn memory() -> anyhow::Result<[f64; 2]> {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let of = |name: &str| {
        let line = rollup.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok())
    };
    of("Pss:").zip(of("Pss_Anon:")).map(|(all, anonymous)| [all, anonymous]).ok_or_else(|| anyhow::anyhow!("{rollup}"))
}

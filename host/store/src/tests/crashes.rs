//! A host that stops at any step, and a disk that fails at any step.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use crate::disk::{FoundFile, NewFile};

use super::*;

/// The failure at the chosen step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Failure {
    /// This step alone fails.
    Full,
    /// The host stops: no later step is done. Contents that were not synced are cut off.
    Stop,
    /// As before, and renames are lost unless their folder was synced.
    PowerLoss,
}

#[derive(Default)]
struct Journal {
    steps: usize,
    unsynced: Vec<PathBuf>,
    renamed: Vec<PathBuf>,
}

/// The system's disk until a chosen step.
pub(super) struct FailingDisk {
    at: usize,
    failure: Failure,
    journal: Arc<Mutex<Journal>>,
}

impl FailingDisk {
    pub(super) fn new(at: usize, failure: Failure) -> Arc<Self> {
        Arc::new(Self { at, failure, journal: Arc::default() })
    }

    /// Counts a step, which fails if it is the chosen one.
    fn step(&self) -> io::Result<()> {
        step(&mut lock(&self.journal), self.at, self.failure)
    }

    fn has_failed(&self) -> bool {
        lock(&self.journal).steps >= self.at
    }

    /// Does to the files what the failure does besides.
    pub(super) fn crash(&self) {
        let journal = lock(&self.journal);
        if self.failure == Failure::Full {
            return;
        }
        for path in journal.unsynced.iter().filter(|path| path.exists()) {
            let file = std::fs::File::options().write(true).open(path).expect("it is there");
            let length = file.metadata().expect("metadata").len();
            file.set_len(length / 2).expect("cut off");
        }
        if self.failure == Failure::PowerLoss {
            journal.renamed.iter().for_each(|path| std::fs::remove_file(path).expect("it was renamed"));
        }
    }
}

fn lock(journal: &Mutex<Journal>) -> std::sync::MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}

fn step(journal: &mut Journal, at: usize, failure: Failure) -> io::Result<()> {
    journal.steps += 1;
    let fails = if failure == Failure::Full { journal.steps == at } else { journal.steps >= at };
    if fails { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
}

struct FailingFile {
    inner: Box<dyn NewFile>,
    path: PathBuf,
    at: usize,
    failure: Failure,
    journal: Arc<Mutex<Journal>>,
}

impl Write for FailingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let stepped = step(&mut lock(&self.journal), self.at, self.failure);
        // Half of it was written before.
        let written = self.inner.write(if stepped.is_ok() { bytes } else { &bytes[..bytes.len() / 2] });
        stepped.and(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl NewFile for FailingFile {
    fn sync(&mut self) -> io::Result<()> {
        let mut journal = lock(&self.journal);
        step(&mut journal, self.at, self.failure)?;
        journal.unsynced.retain(|path| *path != self.path);
        self.inner.sync()
    }
}

impl Disk for FailingDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        self.step()?;
        lock(&self.journal).unsynced.push(path.to_owned());
        let (inner, path, journal) = (SystemDisk.create(path)?, path.to_owned(), self.journal.clone());
        Ok(Box::new(FailingFile { inner, path, at: self.at, failure: self.failure, journal }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        lock(&self.journal).renamed.push(to.to_owned());
        SystemDisk.rename(from, to)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.step()?;
        lock(&self.journal).renamed.retain(|path| path.parent() != Some(folder));
        SystemDisk.sync_folder(folder)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        SystemDisk.remove(path)
    }

    fn touch(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        SystemDisk.touch(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<FoundFile>> {
        SystemDisk.list(folder)
    }

    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        SystemDisk.is_locked(path)
    }
}

/// The digests whose manifests are in the store, which must all be whole.
fn whole(client: &Client, digests: &[String]) -> Vec<usize> {
    let image = by_tag().parse().expect("a reference");
    let found = |text: &String| client.store.stored(&FetchScope::Cluster, &image, &digest(text)).is_some();
    let whole: Vec<usize> = digests.iter().enumerate().filter(|(_, text)| found(text)).map(|(at, _)| at).collect();
    let manifests = list(&client.directory.path().join("manifests")).len();
    assert_eq!(manifests, whole.len(), "a manifest without its component");
    let components = list(&client.directory.path().join("components")).len();
    assert_eq!(components, whole.len(), "a component without its manifest");
    assert_eq!(list(&client.directory.path().join("unfinished")), Vec::<String>::new());
    whole
}

#[tokio::test(start_paused = true)]
async fn a_host_that_stops_at_any_step_of_a_fetch_leaves_all_or_nothing() {
    for failure in [Failure::Stop, Failure::PowerLoss] {
        let mut outcomes = Vec::new();
        for at in 1.. {
            let servers = LyingServers::default();
            let digest = servers.has(COMPONENT);
            let disk = FailingDisk::new(at, failure);
            let client = Client::with(&servers, StoreLimits::default(), disk.clone());
            let is_fetched = client.fetch(&by_tag()).await.is_ok();
            disk.crash();
            let client = client.reopened();
            let is_there = !whole(&client, std::slice::from_ref(&digest)).is_empty();
            assert!(!is_fetched || is_there, "{failure:?} at {at}: a plugin that was handed out is gone");
            outcomes.push(is_there);
            let stored = client.fetch(&by_tag()).await.expect("the disk works again");
            assert_eq!(std::fs::read(stored.path).expect("it is there"), COMPONENT, "{failure:?} at {at}");
            if !disk.has_failed() {
                break;
            }
        }
        assert!(outcomes.len() > 10 && outcomes.contains(&false), "{failure:?}: {outcomes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_is_full_at_any_step_is_named_and_nothing_is_left() {
    for at in 1.. {
        let servers = LyingServers::honest();
        let disk = FailingDisk::new(at, Failure::Full);
        let client = Client::with(&servers, StoreLimits::default(), disk.clone());
        match client.fetch(&by_tag()).await {
            Ok(_) => {
                assert!(!disk.has_failed(), "the failure at {at} was overlooked");
                break;
            }
            Err(error) => {
                let text = error.to_string();
                let directory = client.directory.path().display().to_string();
                assert_eq!((error.reason(), error.is_final()), ("DiskFull", false), "{at}");
                assert!(text.contains(&directory), "{text}");
                assert_eq!(list(&client.directory.path().join("unfinished")), Vec::<String>::new(), "{at}");
                client.fetch(&by_tag()).await.expect("there is room again");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_stops_while_it_removes_plugins_leaves_the_others_whole() {
    for at in 1.. {
        let servers = LyingServers::default();
        let mut digests = Vec::new();
        let disk = FailingDisk::new(usize::MAX, Failure::Stop);
        let client = Client::with(&servers, StoreLimits::default(), disk);
        for id in 0..4 {
            digests.push(servers.has(&component(id, 100)));
            client.fetch(&by_tag()).await.expect("it is honest");
        }
        let limits = StoreLimits { unused_plugins: 1, ..StoreLimits::default() };
        let disk = FailingDisk::new(at, Failure::Stop);
        let store = open(client.directory.path(), &servers, limits, disk.clone());
        let removed = store.retain(&HashSet::from([digest(&digests[0])]));
        drop(store);
        let client = client.reopened();
        let whole = whole(&client, &digests);
        assert!(whole.contains(&0), "{at}: a plugin in use is gone: {whole:?}");
        if !disk.has_failed() {
            assert_eq!((removed.expect("the disk works").plugins, whole.len()), (2, 2));
            break;
        }
    }
}

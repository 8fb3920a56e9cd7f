//! Certificates from files: which are usable, and what happens with unusable ones.

use std::fmt::Debug;
use std::time::Duration;

use tempfile::TempDir;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use super::*;

const NAMES: TlsNames =
    TlsNames { address: "admin address", certificate: "--admin-tls-cert-file", key: "--admin-tls-private-key-file" };

/// A directory with a certificate and its key, as in a Secret's volume.
fn pair() -> (TempDir, TlsFiles) {
    let directory = tempfile::tempdir().expect("a directory");
    let files = TlsFiles { certificate: directory.path().join("tls.crt"), key: directory.path().join("tls.key") };
    write_pair(&files);
    (directory, files)
}

/// Writes another pair.
fn write_pair(files: &TlsFiles) {
    write_pair_until(files, 3000);
}

/// Writes a pair that expires at the beginning of `year`.
fn write_pair_until(files: &TlsFiles, year: i32) {
    let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
    parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = parameters.self_signed(&key).expect("a certificate");
    std::fs::write(&files.certificate, certificate.pem()).expect("written");
    std::fs::write(&files.key, key.serialize_pem()).expect("written");
}

/// Collects what is logged.
#[derive(Clone, Default)]
struct LoggedLines(Arc<Mutex<Vec<String>>>);

impl<S: tracing::Subscriber> Layer<S> for LoggedLines {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        event.record(&mut self.clone());
    }
}

impl Visit for LoggedLines {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0.lock().expect("no panic").push(format!("{value:?}"));
        }
    }
}

impl LoggedLines {
    /// How often the log contains `text`.
    fn times(&self, text: &str) -> usize {
        self.0.lock().expect("no panic").iter().filter(|line| line.contains(text)).count()
    }
}

fn refused(files: &TlsFiles) -> String {
    ServerTls::from_files(files.clone(), NAMES).err().expect("it cannot be used").to_string()
}

fn current(tls: &ServerTls) -> CertificateDer<'static> {
    tls.current.lock().expect("no panic").certificate.clone()
}

/// Waits until the certificate differs from `old`.
async fn other_than(tls: &ServerTls, old: &CertificateDer<'static>) {
    let changed = async {
        while current(tls) == *old {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), changed).await.expect("the new pair is taken over");
}

#[test]
fn a_pair_that_cannot_be_used_is_refused_by_file_and_reason() {
    let (_directory, files) = pair();
    assert!(ServerTls::from_files(files.clone(), NAMES).is_ok());
    let (_other, foreign) = pair();
    let mixed = refused(&TlsFiles { key: foreign.key.clone(), ..files.clone() });
    assert!(
        mixed.contains("tls.crt") && mixed.contains("tls.key") && mixed.contains("cannot be used together"),
        "{mixed}"
    );
    let swapped = refused(&TlsFiles { certificate: files.key.clone(), key: files.certificate.clone() });
    assert!(swapped.contains("no certificate in") && swapped.contains("--admin-tls-cert-file"), "{swapped}");
    std::fs::write(&files.key, "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n")
        .expect("written");
    let encrypted = refused(&files);
    assert!(encrypted.contains("tls.key (--admin-tls-private-key-file)") && encrypted.contains("not encrypted"));
    std::fs::remove_file(&files.key).expect("removed");
    let gone = refused(&files);
    assert!(gone.contains("tls.key") && gone.contains("No such file"), "{gone}");
}

#[tokio::test]
async fn a_new_certificate_is_taken_over_and_a_broken_one_is_not() {
    let (_directory, files) = pair();
    let tls = Arc::new(ServerTls::from_files(files.clone(), NAMES).expect("a pair"));
    let first = current(&tls);
    std::fs::write(&files.certificate, "no certificate").expect("written");
    tls.reload(&files).await;
    assert_eq!(current(&tls), first, "the broken pair is ignored");

    let following = tokio::spawn({
        let tls = tls.clone();
        async move { tls.follow().await }
    });
    write_pair(&files);
    other_than(&tls, &first).await;
    following.abort();
}

/// The kubelet replaces the files of a Secret like this.
#[tokio::test]
async fn a_pair_behind_links_is_followed_through_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let version = |name: &str| {
        std::fs::create_dir(path(name)).expect("made");
        write_pair(&TlsFiles { certificate: path(name).join("tls.crt"), key: path(name).join("tls.key") });
    };
    version("..1");
    std::os::unix::fs::symlink("..1", path("..data")).expect("linked");
    for name in ["tls.crt", "tls.key"] {
        std::os::unix::fs::symlink(format!("..data/{name}"), path(name)).expect("linked");
    }
    let files = TlsFiles { certificate: path("tls.crt"), key: path("tls.key") };
    let tls = Arc::new(ServerTls::from_files(files, NAMES).expect("a pair"));
    let first = current(&tls);
    let following = tokio::spawn({
        let tls = tls.clone();
        async move { tls.follow().await }
    });
    version("..2");
    std::os::unix::fs::symlink("..2", path("..new")).expect("linked");
    std::fs::rename(path("..new"), path("..data")).expect("renamed");
    other_than(&tls, &first).await;
    following.abort();
}

#[tokio::test(start_paused = true)]
async fn an_expired_certificate_is_logged_when_loaded_and_every_day() {
    let log = LoggedLines::default();
    let _logging = tracing::subscriber::set_default(tracing_subscriber::registry().with(log.clone()));
    let (_directory, files) = pair();
    let tls = ServerTls::from_files(files.clone(), NAMES).expect("a pair");
    let expired_lines = || log.times("has expired");
    write_pair_until(&files, 2001);
    tls.reload(&files).await;
    assert_eq!(expired_lines(), 1, "it is new");
    tls.reload(&files).await;
    assert_eq!(expired_lines(), 1, "it is the same");
    let _ = tokio::time::timeout(EXPIRY_REMINDER_INTERVAL + EXPIRY_REMINDER_INTERVAL / 2, tls.remind(&files)).await;
    assert_eq!(expired_lines(), 3, "at the start, and a day later");
    write_pair(&files);
    tls.reload(&files).await;
    assert_eq!((expired_lines(), log.times("expires soon")), (3, 0));
}

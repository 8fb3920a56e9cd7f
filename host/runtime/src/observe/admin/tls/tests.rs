//! Certificates from files: which can be used, and what becomes of one that cannot.

use std::time::Duration;

use tempfile::TempDir;

use super::*;

/// A directory with a certificate and its key, as a Secret's volume has them.
fn pair() -> (TempDir, TlsFiles) {
    let directory = tempfile::tempdir().expect("a directory");
    let files = TlsFiles { certificate: directory.path().join("tls.crt"), key: directory.path().join("tls.key") };
    write_pair(&files);
    (directory, files)
}

/// Writes another pair.
fn write_pair(files: &TlsFiles) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    std::fs::write(&files.certificate, made.cert.pem()).expect("written");
    std::fs::write(&files.key, made.signing_key.serialize_pem()).expect("written");
}

fn refused(files: &TlsFiles) -> String {
    AdminTls::from_files(files.clone()).err().expect("it cannot be used").to_string()
}

fn current(tls: &AdminTls) -> CertificateDer<'static> {
    tls.current.lock().expect("no panic").certificate.clone()
}

/// Waits until the certificate is another one than `old`.
async fn other_than(tls: &AdminTls, old: &CertificateDer<'static>) {
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
    assert!(AdminTls::from_files(files.clone()).is_ok());
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
async fn a_new_pair_is_taken_over_and_a_broken_one_is_not() {
    let (_directory, files) = pair();
    let tls = Arc::new(AdminTls::from_files(files.clone()).expect("a pair"));
    let first = current(&tls);
    std::fs::write(&files.certificate, "no certificate").expect("written");
    tls.reload(&files).await;
    assert_eq!(current(&tls), first, "the broken pair is left out");

    let following = tokio::spawn({
        let tls = tls.clone();
        async move { tls.follow().await }
    });
    write_pair(&files);
    other_than(&tls, &first).await;
    following.abort();
}

/// As the kubelet replaces the files of a Secret.
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
    let tls = Arc::new(AdminTls::from_files(files).expect("a pair"));
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

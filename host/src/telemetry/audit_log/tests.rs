use super::*;

/// A file on a disk with this much free space.
struct Disk {
    written: Vec<u8>,
    space: usize,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fits = bytes.len().min(self.space);
        if fits == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.written.extend(&bytes[..fits]);
        self.space -= fits;
        Ok(fits)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_reported_once_and_lines_are_not_mixed() {
    let mut lines = AuditLines::to(Disk { written: vec![], space: 6 });
    assert!(lines.append(b"one\n").is_none());
    let Some(News::Fails(error)) = lines.append(b"two\n") else { panic!("it is told") };
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert!(lines.append(b"three\n").is_none(), "not again");
    lines.file.space = 100;
    assert!(matches!(lines.append(b"four\n"), Some(News::Goes { lost: 2 })));
    assert!(lines.append(b"five\n").is_none());
    assert_eq!(String::from_utf8_lossy(&lines.file.written), "one\ntw\nfour\nfive\n");
}

#[test]
fn an_audit_log_that_was_moved_away_is_created_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let [path, moved] = ["audit.log", "audit.log.1"].map(|name| directory.path().join(name));
    let mut log = AuditLog::open(&path).expect("opened");
    log.write_all(b"one\n").expect("written");
    std::fs::rename(&path, &moved).expect("moved");
    log.write_all(b"two\n").expect("written");
    log.write_all(b"three\n").expect("written");
    let has = |path: &Path| std::fs::read_to_string(path).expect("it is there");
    assert_eq!((has(&moved).as_str(), has(&path).as_str()), ("one\n", "two\nthree\n"));
    assert_eq!(std::fs::metadata(&path).expect("it is there").mode() & 0o777, 0o600);
}

#[test]
fn the_error_names_the_file_that_cannot_be_opened() {
    let error = AuditLog::open(Path::new("/nowhere/audit.log")).err().expect("there is no such directory");
    assert!(error.to_string().contains("/nowhere/audit.log (--audit-log)"), "{error}");
    let directory = tempfile::tempdir().expect("a directory");
    let pipe = directory.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("it is a usual program");
    assert!(made.success());
    let error = AuditLog::open(&pipe).err().expect("nobody reads it");
    assert!(error.to_string().contains("is a pipe"), "{error}");
}

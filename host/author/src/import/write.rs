//! Writes the plugin's folder into a project: all files, or none.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

use crate::new::TemplateFile;

/// The beginning of the names of folders with replaced files.
const REPLACED: &str = ".before-import-";

/// The reason why the folder was not written.
#[derive(Debug, thiserror::Error)]
pub enum ImportWriteError {
    #[error(
        "{} exists: nothing was written. Replace the files that `windlass import` writes with --force, or name another \
         folder with --folder",
        .0.display()
    )]
    Exists(PathBuf),
    #[error("{} is a link or no folder: nothing was written", .0.display())]
    NoFolder(PathBuf),
    #[error("{} is a folder, where a file should be: nothing was written", .0.display())]
    NoFile(PathBuf),
    #[error("cannot write {}: {source}. Nothing was changed", path.display())]
    Unwritten { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}. The earlier files are in {}", path.display(), kept.display())]
    Unrestored { path: PathBuf, source: io::Error, kept: PathBuf },
}

/// Earlier files that an import with `force` replaced.
#[derive(Debug, PartialEq, Eq)]
pub struct ReplacedFiles {
    /// The folder that has them now.
    pub kept: PathBuf,
    /// Their paths in the plugin's folder.
    pub paths: Vec<PathBuf>,
}

/// Writes `files` to `folder`. If it exists, `force` replaces the files of the same names, and leaves other files
/// alone. Replaced files with other contents are kept and returned: their author may have edited them.
pub fn write(folder: &Path, files: &[TemplateFile], force: bool) -> Result<Option<ReplacedFiles>, ImportWriteError> {
    let exists = match fs::symlink_metadata(folder) {
        Ok(it) if !it.is_dir() => return Err(ImportWriteError::NoFolder(folder.to_owned())),
        Ok(_) if !force => return Err(ImportWriteError::Exists(folder.to_owned())),
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(source) => return Err(ImportWriteError::Unwritten { path: folder.to_owned(), source }),
    };
    if exists {
        for file in files {
            check(folder, &file.path)?;
        }
    }
    let stage = stage(folder).map_err(|source| ImportWriteError::Unwritten { path: folder.to_owned(), source })?;
    let new = stage.join("new");
    let done = fill(&new, files).and_then(|()| {
        if exists {
            exchange(folder, &stage, files)
        } else {
            let unwritten = |source| ImportWriteError::Unwritten { path: folder.to_owned(), source };
            fs::rename(&new, folder).map_err(unwritten).map(|()| None)
        }
    });
    if !matches!(done, Err(ImportWriteError::Unrestored { .. })) {
        // A leftover of this hidden folder does no harm, and the result is more important.
        let _ = fs::remove_dir_all(&stage);
    }
    done
}

/// Makes a folder beside `folder`, so that files can be moved from it in one step.
fn stage(folder: &Path) -> io::Result<PathBuf> {
    let beside = folder.parent().unwrap_or(folder);
    Ok(tempfile::Builder::new().prefix(".windlass-import-").tempdir_in(beside)?.keep())
}

fn fill(new: &Path, files: &[TemplateFile]) -> Result<(), ImportWriteError> {
    for TemplateFile { path, content } in files {
        let path = new.join(path);
        put(&path, content).map_err(|source| ImportWriteError::Unwritten { path, source })?;
    }
    Ok(())
}

fn put(path: &Path, content: &[u8]) -> io::Result<()> {
    use std::io::Write as _;
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut file = fs::File::create_new(path)?;
    file.write_all(content)?;
    // A full disk may only be noticed here.
    file.sync_data()
}

/// Refuses a file below a link, which may lead out of the project. Also refuses a file in place of a folder.
fn check(folder: &Path, file: &Path) -> Result<(), ImportWriteError> {
    let mut path = folder.to_owned();
    let parents = file.parent().into_iter().flat_map(Path::components);
    for part in parents.filter(|part| matches!(part, Component::Normal(_))) {
        path.push(part);
        if fs::symlink_metadata(&path).is_ok_and(|it| !it.is_dir()) {
            return Err(ImportWriteError::NoFolder(path));
        }
    }
    let file = folder.join(file);
    if fs::symlink_metadata(&file).is_ok_and(|it| it.is_dir()) { Err(ImportWriteError::NoFile(file)) } else { Ok(()) }
}

/// Moves the old files away and the new ones in. If that fails, moves all back.
fn exchange(folder: &Path, stage: &Path, files: &[TemplateFile]) -> Result<Option<ReplacedFiles>, ImportWriteError> {
    let unwritten = |path: PathBuf| |source| ImportWriteError::Unwritten { path, source };
    let mut paths = Vec::new();
    for TemplateFile { path, content } in files {
        if is_different(&folder.join(path), content).map_err(unwritten(folder.join(path)))? {
            paths.push(path.clone());
        }
    }
    let kept = if paths.is_empty() { None } else { Some(keep_folder(folder).map_err(unwritten(folder.to_owned()))?) };
    let mut moved = Vec::new();
    for TemplateFile { path, .. } in files {
        let old = match &kept {
            Some(kept) if paths.contains(path) => kept.join(path),
            _ => stage.join("old").join(path),
        };
        if let Err(source) = exchange_one(folder, stage, path, old, &mut moved) {
            let path = folder.join(path);
            let back = moved.iter().rev().try_for_each(|(from, to)| fs::rename(to, from));
            return Err(match (back, kept) {
                (Ok(()), kept) => {
                    // It has no files any more.
                    let _ = kept.map(fs::remove_dir_all);
                    ImportWriteError::Unwritten { path, source }
                }
                (Err(_), kept) => {
                    let kept = kept.unwrap_or_else(|| stage.join("old"));
                    ImportWriteError::Unrestored { path, source, kept }
                }
            });
        }
    }
    Ok(kept.map(|kept| ReplacedFiles { kept, paths }))
}

/// Whether there is a file with another content than the new one.
fn is_different(file: &Path, content: &[u8]) -> io::Result<bool> {
    match fs::symlink_metadata(file) {
        // A link is replaced. The file that it leads to stays.
        Ok(it) if !it.is_file() => Ok(true),
        Ok(it) => Ok(it.len() != content.len() as u64 || fs::read(file)? != content),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes a folder for replaced files. Go ignores it, because of the dot.
fn keep_folder(folder: &Path) -> io::Result<PathBuf> {
    let mut number = 1_u32;
    loop {
        let kept = folder.join(format!("{REPLACED}{number}"));
        match fs::create_dir(&kept) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            made => return made.map(|()| kept),
        }
    }
}

fn exchange_one(
    folder: &Path,
    stage: &Path,
    path: &Path,
    old: PathBuf,
    moved: &mut Vec<(PathBuf, PathBuf)>,
) -> io::Result<()> {
    let (new, target) = (stage.join("new").join(path), folder.join(path));
    for parent in [old.parent(), target.parent()].into_iter().flatten() {
        fs::create_dir_all(parent)?;
    }
    for (from, to) in [(target.clone(), old), (new, target)] {
        match fs::rename(&from, &to) {
            Ok(()) => moved.push((from, to)),
            // There was no such file before.
            Err(error) if error.kind() == ErrorKind::NotFound && from.starts_with(folder) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn file(path: &str, content: &str) -> TemplateFile {
        TemplateFile { path: path.into(), content: content.as_bytes().to_vec() }
    }

    /// All files of a folder with their contents, sorted.
    fn tree(at: &Path) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let mut folders = vec![at.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("it is there") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(at).expect("below").display().to_string();
                    found.push((name, fs::read_to_string(&path).expect("text")));
                }
            }
        }
        found.sort();
        found
    }

    fn named(files: &[(&str, &str)]) -> Vec<(String, String)> {
        files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn only_force_replaces_files_and_it_keeps_others() {
        let at = tempfile::tempdir().expect("a directory");
        let folder = at.path().join("windlass");
        write(&folder, &[file("main.go", "1"), file("scenarios/a.yaml", "1")], false).expect("it is new");
        fs::write(folder.join("mine.go"), "mine").expect("it is written");
        let again = [file("main.go", "2"), file("scenarios/a.yaml", "2"), file("new/b", "2")];
        let error = write(&folder, &again, false).expect_err("it exists").to_string();
        assert!(error.contains("--force"), "{error}");
        let before = [("mine.go", "mine"), ("main.go", "1"), ("scenarios/a.yaml", "1")];
        let mut before = named(&before);
        before.sort();
        assert_eq!(tree(&folder), before);
        write(&folder, &again, true).expect("it may");
        let mut after = named(&[
            ("mine.go", "mine"),
            ("main.go", "2"),
            ("scenarios/a.yaml", "2"),
            ("new/b", "2"),
            (".before-import-1/main.go", "1"),
            (".before-import-1/scenarios/a.yaml", "1"),
        ]);
        after.sort();
        assert_eq!(tree(&folder), after);
        assert_eq!(fs::read_dir(at.path()).expect("it is there").count(), 1, "nothing is left over");
    }

    #[test]
    fn edited_files_are_kept_at_each_forced_import() {
        let at = tempfile::tempdir().expect("a directory");
        let folder = at.path().join("windlass");
        let files = [file("go.mod", "as ever"), file("main.go", "to complete")];
        assert_eq!(write(&folder, &files, false).expect("it is new"), None);
        assert_eq!(write(&folder, &files, true).expect("it may"), None, "nobody edited anything");
        for number in 1..3 {
            let edited = format!("completed {number}");
            fs::write(folder.join("main.go"), &edited).expect("it is written");
            let replaced = write(&folder, &files, true).expect("it may").expect("a file was edited");
            assert_eq!(replaced.paths, [PathBuf::from("main.go")]);
            assert_eq!(tree(&replaced.kept), named(&[("main.go", &edited)]));
        }
        assert_eq!(fs::read_to_string(folder.join("main.go")).expect("it is there"), "to complete");
    }

    #[test]
    fn a_killed_import_with_this_process_id_does_not_stop_another() {
        let at = tempfile::tempdir().expect("a directory");
        fs::create_dir(at.path().join(format!(".windlass-import-{}", std::process::id()))).expect("it is made");
        let folder = at.path().join("windlass");
        write(&folder, &[file("main.go", "1")], false).expect("it is written");
        assert_eq!(tree(&folder), named(&[("main.go", "1")]));
    }

    #[test]
    fn a_failed_write_changes_nothing() {
        let at = tempfile::tempdir().expect("a directory");
        let folder = at.path().join("windlass");
        // A file in place of a folder makes writing fail, as a full disk would.
        let impossible = [file("a", "1"), file("a/b", "1")];
        assert!(
            write(&folder, &impossible, false).expect_err("impossible").to_string().contains("Nothing was changed")
        );
        assert_eq!(fs::read_dir(at.path()).expect("it is there").count(), 0);
        write(&folder, &[file("a", "1")], false).expect("it is new");
        // A file that was not staged cannot be moved.
        let stage = stage(&folder).expect("it is made");
        fill(&stage.join("new"), &[file("a", "2"), file("b", "2")]).expect("it is written");
        let error =
            exchange(&folder, &stage, &[file("a", ""), file("b", ""), file("c", "")]).expect_err("c is not there");
        assert!(error.to_string().contains("Nothing was changed"), "{error}");
        assert_eq!(tree(&folder), named(&[("a", "1")]));
    }

    #[test]
    fn a_folder_in_place_of_a_file_stays() {
        let at = tempfile::tempdir().expect("a directory");
        let folder = at.path().join("windlass");
        write(&folder, &[file("main.go/mine", "mine")], false).expect("it is new");
        let error = write(&folder, &[file("main.go", "2")], true).expect_err("a folder").to_string();
        assert!(error.contains("main.go is a folder"), "{error}");
        assert_eq!(tree(&folder), named(&[("main.go/mine", "mine")]));
    }

    #[test]
    fn links_are_not_followed() {
        let at = tempfile::tempdir().expect("a directory");
        let outside = tempfile::tempdir().expect("a directory");
        let folder = at.path().join("windlass");
        symlink(outside.path(), &folder).expect("linked");
        let files = [file("scenarios/a.yaml", "1")];
        assert!(matches!(write(&folder, &files, true), Err(ImportWriteError::NoFolder(_))));
        fs::remove_file(&folder).expect("it was there");
        fs::create_dir(&folder).expect("it is made");
        symlink(outside.path(), folder.join("scenarios")).expect("linked");
        assert!(matches!(write(&folder, &files, true), Err(ImportWriteError::NoFolder(_))));
        assert_eq!(fs::read_dir(outside.path()).expect("it is there").count(), 0);
    }
}

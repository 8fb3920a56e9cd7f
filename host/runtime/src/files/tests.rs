use std::os::unix::fs::symlink;

use tokio::time::timeout;

use super::*;

const TEST_FILE_BYTES_MAX: u64 = 1 << 20;

fn text_files(directory: &Path) -> Files {
    // Only notifications find changes here, as polls are an hour apart.
    Files::polling(vec![directory.to_owned()], TEST_FILE_BYTES_MAX, is_text, Duration::from_hours(1))
}

fn is_text(path: &Path) -> bool {
    !is_hidden(path) && path.extension().is_some_and(|extension| extension == "txt")
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("written");
}

/// The names of the changed files, and whether each exists.
async fn changed(files: &mut Files) -> Vec<(String, bool)> {
    let changes = timeout(Duration::from_secs(30), files.changes()).await.expect("the change is noticed");
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    changes.iter().map(|change| (name(&change.path), change.content != Content::Gone)).collect()
}

fn expected(name: &str, is_there: bool) -> Vec<(String, bool)> {
    vec![(name.to_owned(), is_there)]
}

#[tokio::test]
async fn existing_files_are_reported_first_and_then_changes() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    write(&path("a.txt"), "1");
    write(&path("other"), "1");
    write(&path(".hidden.txt"), "1");
    let mut files = text_files(directory.path());
    assert_eq!(changed(&mut files).await, expected("a.txt", true));
    write(&path("b.txt"), "1");
    assert_eq!(changed(&mut files).await, expected("b.txt", true));
    write(&path("a.txt"), "2");
    assert_eq!(changed(&mut files).await, expected("a.txt", true));
    // Editors replace a file like this.
    write(&path("new"), "3");
    std::fs::rename(path("new"), path("a.txt")).expect("renamed");
    assert_eq!(changed(&mut files).await, expected("a.txt", true));
    std::fs::remove_file(path("b.txt")).expect("removed");
    assert_eq!(changed(&mut files).await, expected("b.txt", false));
}

#[tokio::test]
async fn a_file_over_the_limit_is_reported_as_too_large_until_it_shrinks() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.txt");
    let mut files = Files::polling(vec![directory.path().to_owned()], 3, is_text, Duration::from_hours(1));
    let mut now = async || timeout(Duration::from_secs(30), files.changes()).await.expect("noticed").remove(0).content;
    // Reading it would take for ever.
    std::fs::File::create(&path).and_then(|file| file.set_len(1 << 40)).expect("a file of holes");
    assert_eq!(now().await, Content::TooLarge(3));
    write(&path, "123");
    assert!(matches!(now().await, Content::Is(_)));
    write(&path, "1234");
    assert_eq!(now().await, Content::TooLarge(3));
}

#[tokio::test]
async fn the_same_bytes_again_are_no_change() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    write(&path("a.txt"), "1");
    let mut files = text_files(directory.path());
    assert_eq!(changed(&mut files).await, expected("a.txt", true));
    write(&path("a.txt"), "1");
    write(&path("b.txt"), "1");
    assert_eq!(changed(&mut files).await, expected("b.txt", true));
}

/// Updates the files as the kubelet does with a mounted `ConfigMap`.
fn publish(directory: &Path, version: &str, text: Option<&str>) {
    let data = directory.join(format!("..{version}"));
    std::fs::create_dir(&data).expect("made");
    if let Some(text) = text {
        write(&data.join("a.txt"), text);
    }
    symlink(format!("..{version}"), directory.join("..data_tmp")).expect("linked");
    std::fs::rename(directory.join("..data_tmp"), directory.join("..data")).expect("swapped");
}

#[tokio::test]
async fn a_config_map_is_swapped_as_a_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    publish(directory.path(), "1", Some("1"));
    symlink("..data/a.txt", directory.path().join("a.txt")).expect("linked");
    let mut files = text_files(directory.path());
    assert_eq!(changed(&mut files).await, expected("a.txt", true));
    publish(directory.path(), "2", Some("2"));
    assert_eq!(changed(&mut files).await, expected("a.txt", true));
    publish(directory.path(), "3", None);
    std::fs::remove_file(directory.path().join("a.txt")).expect("removed");
    assert_eq!(changed(&mut files).await, expected("a.txt", false));
}

#[tokio::test]
async fn a_change_without_a_notification_is_found_by_polling() {
    let [here, there] = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    write(&there.path().join("a"), "1");
    symlink(there.path().join("a"), here.path().join("a.txt")).expect("linked");
    let mut files =
        Files::polling(vec![here.path().to_owned()], TEST_FILE_BYTES_MAX, is_text, Duration::from_millis(20));
    assert_eq!(changed(&mut files).await, expected("a.txt", true));
    write(&there.path().join("a"), "2");
    assert_eq!(changed(&mut files).await, expected("a.txt", true));
}

#[tokio::test]
async fn a_directory_that_cannot_be_read_takes_no_file_away() {
    let parent = tempfile::tempdir().expect("a directory");
    let directory = parent.path().join("d");
    std::fs::create_dir(&directory).expect("made");
    write(&directory.join("a.txt"), "1");
    let mut files = Files::polling(vec![directory.clone()], TEST_FILE_BYTES_MAX, is_text, Duration::from_millis(20));
    assert_eq!(changed(&mut files).await, expected("a.txt", true));
    std::fs::rename(&directory, parent.path().join("e")).expect("renamed");
    let mut patience = Duration::from_millis(200);
    while files.problem().is_none() {
        assert!(patience < Duration::from_mins(1), "it is noticed");
        let changed = timeout(patience, files.changes()).await;
        assert!(changed.is_err(), "no file is taken away: {changed:?}");
        patience *= 2;
    }
    std::fs::create_dir(&directory).expect("made");
    assert_eq!(changed(&mut files).await, expected("a.txt", false), "another directory, without it");
    assert_eq!(files.problem(), None);
}

#[tokio::test]
async fn a_directory_that_is_gone_does_not_hide_changes_in_another() {
    let parent = tempfile::tempdir().expect("a directory");
    let (gone, stays) = (parent.path().join("gone"), parent.path().join("stays"));
    for directory in [&gone, &stays] {
        std::fs::create_dir(directory).expect("made");
    }
    write(&gone.join("a.txt"), "1");
    let directories = vec![gone.clone(), stays.clone()];
    let mut files = Files::polling(directories, TEST_FILE_BYTES_MAX, is_text, Duration::from_millis(20));
    assert_eq!(changed(&mut files).await, expected("a.txt", true));
    std::fs::remove_dir_all(&gone).expect("removed");
    write(&stays.join("b.txt"), "1");
    assert_eq!(changed(&mut files).await, expected("b.txt", true));
    std::fs::remove_file(stays.join("b.txt")).expect("removed");
    assert_eq!(changed(&mut files).await, expected("b.txt", false));
    assert!(files.problem().is_some());
}

#[tokio::test]
async fn one_file_is_followed_beside_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut files = Files::follow_one(&directory.path().join("a.txt"), TEST_FILE_BYTES_MAX);
    assert!(changed(&mut files).await.is_empty());
    write(&directory.path().join("b.txt"), "1");
    write(&directory.path().join("a.txt"), "1");
    assert_eq!(changed(&mut files).await, expected("a.txt", true));
}

#[tokio::test]
async fn a_file_that_is_not_regular_is_not_read() {
    let directory = tempfile::tempdir().expect("a directory");
    symlink("/dev/zero", directory.path().join("a.txt")).expect("linked");
    symlink("/nowhere/at/all", directory.path().join("b.txt")).expect("linked");
    let mut files = text_files(directory.path());
    let changes = files.changes().await;
    let unreadable = changes.iter().filter(|change| matches!(change.content, Content::Unreadable(_))).count();
    assert_eq!(unreadable, 2, "{changes:?}");
}

#[tokio::test]
async fn a_file_that_could_not_be_read_is_read_again_although_it_is_the_same() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.txt");
    write(&path, "1");
    let mut files = text_files(directory.path());
    let first = files.changes().await;
    files.could_not_read(&path, "too many open files".to_owned());
    assert_eq!(files.look().await, first);
    assert_eq!(files.look().await, []);
    files.could_not_read(&path, "too many open files".to_owned());
    std::fs::remove_file(&path).expect("it is there");
    assert_eq!(files.look().await, [Change { path, content: Content::Gone }]);
}

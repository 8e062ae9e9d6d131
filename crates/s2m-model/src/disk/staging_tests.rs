//! Tests of `staging.rs`; kills in the middle of it are tested on the whole program, in `s2m-cli`.

use super::*;

use crate::error::Error;

fn open(target: &Path, identity: &str, existing: Existing) -> Result<Staging, Error> {
    Staging::open(&Plan {
        target,
        kind: Kind::Samples,
        identity,
        existing,
        inputs: &[],
    })
}

/// Words of an error, with `DIR` in place of the folder.
fn words(result: Result<Staging, Error>, root: &Path) -> String {
    let error = result.unwrap_err().to_string();
    error.replace(&*root.to_string_lossy(), "DIR")
}

fn names(folder: &Path) -> Vec<String> {
    let names = entries(folder).unwrap().into_iter();
    names.map(|name| name.into_string().unwrap()).collect()
}

/// A finished folder.
fn made(target: &Path) {
    let staging = open(target, "before", Existing::Keep).unwrap();
    staging.write("report.json", b"old").unwrap();
    staging.write("metadata.csv", b"old").unwrap();
    staging.finish().unwrap();
}

#[test]
fn a_folder_appears_whole_and_only_at_the_end() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("out");
    let staging = open(&target, "one", Existing::Keep).unwrap();
    staging.write("images/0.png", b"x").unwrap();
    fs::write(staging.journal("logits"), "rows").unwrap();
    assert!(!target.exists());
    staging.finish().unwrap();
    assert_eq!(names(&target), ["images"]);
    assert_eq!(names(root.path()), ["out"], "nothing else stays");
}

#[test]
fn an_interrupted_folder_is_continued_by_the_same_request_and_its_journals_by_any() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("out");
    let staging = open(&target, "one", Existing::Keep).unwrap();
    staging.write("picture", b"x").unwrap();
    fs::write(staging.journal("logits"), "rows").unwrap();
    drop(staging);
    let again = open(&target, "one", Existing::Keep).unwrap();
    assert!(again.path("picture").exists() && again.journal("logits").exists());
    drop(again);
    let other = open(&target, "two", Existing::Keep).unwrap();
    assert!(!other.path("picture").exists() && other.journal("logits").exists());
}

#[test]
fn a_second_writer_is_told_of_the_first_and_changes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("out");
    let first = open(&target, "one", Existing::Keep).unwrap();
    first.write("picture", b"x").unwrap();
    let said = words(open(&target, "two", Existing::Replace), root.path());
    let wording = format!("`DIR/out` is in use by process {}", std::process::id());
    assert!(said.starts_with(&wording), "{said}");
    first.finish().unwrap();
    assert_eq!(names(&target), ["picture"]);
}

#[test]
fn what_is_there_is_kept_unless_it_is_ours_and_shall_go() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("out");
    fs::create_dir(&target).unwrap();
    open(&target, "x", Existing::Keep).unwrap().discard();
    made(&target);
    let kept = words(open(&target, "x", Existing::Keep), root.path());
    assert_eq!(
        kept,
        "`DIR/out` already holds files\nhint: choose another folder, or pass `force` to replace it"
    );
    let staging = open(&target, "x", Existing::Replace).unwrap();
    staging.write("new", b"x").unwrap();
    assert!(target.join("report.json").exists());
    staging.finish().unwrap();
    assert_eq!(names(&target), ["new"]);
    // Now it lacks what all samples have.
    let foreign = words(open(&target, "x", Existing::Replace), root.path());
    assert_eq!(
        foreign,
        "`DIR/out` was not made by this program as samples, so `force` does not replace it\n\
         hint: remove it yourself, or choose another folder"
    );
    assert_eq!(names(root.path()), ["out"], "nothing was left behind");
}

#[test]
fn what_the_request_reads_is_never_replaced() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("out");
    made(&target);
    let bank = target.join("bank");
    fs::create_dir(&bank).unwrap();
    for input in [&target, &bank] {
        let refused = Staging::open(&Plan {
            target: &target,
            kind: Kind::Samples,
            identity: "x",
            existing: Existing::Replace,
            inputs: &[input],
        });
        let said = words(refused, root.path());
        assert!(
            said.contains("which is read by this very command"),
            "{said}"
        );
    }
    assert!(bank.exists());
}

#[test]
fn a_folder_that_appears_in_the_meantime_is_kept_and_so_is_the_work() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("out");
    for existing in [Existing::Keep, Existing::Replace] {
        let staging = open(&target, "one", existing).unwrap();
        staging.write("picture", b"x").unwrap();
        fs::create_dir(&target).unwrap();
        fs::write(target.join("thesis"), "x").unwrap();
        staging.finish().unwrap_err();
        assert_eq!(names(&target), ["thesis"]);
        fs::remove_dir_all(&target).unwrap();
        let again = open(&target, "one", existing).unwrap();
        assert!(again.path("picture").exists());
    }
}

#[test]
fn somebodys_own_folder_in_the_way_is_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let partial = root.path().join("out.partial");
    for own in ["thesis", "request.txt", "finished.txt"] {
        fs::create_dir(&partial).unwrap();
        fs::write(partial.join(own), "my own words").unwrap();
        let said = words(
            open(&root.path().join("out"), "x", Existing::Replace),
            root.path(),
        );
        assert!(
            said.starts_with("`DIR/out.partial` is in the way"),
            "{said}"
        );
        assert_eq!(fs::read(partial.join(own)).unwrap(), b"my own words");
        fs::remove_dir_all(&partial).unwrap();
    }
}

#[test]
fn unfinished_work_of_the_first_format_is_taken_up() {
    let root = tempfile::tempdir().unwrap();
    let partial = root.path().join("out.partial");
    fs::create_dir_all(partial.join("images")).unwrap();
    fs::write(partial.join(REQUEST), "0123456789abcdef".repeat(4)).unwrap();
    fs::write(partial.join("logits.journal"), "rows").unwrap();
    let staging = open(&root.path().join("out"), "x", Existing::Keep).unwrap();
    assert!(staging.journal("logits").exists());
    staging.finish().unwrap();
    assert_eq!(names(root.path()), ["out"]);
    assert!(names(&root.path().join("out")).is_empty());
}

#[test]
fn files_links_to_nowhere_and_mount_points_are_refused_at_once() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "x").unwrap();
    let said = words(open(&file, "x", Existing::Keep), root.path());
    assert_eq!(said, "`DIR/file` is a file, not a folder");
    let said = words(open(Path::new(".."), "x", Existing::Keep), root.path());
    assert_eq!(said, "`..` is not a name for a folder");
    #[cfg(target_os = "linux")]
    {
        let link = root.path().join("link");
        std::os::unix::fs::symlink(root.path().join("nowhere"), &link).unwrap();
        let said = words(open(&link, "x", Existing::Keep), root.path());
        assert!(
            said.starts_with("`DIR/link` is a link that leads nowhere"),
            "{said}"
        );
        let said = words(open(Path::new("/proc"), "x", Existing::Keep), root.path());
        assert!(said.starts_with("`/proc` is a mount point"), "{said}");
        assert!(is_mount_point(Path::new("/proc")) && is_listed(Path::new("/proc")));
        assert!(!is_mount_point(root.path()));
    }
    assert_eq!(
        entries(root.path()).unwrap().len(),
        if cfg!(target_os = "linux") { 2 } else { 1 }
    );
}

/// A finish that stopped after each of its steps, put together by hand.
#[test]
fn every_state_of_a_finish_goes_on() {
    let announce = |partial: &Path| {
        fs::rename(partial.join(REQUEST), partial.join(FINISHED)).unwrap();
    };
    let aside = |partial: &Path| {
        fs::rename(partial.with_file_name("out"), partial.join(REPLACED)).unwrap();
    };
    let publish = |partial: &Path| {
        fs::rename(partial.join(FILES), partial.with_file_name("out")).unwrap();
    };
    let steps: [&dyn Fn(&Path); 3] = [&announce, &aside, &publish];
    for done in 0..=steps.len() {
        for request in ["same", "other"] {
            let root = tempfile::tempdir().unwrap();
            let target = root.path().join("out");
            made(&target);
            let staging = open(&target, "same", Existing::Replace).unwrap();
            staging.write("report.json", b"new").unwrap();
            staging.write("metadata.csv", b"new").unwrap();
            drop(staging);
            let partial = root.path().join("out.partial");
            steps[..done].iter().for_each(|step| step(&partial));
            let again = open(&target, request, Existing::Replace).unwrap();
            let report = |path: &Path| fs::read(path.join("report.json")).ok();
            match (done, request) {
                (3, "same") => assert!(report(&target).is_none()),
                (3, _) => assert_eq!(report(&target).unwrap(), b"new"),
                _ => assert_eq!(report(&target).unwrap(), b"old"),
            }
            let kept = fs::read(again.path("report.json")).is_ok();
            assert_eq!(kept, request == "same", "{done} steps");
            again.write("report.json", b"last").unwrap();
            again.finish().unwrap();
            assert_eq!(report(&target).unwrap(), b"last");
            assert_eq!(names(root.path()), ["out"]);
        }
    }
}

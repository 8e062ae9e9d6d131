use std::fs;

use proptest::prelude::*;

use super::*;
use crate::made::{bits, files, png};

fn table(folder: &Path) -> Table {
    Table {
        folder: folder.to_owned(),
        table: None,
        label: None,
        labels: None,
        split: None,
        size: None,
        channels: None,
        test: None,
        unlabelled: Unlabelled::Refuse,
    }
}

/// Pictures a.png to d.png of levels 1 to 4, with a table.
fn pets(name: &str, rows: &str) -> tempfile::TempDir {
    let pictures: Vec<_> = (1..5).map(|level| png(&[level])).collect();
    files(&[
        ("a.png", &pictures[0]),
        ("b.png", &pictures[1]),
        ("c.png", &pictures[2]),
        ("d.png", &pictures[3]),
        (name, rows.as_bytes()),
    ])
}

fn message(table: &Table) -> String {
    let failure = table.read(0).unwrap_err().to_string();
    failure.replace(table.folder.to_str().unwrap(), "DIR")
}

fn refusal(rows: &str) -> String {
    message(&table(pets("metadata.csv", rows).path()))
}

const MANY: &str = "file_name,split,cat,note,dog\n\
        d.png,train,1,x,0\n\
        a.png,test,true,,1.0\n\
        c.png,valid,-1,,TRUE\n\
        b.png,train,,y,1\n";

#[test]
fn columns_of_yes_and_no_are_labels() {
    let at = pets("metadata.csv", MANY);
    let parts = table(at.path()).read(0).unwrap();
    assert_eq!(
        parts.train.labels.names().collect::<Vec<_>>(),
        ["cat", "dog"]
    );
    let levels = |data: &crate::Dataset| match &data.items.values {
        crate::Values::Bytes(levels) => levels.clone(),
        crate::Values::Floats(_) => panic!("images are bytes"),
    };
    assert_eq!(levels(&parts.train), [4, 3, 2]);
    assert_eq!(bits(&parts.train), [0b01, 0b10, 0b10]);
    assert_eq!(parts.validation, Some(vec![1]));
    assert_eq!((levels(&parts.test), bits(&parts.test)), (vec![1], vec![3]));

    let chosen = Table {
        labels: Some(vec!["dog".to_owned(), "cat".to_owned()]),
        ..table(at.path())
    };
    assert_eq!(bits(&chosen.read(0).unwrap().train), [0b10, 0b01, 0b01]);
}

#[test]
fn a_column_called_label_needs_no_word() {
    let rows = "file_name,label\na.png,dog\nb.png,cat\nc.png,dog\nd.png,cat\n";
    let at = pets("metadata.csv", rows);
    let plain = Table {
        test: Some(0.25),
        ..table(at.path())
    };
    let parts = plain.read(0).unwrap();
    assert_eq!(
        parts.train.labels.names().collect::<Vec<_>>(),
        ["cat", "dog"]
    );
}

#[test]
fn a_column_may_name_the_label() {
    let rows = "file_name,kind\na.png,dog\nb.png,cat\nc.png,dog\nd.png,cat\n";
    let at = pets("labels.csv", rows);
    let named = Table {
        table: Some("labels.csv".into()),
        label: Some("kind".to_owned()),
        test: Some(0.25),
        ..table(at.path())
    };
    let parts = named.read(0).unwrap();
    assert_eq!(
        parts.train.labels.names().collect::<Vec<_>>(),
        ["cat", "dog"]
    );
    assert_eq!((parts.train.len(), parts.test.len()), (3, 1));
    assert!(parts.train.truth.iter().all(|set| set.len() == 1));
    let both = Table {
        labels: Some(vec!["kind".to_owned()]),
        ..named.clone()
    };
    assert_eq!(
        message(&both),
        "both `label` and `labels` are given\n\
             hint: `label` is one column of names, `labels` are columns of 1 and 0; keep one"
    );
    let unknown = Table {
        label: Some("species".to_owned()),
        ..named
    };
    assert_eq!(
        message(&unknown),
        "`DIR/labels.csv` has no column `species`; its columns are `file_name`, `kind`\n\
             hint: columns are separated by commas"
    );
}

#[test]
fn json_lines_give_the_same() {
    let lines = "{\"file_name\": \"d.png\", \"split\": \"train\", \"cat\": 1, \"note\": \"x\"}\n\
            {\"file_name\": \"a.png\", \"split\": \"test\", \"cat\": true, \"dog\": 1.0}\n\
            {\"file_name\": \"c.png\", \"split\": \"validation\", \"cat\": -1, \"dog\": true}\n\
            {\"file_name\": \"./b.png\", \"split\": \"train\", \"cat\": null, \"dog\": 1}\n";
    let json = pets("metadata.jsonl", lines);
    let csv = pets("metadata.csv", MANY);
    assert_eq!(
        table(json.path()).read(0).unwrap(),
        table(csv.path()).read(0).unwrap()
    );
}

#[test]
fn each_part_may_have_a_table() {
    let picture = png(&[1]);
    let at = files(&[
        (
            "train/metadata.csv",
            b"file_name,A,B\nx/1.png,1,0\n2.png,0,1\n",
        ),
        ("train/x/1.png", &picture),
        ("train/2.png", &picture),
        ("test/metadata.csv", b"file_name,A,B\n1.png,1,1\n"),
        ("test/1.png", &picture),
    ]);
    let parts = table(at.path()).read(0).unwrap();
    assert_eq!(
        (bits(&parts.train), bits(&parts.test)),
        (vec![1, 2], vec![3])
    );
    fs::write(
        at.path().join("test/metadata.csv"),
        "file_name,A\n1.png,1\n",
    )
    .unwrap();
    let failure = message(&table(at.path()));
    assert!(
        failure.starts_with("`DIR/test/metadata.csv` has no column `B`"),
        "{failure}"
    );
}

#[test]
fn tables_that_do_not_fit_are_refused() {
    assert_eq!(
        message(&table(pets("labels.csv", MANY).path())),
        "`DIR` has no table; looked for `metadata.csv`, `metadata.jsonl`\n\
             hint: name it with `table = \"…\"`"
    );
    assert_eq!(
        refusal("name;cat\na.png;1\n"),
        "`DIR/metadata.csv` has no column of 1 and 0 alone and none called `label`; its columns are `name;cat`\n\
             hint: say which column holds the names of labels, for example `label = \"name;cat\"`"
    );
    assert_eq!(
        refusal("name,cat\na.png,1\n"),
        "`DIR/metadata.csv` has no column `file_name`; its columns are `name`, `cat`\n\
             hint: columns are separated by commas"
    );
    assert_eq!(
        refusal("file_name,split,cat\na.png,trian,1\n"),
        "`DIR/metadata.csv`, line 2: column `split` holds `trian`, wanted train, valid or test"
    );
    let at = pets("metadata.csv", "file_name,cat\na.png,1\nb.png,2\n");
    let chosen = Table {
        labels: Some(vec!["cat".to_owned()]),
        ..table(at.path())
    };
    assert_eq!(
        message(&chosen),
        "`DIR/metadata.csv`, line 3: column `cat` holds `2`, \
             wanted 1, 0, -1, true, false or nothing"
    );
    let twice = Table {
        labels: Some(vec!["cat".to_owned(), "cat".to_owned()]),
        ..table(at.path())
    };
    assert_eq!(
        message(&twice),
        "the labels of `DIR/metadata.csv`: label `cat` is listed twice"
    );
}

#[test]
fn rows_and_files_have_to_meet() {
    assert_eq!(
        refusal("file_name,cat\na.png,1\nx.png,1\ny.png,1\n"),
        "`DIR/metadata.csv`: 2 of 3 rows have no file; line 3 names `x.png`, \
             which is not in `DIR`\n\
             hint: fetch the missing images, or remove their rows"
    );
    assert_eq!(
        refusal("file_name,cat\na.png,1\nb.png,1\n./a.png,1\n"),
        "`DIR/metadata.csv`: `./a.png` is in line 2 and again in line 4"
    );
    assert_eq!(
        refusal("file_name,cat\na.png,1\nb.png,1\nc.png,\n"),
        "`DIR`: 2 of 4 items have no label; `DIR/c.png` is the first\n\
             hint: give them labels, or leave them out with `unlabelled = \"skip\"`"
    );
    let at = pets("metadata.csv", "file_name,cat\na.png,1\nb.png,1\nc.png,\n");
    let skipping = Table {
        unlabelled: Unlabelled::Skip,
        test: Some(0.5),
        ..table(at.path())
    };
    let parts = skipping.read(0).unwrap();
    assert_eq!((parts.train.len(), parts.test.len()), (1, 1));
    assert!(parts.notes[0].starts_with("2 of 4 items have no label and are left out"));
    assert_eq!(
        refusal("file_name,cat,cow\na.png,1,0\nb.png,1,0\nc.png,1,0\nd.png,1,0\n")
            .lines()
            .next()
            .unwrap(),
        "`DIR`: a test share of 0.1 leaves no test items out of 4"
    );
}

#[test]
fn names_cannot_lead_out_of_the_folder() {
    for (name, reason) in [
        ("/etc/passwd", "it is absolute"),
        ("../a.png", "it leads upwards with `..`"),
        ("x\\\\a.png", "it holds a backslash"),
        ("", "it is empty"),
    ] {
        let name = name.replace("\\\\", "\\");
        let failure = refusal(&format!("file_name,cat\na.png,1\n{name},1\n"));
        let wanted =
            format!("`DIR/metadata.csv`, line 3: the file name {name:?} is refused: {reason}");
        assert!(failure.starts_with(&wanted), "{failure}");
    }
}

#[cfg(unix)]
#[test]
fn links_cannot_lead_out_of_the_folder() {
    let elsewhere = files(&[("secret.png", &png(&[9]))]);
    let at = pets("metadata.csv", "file_name,cat\na.png,1\nlink.png,1\n");
    let target = elsewhere.path().join("secret.png");
    std::os::unix::fs::symlink(target, at.path().join("link.png")).unwrap();
    assert_eq!(
        message(&table(at.path())),
        "`DIR/metadata.csv`, line 3: the file name \"link.png\" is refused: \
             it is a link that leads out of its folder"
    );
}

#[test]
fn other_encodings_are_named() {
    let at = pets("metadata.csv", "");
    fs::write(
        at.path().join("metadata.csv"),
        b"file_name,cat\nM\xfc.png,1\n",
    )
    .unwrap();
    assert_eq!(
        message(&table(at.path())),
        "`DIR/metadata.csv` is not UTF-8: line 2 holds byte 0xfc\n\
             hint: it may be Latin-1; save it as UTF-8"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_tables_never_panic(
        rows in prop::collection::vec("[abx./\\\\,\"1\n-]{0,12}", 0..6),
        bytes in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let at = pets("metadata.csv", &format!("file_name,cat\n{}", rows.join("\n")));
        let _ = table(at.path()).read(0);
        fs::write(at.path().join("metadata.csv"), bytes).unwrap();
        let _ = table(at.path()).read(0);
    }
}

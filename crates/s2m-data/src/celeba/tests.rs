use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::dataset::Values;
use crate::made::{bits, files, png, real_data, square};
use crate::tar::tests::tar;
use crate::text_file::tests::{gzip, zip};

const ATTRIBUTE_LIST: &str = "6\nBald Male Smiling\n\
        000001.jpg -1  1  1\n\
        000002.jpg  1 -1 -1\n\
        000003.jpg -1 -1  1\n\
        000004.jpg -1  1 -1\n\
        000005.jpg  1  1  1\n\
        000006.jpg -1  1  1\n";
const PARTITION_LIST: &str = "000001.jpg 0\n000002.jpg 0\n000003.jpg 1\n000004.jpg 2\n\
        000005.jpg 0\n000006.jpg 2\n";

fn celeba(folder: &Path) -> Celeba {
    Celeba {
        folder: folder.to_owned(),
        pictures: None,
        labels: vec!["Smiling".to_owned(), "Male".to_owned()],
        size: None,
        channels: None,
        framing: None,
    }
}

fn message(celeba: &Celeba) -> String {
    let failure = celeba.read(0).unwrap_err().to_string();
    failure.replace(celeba.folder.to_str().unwrap(), "DIR")
}

/// The pictures 1 to 5; each is a row of its own number.
fn numbered() -> Vec<(String, Vec<u8>)> {
    (1..=5)
        .map(|i| (format!("00000{i}.jpg"), png(&[i; 2])))
        .collect()
}

fn check(settings: &Celeba) {
    let parts = settings.read(0).unwrap();
    assert_eq!(
        parts.train.labels.names().collect::<Vec<_>>(),
        ["Smiling", "Male"]
    );
    // Picture 2 has neither label, picture 6 is not there.
    assert_eq!(bits(&parts.train), [0b11, 0b01, 0b11]);
    assert_eq!(
        parts.train.items.values,
        Values::Bytes(vec![1, 1, 3, 3, 5, 5])
    );
    assert_eq!(parts.validation, Some(vec![1]));
    assert_eq!(bits(&parts.test), [0b10]);
    assert_eq!(parts.notes.len(), 3, "{:?}", parts.notes);
    assert!(parts.notes[0].starts_with("1 of the 6 images of the list are not in `"));
    assert!(parts.notes[1].starts_with("1 of 5 items have no label and are left out"));
    assert_eq!(parts.notes[2], "no test item has label `Smiling`");
}

#[test]
fn a_folder_and_an_archive_give_the_same() {
    let pictures = numbered();
    let named: Vec<_> = pictures
        .iter()
        .map(|(name, bytes)| (format!("img_align_celeba/{name}"), bytes.as_slice()))
        .collect();
    let mut in_folder: Vec<_> = named.iter().map(|(n, b)| (n.as_str(), *b)).collect();
    let archive = tar(&in_folder);
    in_folder.push((ATTRIBUTES, ATTRIBUTE_LIST.as_bytes()));
    in_folder.push((PARTITION, PARTITION_LIST.as_bytes()));
    check(&celeba(files(&in_folder).path()));

    let attributes = zip(&[
        (ATTRIBUTES, ATTRIBUTE_LIST.as_bytes()),
        ("__MACOSX/._x", b"\0"),
    ]);
    let at = files(&[
        ("list_attr_celeba.txt.zip", &attributes),
        (
            "list_eval_partition.txt.gz",
            &gzip(PARTITION_LIST.as_bytes()),
        ),
        ("faces.tar", &archive),
    ]);
    check(&celeba(at.path()));
    let named = Celeba {
        pictures: Some(at.path().join("faces.tar")),
        ..celeba(at.path())
    };
    check(&named);
}

#[test]
fn what_does_not_fit_is_refused() {
    let archive = tar(&[("000001.jpg", &png(&[1])), ("x.jpg", b"")]);
    let with = |attributes: &str, partition: &str| {
        let at = files(&[
            (ATTRIBUTES, attributes.as_bytes()),
            (PARTITION, partition.as_bytes()),
            ("p.tar", &archive),
        ]);
        message(&celeba(at.path()))
    };
    let head = "2\nMale Smiling\n";
    for (attributes, partition, wanted) in [
        (
            "Male Smiling\n".to_owned(),
            "",
            "`DIR/list_attr_celeba.txt` should have the number of images in line 1",
        ),
        (
            "1\n".to_owned(),
            "",
            "`DIR/list_attr_celeba.txt` should have the names of the attributes in line 2",
        ),
        (
            format!("{head}000001.jpg 1 1\n"),
            "",
            "`DIR/list_attr_celeba.txt` has 1 rows, but says 2\n\
                 hint: the file is cut short; fetch it again",
        ),
        (
            format!("{head}000001.jpg 1\n"),
            "",
            "`DIR/list_attr_celeba.txt`, line 3: 1 values, wanted 2",
        ),
        (
            format!("{head}000001.jpg 1 2\n"),
            "",
            "`DIR/list_attr_celeba.txt`, line 3: found `2`, wanted 1 or -1",
        ),
        (
            format!("{head}a.jpg 1 1\na.jpg 1 1\n"),
            "",
            "`DIR/list_attr_celeba.txt` names `a.jpg` twice",
        ),
        (
            "1\nBald Male\n000001.jpg 1 1".to_owned(),
            "",
            "`DIR/list_attr_celeba.txt` has no attribute `Smiling`; it has Bald, Male",
        ),
        (
            format!("{head}000001.jpg 1 1\n000002.jpg 1 1"),
            "000001.jpg 3",
            "`DIR/list_eval_partition.txt`, line 1: found `3`, wanted 0, 1 or 2",
        ),
        (
            format!("{head}000001.jpg 1 1\n000002.jpg 1 1"),
            "000002.jpg 0",
            "`DIR/list_eval_partition.txt` has no row for `000001.jpg`",
        ),
        (
            format!("{head}000003.jpg 1 1\n000002.jpg 1 1"),
            "000002.jpg 0",
            "`DIR/p.tar` holds none of the 2 images of the list",
        ),
    ] {
        assert_eq!(with(&attributes, partition), wanted);
    }
}

#[test]
fn missing_files_are_named() {
    let at = files(&[(ATTRIBUTES, b"")]);
    assert_eq!(
        message(&celeba(at.path())),
        "`DIR` has no `list_eval_partition.txt`, nor one that ends in .gz or .zip\n\
             hint: put CelebA's two lists into that folder"
    );
    let at = files(&[
        (ATTRIBUTES, b""),
        (PARTITION, b""),
        ("a.tar", b""),
        ("b.tar", b""),
    ]);
    assert_eq!(
        message(&celeba(at.path())),
        "`DIR` has no folder `img_align_celeba` and not one .tar archive alone\n\
             hint: say where the images are with `pictures = \"…\"`"
    );
    let twice = tar(&[("a/1.jpg", b""), ("b/1.jpg", b"")]);
    let at = files(&[
        (ATTRIBUTES, b"0\nMale Smiling\n"),
        (PARTITION, b""),
        ("a.tar", &twice),
    ]);
    assert_eq!(
        message(&celeba(at.path())),
        "`DIR/a.tar` names `1.jpg` twice"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_lists_and_archives_never_panic(
        at in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        let archive = tar(&[("000001.jpg", &png(&[1])), ("000004.jpg", &png(&[4]))]);
        let whole = [ATTRIBUTE_LIST.as_bytes(), PARTITION_LIST.as_bytes(), &archive];
        for which in 0..3 {
            let mut damaged = whole.map(<[u8]>::to_vec);
            let at = at.index(damaged[which].len());
            damaged[which][at] = byte;
            let [a, p, t] = &damaged;
            let folder = files(&[(ATTRIBUTES, a), (PARTITION, p), ("x.tar", t)]);
            let _ = celeba(folder.path()).read(0);
            let cut = &whole[which][..at];
            let mut cuts = whole;
            cuts[which] = cut;
            let folder =
                files(&[(ATTRIBUTES, cuts[0]), (PARTITION, cuts[1]), ("x.tar", cuts[2])]);
            let _ = celeba(folder.path()).read(0);
        }
    }
}

/// A picture of 8 × 8 keeps columns 1 to 6 and rows 1 to 6, which `framing` makes a square of any size.
#[test]
fn pictures_may_be_cut_as_another_set_frames_faces() {
    let level = |i: usize| (10 * (i / 8) + i % 8) as u8;
    let picture = square(8, level);
    let lists = [
        (ATTRIBUTES, ATTRIBUTE_LIST.as_bytes()),
        (PARTITION, PARTITION_LIST.as_bytes()),
    ];
    let pictures: Vec<_> = (1..=5)
        .map(|i| format!("img_align_celeba/00000{i}.jpg"))
        .collect();
    let mut all = lists.to_vec();
    all.extend(
        pictures
            .iter()
            .map(|name| (name.as_str(), picture.as_slice())),
    );
    let folder = files(&all);
    let cut = Celeba {
        framing: Some(Framing::Ffhq),
        ..celeba(folder.path())
    };
    let parts = cut.read(0).unwrap();
    assert_eq!(parts.train.items.shape, [1, 6, 6]);
    let Values::Bytes(bytes) = &parts.train.items.values else {
        panic!("images are bytes");
    };
    assert_eq!((bytes[0], bytes[35]), (11, 66));
    let sized = Celeba {
        size: Some([12, 12].map(|side| side.try_into().unwrap())),
        ..cut
    };
    assert_eq!(sized.read(0).unwrap().train.items.shape, [1, 12, 12]);
}

/// Counts of the official parts; shares of attributes as published for the whole set.
#[test]
fn celeba_itself_is_read() {
    let Some(folder) = real_data("celeba") else {
        return;
    };
    let settings = Celeba {
        labels: ["Black_Hair", "Male", "Smiling"]
            .map(str::to_owned)
            .to_vec(),
        ..celeba(&folder)
    };
    let listed = settings.list().unwrap();
    let count = |portion| {
        let of = listed.items.iter().filter(|item| item.portion == portion);
        of.count()
    };
    assert_eq!(
        [Portion::Train, Portion::Validation, Portion::Test].map(count),
        [24_152, 2_945, 2_903]
    );
    // In percent of 202,599: 23.93, 41.68 and 48.21.
    for (label, whole) in [23.93, 41.68, 48.21].into_iter().enumerate() {
        let of = listed.items.iter().filter(|i| i.truth.contains(label));
        let percent = 100.0 * of.count() as f64 / 30_000.0;
        assert!((percent - whole).abs() < 1.0, "{percent} against {whole}");
    }
    let none = listed.items.iter().filter(|i| i.truth.is_empty()).count();
    let start = Instant::now();
    let parts = settings.read(0).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let kept = parts.train.len() + parts.test.len();
    eprintln!("{:.0} images a second", kept as f64 / seconds);
    assert_eq!(kept, 30_000 - none);
    assert_eq!(parts.train.items.shape, [3, 64, 64]);
    assert_eq!(parts.notes.len(), 2, "{:?}", parts.notes);
}

//! Audit sets: items of which every label is known, to check predictions against.
//!
//! An audit is described by a recipe like any other data. It is the training part, whole: no item is
//! held out, no label hidden, and an item without any label is an item of the empty set. Items that the
//! data itself keeps for testing stay out of it, and so does the test part that a key `test` draws off.
//!
//! Data that tells one label of each item cannot be an audit, because the others are not known; in a
//! table every cell asked for has to be filled in, and pictures without a row are no items.

use s2m_core::labels::Labels;

use crate::asked::{Asked, not_known};
use crate::classes::ClassMap;
use crate::dataset::{Dataset, Part};
use crate::error::Error;
use crate::idx;
use crate::recipe::{DataRecipe, Source};

impl DataRecipe {
    /// All items of the training part with their truth by these labels, in the order of `labels`.
    ///
    /// Labels of the data that are not asked for are passed over. The keys `name`, `validation`,
    /// `labelling`, `wrong-labels` and `describe` play no part.
    pub fn load_audit(&self, labels: &Labels) -> Result<Dataset, Error> {
        let data = match &self.source {
            Source::Idx { folder } => {
                let classes = ClassMap::new(&self.classes)?;
                classes.mark(idx::read_folder(folder, Part::Train)?)
            }
            Source::Cifar10(cifar10) => {
                let classes = ClassMap::new(&self.classes)?;
                classes.mark(cifar10.read(Part::Train)?)
            }
            Source::SixLabels(six_labels) => {
                self.check_no_classes("six-labels")?;
                six_labels.read(Part::Train)?
            }
            Source::Folders(folders) => {
                let folder = folders.folder.display();
                let what = format!("a folder of `{folder}` tells one label of each image");
                return Err(not_known(&what));
            }
            Source::Table(table) => {
                self.check_no_classes("table")?;
                return table.audit(labels, self.seed);
            }
            Source::Celeba(celeba) => {
                self.check_no_classes("celeba")?;
                return celeba.audit(labels, self.seed);
            }
            Source::Cole(cole) => return cole.audit(&self.classes, labels, self.seed),
            Source::Arrays(arrays) => return arrays.audit(&self.classes, labels, self.seed),
            // A training part with all its labels is an audit set as it is.
            _ => self.parts()?.train,
        };
        let asked = Asked::new(&data.labels, labels)?;
        Ok(Dataset {
            truth: data.truth.iter().map(|&set| asked.renumber(set)).collect(),
            labels: labels.clone(),
            ..data
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::dataset::Values;
    use crate::made::{bits, files, npy, png, real_data};
    use crate::six_labels;

    fn recipe(source: &str, folder: &Path) -> DataRecipe {
        let source = source.replace("DIR", folder.to_str().unwrap());
        toml::from_str(&format!(
            "name = \"audit\"\nlabelling = {{ model = \"one-of\" }}\nsource = {source}"
        ))
        .unwrap()
    }

    fn labels<const N: usize>(names: [&str; N]) -> Labels {
        Labels::new(names).unwrap()
    }

    fn levels(data: &Dataset) -> Vec<u8> {
        match &data.items.values {
            Values::Bytes(levels) => levels.clone(),
            Values::Floats(_) => panic!("images are bytes"),
        }
    }

    fn refusal<const N: usize>(recipe: &DataRecipe, names: [&str; N], folder: &Path) -> String {
        let error = recipe.load_audit(&labels(names)).unwrap_err().to_string();
        error.replace(folder.to_str().unwrap(), "DIR")
    }

    const TABLE: &str = "{ format = \"table\", folder = \"DIR\" }";

    /// Pictures a.png to e.png of levels 1 to 5 with a table of these rows; e.png has none.
    fn pets(rows: &str) -> tempfile::TempDir {
        let pictures: Vec<_> = (1..6).map(|level| png(&[level])).collect();
        let names = ["a.png", "b.png", "c.png", "d.png", "e.png"];
        let mut list: Vec<_> = names.into_iter().zip(&pictures).collect();
        let rows = rows.as_bytes().to_vec();
        list.push(("metadata.csv", &rows));
        let list: Vec<_> = list.iter().map(|(n, b)| (*n, &b[..])).collect();
        files(&list)
    }

    const PETS: &str = "file_name,split,cat,cow,dog\n\
        a.png,train,1,,0\nb.png,test,,1,\nc.png,valid,-1,1,true\nd.png,train,0,1,false\n";

    #[test]
    fn a_table_gives_every_row_that_is_not_for_testing() {
        let at = pets(PETS);
        let recipe = recipe(TABLE, at.path());
        let data = recipe.load_audit(&labels(["dog", "cat"])).unwrap();
        assert_eq!(data.labels, labels(["dog", "cat"]));
        assert_eq!((levels(&data), bits(&data)), (vec![1, 3, 4], vec![2, 1, 0]));
        assert_eq!(data.original, [2, 1, 0]);
    }

    #[test]
    fn a_table_has_to_be_filled_in_and_to_have_the_columns() {
        let at = pets(PETS);
        let table = recipe(TABLE, at.path());
        assert_eq!(
            refusal(&table, ["dog", "cow"], at.path()),
            "`DIR/metadata.csv`, line 2: column `cow` is empty, \
             but an audit needs every label of every item\n\
             hint: write 1 or 0"
        );
        assert_eq!(
            refusal(&table, ["dog", "hen"], at.path()),
            "`DIR/metadata.csv` has no column `hen`; \
             its columns are `file_name`, `split`, `cat`, `cow`, `dog`\n\
             hint: columns are separated by commas"
        );
        let lines = "{\"file_name\": \"a.png\", \"cat\": 1}\n{\"file_name\": \"b.png\"}\n";
        let json = files(&[
            ("a.png", &png(&[1])),
            ("b.png", &png(&[2])),
            ("metadata.jsonl", lines.as_bytes()),
        ]);
        let failure = refusal(&recipe(TABLE, json.path()), ["cat"], json.path());
        assert!(
            failure.starts_with("`DIR/metadata.jsonl`, line 2: column `cat` is empty"),
            "{failure}"
        );
    }

    #[test]
    fn nothing_is_drawn_off_unless_the_recipe_says_so() {
        let rows = "file_name,cat,dog\na.png,1,0\nb.png,0,0\nc.png,0,1\nd.png,1,1\ne.png,1,0\n";
        let at = pets(rows);
        let mut whole = recipe(TABLE, at.path());
        let asked = labels(["cat", "dog"]);
        let data = whole.load_audit(&asked).unwrap();
        assert_eq!(
            (levels(&data), bits(&data)),
            (vec![1, 2, 3, 4, 5], vec![1, 0, 2, 3, 1])
        );
        let Source::Table(table) = &mut whole.source else {
            panic!("a table")
        };
        table.test = Some(0.25);
        table.unlabelled = crate::labelled::Unlabelled::Skip;
        // The test part is that of training, which leaves out b.png.
        for seed in 0..5 {
            whole.seed = seed;
            let parts = whole.parts().unwrap();
            let mut wanted = [levels(&parts.train), vec![2]].concat();
            wanted.sort_unstable();
            assert_eq!(levels(&whole.load_audit(&asked).unwrap()), wanted);
        }
    }

    #[test]
    fn one_label_of_each_item_is_no_audit() {
        let at = pets("file_name,label\na.png,cat\nb.png,dog\n");
        let source = "{ format = \"table\", folder = \"DIR\", label = \"label\" }";
        assert_eq!(
            refusal(&recipe(source, at.path()), ["cat"], at.path()),
            "column `label` tells one label of each image, \
             but an audit needs every label of every item\n\
             hint: write a table with one column for each label, and 1 or 0 in every cell"
        );
        let source = "{ format = \"folders\", folder = \"DIR\" }";
        assert_eq!(
            refusal(&recipe(source, at.path()), ["cat"], at.path())
                .lines()
                .next(),
            Some(
                "a folder of `DIR` tells one label of each image, \
                 but an audit needs every label of every item"
            )
        );
    }

    #[test]
    fn idx_files_give_pictures_of_no_class_too() {
        let at = tempfile::tempdir().unwrap();
        let images = [
            &[0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 1][..],
            &[7, 8, 9],
        ]
        .concat();
        fs::write(at.path().join("train-images-idx3-ubyte"), images).unwrap();
        let digits = [0, 0, 8, 1, 0, 0, 0, 3, 3, 4, 5];
        fs::write(at.path().join("train-labels-idx1-ubyte"), digits).unwrap();
        let classes = "classes = [{ name = \"A\", of = [3, 5] }, { name = \"B\", of = [5] }]";
        let source = format!("{{ format = \"idx\", folder = \"DIR\" }}\n{classes}");
        let recipe = recipe(&source, at.path());
        let data = recipe.load_audit(&labels(["B", "A"])).unwrap();
        assert_eq!((levels(&data), bits(&data)), (vec![7, 8, 9], vec![2, 0, 3]));
        assert_eq!(data.original, [3, 4, 5]);
        let only = recipe.load_audit(&labels(["B"])).unwrap();
        assert_eq!(bits(&only), [0, 0, 1]);
        assert_eq!(
            refusal(&recipe, ["B", "C"], at.path()),
            "there is no label `C` to audit; the labels are `A`, `B`"
        );
    }

    #[test]
    fn matrices_are_known_where_they_hold_numbers() {
        let truth = [1.0f32, 0.0, f32::NAN, 0.0, 0.0, 1.0, -1.0, 1.0, 0.0];
        let bytes: Vec<u8> = truth
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        let at = files(&[
            ("x.npy", &npy("|u1", "(3, 1, 1)", &[7, 8, 9])),
            ("y.npy", &npy("<f4", "(3, 3)", &bytes)),
        ]);
        let source = "{ format = \"arrays\", items = \"DIR/x.npy\", truth = \"DIR/y.npy\", \
                      labels = [\"A\", \"B\", \"C\"] }";
        let arrays = recipe(source, at.path());
        let data = arrays.load_audit(&labels(["B", "A"])).unwrap();
        assert_eq!((levels(&data), bits(&data)), (vec![7, 8, 9], vec![2, 0, 1]));
        assert_eq!(data.original, [2, 0, 1]);
        assert_eq!(
            refusal(&arrays, ["C"], at.path()),
            "`DIR/y.npy`: row 0, column 2 is not a number, \
             but an audit needs every label of every item"
        );
        assert_eq!(
            refusal(&arrays, ["A", "D"], at.path()),
            "`DIR/x.npy`: there is no label `D` to audit; the labels are `A`, `B`, `C`"
        );
    }

    #[test]
    fn observed_labels_alone_are_no_audit() {
        let images = npy("|u1", "(2, 1, 1)", &[7, 8]);
        let matrix = npy("|u1", "(2, 2)", &[1, 0, 0, 0]);
        let observed = npy("|u1", "(2, 2)", &[0, 0, 0, 0]);
        let at = files(&[("images.npy", &images), ("labels_obs.npy", &matrix)]);
        let source = "{ format = \"cole\", folder = \"DIR\", labels = [\"A\", \"B\"] }";
        let cole = recipe(source, at.path());
        assert_eq!(
            refusal(&cole, ["A"], at.path()).lines().next(),
            Some(
                "`DIR` has observed labels alone, \
                 but an audit needs every label of every item"
            )
        );
        fs::remove_file(at.path().join("labels_obs.npy")).unwrap();
        assert_eq!(
            refusal(&cole, ["A"], at.path()),
            "`DIR` has neither `labels.npy` nor `formatted_train_labels.npy`"
        );
        fs::write(at.path().join("labels.npy"), matrix).unwrap();
        fs::write(at.path().join("labels_obs.npy"), observed).unwrap();
        let data = cole.load_audit(&labels(["B", "A"])).unwrap();
        assert_eq!((levels(&data), bits(&data)), (vec![7, 8], vec![2, 0]));
    }

    #[test]
    fn celeba_has_every_attribute_of_every_picture() {
        let pictures: Vec<_> = (1..4).map(|level| png(&[level])).collect();
        let at = files(&[
            (
                "list_attr_celeba.txt",
                b"3\nBald Male Young\n1.png 1 -1 1\n2.png -1 -1 -1\n3.png -1 1 1\n",
            ),
            ("list_eval_partition.txt", b"1.png 0\n2.png 1\n3.png 2\n"),
            ("img_align_celeba/1.png", &pictures[0]),
            ("img_align_celeba/2.png", &pictures[1]),
            ("img_align_celeba/3.png", &pictures[2]),
        ]);
        let source = "{ format = \"celeba\", folder = \"DIR\", labels = [\"Male\"] }";
        let celeba = recipe(source, at.path());
        let data = celeba.load_audit(&labels(["Young", "Bald"])).unwrap();
        assert_eq!((levels(&data), bits(&data)), (vec![1, 2], vec![3, 0]));
        assert_eq!(
            refusal(&celeba, ["Old"], at.path()),
            "`DIR/list_attr_celeba.txt` has no attribute `Old`; it has Bald, Male, Young"
        );
    }

    #[test]
    fn toys_are_their_own_audit() {
        let source = "{ format = \"gaussians\", items = 500 }";
        let toy = recipe(source, Path::new("."));
        let train = toy.load().unwrap().train;
        assert_eq!(toy.load_audit(&labels(["A", "B"])).unwrap(), train);
        let turned = toy.load_audit(&labels(["B", "A"])).unwrap();
        assert_eq!(
            (&turned.items, &turned.original),
            (&train.items, &train.original)
        );
        let swapped: Vec<_> = bits(&train)
            .iter()
            .map(|set| set >> 1 | (set & 1) << 1)
            .collect();
        assert_eq!(bits(&turned), swapped);
    }

    #[test]
    fn mnist_with_six_labels_is_whole() {
        let Some(folder) = real_data("mnist") else {
            return;
        };
        let six = recipe("{ format = \"six-labels\", folder = \"DIR\" }", &folder);
        let data = six.load_audit(&six_labels::labels()).unwrap();
        assert_eq!(data.len(), 60_000);
        assert_eq!(bits(&data).iter().filter(|&&set| set == 0).count(), 5934);
    }
}

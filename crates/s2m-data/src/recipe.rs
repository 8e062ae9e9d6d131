//! What a run file says about its data, and how that becomes the data of a run.
//!
//! ```toml
//! name = "mnist-even"
//! source = { format = "idx", folder = "data/mnist" }
//! classes = [{ name = "A", of = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] }, { name = "B", of = [1, 3, 5, 7, 9] }]
//! describe = { A = "any digit", B = "odd digit" }
//! labelling = { model = "one-of", weights = [1.0, 1.0] }
//! validation = 0.1
//! seed = 0
//! licence = "CC BY-SA 3.0"
//! ```
//!
//! Classes are a list, not a table, because a table has no order and label c is the c-th class.
//!
//! Data of one's own comes as pictures in one folder per label ([`folders`](crate::folders)), as a
//! folder with a table ([`table`](crate::table)) or as arrays ([`arrays`](crate::arrays)); known sets
//! are [`celeba`](crate::celeba), [`cifar10`](crate::cifar10), the matrices of
//! [`cole`](crate::cole) and MNIST with [`six_labels`](crate::six_labels). Each of these pages shows its line of a run file.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use s2m_core::labels::Labels;
use serde::{Deserialize, Serialize};

use crate::arrays::Arrays;
use crate::celeba::Celeba;
use crate::cifar10::Cifar10;
use crate::classes::{ClassEntry, ClassMap};
use crate::cole::Cole;
use crate::dataset::{Dataset, Part};
use crate::error::Error;
use crate::folders::Folders;
use crate::idx::{self, Pictures};
use crate::labelled::{Parts, rare_labels};
use crate::message::quoted;
use crate::six_labels::SixLabels;
use crate::split::{Split, split};
use crate::streams::{Use, numbers};
use crate::table::Table;
use crate::view::{Positive, View, observed};
use crate::wrong_labels::mislabel;
use crate::{gaussians, illustration};

/// Items in the test part of a toy.
const TOY_TEST_ITEMS: usize = 10_000;

/// Most items in the training part of a toy.
const MOST_TOY_ITEMS: u32 = 10_000_000;

/// The data of a run; the same recipe and files give the same data on every machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DataRecipe {
    /// Name of the data.
    pub name: String,
    /// Share of the training part that is held out, where data holds nothing out by itself.
    #[serde(default = "default_validation")]
    pub validation: f64,
    /// Seed of the split, of the labels shown and of a toy's items.
    #[serde(default)]
    pub seed: u64,
    /// Probability that a label is shown wrongly: each positive of training and validation then shows
    /// a label that its item does not have, all of these equally likely; test items are never touched.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wrong_labels: f64,
    /// Under which licence the data may be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// Where the items come from.
    pub source: Source,
    /// Classes in the order of the labels; for sources with original classes, and to choose columns
    /// of a matrix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassEntry>,
    /// What each label means, in words.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub describe: BTreeMap<String, String>,
    /// How label sets become single positive labels.
    pub labelling: LabellingRecipe,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(share: &f64) -> bool {
    *share == 0.0
}

fn default_validation() -> f64 {
    0.1
}

/// Where the items come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "format", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Source {
    /// The four MNIST files, or files like them.
    Idx {
        /// Their folder; relative to where the program runs.
        folder: PathBuf,
    },
    /// Pictures in one folder per label.
    Folders(Folders),
    /// A folder of pictures with a table of their labels.
    Table(Table),
    /// CelebA, or a part of its pictures.
    Celeba(Celeba),
    /// Label matrices as Cole et al. keep them.
    Cole(Cole),
    /// The six files of CIFAR-10.
    Cifar10(Cifar10),
    /// MNIST's four files, with six labels.
    SixLabels(SixLabels),
    /// Arrays of NumPy.
    Arrays(Arrays),
    /// The 2×16 Gaussians.
    Gaussians {
        /// Items in the training part; the test part has 10,000.
        items: NonZeroU32,
    },
    /// The paper's one-dimensional example.
    Illustration {
        /// Items in the training part; the test part has 10,000.
        items: NonZeroU32,
    },
}

impl Source {
    /// All paths that are relative to where the program runs, for moving them; none for a toy.
    pub fn paths_mut(&mut self) -> Vec<&mut PathBuf> {
        match self {
            Self::Idx { folder }
            | Self::Folders(Folders { folder, .. })
            | Self::Table(Table { folder, .. })
            | Self::Cifar10(Cifar10 { folder })
            | Self::SixLabels(SixLabels { folder }) => vec![folder],
            Self::Celeba(Celeba {
                folder, pictures, ..
            })
            | Self::Cole(Cole {
                folder, pictures, ..
            }) => [folder].into_iter().chain(pictures).collect(),
            Self::Arrays(arrays) => [&mut arrays.items, &mut arrays.truth]
                .into_iter()
                .chain(&mut arrays.test_items)
                .chain(&mut arrays.test_truth)
                .collect(),
            Self::Gaussians { .. } | Self::Illustration { .. } => Vec::new(),
        }
    }
}

/// How label sets become single positive labels.
// `PerClass` has braces because serde would let a unit variant carry unknown keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LabellingRecipe {
    /// Every item once for each label that it has.
    PerClass {},
    /// Every item once, with one label of its set.
    OneOf {
        /// `a_c` of each label; all equal where left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        weights: Option<Vec<f64>>,
    },
}

impl LabellingRecipe {
    /// The view, with the default weights filled in.
    pub fn view(&self, labels: usize) -> View {
        match self {
            Self::PerClass {} => View::PerClass,
            Self::OneOf { weights } => View::OneOf {
                weights: weights.clone().unwrap_or_else(|| vec![1.0; labels]),
            },
        }
    }
}

/// The data of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The training part: training and validation items.
    pub train: Dataset,
    /// The test part.
    pub test: Dataset,
    /// Which items of the training part are for training and which for validation.
    pub split: Split,
    /// What the training items show.
    pub positives: Vec<Positive>,
    /// What the validation items show; numbers are of the training part.
    pub validation_positives: Vec<Positive>,
    /// Share of each label among `positives`; all above zero.
    pub observed: Vec<f64>,
    /// What a person should know about the data, a sentence each; nothing that stops a run.
    pub notes: Vec<String>,
}

impl DataRecipe {
    /// The recipe of a source, with all else as it is where a run file leaves it out.
    pub fn new(name: &str, source: Source, labelling: LabellingRecipe) -> Self {
        Self {
            name: name.to_owned(),
            validation: default_validation(),
            seed: 0,
            wrong_labels: 0.0,
            licence: None,
            source,
            classes: Vec::new(),
            describe: BTreeMap::new(),
            labelling,
        }
    }

    /// Reads or draws the data, splits it and shows single positive labels.
    pub fn load(&self) -> Result<Loaded, Error> {
        self.check_name()?;
        self.check_wrong_labels()?;
        let Parts {
            train,
            test,
            shown,
            validation,
            mut notes,
        } = self.parts()?;
        self.check_describe(&train.labels)?;
        notes.extend(rare_labels(&train));
        let split = match validation {
            Some(validation) => split_off(train.len(), validation),
            None => split(train.len(), self.validation, self.seed)?,
        };
        let labels = train.labels.len();
        let view = self.labelling.view(labels);
        let sets = shown.as_ref().unwrap_or(&train.truth);
        let positives = |items: &[u32]| {
            let mut shown = view.positives_of(sets, labels, items, self.seed)?;
            mislabel(
                &mut shown,
                &train.truth,
                labels,
                self.wrong_labels,
                self.seed,
            );
            Ok::<_, Error>(shown)
        };
        let validation_positives = positives(&split.validation)?;
        let positives = positives(&split.train)?;
        let observed = observed(&positives, train.labels.len());
        if let Some(label) = observed.iter().position(|&share| share == 0.0) {
            return Err(Error::mismatch(format!(
                "no training item shows label `{}`, so nothing can be learnt about it\nhint: use more items, a larger weight for the label, or another seed",
                train.labels.name(label)
            )));
        }
        Ok(Loaded {
            train,
            test,
            split,
            positives,
            validation_positives,
            observed,
            notes,
        })
    }

    /// Results are kept in folders of this name.
    fn check_name(&self) -> Result<(), Error> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let starts_well = self.name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if starts_well && self.name.chars().all(plain) {
            Ok(())
        } else {
            Err(Error::setting(format!(
                "data cannot be called `{}`: a name is of letters, digits, `-`, `_` and `.`, and starts with a letter or a digit",
                self.name
            )))
        }
    }

    fn check_wrong_labels(&self) -> Result<(), Error> {
        if (0.0..1.0).contains(&self.wrong_labels) {
            Ok(())
        } else {
            Err(Error::setting(format!(
                "`wrong-labels` is {}, wanted a share of at least 0 and below 1\nhint: 0.02 shows one label in fifty wrongly",
                self.wrong_labels
            )))
        }
    }

    /// The training and the test part.
    pub(crate) fn parts(&self) -> Result<Parts, Error> {
        let stream = |part| numbers(self.seed, Use::Draw(part));
        match &self.source {
            Source::Idx { folder } => {
                self.by_classes(folder, |part| idx::read_folder(folder, part))
            }
            Source::Cifar10(cifar10) => self.by_classes(&cifar10.folder, |part| cifar10.read(part)),
            Source::SixLabels(six_labels) => {
                self.check_no_classes("six-labels")?;
                both_parts("label", |part| six_labels.read_labelled(part))
            }
            Source::Folders(folders) => {
                self.check_no_classes("folders")?;
                folders.read(self.seed)
            }
            Source::Table(table) => {
                self.check_no_classes("table")?;
                table.read(self.seed)
            }
            Source::Celeba(celeba) => {
                self.check_no_classes("celeba")?;
                celeba.read(self.seed)
            }
            Source::Cole(cole) => cole.read(&self.classes, self.seed),
            Source::Arrays(arrays) => arrays.read(&self.classes, self.seed),
            Source::Gaussians { items } => {
                self.check_toy("gaussians", *items)?;
                Ok(Parts::whole([
                    gaussians::draw_from(stream(Part::Train), items.get() as usize),
                    gaussians::draw_from(stream(Part::Test), TOY_TEST_ITEMS),
                ]))
            }
            Source::Illustration { items } => {
                self.check_toy("illustration", *items)?;
                Ok(Parts::whole([
                    illustration::draw_from(stream(Part::Train), items.get() as usize),
                    illustration::draw_from(stream(Part::Test), TOY_TEST_ITEMS),
                ]))
            }
        }
    }

    /// Pictures with original classes, of which `classes` makes labels.
    fn by_classes(
        &self,
        folder: &Path,
        read: impl Fn(Part) -> Result<Pictures, Error>,
    ) -> Result<Parts, Error> {
        let classes = ClassMap::new(&self.classes)?;
        both_parts("class", |part| {
            let pictures = read(part)?;
            let all = pictures.original.len();
            let failed = |error: Error| {
                error.within(format_args!(
                    "the {} part of `{}`",
                    part.name(),
                    folder.display()
                ))
            };
            Ok((all, classes.apply(pictures).map_err(failed)?))
        })
    }

    pub(crate) fn check_no_classes(&self, format: &'static str) -> Result<(), Error> {
        if self.classes.is_empty() {
            Ok(())
        } else {
            Err(Error::setting(format!(
                "`classes` cannot be given for `{format}`, which has labels of its own\nhint: remove `classes`"
            )))
        }
    }

    fn check_toy(&self, format: &'static str, items: NonZeroU32) -> Result<(), Error> {
        let items = items.get();
        if !self.classes.is_empty() {
            Err(Error::setting(format!(
                "`classes` cannot be given for `{format}`, whose classes are A and B\nhint: remove `classes`"
            )))
        } else if items > MOST_TOY_ITEMS {
            Err(Error::too_large(format!(
                "`{format}` is asked for {items} items; {MOST_TOY_ITEMS} are the most"
            )))
        } else {
            Ok(())
        }
    }

    fn check_describe(&self, labels: &Labels) -> Result<(), Error> {
        match self
            .describe
            .keys()
            .find(|name| labels.find(name).is_none())
        {
            None => Ok(()),
            Some(name) => Err(Error::setting(format!(
                "`describe` has an entry for `{name}`, which is not one of the labels {}",
                quoted(labels.names())
            ))),
        }
    }
}

/// Both parts, of which `read` gives the number of all items and those that have a class or label.
fn both_parts(
    what: &str,
    read: impl Fn(Part) -> Result<(usize, Dataset), Error>,
) -> Result<Parts, Error> {
    let mut notes = Vec::new();
    let mut data = |part: Part| {
        let (all, data) = read(part)?;
        let (left_out, part) = (all - data.len(), part.name());
        if left_out > 0 {
            notes.push(format!(
                "{left_out} of {all} {part} items have no {what} and are left out"
            ));
        }
        Ok::<_, Error>(data)
    };
    let whole = Parts::whole([data(Part::Train)?, data(Part::Test)?]);
    Ok(Parts { notes, ..whole })
}

/// The split of items into those for validation, in ascending order, and all others.
fn split_off(items: usize, validation: Vec<u32>) -> Split {
    let is_kept = |item: &u32| validation.binary_search(item).is_err();
    Split {
        train: (0..items as u32).filter(is_kept).collect(),
        validation,
    }
}

#[cfg(test)]
mod tests;

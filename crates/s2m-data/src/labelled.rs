//! Items with their label sets become a training and a test part: what all readers share.
//!
//! Labels are checked before a single picture is decoded, so that a mistake shows at once.

use std::collections::BTreeSet;
use std::fmt::Display;

use s2m_core::labels::{LabelSet, Labels};
use serde::{Deserialize, Serialize};

use crate::asked::Asked;
use crate::dataset::{Dataset, Items, Values};
use crate::error::Error;
use crate::picture_set::{self, Pictured, Wanted};
use crate::split::test_part;

/// Share of the items that become the test part, where data has none of its own.
pub const TEST_SHARE: f64 = 0.1;

/// Items without a label that are left out without asking, in a hundred.
const FEW: usize = 1;

/// A label with fewer training items than this is worth a word.
const MANY: usize = 50;

/// What to do about items without any label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unlabelled {
    /// Stop where they are more than one in a hundred.
    #[default]
    Refuse,
    /// Go on without them and say how many they were.
    Skip,
}

/// What an item is for, by the data itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Portion {
    Train,
    Validation,
    Test,
}

impl Portion {
    /// The portion by one of its usual names, in small or capital letters.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "train" | "training" => Some(Self::Train),
            "valid" | "val" | "validation" | "dev" => Some(Self::Validation),
            "test" | "testing" => Some(Self::Test),
            _ => None,
        }
    }
}

/// One item before it is read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Item<P> {
    /// Where it is read from.
    pub(crate) place: P,
    /// All its labels.
    pub(crate) truth: LabelSet,
    /// Those that training may see.
    pub(crate) shown: LabelSet,
    pub(crate) portion: Portion,
    /// The class that it came with, if any.
    pub(crate) original: Option<u8>,
}

impl<P> Item<P> {
    /// An item whose labels may all be seen.
    pub(crate) fn new(place: P, truth: LabelSet, portion: Portion) -> Self {
        Self {
            place,
            truth,
            shown: truth,
            portion,
            original: None,
        }
    }
}

/// All items of a source, before they are read.
#[derive(Debug, Clone)]
pub(crate) struct Labelled<P> {
    pub(crate) labels: Labels,
    pub(crate) items: Vec<Item<P>>,
    /// What a person may want to know.
    pub(crate) notes: Vec<String>,
}

/// What a source gives: its two parts and what it says about them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parts {
    pub(crate) train: Dataset,
    pub(crate) test: Dataset,
    /// What training may see of each training item, where that is not all.
    pub(crate) shown: Option<Vec<LabelSet>>,
    /// Numbers of the training items that the data itself holds out.
    pub(crate) validation: Option<Vec<u32>>,
    pub(crate) notes: Vec<String>,
}

impl Parts {
    /// Training and test part of data of which all may be seen.
    pub(crate) fn whole([train, test]: [Dataset; 2]) -> Self {
        Self {
            train,
            test,
            shown: None,
            validation: None,
            notes: Vec::new(),
        }
    }
}

/// What items are read for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Aim<'a> {
    /// To train and to test.
    Training,
    /// To check predictions of these labels.
    Audit(&'a Labels),
}

/// What decides how items are sorted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sorting<'a> {
    pub(crate) aim: Aim<'a>,
    pub(crate) unlabelled: Unlabelled,
    /// Share of the test part as written, if at all.
    pub(crate) test: Option<f64>,
    pub(crate) seed: u64,
}

impl<'a> Sorting<'a> {
    pub(crate) fn new(aim: Aim<'a>, unlabelled: Unlabelled, test: Option<f64>, seed: u64) -> Self {
        Self {
            aim,
            unlabelled,
            test,
            seed,
        }
    }
}

impl<P> Labelled<P> {
    /// The same items at other places.
    pub(crate) fn moved<Q>(self, place: impl Fn(P) -> Q) -> Labelled<Q> {
        let moved = |item: Item<P>| Item {
            place: place(item.place),
            truth: item.truth,
            shown: item.shown,
            portion: item.portion,
            original: item.original,
        };
        Labelled {
            labels: self.labels,
            items: self.items.into_iter().map(moved).collect(),
            notes: self.notes,
        }
    }
}

impl<P: Display> Labelled<P> {
    /// Sorts the items, reads all pictures and makes the two parts.
    pub(crate) fn pictures(self, sorting: Sorting<'_>, wanted: Wanted) -> Result<Parts, Error>
    where
        P: Pictured,
    {
        let sorted = self.sort(sorting)?;
        let places = sorted.places;
        let items = picture_set::read(&places, wanted)?;
        Ok(sorted.rest.parts(items))
    }

    /// Sorts the items, picks them out of items in memory and makes the two parts.
    pub(crate) fn pick(
        self,
        sorting: Sorting<'_>,
        items: &Items,
        number: impl Fn(&P) -> u32,
    ) -> Result<Parts, Error> {
        let sorted = self.sort(sorting)?;
        let numbers: Vec<u32> = sorted.places.iter().map(number).collect();
        Ok(sorted.rest.parts(items.select(&numbers)))
    }

    /// Checks the labels, drops items without any and puts the training part first.
    ///
    /// An audit keeps items without a label, but none of the test part.
    fn sort(mut self, sorting: Sorting<'_>) -> Result<Sorted<P>, Error> {
        match sorting.aim {
            Aim::Training => self.drop_unlabelled(sorting.unlabelled)?,
            Aim::Audit(labels) => self.drop_test_part(sorting, labels)?,
        }
        if self.items.is_empty() {
            return Err(Error::mismatch("there is not one item"));
        }
        if matches!(sorting.aim, Aim::Training) {
            self.choose_test_part(sorting)?;
        }
        self.items.sort_by_key(|item| item.portion == Portion::Test);
        let is_test = |item: &Item<P>| item.portion == Portion::Test;
        let train = self.items.partition_point(|item| !is_test(item));
        if matches!(sorting.aim, Aim::Training) {
            self.check_labels(train)?;
        }
        let validation = (0..)
            .zip(&self.items)
            .filter(|(_, item)| item.portion == Portion::Validation)
            .map(|(i, _)| i);
        let validation: Vec<u32> = validation.collect();
        let differs = self.items[..train].iter().any(|i| i.shown != i.truth);
        let shown = self.items[..train].iter().map(|item| item.shown);
        let rest = Rest {
            labels: self.labels,
            train,
            shown: differs.then(|| shown.collect()),
            truth: self.items.iter().map(|item| item.truth).collect(),
            original: self.items.iter().map(|item| item.original).collect(),
            validation: (!validation.is_empty()).then_some(validation),
            notes: self.notes,
        };
        let places = self.items.into_iter().map(|item| item.place).collect();
        Ok(Sorted { places, rest })
    }

    fn drop_unlabelled(&mut self, rule: Unlabelled) -> Result<(), Error> {
        let items = self.items.len();
        let mut without = self.items.iter().filter(|item| item.truth.is_empty());
        let Some(first) = without.next().map(|item| item.place.to_string()) else {
            return Ok(());
        };
        let count = 1 + without.count();
        if rule == Unlabelled::Refuse && 100 * count > FEW * items {
            return Err(Error::mismatch(format!(
                "{count} of {items} items have no label; {first} is the first\nhint: give them labels, or leave them out with `unlabelled = \"skip\"`"
            )));
        }
        self.items.retain(|item| !item.truth.is_empty());
        self.notes.push(format!(
            "{count} of {items} items have no label and are left out; {first} is the first"
        ));
        Ok(())
    }

    /// Leaves the items of an audit with the labels asked for.
    fn drop_test_part(&mut self, sorting: Sorting<'_>, labels: &Labels) -> Result<(), Error> {
        let asked = Asked::new(&self.labels, labels)?;
        if sorting.test.is_some() {
            self.choose_test_part(sorting)?;
        }
        self.items.retain(|item| item.portion != Portion::Test);
        for item in &mut self.items {
            item.truth = asked.renumber(item.truth);
            item.shown = item.truth;
        }
        self.labels = labels.clone();
        Ok(())
    }

    /// Draws the test part out of the training items that have a label, where there is none.
    fn choose_test_part(&mut self, sorting: Sorting<'_>) -> Result<(), Error> {
        let has = |wanted| self.items.iter().any(|item| item.portion == wanted);
        match sorting.test {
            Some(share) if has(Portion::Test) => {
                return Err(Error::mismatch(format!(
                    "`test = {share}` is given, but the data has a test part of its own\nhint: remove `test`"
                )));
            }
            None if has(Portion::Test) => return Ok(()),
            _ => {}
        }
        let share = sorting.test.unwrap_or(TEST_SHARE);
        let is_train =
            |item: &&mut Item<P>| item.portion == Portion::Train && !item.truth.is_empty();
        let mut training: Vec<_> = self.items.iter_mut().filter(is_train).collect();
        let [_, test] = test_part(training.len(), share, sorting.seed)?;
        for i in test {
            training[i as usize].portion = Portion::Test;
        }
        Ok(())
    }

    /// Every label has a training item; a label without a test item is noted.
    fn check_labels(&mut self, train: usize) -> Result<(), Error> {
        let held = |items: &[Item<P>]| {
            let sets = items.iter().map(|item| item.truth);
            sets.fold(LabelSet::EMPTY, LabelSet::union)
        };
        let (in_train, in_test) = (held(&self.items[..train]), held(&self.items[train..]));
        for (label, name) in self.labels.names().enumerate() {
            match (in_train.contains(label), in_test.contains(label)) {
                (true, true) => {}
                (false, false) => {
                    return Err(Error::mismatch(format!(
                        "no item has label `{name}`\nhint: leave the label out, or add items that have it"
                    )));
                }
                (false, true) => {
                    return Err(Error::mismatch(format!(
                        "label `{name}` is of test items only, so nothing can be learnt about it\nhint: add training items that have it, or draw the test part with another seed"
                    )));
                }
                (true, false) => self.notes.push(format!("no test item has label `{name}`")),
            }
        }
        Ok(())
    }
}

/// Where the items lie, the training part first, and all else about them.
struct Sorted<P> {
    places: Vec<P>,
    rest: Rest,
}

struct Rest {
    labels: Labels,
    /// How many items are the training part.
    train: usize,
    truth: Vec<LabelSet>,
    /// The classes that all items came with, if they did.
    original: Option<Vec<u8>>,
    shown: Option<Vec<LabelSet>>,
    validation: Option<Vec<u32>>,
    notes: Vec<String>,
}

impl Rest {
    /// The two parts, with all items read.
    fn parts(self, mut items: Items) -> Parts {
        let mut truth = self.truth;
        let mut original = self.original.unwrap_or_else(|| joint_classes(&truth));
        let start = self.train * items.item_size();
        let values = match &mut items.values {
            Values::Bytes(values) => Values::Bytes(values.split_off(start)),
            Values::Floats(values) => Values::Floats(values.split_off(start)),
        };
        let test = Dataset {
            labels: self.labels.clone(),
            items: Items {
                shape: items.shape.clone(),
                values,
            },
            truth: truth.split_off(self.train),
            original: original.split_off(self.train),
        };
        let train = Dataset {
            labels: self.labels,
            items,
            truth,
            original,
        };
        Parts {
            train,
            test,
            shown: self.shown,
            validation: self.validation,
            notes: self.notes,
        }
    }
}

/// Numbers for the label sets that occur, in ascending order of their bits; the rest share 255.
fn joint_classes(truth: &[LabelSet]) -> Vec<u8> {
    let distinct: BTreeSet<LabelSet> = truth.iter().copied().collect();
    let distinct: Vec<LabelSet> = distinct.into_iter().collect();
    let number = |set| distinct.partition_point(|&other| other < set);
    truth
        .iter()
        .map(|&set| u8::try_from(number(set)).unwrap_or(u8::MAX))
        .collect()
}

/// A word about every label that has few training items.
pub(crate) fn rare_labels(train: &Dataset) -> Vec<String> {
    let count = |label| train.truth.iter().filter(|set| set.contains(label)).count();
    let counts = train.labels.names().enumerate();
    counts
        .map(|(label, name)| (name, count(label)))
        .filter(|&(_, count)| count < MANY)
        .map(|(name, count)| {
            format!(
                "label `{name}` has {count} training items; fewer than {MANY} teach little about it"
            )
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::made::bits;

    pub(crate) fn sorting(test: Option<f64>) -> Sorting<'static> {
        Sorting {
            aim: Aim::Training,
            unlabelled: Unlabelled::Refuse,
            test,
            seed: 3,
        }
    }

    /// Points that are their own numbers.
    fn points(count: usize) -> Items {
        Items {
            shape: vec![1],
            values: Values::Floats((0..count).map(|i| i as f32).collect()),
        }
    }

    fn labelled(items: &[(u64, Portion)]) -> Labelled<u32> {
        Labelled {
            labels: Labels::new(["A", "B"]).unwrap(),
            items: (0..)
                .zip(items)
                .map(|(i, &(set, portion))| Item::new(i, LabelSet::from_bits(set), portion))
                .collect(),
            notes: Vec::new(),
        }
    }

    fn parts(items: &[(u64, Portion)], sorting: Sorting) -> Result<Parts, Error> {
        labelled(items).pick(sorting, &points(items.len()), |&i| i)
    }

    fn message(items: &[(u64, Portion)], sorting: Sorting) -> String {
        parts(items, sorting).unwrap_err().to_string()
    }

    use Portion::{Test, Train, Validation};

    #[test]
    fn items_go_where_the_data_says() {
        let items = [
            (1, Test),
            (2, Train),
            (3, Validation),
            (2, Test),
            (1, Train),
        ];
        let parts = parts(&items, sorting(None)).unwrap();
        assert_eq!(
            parts.train.items.values,
            Values::Floats(vec![1.0, 2.0, 4.0])
        );
        assert_eq!(parts.test.items.values, Values::Floats(vec![0.0, 3.0]));
        assert_eq!(bits(&parts.train), [2, 3, 1]);
        assert_eq!(bits(&parts.test), [1, 2]);
        assert_eq!(parts.validation, Some(vec![1]));
        // The sets 1, 2 and 3 have the numbers 0, 1 and 2.
        assert_eq!(parts.train.original, [1, 2, 0]);
        assert_eq!(parts.test.original, [0, 1]);
        assert_eq!((parts.shown, parts.notes.len()), (None, 0));
    }

    #[test]
    fn without_a_test_part_a_seeded_share_is_one() {
        let items: Vec<_> = (0..40).map(|i| (1 + i % 3, Train)).collect();
        let at = |share, seed| {
            let sorting = Sorting {
                seed,
                ..sorting(share)
            };
            parts(&items, sorting).unwrap()
        };
        assert_eq!(at(None, 1).test.len(), 4);
        assert_eq!(at(Some(0.25), 1).test.len(), 10);
        assert_eq!(at(None, 1), at(None, 1));
        assert_ne!(at(Some(0.25), 1).test, at(Some(0.25), 2).test);
        let whole = at(Some(0.25), 1);
        let Values::Floats(mut all) = whole.train.items.values else {
            panic!("points are floats")
        };
        assert!(all.is_sorted());
        let Values::Floats(test) = whole.test.items.values else {
            panic!("points are floats")
        };
        all.extend(test);
        all.sort_by(f32::total_cmp);
        assert!(all.into_iter().eq((0..40).map(|i| i as f32)));
        let own = [(1, Test), (3, Train)];
        assert_eq!(
            message(&own, sorting(Some(0.1))),
            "`test = 0.1` is given, but the data has a test part of its own\nhint: remove `test`"
        );
    }

    /// What the data holds out for validation never becomes test items.
    #[test]
    fn the_share_is_of_training_items_only() {
        let items: Vec<_> = (0..40)
            .map(|i| (3, if i % 2 == 0 { Validation } else { Train }))
            .collect();
        let parts = parts(&items, sorting(Some(0.5))).unwrap();
        let Values::Floats(test) = parts.test.items.values else {
            panic!("points are floats")
        };
        assert_eq!(test.len(), 10);
        assert!(test.iter().all(|&i| i as u32 % 2 == 1));
        assert_eq!(parts.validation.unwrap().len(), 20);
    }

    #[test]
    fn labels_that_nothing_can_be_learnt_about_are_errors() {
        assert_eq!(message(&[], sorting(None)), "there is not one item");
        assert_eq!(
            message(&[(1, Train), (1, Test)], sorting(None)),
            "no item has label `B`\nhint: leave the label out, or add items that have it"
        );
        assert_eq!(
            message(&[(1, Train), (2, Test)], sorting(None)),
            "label `B` is of test items only, so nothing can be learnt about it\n\
             hint: add training items that have it, or draw the test part with another seed"
        );
        let parts = parts(&[(3, Train), (1, Test)], sorting(None)).unwrap();
        assert_eq!(parts.notes, ["no test item has label `B`"]);
    }

    #[test]
    fn items_without_a_label_are_few_or_left_out_on_purpose() {
        let mut items = vec![(3, Train); 199];
        items.insert(7, (0, Train));
        items.push((0, Test));
        assert_eq!(
            parts(&[&items[..], &[(3, Test)]].concat(), sorting(None))
                .unwrap()
                .notes,
            ["2 of 202 items have no label and are left out; 7 is the first"]
        );
        items.push((0, Train));
        assert_eq!(
            message(&items, sorting(None)),
            "3 of 202 items have no label; 7 is the first\n\
             hint: give them labels, or leave them out with `unlabelled = \"skip\"`"
        );
        let skip = Sorting {
            unlabelled: Unlabelled::Skip,
            ..sorting(None)
        };
        let parts = parts(&items, skip).unwrap();
        assert_eq!(parts.train.len() + parts.test.len(), 199);
        assert_eq!(
            message(&[(0, Train), (0, Train)], skip),
            "there is not one item"
        );
    }

    #[test]
    fn what_training_may_see_is_kept_apart() {
        let mut labelled = labelled(&[(3, Train), (3, Train), (3, Test)]);
        labelled.items[1].shown = LabelSet::from_bits(2);
        let parts = labelled.pick(sorting(None), &points(3), |&i| i).unwrap();
        let shown: Vec<_> = parts.shown.unwrap().iter().map(|set| set.bits()).collect();
        assert_eq!(shown, [3, 2]);
        assert_eq!(bits(&parts.train), [3, 3]);
    }

    #[test]
    fn many_label_sets_share_the_last_number() {
        let sets: Vec<_> = (0..400).map(LabelSet::from_bits).collect();
        let numbers = joint_classes(&sets);
        assert_eq!(numbers[..3], [0, 1, 2]);
        assert_eq!(numbers[254..257], [254, 255, 255]);
    }

    #[test]
    fn rare_labels_are_noted() {
        let items: Vec<_> = (0..60)
            .map(|i| (if i < 49 { 3 } else { 1 }, Train))
            .chain([(3, Test)])
            .collect();
        let parts = parts(&items, sorting(None)).unwrap();
        assert_eq!(
            rare_labels(&parts.train),
            ["label `B` has 49 training items; fewer than 50 teach little about it"]
        );
    }
}

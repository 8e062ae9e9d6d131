//! Logits of held-out real items and of fresh generated items, from a bundle's own files.
//!
//! Real ones are judged as files hold them. Both are cut into two halves. A real item is in one half with all the labels that it shows.

use std::time::{Duration, Instant};

use s2m_core::joint::{SetLogits, SetShape};
use s2m_core::labels::LabelSet;
use s2m_core::proposals::{Proposals, Purpose};
use s2m_core::streams;
use s2m_core::weight::Evidence;
use s2m_data::recipe::Loaded;
use s2m_data::view::Positive;
use s2m_data::{Dataset, Items, Values};
use s2m_model::bundle::Bundle;
use s2m_model::judge::Judge;
use s2m_model::manifest::{ItemEntry, LayoutName};
use s2m_model::networks::{Requested, RunSettings, Scorer};
use s2m_model::runtime::Runtime;
use s2m_show::progress::Progress;

use crate::error::Error;

/// What runs the networks.
#[derive(Debug)]
pub struct Engine<'a> {
    /// ONNX Runtime.
    pub runtime: &'a Runtime,
    /// Device, threads and batch.
    pub run: RunSettings,
}

/// What is calibrated, and by what.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The bundle.
    pub bundle: &'a Bundle,
    /// Its data, with labels in the bundle's order.
    pub data: &'a Loaded,
    /// Items with all their labels.
    pub audit: Option<&'a Dataset>,
}

/// Which half of the items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    First,
    Second,
}

/// Logits of some items.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rows {
    /// Numbers in a row of `class` and `fake_class`.
    pub(crate) classes: usize,
    pub(crate) class: Vec<f32>,
    pub(crate) real: Vec<f32>,
    /// Conditional generators only.
    pub(crate) fake_class: Vec<f32>,
    /// What is kept of label sets: how, by the network that selects, and by others.
    pub(crate) sets: Sets,
    /// Shown label of a real item, class of a generated one; empty without classes.
    pub labels: Vec<u8>,
    /// Rows of one item stay together: its number decides the half.
    pub(super) items: Vec<u32>,
}

/// Whose word on label sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SaidBy {
    /// The network that selects.
    Selecting,
    /// The others together.
    Others,
}

/// Kept logits of label sets, row by row; nothing for bundles without a joint head.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sets {
    pub(crate) shape: SetShape,
    pub(crate) joint: Vec<f32>,
    /// Of other networks, their logits averaged; empty where there are none.
    pub(crate) others: Vec<f32>,
}

impl Default for Sets {
    fn default() -> Self {
        Self {
            shape: SetShape::of(0),
            joint: Vec::new(),
            others: Vec::new(),
        }
    }
}

impl Sets {
    /// For a bundle, without rows.
    fn of(bundle: &Bundle) -> Self {
        let Some(sets) = bundle.label_sets() else {
            return Self::default();
        };
        Self {
            shape: sets.shape(),
            ..Self::default()
        }
    }

    /// Keeps logits as a network gave them, row by row.
    fn keep(&self, logits: &[f32]) -> Vec<f32> {
        let rows = logits.chunks_exact(self.shape.outputs());
        let mut kept = vec![0.0; rows.len() * self.shape.width()];
        for (row, kept) in rows.zip(kept.chunks_exact_mut(self.shape.width())) {
            self.shape.keep(row, kept);
        }
        kept
    }

    /// Adds the mean of several networks' logits for one item.
    fn add_mean<'l>(&mut self, members: impl ExactSizeIterator<Item = SetLogits<'l>>) {
        let (count, outputs) = (members.len(), self.shape.outputs());
        if count == 0 {
            return;
        }
        let (mut mean, mut one) = (vec![0.0_f32; outputs], vec![0.0_f32; outputs]);
        for logits in members {
            logits.fill(&mut one);
            // A set that was not kept is at most as likely as the least that was.
            let least = logits
                .iter()
                .map(|(_, logit)| logit as f32)
                .fold(f32::INFINITY, f32::min);
            let norm = s2m_core::log_sum_exp(one.iter().map(|&logit| f64::from(logit))) as f32;
            for (mean, &logit) in mean.iter_mut().zip(&one) {
                *mean += (logit.max(least) - norm) / count as f32;
            }
        }
        let first = self.others.len();
        self.others.resize(first + self.shape.width(), 0.0);
        self.shape.keep(&mean, &mut self.others[first..]);
    }

    fn row<'r>(&self, rows: &'r [f32], at: usize) -> Option<&'r [f32]> {
        let width = self.shape.width();
        rows.get(at * width..(at + 1) * width)
            .filter(|row| !row.is_empty())
    }
}

impl Rows {
    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.real.len()
    }

    /// What is known of one row.
    pub fn evidence(&self, at: usize) -> Evidence<'_> {
        let row = at * self.classes..(at + 1) * self.classes;
        Evidence {
            class_logits: &self.class[row.clone()],
            real_logit: self.real[at],
            fake_class_logits: self.fake_class.get(row),
            joint: self
                .sets
                .row(&self.sets.joint, at)
                .map(|row| self.sets.shape.read(row)),
            log_latent_ratio: 0.0,
        }
    }

    /// The evidence of one row with the other networks' word on the label set.
    pub(crate) fn evidence_of_others(&self, at: usize) -> Evidence<'_> {
        let row = self.sets.row(&self.sets.others, at);
        Evidence {
            joint: row.map(|row| self.sets.shape.read(row)),
            ..self.evidence(at)
        }
    }

    /// Logits of all label sets, row by row, by the network that selects or by the others.
    pub(crate) fn set_logits(&self, by: SaidBy) -> Vec<f32> {
        let shape = self.sets.shape;
        let rows = match by {
            SaidBy::Selecting => &self.sets.joint,
            SaidBy::Others => &self.sets.others,
        };
        let mut logits = vec![0.0; self.count() * shape.outputs()];
        let kept = rows.chunks_exact(shape.width().max(1));
        for (row, logits) in kept.zip(logits.chunks_exact_mut(shape.outputs().max(1))) {
            shape.read(row).fill(logits);
        }
        logits
    }

    /// The rows that satisfy a condition.
    fn filter(&self, keep: impl Fn(usize) -> bool) -> Self {
        let kept: Vec<usize> = (0..self.count()).filter(|&at| keep(at)).collect();
        let rows = |values: &[f32]| {
            let row = |&at: &usize| values.get(at * self.classes..(at + 1) * self.classes);
            kept.iter().filter_map(row).flatten().copied().collect()
        };
        let sets = |values: &[f32]| -> Vec<f32> {
            let row = |&at: &usize| self.sets.row(values, at);
            kept.iter().filter_map(row).flatten().copied().collect()
        };
        Self {
            classes: self.classes,
            class: rows(&self.class),
            real: kept.iter().map(|&at| self.real[at]).collect(),
            fake_class: rows(&self.fake_class),
            sets: Sets {
                shape: self.sets.shape,
                joint: sets(&self.sets.joint),
                others: sets(&self.sets.others),
            },
            labels: kept
                .iter()
                .filter_map(|&at| self.labels.get(at).copied())
                .collect(),
            items: kept.iter().map(|&at| self.items[at]).collect(),
        }
    }

    /// The number of a row's item.
    pub(crate) fn item(&self, at: usize) -> u32 {
        self.items[at]
    }

    /// The numbers of all rows' items.
    pub(crate) fn numbers(&self) -> &[u32] {
        &self.items
    }

    /// How many items there are, each counted once.
    pub(crate) fn distinct(&self) -> usize {
        let mut distinct = self.items.clone();
        distinct.sort_unstable();
        distinct.dedup();
        distinct.len()
    }

    /// Every second item with all its rows.
    #[must_use]
    pub(crate) fn half(&self, half: Half) -> Self {
        let mut distinct = self.items.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let wanted = usize::from(half == Half::Second);
        self.filter(|at| {
            distinct
                .binary_search(&self.items[at])
                .unwrap_or_else(|near| near)
                % 2
                == wanted
        })
    }

    /// The rows of some classes; all rows where there are no classes.
    #[must_use]
    pub(crate) fn of_classes(&self, classes: LabelSet) -> Self {
        self.filter(|at| {
            self.labels
                .get(at)
                .is_none_or(|&class| classes.contains(usize::from(class)))
        })
    }
}

/// What the classifier says about real items and the labels that they show.
pub fn real_rows(
    bundle: &Bundle,
    items: &Items,
    shown: &[Positive],
    engine: &Engine<'_>,
) -> Result<Rows, Error> {
    let entry = &bundle.manifest().classifier;
    let mut outputs = vec![entry.outputs.class.as_str(), entry.outputs.real.as_str()];
    if let Some(joint) = &entry.joint {
        outputs.push(&joint.output);
        outputs.extend(joint.members.iter().map(String::as_str));
    }
    let bytes = bundle.classifier().bytes.clone();
    let judge = Judge::of(
        entry.file.clone(),
        bytes,
        &outputs,
        engine.runtime,
        &engine.run,
    )?;
    let numbers: Vec<u32> = shown.iter().map(|p| p.item).collect();
    let given = as_input(&items.select(&numbers), &entry.input)?;
    let mut answers = judge.judge(&given)?.into_iter();
    let class = answers.next().unwrap_or_default();
    let real = answers.next().unwrap_or_default();
    let mut sets = Sets::of(bundle);
    if let Some(logits) = answers.next() {
        sets.joint = sets.keep(&logits);
        let members: Vec<Vec<f32>> = answers.map(|logits| sets.keep(&logits)).collect();
        for at in 0..real.len() {
            let (shape, width) = (sets.shape, sets.shape.width());
            let row = |rows: &Vec<f32>| rows[at * width..(at + 1) * width].to_vec();
            let rows: Vec<Vec<f32>> = members.iter().map(row).collect();
            sets.add_mean(rows.iter().map(|row| shape.read(row)));
        }
    }
    Ok(Rows {
        sets,
        classes: bundle.labels().len(),
        class,
        real,
        fake_class: Vec::new(),
        labels: shown.iter().map(|p| p.label).collect(),
        items: numbers,
    })
}

/// Items as a network takes them.
fn as_input(items: &Items, entry: &ItemEntry) -> Result<Vec<f32>, Error> {
    let wanted = match entry.picture_size() {
        Some([height, width, channels]) => vec![channels, height, width],
        None => entry.shape.clone(),
    };
    if items.shape != wanted {
        return Err(Error::Setting(format!(
            "the model's items have shape {wanted:?}, the data has {:?}",
            items.shape
        )));
    }
    let bytes = match &items.values {
        Values::Floats(values) => return Ok(values.clone()),
        Values::Bytes(bytes) => bytes,
    };
    let [low, high] = entry.range.unwrap_or([-1.0, 1.0]).map(|end| end as f32);
    let level = |b: &u8| f32::from(*b) * ((high - low) / 255.0) + low;
    if entry.layout != Some(LayoutName::Nhwc) {
        return Ok(bytes.iter().map(level).collect());
    }
    let plane = items.shape[1] * items.shape[2];
    let channels = items.shape[0];
    let mut out = Vec::with_capacity(bytes.len());
    for item in bytes.chunks_exact(plane * channels) {
        out.extend((0..item.len()).map(|at| level(&item[at % channels * plane + at / channels])));
    }
    Ok(out)
}

/// Most items that are generated between two words about progress.
const PIECE: u64 = 2048;

/// Pieces that took less time are followed by larger ones.
const QUICK: Duration = Duration::from_secs(1);

/// What the classifier says about fresh generated items, of classes as when it was trained.
pub(crate) fn generated_rows(
    bundle: &Bundle,
    count: u64,
    engine: &Engine<'_>,
    progress: &dyn Progress,
) -> Result<Rows, Error> {
    let seed = bundle.manifest().provenance.seed.unwrap_or(0);
    let proposals = Proposals::new(seed).at_stage(streams::CALIBRATION);
    let scorer = Scorer::open_with_members(bundle, engine.runtime, &engine.run)?;
    let mut rows = Rows {
        classes: bundle.labels().len(),
        sets: Sets::of(bundle),
        ..Rows::default()
    };
    progress.begin("generated items", Some(count));
    let (mut first, mut piece) = (0, (scorer.round() as u64).clamp(1, PIECE));
    while first < count {
        let started = Instant::now();
        let numbers: Vec<u64> = (first..(first + piece).min(count)).collect();
        let class = |prior: &[f64], &number: &u64| {
            class_at(prior, proposals.uniform(Purpose::Class, number))
        };
        let classes: Vec<u32> = match &bundle.manifest().generator.class {
            None => Vec::new(),
            Some(entry) => numbers.iter().map(|n| class(&entry.prior, n)).collect(),
        };
        let logits = scorer.score(Requested {
            mixture: None,
            proposals,
            numbers: &numbers,
            classes: &classes,
        })?;
        rows.labels.extend(classes.iter().map(|&class| class as u8));
        rows.items
            .extend(numbers.iter().map(|&number| number as u32));
        for at in 0..logits.len() {
            let evidence = logits.evidence(at);
            rows.class.extend(evidence.class_logits);
            rows.real.push(evidence.real_logit);
            rows.fake_class
                .extend(evidence.fake_class_logits.unwrap_or_default());
            let shape = logits.shape();
            if let Some(joint) = evidence.joint {
                rows.sets.joint.extend(joint.row());
            }
            let members = 0..shape.members;
            rows.sets
                .add_mean(members.map(|member| shape.member(logits.row(at), member)));
        }
        first += numbers.len() as u64;
        progress.at(first);
        if started.elapsed() < QUICK {
            piece = (2 * piece).min(PIECE);
        }
    }
    progress.end();
    Ok(rows)
}

/// The class at a place in (0, 1) when classes lie side by side by their shares.
pub fn class_at(shares: &[f64], place: f64) -> u32 {
    let mut end = 0.0;
    let holds = |share: &f64| {
        end += share;
        place < end
    };
    shares.iter().position(holds).unwrap_or(shares.len() - 1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Rows {
        Rows {
            classes: 2,
            class: (0..10).map(|n| n as f32).collect(),
            real: vec![0.0, 1.0, 2.0, 3.0, 4.0],
            fake_class: Vec::new(),
            sets: Sets::default(),
            labels: vec![0, 1, 0, 1, 1],
            items: vec![9, 9, 4, 30, 31],
        }
    }

    #[test]
    fn an_item_is_in_one_half_with_all_its_labels() {
        // In order the items are 4, 9, 30, 31.
        let [first, second] = [Half::First, Half::Second].map(|half| rows().half(half));
        assert_eq!(first.real, [2.0, 3.0]);
        assert_eq!(second.real, [0.0, 1.0, 4.0]);
        assert_eq!(second.labels, [0, 1, 1]);
        assert_eq!(second.class, [0.0, 1.0, 2.0, 3.0, 8.0, 9.0]);
        assert_eq!(first.evidence(1).class_logits, [6.0, 7.0]);
        assert!(first.evidence(1).fake_class_logits.is_none());
    }

    #[test]
    fn rows_of_some_classes_are_kept() {
        assert_eq!(rows().of_classes(LabelSet::first(1)).real, [0.0, 2.0]);
        let without = Rows {
            labels: Vec::new(),
            ..rows()
        };
        assert_eq!(without.of_classes(LabelSet::first(1)).count(), 5);
    }

    #[test]
    fn pictures_become_what_the_network_takes() {
        let items = Items {
            shape: vec![3, 1, 2],
            values: Values::Bytes(vec![0, 255, 51, 0, 0, 102]),
        };
        let mut entry = ItemEntry {
            name: "x".to_owned(),
            layout: Some(LayoutName::Nchw),
            shape: vec![3, 1, 2],
            range: Some([0.0, 5.0]),
            bits: None,
        };
        let given = as_input(&items, &entry).unwrap();
        assert_eq!(given, [0.0, 5.0, 1.0, 0.0, 0.0, 2.0]);
        entry.layout = Some(LayoutName::Nhwc);
        entry.shape = vec![1, 2, 3];
        let given = as_input(&items, &entry).unwrap();
        assert_eq!(given, [0.0, 1.0, 0.0, 5.0, 0.0, 2.0]);
        entry.shape = vec![2, 2, 3];
        assert_eq!(
            as_input(&items, &entry).unwrap_err().to_string(),
            "the model's items have shape [3, 2, 2], the data has [3, 1, 2]"
        );
    }

    #[test]
    fn classes_lie_side_by_side_by_their_shares() {
        let shares = [0.5, 0.0, 0.5];
        assert_eq!(
            [0.1, 0.49, 0.5, 0.999].map(|place| class_at(&shares, place)),
            [0, 0, 2, 2]
        );
    }
}

//! Real items on the device, drawn at random for every replica from its own data set.

use anyhow::Result;
use s2m_data::recipe::Loaded;
use tch::{Device, Kind, Tensor};

use crate::noise::Draws;
use crate::replica::{Replica, scaled};

/// Which items to draw from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pool {
    /// All training items.
    All,
    /// Items that show one label.
    Label(usize),
    /// A label first, all alike, and then an item that shows it.
    Balanced,
}

impl Pool {
    /// Uniform numbers that one draw takes.
    pub fn numbers(self) -> i64 {
        match self {
            Self::All | Self::Label(_) => 1,
            Self::Balanced => 2,
        }
    }
}

/// A batch of real items.
pub struct Real {
    /// `[replicas, batch, size]`
    pub items: Tensor,
    /// Shown labels, `[replicas, batch]`.
    pub labels: Tensor,
    /// Places of these showings in [`shown`] of the replica's data, `[replicas, batch]`.
    pub showings: Tensor,
}

/// What a data set shows: items and labels, sorted by label.
pub fn shown(data: &Loaded) -> Vec<(u32, u8)> {
    let mut shown: Vec<(u32, u8)> = data.positives.iter().map(|p| (p.item, p.label)).collect();
    shown.sort_by_key(|(_, label)| *label);
    shown
}

/// A part of a data set to draw from.
pub struct Source<'a> {
    pub data: usize,
    /// Whether a showing, by its place in [`shown`], is in it.
    pub shows: Box<dyn Fn(usize) -> bool + 'a>,
}

impl Source<'_> {
    /// All of a data set.
    fn all(data: usize) -> Self {
        Self {
            data,
            shows: Box::new(|_| true),
        }
    }
}

/// Where each replica's rows of a pool lie in the table: `[replicas, 1]` for one pool, `[replicas, labels]`
/// for the pools of all labels.
struct Range {
    /// In 64-bit floats: a count times a number below 1 stays below the count.
    count: Tensor,
    first: Tensor,
}

/// All data sets of a run on one device.
pub struct Feed {
    /// `[all items, size]`
    items: Tensor,
    /// Rows of `items`, data set by data set, sorted by label within each.
    table: Tensor,
    labels: Tensor,
    showings: Tensor,
    all: Range,
    by_label: Range,
}

impl Feed {
    /// The training items of `loaded`, as the replicas will draw them.
    pub fn training(loaded: &[Loaded], replicas: &[Replica], device: Device) -> Result<Self> {
        let size = loaded[0].train.items.item_size() as i64;
        let rows = |data: &Loaded| Tensor::from_slice(&scaled(&data.train.items)).view([-1, size]);
        let items: Vec<Tensor> = loaded.iter().map(rows).collect();
        let items = Tensor::f_cat(&items, 0)?.to_device(device);
        Ok(Self::new(loaded, replicas, items))
    }

    /// The same draws of other rows for the same items: `[items of all data sets, size]`.
    pub fn new(loaded: &[Loaded], replicas: &[Replica], items: Tensor) -> Self {
        let all: Vec<Source> = (0..loaded.len()).map(Source::all).collect();
        let sources: Vec<usize> = replicas.iter().map(|replica| replica.data).collect();
        Self::of(loaded, &all, &sources, items)
    }

    /// Draws from parts of data sets; `sources` says from which part each replica draws.
    pub fn of(loaded: &[Loaded], parts: &[Source<'_>], sources: &[usize], items: Tensor) -> Self {
        let device = items.device();
        let label_count = loaded[0].train.labels.len();
        let before = |data: usize| -> i64 {
            let sizes = loaded[..data].iter().map(|data| data.train.len() as i64);
            sizes.sum()
        };
        let (mut rows, mut labels, mut showings) = (Vec::new(), Vec::new(), Vec::new());
        // First row and number of rows per part: of all its items, then label by label.
        let mut ranges: Vec<Vec<(i64, i64)>> = Vec::new();
        for part in parts {
            let start = rows.len() as i64;
            let mut of_part = vec![(start, 0)];
            let shown = shown(&loaded[part.data]);
            for label in 0..label_count {
                let first = rows.len() as i64;
                for (showing, (item, own)) in shown.iter().enumerate() {
                    if usize::from(*own) == label && (part.shows)(showing) {
                        rows.push(before(part.data) + i64::from(*item));
                        showings.push(showing as i64);
                    }
                }
                labels.resize(rows.len(), label as i64);
                of_part.push((first, rows.len() as i64 - first));
            }
            of_part[0].1 = rows.len() as i64 - start;
            ranges.push(of_part);
        }
        let range = |pool: usize| {
            let of = |source: &usize| ranges[*source][pool];
            let column =
                |values: Vec<i64>| Tensor::from_slice(&values).to_device(device).unsqueeze(1);
            Range {
                count: column(sources.iter().map(|r| of(r).1).collect()).to_kind(Kind::Double),
                first: column(sources.iter().map(|r| of(r).0).collect()),
            }
        };
        let by_label: Vec<Range> = (1..=label_count).map(range).collect();
        let columns = |of: fn(&Range) -> &Tensor| {
            Tensor::cat(&by_label.iter().map(of).collect::<Vec<_>>(), 1)
        };
        Self {
            items,
            table: Tensor::from_slice(&rows).to_device(device),
            labels: Tensor::from_slice(&labels).to_device(device),
            showings: Tensor::from_slice(&showings).to_device(device),
            all: range(0),
            by_label: Range {
                count: columns(|range| &range.count),
                first: columns(|range| &range.first),
            },
        }
    }

    /// All items that one replica draws from, as often as they are drawn.
    pub fn all(&self, replica: i64) -> Tensor {
        let of = |range: &Tensor| range.int64_value(&[replica, 0]);
        let rows = self
            .table
            .narrow(0, of(&self.all.first), of(&self.all.count));
        self.items.index_select(0, &rows)
    }

    pub fn device(&self) -> Device {
        self.items.device()
    }

    /// Numbers in one item.
    pub fn item_size(&self) -> i64 {
        self.items.size()[1]
    }

    /// Draws items with replacement: [`Pool::numbers`] uniform numbers each.
    pub fn draw(&self, draws: &mut Draws, pool: Pool, batch: i64) -> Real {
        let (count, first) = self.range(draws, pool, batch);
        let chosen = draws.uniform(batch) * count;
        let rows = (chosen.to_kind(Kind::Int64) + first).view(-1);
        let shape = [-1, batch, self.item_size()];
        Real {
            items: self
                .items
                .index_select(0, &self.table.index_select(0, &rows))
                .view(shape),
            labels: self.labels.index_select(0, &rows).view([-1, batch]),
            showings: self.showings.index_select(0, &rows).view([-1, batch]),
        }
    }

    /// Showings that one replica draws from.
    pub fn count(&self, replica: i64) -> u64 {
        self.all.count.double_value(&[replica, 0]) as u64
    }

    /// All items as networks see them, `[items of all data sets, size]`.
    pub fn items(&self) -> &Tensor {
        &self.items
    }

    /// Counts and first rows to draw from: `[replicas, 1]`, or `[replicas, batch]` where every item has its own.
    fn range(&self, draws: &mut Draws, pool: Pool, batch: i64) -> (Tensor, Tensor) {
        let Range { count, first } = &self.by_label;
        match pool {
            Pool::All => (
                self.all.count.shallow_clone(),
                self.all.first.shallow_clone(),
            ),
            Pool::Label(label) => {
                let column = |range: &Tensor| range.narrow(1, label as i64, 1);
                (column(count), column(first))
            }
            Pool::Balanced => {
                let labels = draws.uniform(batch).to_kind(Kind::Double) * count.size()[1] as f64;
                let labels = labels.to_kind(Kind::Int64);
                (
                    count.gather(1, &labels, false),
                    first.gather(1, &labels, false),
                )
            }
        }
    }
}

/// Rows of zeros with a single one: `[…, classes]`.
pub fn one_hot(labels: &Tensor, classes: i64) -> Tensor {
    labels.one_hot(classes).to_kind(Kind::Float)
}

#[cfg(test)]
mod tests {
    use s2m_data::recipe::DataRecipe;

    use super::*;
    use crate::noise;
    use crate::replica::{load, replicas};

    fn recipe(name: &str, weights: &str) -> DataRecipe {
        toml::from_str(&format!(
            "name = \"{name}\"\nsource = {{ format = \"illustration\", items = 500 }}\nlabelling = {{ model = \"one-of\", weights = {weights} }}\n"
        ))
        .unwrap()
    }

    /// Two data sets whose labels have other shares; every label is drawn half of the time in both, with items
    /// that show it, and each of them.
    #[test]
    fn balanced_draws_show_every_label_equally_often() {
        let recipes = [recipe("a", "[1.0, 30.0]"), recipe("b", "[30.0, 1.0]")];
        let loaded = load(&recipes).unwrap();
        let feed = Feed::training(&loaded, &replicas(&recipes, &[0]), Device::Cpu).unwrap();
        let count = 20_000;
        let uniform = noise::uniform(&[1, 2], 0, count * Pool::Balanced.numbers(), Device::Cpu);
        let none = Tensor::zeros([2, 0], (Kind::Float, Device::Cpu));
        let drawn = feed.draw(&mut Draws::new([none, uniform]), Pool::Balanced, count);
        for (at, data) in loaded.iter().enumerate() {
            assert!(data.observed.iter().any(|share| *share < 0.4));
            let labels = Vec::<i64>::try_from(drawn.labels.get(at as i64)).unwrap();
            let items = Vec::<f32>::try_from(drawn.items.get(at as i64).view(-1)).unwrap();
            let share = labels.iter().sum::<i64>() as f64 / count as f64;
            // Five standard errors.
            assert!((share - 0.5).abs() < 2.5 / (count as f64).sqrt(), "{share}");
            let values = scaled(&data.train.items);
            let mut all = Vec::<f32>::try_from(feed.all(at as i64).view(-1)).unwrap();
            let mut wanted: Vec<f32> = data
                .positives
                .iter()
                .map(|p| values[p.item as usize])
                .collect();
            for list in [&mut all, &mut wanted] {
                list.sort_by(f32::total_cmp);
            }
            assert_eq!(all, wanted);
            for label in 0..2 {
                let shown = data
                    .positives
                    .iter()
                    .filter(|p| i64::from(p.label) == label);
                let mut shown: Vec<f32> = shown.map(|p| values[p.item as usize]).collect();
                let drawn = items.iter().zip(&labels).filter(|pair| *pair.1 == label);
                let mut drawn: Vec<f32> = drawn.map(|pair| *pair.0).collect();
                for list in [&mut shown, &mut drawn] {
                    list.sort_by(f32::total_cmp);
                    list.dedup();
                }
                assert_eq!(shown, drawn, "{label} of data set {at}");
            }
        }
    }
}

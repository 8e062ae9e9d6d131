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
}

/// A batch of real items.
pub struct Real {
    /// `[replicas, batch, size]`
    pub items: Tensor,
    /// Shown labels, `[replicas, batch]`.
    pub labels: Tensor,
}

/// Where each replica's rows of a pool lie in the table.
struct Range {
    /// `[replicas, 1]`, in 64-bit floats: a count times a number below 1 stays below the count.
    count: Tensor,
    /// `[replicas, 1]`
    first: Tensor,
}

/// All data sets of a run on one device.
pub struct Feed {
    /// `[all items, size]`
    items: Tensor,
    /// Rows of `items`, data set by data set, sorted by label within each.
    table: Tensor,
    labels: Tensor,
    all: Range,
    by_label: Vec<Range>,
}

impl Feed {
    /// The training items of `loaded`, as the replicas will draw them.
    pub fn training(loaded: &[Loaded], replicas: &[Replica], device: Device) -> Result<Self> {
        let size = loaded[0].train.items.item_size() as i64;
        let label_count = loaded[0].train.labels.len();
        let (mut rows, mut labels, mut items) = (Vec::new(), Vec::new(), Vec::new());
        // First row and number of rows per data set: of all its items, then label by label.
        let mut ranges: Vec<Vec<(i64, i64)>> = Vec::new();
        let mut before = 0_i64;
        for data in loaded {
            let start = rows.len() as i64;
            let mut of_data = Vec::new();
            for label in 0..label_count {
                let first = rows.len() as i64;
                let shown = data
                    .positives
                    .iter()
                    .filter(|p| usize::from(p.label) == label);
                rows.extend(shown.map(|p| before + i64::from(p.item)));
                labels.resize(rows.len(), label as i64);
                of_data.push((first, rows.len() as i64 - first));
            }
            of_data.insert(0, (start, rows.len() as i64 - start));
            ranges.push(of_data);
            before += data.train.len() as i64;
            items.push(Tensor::from_slice(&scaled(&data.train.items)).view([-1, size]));
        }
        let range = |pool: usize| {
            let of = |replica: &Replica| ranges[replica.data][pool];
            let column =
                |values: Vec<i64>| Tensor::from_slice(&values).to_device(device).unsqueeze(1);
            Range {
                count: column(replicas.iter().map(|r| of(r).1).collect()).to_kind(Kind::Double),
                first: column(replicas.iter().map(|r| of(r).0).collect()),
            }
        };
        Ok(Self {
            items: Tensor::f_cat(&items, 0)?.to_device(device),
            table: Tensor::from_slice(&rows).to_device(device),
            labels: Tensor::from_slice(&labels).to_device(device),
            all: range(0),
            by_label: (1..=label_count).map(range).collect(),
        })
    }

    /// Numbers in one item.
    pub fn item_size(&self) -> i64 {
        self.items.size()[1]
    }

    /// Draws items with replacement: one uniform number each.
    pub fn draw(&self, draws: &mut Draws, pool: Pool, batch: i64) -> Real {
        let range = match pool {
            Pool::All => &self.all,
            Pool::Label(label) => &self.by_label[label],
        };
        let chosen = draws.uniform(batch) * &range.count;
        let rows = (chosen.to_kind(Kind::Int64) + &range.first).view(-1);
        let shape = [-1, batch, self.item_size()];
        Real {
            items: self
                .items
                .index_select(0, &self.table.index_select(0, &rows))
                .view(shape),
            labels: self.labels.index_select(0, &rows).view([-1, batch]),
        }
    }
}

/// Rows of zeros with a single one: `[…, classes]`.
pub fn one_hot(labels: &Tensor, classes: i64) -> Tensor {
    labels.one_hot(classes).to_kind(Kind::Float)
}

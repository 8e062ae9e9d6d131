//! A network from elsewhere that is not trained: its features of all items are computed once, and heads are trained on
//! them.

use anyhow::{Context as _, Result, ensure};
use s2m_data::recipe::Loaded;
use s2m_model::backbone::{Backbone, Wanted};
use s2m_runs::classifier::TrunkSettings;
use tch::{Device, Kind, Tensor};

use crate::device::Machine;
use crate::gan;
use crate::progress::Progress;
use crate::replica::{is_picture, scaled};

/// Items that are judged at a time.
const PIECE: usize = 1024;

/// The network, and the features of the real items.
pub struct Frozen {
    backbone: Backbone,
    /// `[items of all data sets, size]`; zeros for items that training never shows.
    pub real: Tensor,
}

impl Frozen {
    /// Opens the network of a run file and computes the features of all items that training shows; none for other
    /// trunks.
    pub fn open(
        network: &TrunkSettings,
        loaded: &[Loaded],
        machine: &Machine,
    ) -> Result<Option<Self>> {
        let TrunkSettings::Onnx {
            file,
            features,
            range,
        } = network
        else {
            return Ok(None);
        };
        ensure!(
            range.is_none() || is_picture(&loaded[0].train.items),
            "`network.range` is for pictures; the data has points, which are taken as they are"
        );
        let wanted = Wanted {
            features: features.as_deref(),
            item: &gan::item_entry(&loaded[0], "x", false).format(),
            range: range.map(|ends| ends.map(|end| end as f32)),
        };
        let backbone =
            Backbone::open(file, &wanted, &machine.runtime, &machine.run).context("`network`")?;
        let mut frozen = Self {
            backbone,
            real: Tensor::new(),
        };
        frozen.real = frozen.real_features(loaded)?.to_device(machine.device);
        Ok(Some(frozen))
    }

    fn real_features(&self, loaded: &[Loaded]) -> Result<Tensor> {
        let shown: Vec<Vec<u32>> = loaded.iter().map(shown).collect();
        let total: usize = shown.iter().map(Vec::len).sum();
        let progress = Progress::new("features of real items", total as u64, 0);
        let (mut done, mut all) = (0, Vec::new());
        for (data, shown) in loaded.iter().zip(&shown) {
            let width = self.size() as usize;
            let mut rows = vec![0.0_f32; data.train.len() * width];
            for piece in shown.chunks(PIECE) {
                let items = scaled(&data.train.items.select(piece));
                let number = |item: usize| piece[item] as usize;
                let features = self.backbone.features(&items, number);
                let features = features.context("features of real items")?;
                for (&item, row) in piece.iter().zip(features.chunks_exact(width)) {
                    let at = item as usize * width;
                    rows[at..at + width].copy_from_slice(row);
                }
                done += piece.len();
                progress.at(done as u64, &[], &[]);
            }
            all.push(Tensor::from_slice(&rows).view([-1, self.size()]));
        }
        progress.finish();
        Ok(Tensor::f_cat(&all, 0)?)
    }

    /// Numbers in a row of features.
    pub fn size(&self) -> i64 {
        self.backbone.size() as i64
    }

    pub fn sha256(&self) -> &str {
        self.backbone.sha256()
    }

    /// Features of items as networks see them, `[items, size]`, on the same device; pictures may be levels in bytes.
    /// `first` is the number of the first item in messages.
    pub fn features(&self, items: &Tensor, first: usize) -> Result<Tensor> {
        let values = if items.kind() == Kind::Uint8 {
            items.to_kind(Kind::Float) * (2.0 / 255.0) - 1.0
        } else {
            items.shallow_clone()
        };
        let values = values.to_device(Device::Cpu).contiguous().view(-1);
        let values = Vec::<f32>::try_from(values)?;
        let features = self.backbone.features(&values, |item| first + item)?;
        let rows = Tensor::from_slice(&features).view([-1, self.size()]);
        Ok(rows.to_device(items.device()))
    }

    /// Features of many items, `[items, size]`, piece by piece.
    pub fn features_of_all(&self, items: &Tensor) -> Result<Tensor> {
        let count = items.size()[0];
        let progress = Progress::new("features of generated items", count as u64, 0);
        let mut pieces = Vec::new();
        for first in (0..count).step_by(PIECE) {
            let piece = items.narrow(0, first, (count - first).min(PIECE as i64));
            let features = self.features(&piece, first as usize);
            pieces.push(features.context("features of generated items")?);
            progress.at((first + piece.size()[0]) as u64, &[], &[]);
        }
        progress.finish();
        Ok(Tensor::f_cat(&pieces, 0)?)
    }

    /// The network with heads that take its features, as one file.
    pub fn with_heads(&self, heads: &[u8]) -> Result<Vec<u8>> {
        Ok(self.backbone.with_heads(heads)?)
    }
}

/// Numbers of the items that training shows, each once.
fn shown(data: &Loaded) -> Vec<u32> {
    let mut items: Vec<u32> = data.positives.iter().map(|p| p.item).collect();
    items.sort_unstable();
    items.dedup();
    items
}

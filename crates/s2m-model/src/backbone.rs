//! A frozen network from elsewhere, run by ONNX Runtime for the features of items.
//!
//! The file may come from anywhere: one value of it is cut out ([`onnx::backbone`](crate::onnx::backbone)), and a trial
//! on two items tells its shape, which files seldom state for values inside the graph.

use std::path::Path;

use ort::session::SessionInputValue;
use ort::value::{TensorRef, ValueType};
use prost::Message as _;

use crate::bundle::{MAX_NETWORK, read};
use crate::error::Error;
use crate::judge::{Judge, decode};
use crate::networks::{Part, RunSettings, failed, reason};
use crate::onnx::backbone::{self, Cut, FEATURES};
use crate::onnx::casts::with_plain_types;
use crate::onnx::{ItemFormat, ModelProto};
use crate::runtime::Runtime;

/// Items of the trial; more than one, so that a value without a row per item is found out.
const TRIED: usize = 2;

/// Most numbers in a row of features.
const MAX_FEATURES: i64 = 1 << 20;

/// Which features, and of what.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// An output or a value inside the graph; the only output where left out.
    pub features: Option<&'a str>,
    /// Items as the data has them.
    pub item: &'a ItemFormat,
    /// Lowest and highest value that the network takes in pictures; the data's where left out.
    pub range: Option<[f32; 2]>,
}

/// A frozen network, ready to run.
#[derive(Debug)]
pub struct Backbone {
    file: String,
    name: String,
    model: ModelProto,
    judge: Judge,
}

impl Backbone {
    /// Opens a file for one of its values.
    pub fn open(
        path: &Path,
        wanted: &Wanted<'_>,
        runtime: &Runtime,
        settings: &RunSettings,
    ) -> Result<Self, Error> {
        let bytes = read(path, MAX_NETWORK)?;
        Self::of(
            path.display().to_string(),
            &bytes,
            wanted,
            runtime,
            settings,
        )
    }

    /// Opens a network that is held in memory; `file` is its name in messages.
    pub fn of(
        file: String,
        bytes: &[u8],
        wanted: &Wanted<'_>,
        runtime: &Runtime,
        settings: &RunSettings,
    ) -> Result<Self, Error> {
        let model = decode(&file, bytes)?;
        let model = with_plain_types(&model).unwrap_or(model);
        let in_file = |error: Error| error.within(format_args!("`{file}`"));
        let cut = backbone::cut(&model, wanted.features).map_err(in_file)?;
        let cut = cut.reading(wanted.item, wanted.range).map_err(in_file)?;
        let name = cut.features.clone();
        let shape = tried(&file, &cut, wanted.item, (runtime, settings))?;
        let model = cut.finish(&shape, TRIED as i64).map_err(in_file)?;
        if shape[1] > MAX_FEATURES {
            let found = shape[1];
            return Err(Error::too_large(format!(
                "`{file}`: `{name}` has {found} features; {MAX_FEATURES} are the most"
            )));
        }
        let bytes = model.encode_to_vec();
        Ok(Self {
            judge: Judge::of(file.clone(), bytes, &[FEATURES], runtime, settings)?,
            file,
            name,
            model,
        })
    }

    /// Numbers in a row of features.
    pub fn size(&self) -> usize {
        self.judge.output_sizes().next().unwrap_or_default()
    }

    /// SHA-256 of the network as it is run.
    pub fn sha256(&self) -> &str {
        self.judge.sha256()
    }

    /// Rows of features; `number` is what messages call the k-th item.
    pub fn features(
        &self,
        items: &[f32],
        number: impl Fn(usize) -> usize + Sync,
    ) -> Result<Vec<f32>, Error> {
        let bad = |_: &str, item| {
            let (file, name, item) = (&self.file, &self.name, number(item));
            Error::network(format!(
                "`{file}`: `{name}` is not a finite number for item {item}\nhint: the network may want values in another `range`"
            ))
        };
        Ok(self.judge.judge_or(items, &bad)?.swap_remove(0))
    }

    /// One file of this network and heads that take its `features`.
    pub fn with_heads(&self, heads: &[u8]) -> Result<Vec<u8>, Error> {
        let heads = decode("heads", heads)?;
        let model = backbone::with_heads(&self.model, &heads);
        let model = model.map_err(|error| error.within(format_args!("`{}`", self.file)))?;
        Ok(model.encode_to_vec())
    }
}

/// The shape of the value for two items of zeros.
fn tried(
    file: &str,
    cut: &Cut,
    item: &ItemFormat,
    (runtime, settings): (&Runtime, &RunSettings),
) -> Result<Vec<i64>, Error> {
    let failed = |e: &ort::Error| failed(file, &reason(e));
    let part = Part::made(file, cut.model.encode_to_vec(), "", "");
    let mut stage = part.open(runtime, settings, 1)?;
    let sides: Vec<usize> = std::iter::once(TRIED)
        .chain(item.shape.iter().copied())
        .collect();
    let zeros = vec![0.0_f32; sides.iter().product()];
    let tensor = TensorRef::from_array_view((sides, zeros.as_slice())).map_err(|e| failed(&e))?;
    let given = vec![(cut.input.name.as_str(), SessionInputValue::from(tensor))];
    let found = stage.session.run(given).map_err(|e| failed(&e))?;
    let not_floats = |found: String| {
        Error::unsupported(format!(
            "`{file}`: `{}` is {found}, wanted 32-bit floats\nhint: name another value as `features`",
            cut.features
        ))
    };
    let Some(value) = found.values().next() else {
        return Err(not_floats("missing".to_owned()));
    };
    match value.try_extract_tensor::<f32>() {
        Ok((shape, _)) => Ok(shape.to_vec()),
        Err(_) => Err(not_floats(match value.dtype() {
            ValueType::Tensor { ty, .. } => format!("of type {ty}"),
            _ => "not a tensor".to_owned(),
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::proto::{
        DimensionValue, GraphProto, NodeProto, OperatorSetIdProto, ValueInfoProto,
    };
    use crate::onnx::{Conv2d, Element, GraphBuilder, Layout};

    fn own(item: usize) -> usize {
        item
    }

    fn runtime() -> Runtime {
        Runtime::load(None).unwrap()
    }

    fn pictures() -> ItemFormat {
        ItemFormat {
            layout: Layout::Nchw,
            shape: vec![2, 2, 3],
            range: Some([-1.0, 1.0]),
            bits: None,
        }
    }

    fn wanted<'a>(features: Option<&'a str>, item: &'a ItemFormat) -> Wanted<'a> {
        Wanted {
            features,
            item,
            range: None,
        }
    }

    fn open(bytes: &[u8], wanted: &Wanted<'_>) -> Result<Backbone, Error> {
        Backbone::of(
            "FILE".to_owned(),
            bytes,
            wanted,
            &runtime(),
            &RunSettings::default(),
        )
    }

    /// Channels last: sums of two channels times (1, 10), and 100 times that, with sides; then logits on top.
    fn network() -> Vec<u8> {
        let mut g = GraphBuilder::new("network");
        let x = g.input("picture", &[2, 3, 2], Element::F32).unwrap();
        let x = g.transpose(&x, &[0, 3, 1, 2]).unwrap();
        let kernel = g
            .constant("kernel", &[2, 2, 1, 1], &[1.0, 10.0, 100.0, 1000.0])
            .unwrap();
        let conv = Conv2d {
            weight: &kernel,
            bias: None,
            stride: 1,
            pad: 0,
            groups: 1,
        };
        let sides = g.conv2d(&x, &conv).unwrap();
        let sides = g.named(&sides, "sides").unwrap();
        let pooled = g.global_avg_pool(&sides).unwrap();
        let pooled = g.named(&pooled, "pooled").unwrap();
        let flat = g.flatten(&pooled).unwrap();
        let logs = g.log(&flat).unwrap();
        let large = g.scalar(0.0);
        let large = g.greater_or_equal(&flat, &large).unwrap();
        g.output(&logs, "logs").unwrap();
        g.output(&flat, "flat").unwrap();
        g.output(&large, "large").unwrap();
        g.to_bytes()
    }

    /// Values of two pictures, channels first: channel c of pixel k is (k + 10·c) / 100, the second's minus that.
    fn items() -> Vec<f32> {
        let one = (0..12).map(|at| (at % 6 + at / 6 * 10) as f32 / 100.0);
        one.clone().chain(one.map(|value| -value)).collect()
    }

    #[test]
    fn features_are_found_inside_the_graph_and_averaged_over_sides() {
        let item = pictures();
        for name in ["sides", "pooled", "flat"] {
            let found = open(&network(), &wanted(Some(name), &item)).unwrap();
            assert_eq!(found.size(), 2);
            let features = found.features(&items(), own).unwrap();
            // Means of the channels are 0.025 and 0.125.
            let wanted = [1.275, 127.5, -1.275, -127.5];
            for (a, b) in features.iter().zip(wanted) {
                assert!((a - b).abs() < 1e-4 * b.abs(), "{name}: {features:?}");
            }
        }
        // Pictures in [0, 255]: (v + 1)·127.5.
        let mut levels = wanted(Some("flat"), &item);
        levels.range = Some([0.0, 255.0]);
        let features = open(&network(), &levels)
            .unwrap()
            .features(&items(), own)
            .unwrap();
        let level = |value: f32| (value + 1.0) * 127.5;
        let first = level(0.025) + 10.0 * level(0.125);
        assert!((features[0] - first).abs() < 1e-2, "{features:?}");
    }

    #[test]
    fn heads_make_one_file_that_can_be_cut_again() {
        let item = pictures();
        let backbone = open(&network(), &wanted(Some("pooled"), &item)).unwrap();
        let mut heads = GraphBuilder::new("heads");
        let features = heads.input(FEATURES, &[2], Element::F32).unwrap();
        let two = heads.scalar(2.0);
        let doubled = heads.mul(&features, &two).unwrap();
        heads.output(&doubled, "y").unwrap();
        let file = backbone.with_heads(&heads.to_bytes()).unwrap();
        let again = open(&file, &wanted(None, &item)).unwrap();
        let features = backbone.features(&items(), own).unwrap();
        let doubled: Vec<f32> = features.iter().map(|f| 2.0 * f).collect();
        assert_eq!(again.features(&items(), own).unwrap(), doubled);
        let under = open(&file, &wanted(Some(FEATURES), &item)).unwrap();
        assert_eq!(under.features(&items(), own).unwrap(), features);
        let twice = under.with_heads(&heads.to_bytes()).unwrap();
        let twice = open(&twice, &wanted(Some(FEATURES), &item)).unwrap();
        assert_eq!(twice.features(&items(), own).unwrap(), features);
    }

    #[test]
    fn half_precision_gets_casts_at_its_ends_and_is_named_inside() {
        let half = 10; // TensorProto.DataType.FLOAT16
        let port = |name| {
            let dims = [2, 2, 3].map(DimensionValue::DimValue);
            let dims = std::iter::once(DimensionValue::batch())
                .chain(dims)
                .collect();
            ValueInfoProto::tensor(name, half, dims)
        };
        let graph = GraphProto {
            node: vec![
                NodeProto::new("Add", &["x", "x"], "inside"),
                NodeProto::new("Neg", &["inside"], "y"),
            ],
            input: vec![port("x")],
            output: vec![port("y")],
            ..GraphProto::default()
        };
        let opsets = vec![OperatorSetIdProto::default_domain(13)];
        let bytes = ModelProto::around(graph, 8, opsets).encode_to_vec();
        let item = pictures();
        let found = open(&bytes, &wanted(None, &item)).unwrap();
        assert_eq!(found.features(&[0.5; 12], own).unwrap(), [-1.0, -1.0]);
        // All operators that heads are made of mean the same in the oldest version.
        let mut heads = GraphBuilder::new("heads");
        let x = heads.input(FEATURES, &[2], Element::F32).unwrap();
        let two = heads.constant("two", &[2], &[2.0; 2]).unwrap();
        let ones = heads.constant("ones", &[2, 2], &[1.0; 4]).unwrap();
        let column = heads.constant("column", &[2, 1], &[4.0; 2]).unwrap();
        let x = heads.sub(&x, &two).unwrap(); // −3, −3
        let x = heads.mul(&x, &two).unwrap(); // −6, −6
        let x = heads.linear(&x, &ones, &two).unwrap(); // −10, −10
        let x = heads.softmax(&x, 1).unwrap(); // ½, ½
        let x = heads.matmul(&x, &column).unwrap(); // 4
        let x = heads.squeeze(&x, 1).unwrap();
        let x = heads.log(&x).unwrap();
        let x = heads.reshape(&x, &[1]).unwrap();
        heads.output(&x, "y").unwrap();
        let file = found.with_heads(&heads.to_bytes()).unwrap();
        let y = open(&file, &wanted(None, &item)).unwrap();
        let y = y.features(&[0.5; 12], own).unwrap();
        assert!((y[0] - 4.0_f32.ln()).abs() < 1e-6, "{y:?}");
        let inside = open(&bytes, &wanted(Some("inside"), &item)).unwrap_err();
        assert!(
            inside.to_string().contains("`inside` is of type f16"),
            "{inside}"
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_the_file_and_a_cure() {
        let item = pictures();
        let message = |name| {
            open(&network(), &wanted(Some(name), &item))
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            message("large"),
            "`FILE`: `large` is of type bool, wanted 32-bit floats\nhint: name another value as `features`"
        );
        assert!(message("none").starts_with("`FILE`: it computes no value `none`"));
        let logs = open(&network(), &wanted(Some("logs"), &item)).unwrap();
        assert_eq!(
            logs.features(&items(), |item| item + 40)
                .unwrap_err()
                .to_string(),
            "`FILE`: `logs` is not a finite number for item 41\nhint: the network may want values in another `range`"
        );
        let broken = open(b"no", &wanted(None, &item)).unwrap_err().to_string();
        assert!(broken.starts_with("`FILE` is not an ONNX file"), "{broken}");
    }
}

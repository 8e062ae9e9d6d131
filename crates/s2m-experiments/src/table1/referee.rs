//! One referee for all methods: which items are right, and how far their features are from real ones.
//!
//! Accuracy is the share of items whose class, out of all original classes, satisfies the query. FID†
//! is the Fréchet distance on the referee's own features from the test items that satisfy it; it
//! compares methods under one referee and nothing else. Items are judged as they would be written, in
//! whole levels.

use std::cell::OnceCell;

use s2m_core::labels::{LabelSet, Labels};
use s2m_core::query::Query;
use s2m_data::recipe::DataRecipe;
use s2m_data::{Dataset, Values};
use s2m_metrics::Kind;
use s2m_metrics::accuracy::accuracy;
use s2m_metrics::features::Features;
use s2m_metrics::fid::fid;
use s2m_metrics::prdc::{DEFAULT_K, prdc};
use s2m_model::judge::Judge;
use s2m_runs::folder::REFEREE;
use serde::{Deserialize, Serialize};

use super::methods::QUERY;
use crate::Error;
use crate::stages::Run;
use crate::{Bench, evaluation::Evaluator};

/// The referee's outputs: logits of the original classes, and features.
pub(crate) const OUTPUTS: [&str; 2] = ["class_logits", "features"];

/// The level of white.
const WHITE: f32 = 255.0;

/// What a referee says about some items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Verdict {
    /// Share of right items.
    pub(crate) accuracy: f64,
    /// Distance of their features from real ones; none for too few items.
    pub(crate) fid: Option<f64>,
    /// Whether each of the first items is right.
    pub(crate) right: Vec<bool>,
}

/// What real items get from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bounds {
    /// Training items against test items: no generator can be asked for less.
    pub(crate) train: Verdict,
    /// Accuracy on the test items.
    pub(crate) test: f64,
}

/// A referee for one data set.
pub(crate) struct Referee {
    judge: Judge,
    recipe: DataRecipe,
    /// Labels of each original class.
    classes: Vec<LabelSet>,
    query: Query,
    real: OnceCell<Real>,
}

/// Real items of the query.
struct Real {
    /// Levels of the training items.
    train: Vec<f32>,
    /// Levels of the test items.
    test: Vec<f32>,
    /// Features of the test items.
    features: Vec<f32>,
}

impl Referee {
    /// Opens the referee of a finished stage for a data set.
    pub(crate) fn open(run: &Run, recipe: DataRecipe, bench: &Bench<'_>) -> Result<Self, Error> {
        let file = run.folder.join(REFEREE);
        let settings = &bench.request.machine.run;
        let judge = Judge::open(&file, &OUTPUTS, &bench.runtime, settings)?;
        Self::new(judge, recipe)
    }

    pub(crate) fn new(judge: Judge, recipe: DataRecipe) -> Result<Self, Error> {
        let names = recipe.classes.iter().map(|class| class.name.clone());
        let labels = Labels::new(names)?;
        let count = judge.output_sizes().next().unwrap_or(0);
        let query = Query::parse(QUERY, &labels)?;
        Ok(Self {
            classes: label_sets(&recipe, count),
            judge,
            recipe,
            query,
            real: OnceCell::new(),
        })
    }

    /// Original classes that satisfy the query, as text.
    pub(crate) fn wanted(&self) -> String {
        let wanted = self.classes.iter().enumerate();
        let wanted = wanted.filter(|(_, set)| self.query.holds(**set));
        let wanted: Vec<String> = wanted.map(|(class, _)| class.to_string()).collect();
        wanted.join(", ")
    }

    /// Everything that decides a verdict, apart from the items: the referee and the data.
    pub(crate) fn identity(&self) -> String {
        let mut recipe = self.recipe.clone();
        // Folders are this machine's.
        for path in recipe.source.paths_mut() {
            path.clear();
        }
        format!("{} {recipe:?} {QUERY}", self.judge.sha256())
    }

    /// Judges items given as levels; `shown` of them one by one.
    pub(crate) fn judge(&self, levels: &[f32], shown: usize) -> Result<Verdict, Error> {
        let (predicted, features) = self.see(levels)?;
        let reference = &self.real()?.features;
        Ok(Verdict {
            accuracy: accuracy(&predicted, &self.query).share,
            fid: self.distance(reference, &features)?,
            right: predicted
                .iter()
                .take(shown)
                .map(|set| self.query.holds(*set))
                .collect(),
        })
    }

    /// What real items get.
    pub(crate) fn bounds(&self, evaluator: &Evaluator<'_>) -> Result<Bounds, Error> {
        let name = format!("{}-real", self.recipe.name);
        evaluator.kept(&name, &[&self.identity()], || {
            let real = self.real()?;
            let (predicted, _) = self.see(&real.test)?;
            Ok(Bounds {
                train: self.judge(&real.train, 0)?,
                test: accuracy(&predicted, &self.query).share,
            })
        })
    }

    /// Share of real test items near generated ones (recall), and of real ones with a generated one
    /// near (coverage); none for too few items.
    pub(crate) fn diversity(&self, levels: &[f32]) -> Result<Option<[f64; 2]>, Error> {
        let (_, features) = self.see(levels)?;
        let real = &self.real()?.features;
        let width = self.judge.output_sizes().nth(1).unwrap_or(0);
        let named = Error::features(&self.recipe.name);
        let real = Features::new(real, width).map_err(named)?;
        let generated = Features::new(&features, width).map_err(named)?;
        let found = prdc(real, generated, DEFAULT_K);
        Ok(found.ok().map(|found| [found.recall, found.coverage]))
    }

    /// Predicted labels and features of items given as levels.
    fn see(&self, levels: &[f32]) -> Result<(Vec<LabelSet>, Vec<f32>), Error> {
        let items: Vec<f32> = levels
            .iter()
            .map(|level| 2.0 * level / WHITE - 1.0)
            .collect();
        let mut answers = self.judge.judge(&items)?.into_iter();
        let (Some(logits), Some(features)) = (answers.next(), answers.next()) else {
            unreachable!("a judge gives every output that was asked for");
        };
        let best = |row: &[f32]| {
            let by_logit = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            by_logit.map_or(0, |(class, _)| class)
        };
        let rows = logits.chunks_exact(self.classes.len());
        let predicted = rows.map(|row| self.classes[best(row)]).collect();
        Ok((predicted, features))
    }

    fn distance(&self, real: &[f32], generated: &[f32]) -> Result<Option<f64>, Error> {
        distance(&self.recipe.name, &self.judge, real, generated)
    }

    /// Real items of the query, read when they are first needed.
    fn real(&self) -> Result<&Real, Error> {
        if let Some(real) = self.real.get() {
            return Ok(real);
        }
        let loaded = self.recipe.load()?;
        let train = wanted_items(&loaded.train, &self.query);
        let test = wanted_items(&loaded.test, &self.query);
        let (_, features) = self.see(&test)?;
        Ok(self.real.get_or_init(|| Real {
            train,
            test,
            features,
        }))
    }
}

/// Labels of each original class.
fn label_sets(recipe: &DataRecipe, classes: usize) -> Vec<LabelSet> {
    let of = |original: usize| -> LabelSet {
        let labels = recipe.classes.iter().enumerate();
        let has = labels.filter(|(_, class)| class.of.iter().any(|&c| c as usize == original));
        has.map(|(label, _)| label).collect()
    };
    (0..classes).map(of).collect()
}

/// Levels of the items that satisfy a query.
fn wanted_items(data: &Dataset, query: &Query) -> Vec<f32> {
    let holds = |(_, set): &(usize, &LabelSet)| query.holds(**set);
    let wanted: Vec<u32> = data
        .truth
        .iter()
        .enumerate()
        .filter(holds)
        .map(|(item, _)| item as u32)
        .collect();
    match data.items.select(&wanted).values {
        Values::Bytes(levels) => levels.into_iter().map(f32::from).collect(),
        Values::Floats(values) => values,
    }
}

/// FID† of two sets of features, the second output of a judge; none where one is too small.
pub(crate) fn distance(
    data: &str,
    judge: &Judge,
    real: &[f32],
    generated: &[f32],
) -> Result<Option<f64>, Error> {
    let width = judge.output_sizes().nth(1).unwrap_or(0);
    let features = |values| Features::new(values, width).map_err(Error::features(data));
    match fid(features(real)?, features(generated)?) {
        Ok(distance) => Ok(Some(distance)),
        Err(error) if error.kind() == Kind::TooFew => Ok(None),
        Err(error) => Err(error.within(format_args!("FID† on {data}")).into()),
    }
}

/// The referee of a data set, where its stage is finished.
pub(crate) fn of_data(
    runs: &[Run],
    data: &super::methods::DataSet,
    bench: &Bench<'_>,
) -> Result<Option<Referee>, Error> {
    let Some(run) = super::stage(runs, data.referee) else {
        return Ok(None);
    };
    let file = bench.place.run_file(&super::methods::GAN)?;
    let recipe = file
        .recipe(data.name)
        .cloned()
        .expect("a test looks for every data set");
    Referee::open(run, recipe, bench).map(Some)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use s2m_model::networks::RunSettings;
    use s2m_model::onnx::{Element, GraphBuilder};
    use s2m_model::runtime::Runtime;

    use super::*;

    /// Pictures of 1×2 pixels: the class logits and the features are the two pixels themselves, so
    /// class 1 is said where the second pixel is lighter.
    fn referee(folder: &Path) -> Referee {
        let mut g = GraphBuilder::new("referee");
        let x = g.input("x", &[1, 1, 2], Element::F32).unwrap();
        let x = g.flatten(&x).unwrap();
        let y = g.relu(&x).unwrap();
        g.output(&x, "class_logits").unwrap();
        g.output(&y, "features").unwrap();
        let file = folder.join(REFEREE);
        fs::write(&file, g.to_bytes()).unwrap();
        let runtime = Runtime::load(None).unwrap();
        let judge = Judge::open(&file, &OUTPUTS, &runtime, &RunSettings::default()).unwrap();
        // Class 0 is in A alone, class 1 in both.
        let recipe = format!(
            "name = \"toy\"\nsource = {{ format = \"idx\", folder = {folder:?} }}\n\
             classes = [{{ name = \"A\", of = [0, 1] }}, {{ name = \"B\", of = [1] }}]\n\
             labelling = {{ model = \"one-of\" }}\nvalidation = 0.2\n"
        );
        Referee::new(judge, toml::from_str(&recipe).unwrap()).unwrap()
    }

    fn write_idx(folder: &Path, part: &str, items: &[([u8; 2], u8)]) {
        let n = items.len() as u8;
        let pixels: Vec<u8> = items.iter().flat_map(|(pixels, _)| *pixels).collect();
        let digits: Vec<u8> = items.iter().map(|(_, digit)| *digit).collect();
        let images = [
            &[0, 0, 8, 3, 0, 0, 0, n, 0, 0, 0, 1, 0, 0, 0, 2],
            &pixels[..],
        ];
        let labels = [&[0, 0, 8, 1, 0, 0, 0, n], &digits[..]];
        let path = |name| folder.join(format!("{part}-{name}"));
        fs::write(path("images-idx3-ubyte"), images.concat()).unwrap();
        fs::write(path("labels-idx1-ubyte"), labels.concat()).unwrap();
    }

    #[test]
    fn items_are_right_by_the_class_that_the_referee_sees() {
        let root = tempfile::tempdir().unwrap();
        // Right items of the test part, as the referee sees them: (1, 0), (0.6, 0) and (0.2, 0).
        let test = [
            ([255, 0], 0),
            ([204, 0], 0),
            ([153, 0], 0),
            ([0, 255], 1),
            ([255, 0], 1),
        ];
        write_idx(root.path(), "t10k", &test);
        let train = test.map(|(pixels, digit)| (pixels.map(|p| p / 2 + 127), digit));
        write_idx(root.path(), "train", &[&train[..], &train[..]].concat());
        let referee = referee(root.path());
        assert_eq!(referee.wanted(), "0");
        let levels = [255.0, 0.0, 0.0, 255.0, 254.0, 255.0, 9.0, 8.0];
        let verdict = referee.judge(&levels, 3).unwrap();
        assert_eq!(verdict.accuracy, 0.5);
        assert_eq!(verdict.right, [true, false, false]);
        let real = referee.real().unwrap();
        assert_eq!(real.test, [255.0, 0.0, 204.0, 0.0, 153.0, 0.0]);
        let wanted = [1.0, 0.0, 0.6, 0.0, 0.2, 0.0];
        for (found, wanted) in real.features.iter().zip(wanted) {
            assert!((found - wanted).abs() < 1e-6, "{:?}", real.features);
        }
        // Test items against themselves are at no distance, and two items are too few for one.
        let same = referee.judge(&real.test, 0).unwrap();
        assert!(same.fid.unwrap() < 1e-9);
        assert_eq!(referee.judge(&levels[..4], 0).unwrap().fid, None);
    }

    #[test]
    fn the_folder_of_the_data_is_no_part_of_the_identity() {
        let roots = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [a, b] = roots.each_ref().map(|root| referee(root.path()).identity());
        assert_eq!(a, b);
    }
}

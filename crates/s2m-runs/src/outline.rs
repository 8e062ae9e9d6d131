//! What run files of all kinds say in the same words: seeds, data, and the GAN run that they rest on.
//!
//! Whoever prepares training runs needs no more of them, and reads run files of older versions too.

use std::path::PathBuf;

use s2m_data::recipe::DataRecipe;
use serde::Deserialize;
use toml::Table;

use crate::error::Error;

/// A run file of any kind, without what only its trainer needs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Outline {
    /// Seeds of generators; a referee has one of its own.
    #[serde(default)]
    pub seeds: Vec<u64>,
    /// The GAN run that classifiers are trained for, as the run file names it.
    #[serde(default)]
    pub gan: Option<PathBuf>,
    /// Data sets of that GAN run; all of them where none is named.
    #[serde(default)]
    pub only: Vec<String>,
    #[serde(default)]
    data: Data,
}

/// A list for generators, one for a referee and for a generator from elsewhere.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
enum Data {
    Several(Vec<DataRecipe>),
    One(Box<DataRecipe>),
}

impl Default for Data {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl Outline {
    /// Out of a run file.
    pub fn of(file: Table) -> Result<Self, Error> {
        file.try_into()
            .map_err(|e: toml::de::Error| Error::Setting(e.message().to_owned()))
    }

    /// All data sets.
    pub fn data(&self) -> &[DataRecipe] {
        match &self.data {
            Data::Several(recipes) => recipes,
            Data::One(recipe) => std::slice::from_ref(recipe),
        }
    }

    /// The data set of a name.
    pub fn recipe(&self, name: &str) -> Option<&DataRecipe> {
        self.data().iter().find(|recipe| recipe.name == name)
    }
}

/// Keys that may differ between two run files of one training: folders differ between machines, seeds are trained each
/// by itself, and the rest changes no weight.
pub const FREE: [&str; 7] = [
    "folder",
    "gan",
    "seeds",
    "checkpoint-every",
    "log-every",
    "grid-every",
    "keep-every",
];

/// Settings that take memory, by the keys under which they stand.
pub const SIZES: [&[&str]; 5] = [
    &["batch"],
    &["network", "channels"],
    &["network", "critic-channels"],
    &["network", "width"],
    &["network", "hidden"],
];

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use toml::Value;

    use super::*;
    use crate::{ClassifierSettings, GanSettings, RefereeSettings};

    const DATA: &str = r#"name = "digits"
        source = { format = "idx", folder = "mnist" }
        labelling = { model = "one-of" }
        "#;

    /// A run file as its trainer writes it out, with all that it left out.
    fn resolved<T: serde::de::DeserializeOwned + Serialize>(text: &str) -> Table {
        let settings: T = toml::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        Table::try_from(&settings).expect("settings are plain")
    }

    fn gan(network: &str) -> Table {
        resolved::<GanSettings>(&format!(
            r#"seeds = [3, 4]
            steps = 10
            batch = 8
            keep-every = 5
            objective = {{ kind = "wgan-gp", critic-steps = 2, penalty = 10 }}
            optimizer = {{ kind = "adam", learning-rate = 1e-3 }}
            network = {{ {network} }}
            [[data]]
            {DATA}"#
        ))
    }

    const BIGGAN: &str = "kind = 'biggan', latent = 80, channels = 64, critic-channels = 96";

    fn classifier() -> Table {
        resolved::<ClassifierSettings>(
            r#"gan = "runs/gan"
            only = ["digits"]
            epochs = 1
            batch = 8
            network = { kind = "resnet9" }
            optimizer = { kind = "sgd", learning-rate = 0.1 }"#,
        )
    }

    fn referee() -> Table {
        resolved::<RefereeSettings>(&format!(
            r#"epochs = 1
            batch = 8
            optimizer = {{ kind = "sgd", learning-rate = 0.1 }}
            [data]
            {DATA}"#
        ))
    }

    #[test]
    fn every_kind_of_run_file_has_its_outline() {
        let read = |file: Table| Outline::of(file).unwrap_or_else(|e| panic!("{e}"));
        let digits = |outline: &Outline| outline.recipe("digits").map(|data| data.name.clone());
        let found = read(gan(BIGGAN));
        assert_eq!((found.seeds.as_slice(), &found.gan), (&[3, 4][..], &None));
        assert_eq!(digits(&found).as_deref(), Some("digits"));
        assert_eq!(found.recipe("letters"), None);
        let found = read(classifier());
        assert_eq!(found.gan, Some("runs/gan".into()));
        assert_eq!(found.only, ["digits"]);
        assert_eq!(found.data(), []);
        let found = read(referee());
        assert_eq!(digits(&found).as_deref(), Some("digits"));
        assert!(found.seeds.is_empty());
        let wrong = Outline::of(Table::from_iter([("seeds".to_owned(), "3".into())]));
        assert!(wrong.is_err());
    }

    fn states(value: &Value, key: &str) -> bool {
        match value {
            Value::Table(table) => table
                .iter()
                .any(|(name, value)| name == key || states(value, key)),
            Value::Array(list) => list.iter().any(|value| states(value, key)),
            _ => false,
        }
    }

    /// The keys are those of the types: one that is renamed there is missing here.
    #[test]
    fn keys_that_are_named_are_keys_of_run_files() {
        let files: Vec<Value> = [
            gan(BIGGAN),
            gan("latent = 3, hidden = [4]"),
            classifier(),
            referee(),
        ]
        .map(Value::Table)
        .into();
        for key in FREE {
            assert!(files.iter().any(|file| states(file, key)), "{key}");
        }
        for path in SIZES {
            let at = |file: &Value| {
                let mut parts = path.iter();
                parts
                    .try_fold(file.clone(), |value, key| value.get(key).cloned())
                    .is_some()
            };
            assert!(files.iter().any(at), "{path:?}");
        }
    }
}

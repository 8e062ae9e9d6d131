//! Data of one's own: told by what a folder holds or read from a recipe, and brought to a generator's size.

use std::fs;
use std::num::NonZeroU32;
use std::path::Path;

use s2m_data::celeba::Celeba;
use s2m_data::channels::Channels;
use s2m_data::cole::Cole;
use s2m_data::folders::Folders;
use s2m_data::recipe::{DataRecipe, LabellingRecipe, Source};
use s2m_data::table::Table;
use s2m_model::bundle::Bundle;
use s2m_model::disk::read_plain_text;
use s2m_model::manifest::{GeneratorEntry, LabellingModel};
use s2m_model::probe::in_words_of_colour;

use crate::Error;

/// The recipe of data for a bundle that is there: its name, labelling and size.
pub(crate) fn recipe_for(path: &Path, bundle: &Bundle) -> Result<DataRecipe, Error> {
    let manifest = bundle.manifest();
    let mut recipe = recipe(path, &manifest.name, &labelling(bundle))?;
    set_size(&mut recipe.source, &manifest.generator);
    Ok(recipe)
}

/// How the labels of a bundle's data came about, without weights.
pub(crate) fn labelling(bundle: &Bundle) -> LabellingRecipe {
    match bundle.manifest().labelling.model {
        LabellingModel::PerClass => LabellingRecipe::PerClass {},
        LabellingModel::OneOf => LabellingRecipe::OneOf { weights: None },
    }
}

/// The recipe of the data: read, or told by what the folder holds.
pub(crate) fn recipe(
    path: &Path,
    name: &str,
    labelling: &LabellingRecipe,
) -> Result<DataRecipe, Error> {
    if path.extension().is_some_and(|end| end == "toml") {
        let fail = |reason: String| Error::Read {
            path: path.to_owned(),
            reason,
        };
        let text = read_plain_text(path).map_err(|e| fail(e.to_string()))?;
        return toml::from_str(&text).map_err(|e| fail(e.message().to_owned()));
    }
    let source = told(path).ok_or_else(|| Error::UnknownData(path.to_owned()))?;
    Ok(DataRecipe::new(name, source, labelling.clone()))
}

/// The source that a folder is.
fn told(path: &Path) -> Option<Source> {
    let has = |name: &str| path.join(name).is_file() || path.join("train").join(name).is_file();
    if ["metadata.csv", "metadata.jsonl"].into_iter().any(has) {
        return Some(Source::Table(Table::new(path.to_owned())));
    }
    let mut inside = fs::read_dir(path).ok()?.flatten();
    let folders = inside.any(|entry| entry.path().is_dir());
    folders.then(|| Source::Folders(Folders::new(path.to_owned())))
}

/// Brings pictures to the size and channels that the generator makes, unless the recipe says so.
pub(crate) fn set_size(source: &mut Source, generator: &GeneratorEntry) -> Vec<String> {
    let Some([height, width, channels]) = generator.output.picture_size() else {
        return Vec::new();
    };
    let (Source::Folders(Folders {
        size: own_size,
        channels: own_channels,
        ..
    })
    | Source::Table(Table {
        size: own_size,
        channels: own_channels,
        ..
    })
    | Source::Celeba(Celeba {
        size: own_size,
        channels: own_channels,
        ..
    })
    | Source::Cole(Cole {
        size: own_size,
        channels: own_channels,
        ..
    })) = source
    else {
        return Vec::new();
    };
    let side = |side: usize| u32::try_from(side).ok().and_then(NonZeroU32::new);
    if own_size.is_none() {
        *own_size = side(height).zip(side(width)).map(|(h, w)| [h, w]);
    }
    if own_channels.is_none() {
        *own_channels = Channels::of(channels);
    }
    vec![format!(
        "data: images are brought to {height} by {width} pixels in {}, as the generator makes them",
        in_words_of_colour(channels)
    )]
}

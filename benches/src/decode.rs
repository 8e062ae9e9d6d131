//! Pictures of a folder decoded and brought to 64 by 64 pixels, images per second.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use s2m_data::recipe::DataRecipe;

use crate::say;

/// Decodes a folder of folders, and prints its speed as one line of JSON.
pub(crate) fn run(folder: &Path) -> Result<()> {
    let recipe: DataRecipe = toml::from_str(&format!(
        "name = \"pictures\"\nlabelling = {{ model = \"one-of\" }}\nsource = {{ format = \"folders\", folder = {:?}, size = [64, 64], channels = 3 }}",
        folder.display().to_string()
    ))?;
    let start = Instant::now();
    let data = recipe.load()?;
    let items = data.train.len() + data.test.len();
    let speed = items as f64 / start.elapsed().as_secs_f64();
    say(&format!("{{\"images_per_second\": {speed:.1}}}"));
    Ok(())
}

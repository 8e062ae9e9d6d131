//! Draws even digits into an array, and shows the first as text.
//!
//! `cargo run --release -p s2m --example digits`

use std::error::Error;
use std::io::{self, Write};

use s2m::{Items, Model};

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut io::stdout())
}

/// A is any digit, B an odd one.
pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let model = Model::open("mnist-even")?;
    let draw = model.query("A - B")?.seed(7).tv(0.01).draw(64)?;
    let (samples, report) = (&draw.samples, &draw.report);
    let Items::Pictures8(levels) = &samples.items else {
        return Err("these are pictures of 8 bits".into());
    };
    let [height, width, channels] = samples.shape[..] else {
        return Err("a picture has three sides".into());
    };
    writeln!(
        out,
        "{} pictures of {height} x {width} x {channels}, {:.1} generator calls each, predicted purity {:.3}",
        samples.len(),
        report.calls_per_sample,
        report.predicted_purity
    )?;
    for row in levels[..height * width].chunks_exact(width) {
        let shade = |&level: &u8| b" .:-=+*#%@"[usize::from(level) * 9 / 255] as char;
        let line: String = row.iter().map(shade).collect();
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

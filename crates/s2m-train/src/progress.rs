//! A bar with rate and losses on stderr, for people.

use std::fmt::Write as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Progress of one stage.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub fn new(what: &str, steps: u64, first: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
        let form = "{prefix} {bar:24} {human_pos}/{human_len} steps, {per_sec}, {eta} left  {msg}";
        bar.set_style(ProgressStyle::with_template(form).expect("the template is valid"));
        bar.set_prefix(what.to_owned());
        bar.set_position(first);
        bar.reset_eta();
        bar.enable_steady_tick(Duration::from_millis(500));
        Self { bar }
    }

    /// Shows the step and the losses of one replica.
    pub fn at(&self, step: u64, names: &[&str], losses: &[f64]) {
        let mut message = String::new();
        for (name, loss) in names.iter().zip(losses) {
            let _ = write!(message, "{name} {loss:.3}  ");
        }
        self.bar.set_position(step);
        self.bar.set_message(message);
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

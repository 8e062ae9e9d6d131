//! Progress bars on standard error, for work that takes over a second.

use std::io::Write as _;
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use s2m::progress::Progress;

/// Draws one bar at a time, or nothing when asked to be quiet.
pub(crate) struct Bars {
    quiet: bool,
    current: Mutex<Option<ProgressBar>>,
}

impl Bars {
    pub(crate) fn new(quiet: bool) -> Self {
        Self {
            quiet,
            current: Mutex::new(None),
        }
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Option<ProgressBar>> {
        self.current
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Progress for Bars {
    fn begin(&self, what: &str, total: Option<u64>) {
        let target = if self.quiet {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(8)
        };
        let bar = ProgressBar::with_draw_target(total, target).with_message(what.to_owned());
        let template = match total {
            Some(_) => "{msg} {wide_bar} {human_pos}/{human_len} ({per_sec}, {eta} left)",
            None => "{spinner} {msg} {human_pos} ({per_sec})",
        };
        bar.set_style(
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        bar.enable_steady_tick(Duration::from_millis(250));
        if let Some(before) = self.current().replace(bar) {
            before.finish_and_clear();
        }
    }

    fn at(&self, done: u64) {
        if let Some(bar) = self.current().as_ref() {
            bar.set_position(done);
        }
    }

    fn note(&self, text: &str) {
        if !self.quiet {
            self.end();
            // Nobody is left to tell when standard error is closed.
            let _ = writeln!(std::io::stderr(), "{text}");
        }
    }

    fn end(&self) {
        if let Some(bar) = self.current().take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.end();
    }
}

//! Progress on standard error, for people: a bar with rate and losses, plain lines where it is no terminal.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use s2m_show::talk::{Forecast, Talk};

/// How often work without a terminal is asked whether a line is due.
const ASKED: Duration = Duration::from_secs(1);

/// Progress of one stage.
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
    forecast: RefCell<Option<Forecast>>,
    done: Arc<AtomicU64>,
    /// The thread that writes lines ends when this goes.
    _going: Sender<()>,
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
        let (done, (going, gone)) = (Arc::new(AtomicU64::new(first)), channel());
        let started = Instant::now();
        if !std::io::stderr().is_terminal() {
            let (mut talk, seen) = (Talk::new(what, Some(steps)), done.clone());
            thread::spawn(move || {
                while gone.recv_timeout(ASKED) == Err(RecvTimeoutError::Timeout) {
                    let seconds = started.elapsed().as_secs_f64();
                    if let Some(line) = talk.line(seconds, seen.load(Ordering::Relaxed)) {
                        say(&line);
                    }
                }
            });
        }
        Self {
            bar,
            started,
            forecast: RefCell::new(None),
            done,
            _going: going,
        }
    }

    /// Says, once it can tell, how long the work will take.
    #[must_use]
    pub fn with_forecast(self, forecast: Forecast) -> Self {
        self.forecast.replace(Some(forecast));
        self
    }

    /// So many steps are done; the bar waits for their losses.
    pub fn stepped(&self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
        let seconds = self.started.elapsed().as_secs_f64();
        let mut forecast = self.forecast.borrow_mut();
        if let Some(line) = forecast.as_mut().and_then(|f| f.line(seconds, done)) {
            self.bar.suspend(|| say(&line));
        }
    }

    /// Shows the step and the losses of one replica.
    pub fn at(&self, step: u64, names: &[&str], losses: &[f64]) {
        let mut message = String::new();
        for (name, loss) in names.iter().zip(losses) {
            let _ = write!(message, "{name} {loss:.3}  ");
        }
        self.stepped(step);
        self.bar.set_position(step);
        self.bar.set_message(message);
    }

    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}

/// Nobody is left to tell when standard error is closed.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

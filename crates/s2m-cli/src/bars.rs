//! Progress on standard error: bars for work that takes over a second, plain lines where it is no terminal.

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use s2m::progress::Progress;
use s2m_show::talk::Talk;

use crate::shown::{cut, escaped};

/// How often work without a terminal is asked whether a line is due.
const ASKED: Duration = Duration::from_secs(1);

/// Shows one piece of work at a time, or nothing when asked to be quiet.
pub(crate) struct Bars {
    quiet: bool,
    current: Mutex<Option<Shown>>,
}

/// A piece of work under way.
enum Shown {
    Bar(ProgressBar),
    Lines(Lines),
}

/// Lines from a thread of their own, which also come while one long step is under way.
struct Lines {
    done: Arc<AtomicU64>,
    /// The thread ends when this goes.
    _going: Sender<()>,
}

impl Bars {
    pub(crate) fn new(quiet: bool) -> Self {
        Self {
            quiet,
            current: Mutex::new(None),
        }
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Option<Shown>> {
        self.current
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Shown {
    fn bar(what: &str, total: Option<u64>) -> Self {
        let target = ProgressDrawTarget::stderr_with_hz(8);
        let bar = ProgressBar::with_draw_target(total, target).with_message(what.to_owned());
        let template = match total {
            Some(_) => "{msg} {wide_bar} {human_pos}/{human_len} ({per_sec}, {eta} left)",
            None => "{spinner} {msg} {human_pos} ({per_sec})",
        };
        bar.set_style(
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        bar.enable_steady_tick(Duration::from_millis(250));
        Self::Bar(bar)
    }

    fn lines(what: &str, total: Option<u64>) -> Self {
        let (done, (going, gone)) = (Arc::new(AtomicU64::new(0)), channel());
        let (mut talk, seen, started) = (Talk::new(what, total), done.clone(), Instant::now());
        thread::spawn(move || {
            while gone.recv_timeout(ASKED) == Err(RecvTimeoutError::Timeout) {
                let seconds = started.elapsed().as_secs_f64();
                if let Some(line) = talk.line(seconds, seen.load(Ordering::Relaxed)) {
                    let _ = writeln!(std::io::stderr(), "{line}");
                }
            }
        });
        Self::Lines(Lines {
            done,
            _going: going,
        })
    }
}

impl Progress for Bars {
    fn begin(&self, what: &str, total: Option<u64>) {
        self.end();
        if self.quiet {
            return;
        }
        let what = escaped(what);
        let shown = if std::io::stderr().is_terminal() {
            Shown::bar(&what, total)
        } else {
            Shown::lines(&what, total)
        };
        *self.current() = Some(shown);
    }

    fn at(&self, done: u64) {
        match self.current().as_ref() {
            Some(Shown::Bar(bar)) => bar.set_position(done),
            Some(Shown::Lines(lines)) => lines.done.store(done, Ordering::Relaxed),
            None => {}
        }
    }

    fn note(&self, text: &str) {
        if !self.quiet {
            self.end();
            // Nobody is left to tell when standard error is closed.
            let _ = writeln!(std::io::stderr(), "{}", escaped(&cut(text)));
        }
    }

    fn end(&self) {
        if let Some(Shown::Bar(bar)) = self.current().take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.end();
    }
}

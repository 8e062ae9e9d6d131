//! Progress to a Python function, and Ctrl-C to long work.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use s2m::progress::Progress;

use crate::raised;

/// Time between two looks at Python, for which its lock must be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// Tells a Python function how far work is, and stops the work where Python has a signal or an error.
pub(crate) struct Watch {
    /// Called with `"begin", what, total`, `"at", done, None` and `"end", None, None`.
    callback: Option<Py<PyAny>>,
    seen: Mutex<Seen>,
}

struct Seen {
    looked: Instant,
    stopped: Option<PyErr>,
}

impl Watch {
    pub(crate) fn new(callback: Option<Py<PyAny>>) -> Self {
        let seen = Seen {
            looked: Instant::now(),
            stopped: None,
        };
        Self {
            callback,
            seen: Mutex::new(seen),
        }
    }

    /// What the work ended with, or what stopped it.
    pub(crate) fn result<T>(self, result: Result<T, s2m::Error>) -> PyResult<T> {
        let stopped = self.seen.into_inner().ok().and_then(|seen| seen.stopped);
        match (result, stopped) {
            (Err(s2m::Error::Stopped), Some(error)) => Err(error),
            (Err(error), _) => Err(raised(&error)),
            (Ok(value), _) => Ok(value),
        }
    }

    fn call(&self, event: &str, what: Option<&str>, number: Option<u64>) {
        let Some(callback) = &self.callback else {
            return;
        };
        let called = Python::attach(|py| callback.call1(py, (event, what, number)));
        if let (Err(error), Ok(mut seen)) = (called, self.seen.lock()) {
            seen.stopped = Some(error);
        }
    }

    /// Whether it is time for another look.
    fn due(&self) -> bool {
        let Ok(mut seen) = self.seen.lock() else {
            return false;
        };
        let due = seen.looked.elapsed() >= PAUSE;
        if due {
            seen.looked = Instant::now();
        }
        due
    }
}

impl Progress for Watch {
    fn begin(&self, what: &str, total: Option<u64>) {
        self.call("begin", Some(what), total);
    }

    fn at(&self, done: u64) {
        if !self.due() {
            return;
        }
        self.call("at", None, Some(done));
        Python::attach(|py| {
            if let (Err(error), Ok(mut seen)) = (py.check_signals(), self.seen.lock()) {
                seen.stopped = Some(error);
            }
        });
    }

    fn end(&self) {
        self.call("end", None, None);
    }

    fn stopped(&self) -> bool {
        self.seen.lock().is_ok_and(|seen| seen.stopped.is_some())
    }
}

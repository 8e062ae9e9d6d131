//! What long work says in plain lines: how long it will take, and where it stands if there is no terminal to draw a
//! bar on.
//!
//! ```text
//! classifier: about 12 min for 9,000 steps on this device
//! scoring proposals: 12,288 of 50,000, about 40 s left
//! ```
//!
//! Nothing here reads a clock: whoever asks says how long the work has taken.

use crate::page::html;

/// Seconds before the first line; shorter work stays silent.
const FIRST: f64 = 10.0;

/// Seconds between lines: a little under the thirty that are promised, for whoever asks once a second.
const BETWEEN: f64 = 29.0;

/// Seconds of work that are timed for a forecast, and how much of it: a single step says little where other work holds
/// the cores. Slow work is timed for longer, and then taken as it is.
const TIMED: f64 = 5.0;
const ENOUGH: u64 = 8;
const LONGEST: f64 = 25.0;

/// Seconds up to which work needs no forecast, and beyond which people are told what makes it shorter.
const SHORT: f64 = 60.0;
const LONG: f64 = 3600.0;

/// The lines of one piece of work.
#[derive(Debug, Clone, PartialEq)]
pub struct Talk {
    what: String,
    total: Option<u64>,
    /// Seconds and what was done when first asked: that may have been there before, and says nothing about pace.
    began: Option<(f64, u64)>,
    /// Seconds at the last line.
    said: Option<f64>,
}

impl Talk {
    /// Work of this name; `total` is how much there is, where that is known.
    pub fn new(what: &str, total: Option<u64>) -> Self {
        Self {
            what: what.to_owned(),
            total,
            began: None,
            said: None,
        }
    }

    /// The line that is due after so many seconds, if one is.
    pub fn line(&mut self, seconds: f64, done: u64) -> Option<String> {
        let (began, before) = *self.began.get_or_insert((seconds, done));
        let due = self.said.map_or(FIRST, |said| said + BETWEEN);
        if seconds < due {
            return None;
        }
        self.said = Some(seconds);
        let pace = done.saturating_sub(before) as f64 / (seconds - began);
        let what = &self.what;
        Some(match self.total {
            Some(total) if pace > 0.0 => {
                let left = total.saturating_sub(done) as f64 / pace;
                let (done, total) = (count(done), count(total));
                format!("{what}: {done} of {total}, about {} left", in_words(left))
            }
            Some(total) => {
                let (done, total) = (count(done), count(total));
                format!("{what}: {done} of {total} after {}", in_words(seconds))
            }
            None if done > 0 => format!("{what}: {} after {}", count(done), in_words(seconds)),
            None => format!("{what}: {} so far", in_words(seconds)),
        })
    }
}

/// What is said once, by the first steps, about how long work will take.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    what: String,
    total: u64,
    unit: &'static str,
    hint: String,
    /// How many times as much follows, at most, of which this work is the first part.
    follows: f64,
    /// Seconds and what was done when first asked: the first step warms up, and is not timed.
    began: Option<(f64, u64)>,
    over: bool,
}

impl Forecast {
    /// Work of this name on so many steps or items; `hint` says what makes it shorter.
    pub fn new(what: &str, total: u64, unit: &'static str, hint: &str) -> Self {
        Self {
            what: what.to_owned(),
            total,
            unit,
            hint: hint.to_owned(),
            follows: 0.0,
            began: None,
            over: false,
        }
    }

    /// The same for the first part of longer work: at most so many times as much follows.
    #[must_use]
    pub fn followed_by(self, follows: f64) -> Self {
        Self { follows, ..self }
    }

    /// What is to be said after so many seconds; asked after every step, it answers once, and never about short work.
    pub fn line(&mut self, seconds: f64, done: u64) -> Option<String> {
        if self.over {
            return None;
        }
        let (began, before) = *self.began.get_or_insert((seconds, done));
        let (seconds, done) = (seconds - began, done.saturating_sub(before));
        let enough = seconds >= TIMED && done >= ENOUGH;
        if done == 0 || !enough && seconds < LONGEST {
            return None;
        }
        self.over = true;
        let expected = self.total as f64 * seconds / done as f64;
        let (time, total) = (in_words(expected), count(self.total));
        let whole = expected * (1.0 + self.follows);
        let follows = if self.follows > 0.0 {
            format!(", with all that follows at most {}", in_words(whole))
        } else {
            String::new()
        };
        let line = format!(
            "{}: about {time} for {total} {} on this device{follows}",
            self.what, self.unit
        );
        if whole <= SHORT {
            None
        } else if whole <= LONG {
            Some(line)
        } else {
            Some(format!("{line}\nhint: {}", self.hint))
        }
    }
}

/// A count with its thousands apart.
fn count(n: u64) -> String {
    html::count(n as usize)
}

/// A time as people say it.
fn in_words(seconds: f64) -> String {
    let minutes = seconds / 60.0;
    if seconds < 90.0 {
        format!("{seconds:.0} s")
    } else if minutes < 90.0 {
        format!("{minutes:.0} min")
    } else {
        format!("{:.1} h", minutes / 60.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks once a second, with so much done per second.
    fn lines(total: Option<u64>, per_second: u64, until: u64) -> Vec<(u64, String)> {
        let mut talk = Talk::new("work", total);
        let asked = (1..=until).map(|at| (at, talk.line(at as f64, at * per_second)));
        asked.filter_map(|(at, line)| Some((at, line?))).collect()
    }

    #[test]
    fn short_work_is_silent_and_long_work_speaks_within_thirty_seconds() {
        assert_eq!(lines(Some(1000), 10, 9), []);
        let said = |at, line: &str| (at, line.to_owned());
        assert_eq!(
            lines(Some(5000), 10, 70),
            [
                said(10, "work: 100 of 5,000, about 8 min left"),
                said(39, "work: 390 of 5,000, about 8 min left"),
                said(68, "work: 680 of 5,000, about 7 min left"),
            ]
        );
        let mut talk = Talk::new("scoring proposals", Some(50_000));
        assert_eq!(talk.line(1.0, 0), None);
        assert_eq!(
            talk.line(14.04, 12_288).as_deref(),
            Some("scoring proposals: 12,288 of 50,000, about 40 s left")
        );
    }

    #[test]
    fn without_a_total_or_a_pace_the_time_that_has_passed_is_said() {
        assert_eq!(lines(None, 100, 10)[0].1, "work: 1,000 after 10 s");
        assert_eq!(lines(None, 0, 39)[1].1, "work: 39 s so far");
        assert_eq!(lines(Some(7), 0, 10)[0].1, "work: 0 of 7 after 10 s");
    }

    #[test]
    fn what_was_there_before_is_not_counted_into_the_pace() {
        let mut talk = Talk::new("work", Some(1090));
        assert_eq!(talk.line(1.0, 1000), None);
        assert_eq!(
            talk.line(11.0, 1010).as_deref(),
            Some("work: 1,010 of 1,090, about 80 s left")
        );
        // More than was planned leaves nothing.
        assert_eq!(
            talk.line(40.0, 1200).as_deref(),
            Some("work: 1,200 of 1,090, about 0 s left")
        );
    }

    #[test]
    fn long_work_is_forecast_once_and_longer_work_gets_a_hint() {
        let said = |total, done: &[(f64, u64)]| {
            let mut forecast = Forecast::new("classifier", total, "steps", "fewer epochs");
            let lines = done.iter().map(|&(at, done)| forecast.line(at, done));
            lines.collect::<Vec<_>>()
        };
        let line = |text: &str| Some(text.to_owned());
        // The first step, which is slow, does not count; then ten steps a second.
        let steps = [(9.0, 1), (13.9, 50), (14.0, 51), (15.0, 61)];
        assert_eq!(said(600, &steps), [None, None, None, None]);
        let minutes = line("classifier: about 12 min for 7,000 steps on this device");
        assert_eq!(said(7000, &steps), [None, None, minutes, None]);
        let hours =
            line("classifier: about 2.8 h for 100,000 steps on this device\nhint: fewer epochs");
        assert_eq!(said(100_000, &steps), [None, None, hours, None]);
        // Of the first part of longer work the whole counts.
        let mut first = Forecast::new("classes", 300, "steps", "fewer epochs").followed_by(9.0);
        let lines = steps.map(|(at, done)| first.line(at, done));
        let whole =
            "classes: about 30 s for 300 steps on this device, with all that follows at most 5 min";
        assert_eq!(lines[2].as_deref(), Some(whole));
        // A few slow steps are not taken for the pace; where there are no others, they are.
        let slow = [(1.0, 1), (7.0, 2), (12.0, 60)];
        let steady = line("classifier: about 28 min for 9,000 steps on this device");
        assert_eq!(said(9_000, &slow), [None, None, steady]);
        let hours =
            line("classifier: about 13.9 h for 5,000 steps on this device\nhint: fewer epochs");
        assert_eq!(
            said(5_000, &[(1.0, 1), (11.0, 2), (31.0, 4)]),
            [None, None, hours]
        );
        // Without a step there is nothing to go by.
        assert_eq!(said(7000, &[(0.0, 0), (60.0, 0)]), [None, None]);
    }

    #[test]
    fn times_are_said_in_the_largest_unit_that_fits() {
        let said = [4.4, 89.0, 90.0, 5000.0, 5400.0, 100_000.0].map(in_words);
        assert_eq!(said, ["4 s", "89 s", "2 min", "83 min", "1.5 h", "27.8 h"]);
    }
}

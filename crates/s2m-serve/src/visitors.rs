//! Who is here. A visitor is one open page: it has one drawing at a time, and the report of the last one that it shows.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use s2m::report::Report;
use tokio::sync::{Notify, Semaphore};

use crate::error::Error;
use crate::limits;
use crate::token::random_name;

/// All visitors, by name.
#[derive(Default)]
pub(crate) struct Visitors {
    known: Mutex<HashMap<String, Visitor>>,
}

struct Visitor {
    seen: Instant,
    /// Ends the drawing that runs or waits.
    stop: Option<Arc<Stop>>,
    /// Ends the download that runs or waits: what the page shows stays, and a drawing before it goes on.
    download: Option<Arc<Stop>>,
    /// One drawing at a time, downloads among them.
    turn: Arc<Semaphore>,
    last: Option<Arc<Report>>,
}

/// Ends a drawing.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    stopped: AtomicBool,
    told: Notify,
}

impl Stop {
    pub(crate) fn now(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.told.notify_one();
    }

    pub(crate) fn is(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Waits until it is stopped.
    pub(crate) async fn wait(&self) {
        while !self.is() {
            self.told.notified().await;
        }
    }
}

/// A drawing of a visitor, from its first moment to its last. It stops when this is dropped.
pub(crate) struct Begun {
    pub(crate) stop: Arc<Stop>,
    pub(crate) turn: Arc<Semaphore>,
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.stop.now();
    }
}

impl Visitors {
    fn known(&self) -> MutexGuard<'_, HashMap<String, Visitor>> {
        // Nothing panics while it holds the lock, and whatever is there would be whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets somebody in; none where everybody is drawing.
    pub(crate) fn enter(&self) -> Result<Option<String>, Error> {
        let name = random_name()?;
        let mut known = self.known();
        if known.len() >= limits::VISITORS {
            let idle = known.iter().filter(|(_, visitor)| !visitor.draws());
            let Some(oldest) = idle.min_by_key(|(_, visitor)| visitor.seen) else {
                return Ok(None);
            };
            let oldest = oldest.0.clone();
            known.remove(&oldest);
        }
        let visitor = Visitor {
            seen: Instant::now(),
            stop: None,
            download: None,
            turn: Arc::new(Semaphore::new(1)),
            last: None,
        };
        known.insert(name.clone(), visitor);
        Ok(Some(name))
    }

    /// How many there are, and how many of them draw or wait for their turn.
    pub(crate) fn count(&self) -> (usize, usize) {
        let known = self.known();
        (known.len(), known.values().filter(|v| v.draws()).count())
    }

    /// Begins a drawing and ends the one before it; none for a stranger.
    pub(crate) fn begin(&self, name: &str) -> Option<Begun> {
        let mut known = self.known();
        let visitor = known.get_mut(name)?;
        visitor.seen = Instant::now();
        let stop = Arc::new(Stop::default());
        if let Some(before) = visitor.stop.replace(Arc::clone(&stop)) {
            before.now();
        }
        visitor.last = None;
        Some(Begun {
            stop,
            turn: Arc::clone(&visitor.turn),
        })
    }

    /// Begins a download and ends the one before it; none for a stranger.
    pub(crate) fn begin_download(&self, name: &str) -> Option<Begun> {
        let mut known = self.known();
        let visitor = known.get_mut(name)?;
        visitor.seen = Instant::now();
        let stop = Arc::new(Stop::default());
        if let Some(before) = visitor.download.replace(Arc::clone(&stop)) {
            before.now();
        }
        Some(Begun {
            stop,
            turn: Arc::clone(&visitor.turn),
        })
    }

    /// Keeps what was drawn, unless something else has begun since.
    pub(crate) fn keep(&self, name: &str, begun: &Begun, report: Report) {
        let mut known = self.known();
        let Some(visitor) = known.get_mut(name) else {
            return;
        };
        if visitor
            .stop
            .as_ref()
            .is_some_and(|stop| Arc::ptr_eq(stop, &begun.stop))
        {
            visitor.last = Some(Arc::new(report));
        }
    }

    /// The report of what a visitor has drawn last.
    pub(crate) fn last(&self, name: &str) -> Option<Arc<Report>> {
        let mut known = self.known();
        let visitor = known.get_mut(name)?;
        visitor.seen = Instant::now();
        visitor.last.clone()
    }

    /// Ends the drawing and the download of a visitor, if there are any.
    pub(crate) fn stop(&self, name: &str) {
        if let Some(visitor) = self.known().get(name) {
            visitor.stops().for_each(Stop::now);
        }
    }

    /// Ends everything.
    pub(crate) fn stop_all(&self) {
        for visitor in self.known().values() {
            visitor.stops().for_each(Stop::now);
        }
    }
}

impl Visitor {
    fn stops(&self) -> impl Iterator<Item = &Stop> {
        let both = self.stop.iter().chain(&self.download);
        both.map(Arc::as_ref)
    }

    fn draws(&self) -> bool {
        self.stops().any(|stop| !stop.is())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_ends_the_one_before_it() {
        let visitors = Visitors::default();
        let name = visitors.enter().unwrap().unwrap();
        let first = visitors.begin(&name).unwrap();
        assert_eq!((visitors.count(), first.stop.is()), ((1, 1), false));
        let second = visitors.begin(&name).unwrap();
        assert_eq!((first.stop.is(), second.stop.is()), (true, false));
        assert_eq!(visitors.count(), (1, 1));
        drop(second);
        assert_eq!(visitors.count(), (1, 0));
        assert!(visitors.begin("a stranger").is_none());
    }

    #[test]
    fn a_download_leaves_the_drawing_alone_and_ends_the_download_before_it() {
        let visitors = Visitors::default();
        let name = visitors.enter().unwrap().unwrap();
        let drawing = visitors.begin(&name).unwrap();
        let first = visitors.begin_download(&name).unwrap();
        assert_eq!((drawing.stop.is(), first.stop.is()), (false, false));
        let second = visitors.begin_download(&name).unwrap();
        assert_eq!((first.stop.is(), second.stop.is()), (true, false));
        assert_eq!(visitors.count(), (1, 1));
        drop(drawing);
        assert_eq!(visitors.count(), (1, 1));
        visitors.stop(&name);
        assert!(second.stop.is());
        assert_eq!(visitors.count(), (1, 0));
        assert!(visitors.begin_download("a stranger").is_none());
    }

    #[test]
    fn the_longest_silent_visitor_makes_room_and_whoever_draws_stays() {
        let visitors = Visitors::default();
        let enter = || visitors.enter().unwrap();
        let names: Vec<String> = (0..limits::VISITORS).map(|_| enter().unwrap()).collect();
        let begun = visitors.begin(&names[0]).unwrap();
        let next = enter().unwrap();
        assert_eq!(visitors.count(), (limits::VISITORS, 1));
        assert!(visitors.begin(&names[1]).is_none());
        let all: Vec<Begun> = names[2..]
            .iter()
            .map(|n| visitors.begin(n).unwrap())
            .collect();
        let last = visitors.begin(&next).unwrap();
        assert_eq!(enter(), None);
        visitors.stop_all();
        assert!(begun.stop.is() && last.stop.is() && all.iter().all(|one| one.stop.is()));
        assert!(enter().is_some());
    }
}

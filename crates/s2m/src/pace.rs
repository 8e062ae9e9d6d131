//! How many proposals to score before the next sign of life.
//!
//! A piece should take about half a second: long enough to keep every core or the card busy, short
//! enough for a progress bar, and for little to be lost to an interruption. Results never depend on
//! the pieces.

use std::time::{Duration, Instant};

/// A piece that was quicker than this is followed by one twice as large.
const QUICK: Duration = Duration::from_millis(250);

/// A piece that was slower than this is followed by one half as large.
const SLOW: Duration = Duration::from_secs(1);

/// Most proposals in a piece.
const LARGEST: usize = 1 << 17;

/// The size of the next piece, found by timing the ones before.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    smallest: usize,
    piece: usize,
    started: Instant,
}

impl Pace {
    /// Starts with `smallest` proposals, which keep every worker busy once.
    pub(crate) fn new(smallest: usize) -> Self {
        let smallest = smallest.clamp(1, LARGEST);
        Self {
            smallest,
            piece: smallest,
            started: Instant::now(),
        }
    }

    /// The next piece out of what is left; its time starts now.
    pub(crate) fn begin(&mut self, left: usize) -> usize {
        self.started = Instant::now();
        self.piece.min(left)
    }

    /// The piece is done.
    pub(crate) fn end(&mut self) {
        self.adjust(self.started.elapsed());
    }

    fn adjust(&mut self, taken: Duration) {
        if taken < QUICK {
            self.piece = (self.piece * 2).min(LARGEST);
        } else if taken > SLOW {
            self.piece = (self.piece / 2).max(self.smallest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_grow_while_quick_and_shrink_while_slow_within_their_limits() {
        let mut pace = Pace::new(32);
        assert_eq!((pace.begin(10), pace.begin(1000)), (10, 32));
        pace.adjust(Duration::from_millis(1));
        assert_eq!(pace.begin(1000), 64);
        for _ in 0..40 {
            pace.adjust(Duration::from_millis(1));
        }
        assert_eq!(pace.begin(usize::MAX), LARGEST);
        pace.adjust(Duration::from_millis(500));
        assert_eq!(pace.begin(usize::MAX), LARGEST);
        for _ in 0..40 {
            pace.adjust(Duration::from_secs(5));
        }
        assert_eq!(pace.begin(1000), 32);
    }
}

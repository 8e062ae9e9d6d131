//! One discriminator under its witnesses, and what is said of its cap once joint classes have had their say.

use super::cap::{self, Chosen, Price, Stopped, Way, accepted_share};
use super::witness::{Likeness, Witnesses};

/// What decides where odds are capped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decides {
    /// Likeness to real items, and joint classes after it.
    Likeness,
    /// Joint classes alone.
    JointClasses,
}

/// One way, capped as far as likeness goes.
#[derive(Debug)]
pub struct Capped {
    way: Way,
    witnesses: Witnesses,
    chosen: Chosen,
    clip: f64,
    decides: Decides,
}

/// The weights as they are used.
#[derive(Debug, Clone, PartialEq)]
pub struct Used {
    /// What witnesses tell of them.
    pub after: Likeness,
    /// Share of generated items that rejection accepts.
    pub accepted_share: f64,
    /// Why the cap is not higher.
    pub stopped: &'static str,
}

impl Capped {
    /// Looks for the cap of one way.
    pub fn new(way: Way, witnesses: Witnesses, price: Price, clip: f64, decides: Decides) -> Self {
        let ways = [way];
        let chosen = cap::choose(&ways, &witnesses, price, clip);
        let [way] = ways;
        Self {
            way,
            witnesses,
            chosen,
            clip,
            decides,
        }
    }

    /// Where odds are capped, as far as likeness goes; infinite for no cap.
    pub fn cap(&self) -> f64 {
        match self.decides {
            Decides::Likeness => self.chosen.kept().cap,
            Decides::JointClasses => f64::INFINITY,
        }
    }

    /// Share of generated items outside the data.
    pub fn outside(&self) -> f64 {
        self.chosen.kept().outside
    }

    /// How many witnesses there are.
    pub fn witnesses(&self) -> usize {
        self.witnesses.count()
    }

    /// What led to the cap.
    pub fn chosen(&self) -> &Chosen {
        &self.chosen
    }

    /// The weights under the cap that is used, which joint classes may have lowered.
    pub fn used(&self, cap: f64) -> Used {
        let log_weights = cap::log_weights(&self.way.judged, cap, self.clip);
        let stopped = self.chosen.stopped;
        let as_found = self.decides == Decides::Likeness && cap == self.cap();
        Used {
            after: self.witnesses.judge(&log_weights),
            accepted_share: accepted_share(&log_weights),
            stopped: match stopped {
                _ if as_found => stopped.words(),
                Stopped::Whole if cap.is_infinite() => stopped.words(),
                _ => "least share of a joint class",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::witness::Witness;
    use super::*;

    /// Real items from 0 to 1 and generated ones from 0 to 4/3, judged by a witness that knows which lie outside.
    fn capped(decides: Decides) -> Capped {
        let logit = |x: f32| {
            if x < 1.0 {
                2.0 - x / 1e3
            } else {
                -5.0 - x / 1e3
            }
        };
        let line = |count: u16, end: f32| -> Vec<f32> {
            let place = |at: u16| (f32::from(at) + 0.5) / f32::from(count) * end;
            (0..count).map(|at| logit(place(at))).collect()
        };
        let (real, generated) = (line(1000, 1.0), line(2000, 4.0 / 3.0));
        let items: Vec<u32> = (0..1000).collect();
        let witness = Witness {
            real: &real,
            generated: &generated,
        };
        let witnesses = Witnesses::new(&items, generated.len(), &[witness]);
        let log_odds: Vec<f64> = generated.iter().map(|v| f64::from(*v)).collect();
        let way = Way {
            fitted: log_odds.clone(),
            judged: log_odds,
        };
        Capped::new(way, witnesses, Price::Knee, 1001.0, decides)
    }

    #[test]
    fn what_stopped_a_cap_is_said_of_the_cap_that_is_used() {
        let found = capped(Decides::Likeness);
        assert_eq!(
            found.used(found.cap()).stopped,
            found.chosen().stopped.words()
        );
        assert_eq!(found.used(0.5).stopped, "least share of a joint class");
        assert_eq!(found.witnesses(), 1);
        // Where classes decide, likeness sets no cap, and a cap is theirs.
        let found = capped(Decides::JointClasses);
        assert_eq!(found.cap(), f64::INFINITY);
        assert_eq!(found.used(2.0).stopped, "least share of a joint class");
        // A quarter of the generated items lies outside, and weights take them away.
        assert!((found.outside() - 0.25).abs() < 0.01, "{}", found.outside());
        let [before, after] = [&found.chosen().before, &found.used(f64::INFINITY).after];
        assert!(
            after.sum < 0.25 * before.sum,
            "{} {}",
            before.sum,
            after.sum
        );
    }
}

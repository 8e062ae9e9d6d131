//! How much of the data proposals account for, by the discriminator alone.
//!
//! With correct odds of real against generated, `E_g[odds] = ∫ p_data` over what the generator makes: 1 where it
//! makes everything. No bound on a sampler's error can see what is never proposed; this can, as far as the
//! discriminator is right. One that says nothing has reach 1, one that tells everything apart 0. Correct odds
//! never have a mean above 1, so one above it says that they are too high.

use s2m_core::diagnostics::Mean;
use s2m_model::bundle::Bundle;
use serde::{Deserialize, Serialize};

use crate::draw::{Target, pieces};
use crate::error::Error;
use crate::pool::Pool;

/// Below and above this reach a person is told.
const LEAST: f64 = 0.97;
const MOST: f64 = 1.03;

/// Share of the data that proposals account for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reach {
    /// The share; above 1 where odds are too high.
    pub share: f64,
    /// Its 95 % interval.
    pub between: [f64; 2],
    /// How well the discriminator tells held-out items from generated ones, where the bundle knows it: at 0.5 it says
    /// nothing, and its reach is 1 whatever is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auc: Option<f64>,
}

impl Reach {
    /// By the first positions of a target.
    pub(crate) fn of(
        bundle: &Bundle,
        pool: &Pool,
        target: &Target,
        positions: usize,
    ) -> Result<Option<Self>, Error> {
        let mut log_odds = pool.column();
        for positions in pieces(0..positions) {
            let mut piece = Vec::with_capacity(positions.len());
            let numbers = target.sequence.numbers(positions);
            pool.look_at(&numbers, &mut |number, evidence| {
                let found = target.weighting.log_plain_odds(evidence);
                piece.push(found.map_err(|source| Error::Logit {
                    proposal: number,
                    source,
                })?);
                Ok(())
            })?;
            log_odds.append(&piece)?;
        }
        let mean = Mean::of_logs(&log_odds);
        log_odds.check()?;
        Ok(mean.map(|mean| Self {
            share: mean.value,
            between: mean.between,
            auc: bundle.manifest().calibration.auc,
        }))
    }

    /// The share, its interval, and how far the discriminator is to be believed.
    pub fn in_words(&self) -> String {
        let [low, high] = self.between;
        let auc = self
            .auc
            .map_or(String::new(), |auc| format!(" whose AUC is {auc:.3},"));
        format!(
            "by the discriminator,{auc} proposals account for {:.1} % of the data ({:.1} to {:.1} % at 95 %)",
            100.0 * self.share,
            100.0 * low,
            100.0 * high
        )
    }

    /// What to know where it is not 1, beyond what chance explains.
    pub fn warning(self) -> Option<String> {
        let [low, high] = self.between;
        if self.share < LEAST && high < 1.0 {
            return Some(format!(
                "{}; what the generator does not make is in no sample, and in no error bound",
                self.in_words()
            ));
        }
        (self.share > MOST && low > 1.0).then(|| {
            format!(
                "{}, which is more than there is: its odds are too high, in weights too\nhint: `s2m calibrate` chooses its temperature anew",
                self.in_words()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reach_that_is_not_one_is_told_unless_chance_explains_it() {
        let reach = |share: f64, half: f64| Reach {
            share,
            between: [share - half, share + half],
            auc: None,
        };
        assert_eq!(reach(0.98, 0.001).warning(), None);
        assert_eq!(reach(0.95, 0.06).warning(), None);
        assert_eq!(reach(1.2, 0.3).warning(), None);
        assert_eq!(reach(1.02, 0.001).warning(), None);
        let told = reach(1.2, 0.1).warning().unwrap();
        assert!(
            told.contains("account for 120.0 % of the data (110.0 to 130.0 % at 95 %), which is more than there is"),
            "{told}"
        );
        let told = reach(0.945, 0.005).warning().unwrap();
        assert!(
            told.starts_with("by the discriminator, proposals account for 94.5 % of the data (94.0 to 95.0 % at 95 %)"),
            "{told}"
        );
        let known = Reach {
            auc: Some(0.8312),
            ..reach(1.0, 0.01)
        };
        assert_eq!(
            known.in_words(),
            "by the discriminator, whose AUC is 0.831, proposals account for 100.0 % of the data (99.0 to 101.0 % at 95 %)"
        );
    }
}

//! One line of a table: what was found for each seed.

use super::evaluation::Finding;
use super::results;
use crate::Error;

/// What was found for each seed; nothing where a network is not trained.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line<T> {
    pub(crate) name: String,
    found: Vec<(u64, Option<Finding<T>>)>,
}

impl<T> Line<T> {
    /// Measures a line, seed by seed.
    pub(crate) fn measure(
        name: &str,
        seeds: &[u64],
        mut measure: impl FnMut(u64) -> Result<Option<Finding<T>>, Error>,
    ) -> Result<Self, Error> {
        let found = seeds.iter().map(|&seed| Ok((seed, measure(seed)?)));
        Ok(Self {
            name: name.to_owned(),
            found: found.collect::<Result<_, Error>>()?,
        })
    }

    /// Seeds, measured or not.
    pub(crate) fn runs(&self) -> usize {
        self.found.len()
    }

    /// Seeds with a measurement, and the measurements.
    pub(crate) fn measured(&self) -> impl Iterator<Item = (u64, &T)> {
        let found = self.found.iter();
        found.filter_map(|(seed, finding)| Some((*seed, finding.as_ref()?.measured()?)))
    }

    /// Mean ± sd of one figure.
    pub(crate) fn cell(&self, decimals: usize, figure: impl Fn(&T) -> Option<f64>) -> String {
        results::cell(self.measured().map(|(_, value)| figure(value)), decimals)
    }

    /// The seeds behind the cells, and those that are missing.
    pub(crate) fn seeds(&self) -> String {
        let wanted: Vec<u64> = self.found.iter().map(|(seed, _)| *seed).collect();
        let present: Vec<u64> = self.measured().map(|(seed, _)| seed).collect();
        results::seeds(&present, &wanted)
    }

    /// What is missing and why, one sentence for each reason.
    pub(crate) fn missing(&self) -> impl Iterator<Item = String> {
        let mut reasons: Vec<(&str, Vec<u64>)> = Vec::new();
        for (seed, finding) in &self.found {
            let reason = match finding {
                None => "not trained",
                Some(Finding::Refused(why)) => why,
                Some(Finding::Measured(_)) => continue,
            };
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, seeds)) => seeds.push(*seed),
                None => reasons.push((reason, vec![*seed])),
            }
        }
        reasons.into_iter().map(|(reason, seeds)| {
            let seeds = results::list(&seeds);
            format!("{}, seed {seeds}: {reason}", self.name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_seeds_are_named_with_their_reasons_and_not_averaged_over() {
        let line = Line::measure("CP-GAN", &[0, 1, 2, 3, 4], |seed| {
            Ok(match seed {
                1 | 4 => None,
                3 => Some(Finding::Refused("unreachable".to_owned())),
                seed => Some(Finding::Measured(seed as f64)),
            })
        });
        let line = line.unwrap();
        assert_eq!(line.cell(2, |value| Some(*value)), "1.00 ± 1.41");
        assert_eq!(line.seeds(), "0, 2; 1, 3, 4 missing");
        let missing: Vec<String> = line.missing().collect();
        assert_eq!(
            missing,
            [
                "CP-GAN, seed 1, 4: not trained",
                "CP-GAN, seed 3: unreachable"
            ]
        );
    }
}

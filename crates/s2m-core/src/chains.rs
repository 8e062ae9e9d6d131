//! Diagnostics for chains: split R-hat and effective sample size of a traced quantity.
//!
//! Each chain is cut in two halves. R-hat compares the variance between halves with the variance
//! within them; the effective sample size sums autocorrelations over all halves until neighbouring
//! pairs stop being positive.
//!
//! References: Gelman et al., "Bayesian Data Analysis", 3rd edition, sections 11.4 and 11.5; Geyer,
//! "Practical Markov Chain Monte Carlo", 1992.

/// Shortest chain that says anything: halves of four.
const MIN_LENGTH: usize = 8;

/// What several chains of equal length say about one quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChainSummary {
    /// Split R-hat; near 1 for chains that agree.
    pub r_hat: f64,
    /// Effective number of independent draws among all traced states.
    pub effective: f64,
}

/// Summarises chains of equal length; none for too few, too short or constant ones.
pub fn summarise_chains(chains: &[Vec<f64>]) -> Option<ChainSummary> {
    let length = chains.first()?.len();
    if length < MIN_LENGTH || chains.iter().any(|c| c.len() != length) {
        return None;
    }
    let half = length / 2;
    let halves: Vec<&[f64]> = chains
        .iter()
        .flat_map(|c| [&c[..half], &c[length - half..]])
        .collect();
    let (m, n) = (halves.len() as f64, half as f64);
    let means: Vec<f64> = halves.iter().map(|h| h.iter().sum::<f64>() / n).collect();
    let grand = means.iter().sum::<f64>() / m;
    let between = n * means.iter().map(|v| (v - grand).powi(2)).sum::<f64>() / (m - 1.0);
    let within = halves
        .iter()
        .zip(&means)
        .map(|(h, &mean)| autocovariance(h, mean, 0))
        .sum::<f64>()
        / m
        * n
        / (n - 1.0);
    let variance = (n - 1.0) / n * within + between / n;
    if !(within > 0.0 && variance.is_finite()) {
        return None;
    }
    let correlation = |lag: usize| {
        let covariance = halves
            .iter()
            .zip(&means)
            .map(|(h, &mean)| autocovariance(h, mean, lag))
            .sum::<f64>()
            / m;
        1.0 - (within - covariance * n / (n - 1.0)) / variance
    };
    // Geyer: sums of neighbouring pairs are positive and fall; stop where the estimate does not.
    let (mut time, mut previous) = (0.0, f64::INFINITY);
    for lag in (0..half.saturating_sub(1)).step_by(2) {
        let pair = correlation(lag) + correlation(lag + 1);
        if pair <= 0.0 {
            break;
        }
        previous = pair.min(previous);
        time += 2.0 * previous;
    }
    let time = (time - 1.0).max(1.0 / (m * n).log10());
    Some(ChainSummary {
        r_hat: (variance / within).sqrt(),
        effective: m * n / time,
    })
}

/// Autocovariance at one lag, divided by the full length.
fn autocovariance(values: &[f64], mean: f64, lag: usize) -> f64 {
    let pairs = values.iter().zip(&values[lag..]);
    pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proposals::{Proposals, Purpose};

    fn noise(seed: u64, n: usize) -> Vec<f64> {
        let mut u = vec![0.0; n];
        Proposals::new(seed).fill_uniform(Purpose::Class, 0, &mut u);
        u
    }

    #[test]
    fn independent_draws_have_r_hat_one_and_their_full_size() {
        let chains: Vec<Vec<f64>> = (0..8).map(|s| noise(s, 500)).collect();
        let found = summarise_chains(&chains).unwrap();
        assert!((found.r_hat - 1.0).abs() < 0.01, "{found:?}");
        assert!((found.effective / 4000.0 - 1.0).abs() < 0.15, "{found:?}");
    }

    /// An AR(1) chain with coefficient 0.9 has (1 − 0.9)/(1 + 0.9) effective draws per state.
    #[test]
    fn correlated_draws_count_for_less() {
        let chain = |seed| {
            let mut x = 0.0;
            noise(seed, 20_000)
                .into_iter()
                .map(|u| {
                    x = 0.9 * x + u - 0.5;
                    x
                })
                .collect()
        };
        let chains: Vec<Vec<f64>> = (0..4).map(chain).collect();
        let found = summarise_chains(&chains).unwrap();
        let expected = 80_000.0 * 0.1 / 1.9;
        assert!(
            (found.effective / expected - 1.0).abs() < 0.15,
            "{found:?} against {expected}"
        );
    }

    #[test]
    fn chains_that_disagree_are_seen() {
        let shifted: Vec<f64> = noise(2, 100).iter().map(|u| u + 1.0).collect();
        assert!(summarise_chains(&[noise(1, 100), shifted]).unwrap().r_hat > 1.5);
    }

    #[test]
    fn short_empty_or_constant_chains_say_nothing() {
        assert_eq!(summarise_chains(&[]), None);
        assert_eq!(summarise_chains(&[vec![1.0; 4]]), None);
        assert_eq!(summarise_chains(&[vec![1.0; 40], vec![1.0; 40]]), None);
    }
}

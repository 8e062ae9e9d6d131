//! Pearson's chi-square test of counts against shares.

/// The statistic in standard normal units (Wilson and Hilferty, 1931): above 4.3 once in 1e5.
pub fn chi_square_score(counts: &[usize], shares: &[f64]) -> f64 {
    let n = counts.iter().sum::<usize>() as f64;
    let statistic: f64 = counts
        .iter()
        .zip(shares)
        .map(|(&count, share)| (count as f64 - n * share).powi(2) / (n * share))
        .sum();
    let degrees = counts.len() as f64 - 1.0;
    let spread = 2.0 / (9.0 * degrees);
    ((statistic / degrees).cbrt() - (1.0 - spread)) / spread.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_counts_pass_and_skewed_ones_do_not() {
        assert!(chi_square_score(&[100, 100, 100], &[1.0 / 3.0; 3]) < 0.0);
        assert!(chi_square_score(&[160, 70, 70], &[1.0 / 3.0; 3]) > 5.0);
        // The 99 % point of chi-square with 2 degrees of freedom is 9.21, that of the normal 2.33.
        let counts = [1_002_146, 997_854, 1_000_000];
        let score = chi_square_score(&counts, &[1.0 / 3.0; 3]);
        assert!((score - 2.33).abs() < 0.05, "{score}");
    }
}

//! How sure a class head is, and the probabilities that its logits stand for.

/// How sure a class head is.
#[derive(Debug, Clone, PartialEq)]
pub struct Sureness {
    /// Mean of the largest probability.
    pub mean_largest_probability: f64,
    /// Mean probability of each label.
    pub mean_probability: Vec<f64>,
}

/// Probabilities of one row of logits at a temperature.
pub fn softmax(logits: &[f32], temperature: f64) -> Vec<f64> {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let odds = |v: &f32| (f64::from(v - top) / temperature).exp();
    let total: f64 = logits.iter().map(odds).sum();
    logits.iter().map(|v| odds(v) / total).collect()
}

/// How sure `D_r` is over rows of logits.
pub fn sureness(rows: &[f32], classes: usize, temperature: f64) -> Sureness {
    let mut largest = 0.0;
    let mut means = vec![0.0; classes];
    for row in rows.chunks_exact(classes) {
        let probabilities = softmax(row, temperature);
        largest += probabilities.iter().copied().fold(0.0, f64::max);
        for (mean, p) in means.iter_mut().zip(probabilities) {
            *mean += p;
        }
    }
    let n = (rows.len() / classes).max(1) as f64;
    for mean in &mut means {
        *mean /= n;
    }
    Sureness {
        mean_largest_probability: largest / n,
        mean_probability: means,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sureness_is_the_mean_of_probabilities() {
        let found = sureness(&[0.0, 0.0, 3.0_f32.ln(), 0.0], 2, 1.0);
        assert!((found.mean_largest_probability - 0.625).abs() < 1e-7);
        assert!((found.mean_probability[0] - 0.625).abs() < 1e-7);
    }
}

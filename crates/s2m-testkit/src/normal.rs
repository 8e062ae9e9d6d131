//! The normal distribution function and its inverse, for formulae that must be exact.

/// `Φ(x)`, to about 1e-14.
///
/// A power series near zero, a continued fraction in the tails (Abramowitz and Stegun 26.2.10 and
/// 26.2.14).
pub fn normal_cdf(x: f64) -> f64 {
    let density = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
    if x.abs() < 3.0 {
        let (mut term, mut sum) = (x, x);
        for k in 1..200 {
            term *= x * x / f64::from(2 * k + 1);
            sum += term;
        }
        return 0.5 + density * sum;
    }
    let mut fraction = x.abs();
    for k in (1..60).rev() {
        fraction = x.abs() + f64::from(k) / fraction;
    }
    let tail = density / fraction;
    if x > 0.0 { 1.0 - tail } else { tail }
}

/// The x with `Φ(x) = share`, by bisection.
pub fn normal_quantile(share: f64) -> f64 {
    let (mut low, mut high) = (-10.0, 10.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if normal_cdf(middle) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SciPy 1.17.0: `scipy.stats.norm.cdf([-5, -3, -1, 0.3, 2.5])` and `norm.ppf(0.975)`.
    #[test]
    fn values_agree_with_scipy() {
        let known = [
            (-5.0, 2.866_515_718_791_933e-7),
            (-3.0, 0.001_349_898_031_630_094_6),
            (-1.0, 0.158_655_253_931_457_07),
            (0.3, 0.617_911_422_188_952_7),
            (2.5, 0.993_790_334_674_223_8),
        ];
        for (x, expected) in known {
            assert!(
                (normal_cdf(x) - expected).abs() < 1e-13 * expected.max(1e-3),
                "{x}"
            );
        }
        assert!((normal_quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-12);
    }
}

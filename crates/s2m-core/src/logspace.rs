//! Sums and differences of numbers that are held as logarithms.

/// `log(exp(a) − exp(b))`, or `-∞` where that difference is not positive.
pub fn log_sub_exp(a: f64, b: f64) -> f64 {
    if b >= a {
        return f64::NEG_INFINITY;
    }
    let gap = b - a;
    // Near zero `1 − e^gap` cancels, so use expm1; far from zero ln_1p keeps the last digits.
    // The switch at −ln 2 follows Mächler (2012), "Accurately computing log(1 − exp(−|a|))".
    let log_one_minus = if gap > -std::f64::consts::LN_2 {
        (-gap.exp_m1()).ln()
    } else {
        (-gap.exp()).ln_1p()
    };
    a + log_one_minus
}

/// The log of a number raised to a power; zero stays zero at every power.
pub(crate) fn raised(log: f64, power: f64) -> f64 {
    if log == f64::NEG_INFINITY {
        log
    } else {
        power * log
    }
}

/// `log Σ exp(terms)`; `-∞` for no terms or only `-∞` ones.
pub fn log_sum_exp(terms: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = terms.clone().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    largest + terms.map(|t| (t - largest).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_keeps_its_digits_at_both_ends() {
        // log(e^0 − e^(−1e-12)) = log(1e-12 − 5e-25), known to rounding error.
        assert!((log_sub_exp(0.0, -1e-12) - (1e-12_f64 - 5e-25).ln()).abs() < 1e-12);
        assert_eq!(log_sub_exp(3.0, f64::NEG_INFINITY), 3.0);
        assert!((log_sub_exp(2.0_f64.ln(), 1.0_f64.ln())).abs() < 1e-15);
        // Far apart: log(1 − e^-40) = −e^-40 to first order, which `ln(1 − x)` would lose.
        assert!((log_sub_exp(0.0, -40.0) + (-40.0_f64).exp()).abs() < 1e-30);
    }

    #[test]
    fn a_difference_that_is_not_positive_is_outside_the_support() {
        assert_eq!(log_sub_exp(1.0, 1.0), f64::NEG_INFINITY);
        assert_eq!(log_sub_exp(0.0, 1.0), f64::NEG_INFINITY);
        let none = f64::NEG_INFINITY;
        assert_eq!(log_sub_exp(none, none), none);
    }

    #[test]
    fn sums_of_nothing_are_zero_and_large_terms_do_not_overflow() {
        assert_eq!(log_sum_exp([].into_iter()), f64::NEG_INFINITY);
        let sum = log_sum_exp([1000.0, 1000.0].into_iter());
        assert!((sum - 1000.0 - std::f64::consts::LN_2).abs() < 1e-12);
    }
}

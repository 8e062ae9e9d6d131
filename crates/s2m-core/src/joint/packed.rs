//! The logits of all sets of one item in a few numbers.
//!
//! Up to [`PLAIN`] outputs are kept as they are. Of more, the likeliest are kept, one number each: the output `k`
//! and its log probability in steps that are finest where the probability is near 1,
//!
//! ```text
//! number = k·(Q + 1) + q,    −log p = 32 (q / Q)²,   Q = 8191
//! ```
//!
//! which changes no probability by more than 0.4 % of itself, and one of 0.99 by 0.004 %. A whole number below 2²⁴ is exact in
//! a 32-bit float, so rows stay rows of floats wherever they are stored. 16 sets are 64 bytes.

/// Most outputs that are kept as they are.
pub(super) const PLAIN: usize = 16;

/// Most sets that are kept of an item with more outputs.
pub(super) const MOST_SLOTS: usize = 32;

/// Outputs from which on [`MOST_SLOTS`] sets are kept: more than those of eight labels.
const MANY: usize = 256;

/// Steps of the log probability.
const STEPS: f64 = 8191.0;

/// Least log probability, with the sign turned.
const REACH: f64 = 32.0;

/// How a row keeps what so many outputs say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetShape {
    outputs: usize,
}

impl SetShape {
    /// For a network with so many outputs.
    pub fn of(outputs: usize) -> Self {
        Self { outputs }
    }

    /// Outputs of the network.
    pub fn outputs(self) -> usize {
        self.outputs
    }

    fn is_plain(self) -> bool {
        self.outputs <= PLAIN
    }

    /// Numbers in a row.
    pub fn width(self) -> usize {
        match self.outputs {
            outputs if self.is_plain() => outputs,
            outputs if outputs < MANY => PLAIN,
            _ => MOST_SLOTS,
        }
    }

    /// Keeps the logits of one item; a logit that is not finite is kept as it is, to be refused when it is read.
    pub fn keep(self, logits: &[f32], row: &mut [f32]) {
        if self.is_plain() {
            row.copy_from_slice(logits);
            return;
        }
        if let Some(&bad) = logits.iter().find(|logit| !logit.is_finite()) {
            row.fill(bad);
            return;
        }
        let log_norm = crate::log_sum_exp(logits.iter().map(|&logit| f64::from(logit)));
        let mut order: Vec<usize> = (0..logits.len()).collect();
        let likelier = |a: &usize, b: &usize| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b));
        let last = row.len() - 1;
        order.select_nth_unstable_by(last, likelier);
        order.truncate(row.len());
        order.sort_unstable_by(likelier);
        for (slot, &output) in row.iter_mut().zip(&order) {
            let log_p = f64::from(logits[output]) - log_norm;
            let step = (STEPS * ((-log_p).clamp(0.0, REACH) / REACH).sqrt()).round();
            *slot = (output as f64 * (STEPS + 1.0) + step) as f32;
        }
    }

    /// A row that was kept.
    pub fn read(self, row: &[f32]) -> SetLogits<'_> {
        SetLogits { shape: self, row }
    }
}

/// Logits of an item's sets, up to a constant: of all of them, or of the likeliest.
#[derive(Debug, Clone, Copy)]
pub struct SetLogits<'a> {
    shape: SetShape,
    row: &'a [f32],
}

impl<'a> SetLogits<'a> {
    /// The row as it is kept.
    pub fn row(&self) -> &'a [f32] {
        self.row
    }

    /// The outputs and their logits; others are as good as impossible.
    pub fn iter(&self) -> impl Iterator<Item = (usize, f64)> + Clone + '_ {
        let plain = self.shape.is_plain();
        self.row.iter().enumerate().map(move |(at, &value)| {
            if plain {
                return (at, f64::from(value));
            }
            let value = f64::from(value);
            let output = (value / (STEPS + 1.0)).floor();
            let share = (value - output * (STEPS + 1.0)) / STEPS;
            (output as usize, -REACH * share * share)
        })
    }

    /// Logits of all outputs; those that were not kept are as good as impossible.
    pub fn fill(&self, logits: &mut [f32]) {
        logits.fill(-2.0 * REACH as f32);
        for (output, logit) in self.iter() {
            logits[output] = logit as f32;
        }
    }

    /// A number that no network should give.
    pub fn fault(&self) -> Option<f32> {
        let most = self.shape.outputs as f64 * (STEPS + 1.0);
        let plain = self.shape.is_plain();
        let good =
            |value: &f32| value.is_finite() && (plain || (0.0..most).contains(&f64::from(*value)));
        self.row.iter().copied().find(|value| !good(value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn eight_labels_take_64_bytes() {
        let bytes = |outputs| 4 * SetShape::of(outputs).width();
        assert_eq!([3, 15, 16].map(bytes), [12, 60, 64]);
        assert_eq!([31, 63, 127, 255].map(bytes), [64; 4]);
        assert_eq!([511, 1025].map(bytes), [128; 2]);
    }

    #[test]
    fn numbers_that_are_none_are_found() {
        for outputs in [3, 63] {
            let shape = SetShape::of(outputs);
            let mut logits = vec![0.5; outputs];
            let mut row = vec![0.0; shape.width()];
            shape.keep(&logits, &mut row);
            assert_eq!(shape.read(&row).fault(), None);
            logits[2] = f32::NAN;
            shape.keep(&logits, &mut row);
            assert!(shape.read(&row).fault().unwrap().is_nan());
            // A damaged row never names an output that there is not.
            row.fill(-1e30);
            assert_eq!(shape.read(&row).fault().is_some(), outputs == 63);
        }
    }

    proptest! {
        /// The likeliest sets come back in order, each with its log probability to half a step of `q`.
        #[test]
        fn the_likeliest_sets_come_back(
            outputs in 17usize..1025, seed in prop::collection::vec(-20.0..20.0f32, 1025), scale in 0.05..1.0f32,
        ) {
            let logits: Vec<f32> = seed[..outputs].iter().map(|v| v * scale).collect();
            let shape = SetShape::of(outputs);
            let mut row = vec![0.0; shape.width()];
            shape.keep(&logits, &mut row);
            let norm = crate::log_sum_exp(logits.iter().map(|&l| f64::from(l)));
            let mut wanted: Vec<(usize, f64)> =
                logits.iter().enumerate().map(|(k, &l)| (k, f64::from(l) - norm)).collect();
            wanted.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            let read = shape.read(&row);
            prop_assert_eq!(read.fault(), None);
            for ((output, log_p), wanted) in read.iter().zip(wanted) {
                prop_assert_eq!(output, wanted.0);
                let close = REACH / STEPS * (-wanted.1 / REACH).max(0.0).sqrt() + 1e-6;
                prop_assert!((log_p - wanted.1).abs() <= close || wanted.1 < -REACH, "{} {}", log_p, wanted.1);
            }
        }

        #[test]
        fn few_outputs_are_kept_as_they_are(logits in prop::collection::vec(-90.0..90.0f32, 2..=16)) {
            let shape = SetShape::of(logits.len());
            let mut row = vec![0.0; shape.width()];
            shape.keep(&logits, &mut row);
            let found: Vec<f64> = shape.read(&row).iter().map(|(_, logit)| logit).collect();
            prop_assert_eq!(found, logits.iter().map(|&l| f64::from(l)).collect::<Vec<_>>());
        }
    }
}

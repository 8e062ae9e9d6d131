//! Which proposals exist: proposal `k` of seed `s` is a pure function of `(s, k)`.
//!
//! Every purpose has its own ChaCha8 stream under a key made from the seed, and every proposal uses
//! a fixed number of words of each stream, so any proposal can be reached directly. Normal numbers
//! come from Box–Muller, with logarithm, sine and cosine computed here from additions,
//! multiplications, divisions and square roots alone: the same bits on every machine.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

pub use crate::streams::Purpose;

/// All proposals of one seed and one adaptation stage (0: the prior).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proposals {
    seed: u64,
    stage: u16,
}

impl Proposals {
    /// The proposals of a seed, from the generator's own prior.
    pub fn new(seed: u64) -> Self {
        Self { seed, stage: 0 }
    }

    /// The proposals of adaptation stage `stage` under the same seed.
    #[must_use]
    pub fn at_stage(self, stage: u16) -> Self {
        Self { stage, ..self }
    }

    /// The stage; 0 is the prior.
    pub fn stage(&self) -> u16 {
        self.stage
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A uniform number in `(0, 1)` that belongs to proposal `proposal`.
    pub fn uniform(&self, purpose: Purpose, proposal: u64) -> f64 {
        open_unit(self.stream(purpose, u128::from(proposal)).next_u64())
    }

    /// Uniform numbers in `(0, 1)` of the proposals `first …`, one each.
    pub fn fill_uniform(&self, purpose: Purpose, first: u64, out: &mut [f64]) {
        let mut stream = self.stream(purpose, u128::from(first));
        out.fill_with(|| open_unit(stream.next_u64()));
    }

    /// Standard normal latents of the proposals `first …`, `size` numbers each.
    pub fn fill_normal(&self, input: u16, first: u64, size: usize, out: &mut [f32]) {
        let padded = size.next_multiple_of(2);
        let position = u128::from(first) * padded as u128;
        let mut stream = self.stream(Purpose::Latent(input), position);
        for proposal in out.chunks_mut(size.max(1)) {
            for pair in proposal.chunks_mut(2) {
                let (x, y) = normal_pair(stream.next_u64(), stream.next_u64());
                pair[0] = x;
                if let Some(second) = pair.get_mut(1) {
                    *second = y;
                }
            }
        }
    }

    /// Latents of the proposals `first …`, uniform on `[−1, 1]`, `size` numbers each.
    pub fn fill_symmetric_uniform(&self, input: u16, first: u64, size: usize, out: &mut [f32]) {
        let position = u128::from(first) * size as u128;
        let mut stream = self.stream(Purpose::Latent(input), position);
        out.fill_with(|| (2.0 * open_unit(stream.next_u64()) - 1.0) as f32);
    }

    /// The stream for a purpose, set to its `position`-th 64-bit number.
    fn stream(&self, purpose: Purpose, position: u128) -> ChaCha8Rng {
        let mut key = *b"\0\0\0\0\0\0\0\0s2m proposals, version 1";
        key[..8].copy_from_slice(&self.seed.to_le_bytes());
        let mut stream = ChaCha8Rng::from_seed(key);
        stream.set_stream(purpose.number() | u64::from(self.stage) << 32);
        stream.set_word_pos(2 * position);
        stream
    }
}

/// 52 bits to the middle of one of 2^52 equal cells of `(0, 1)`; one bit more would round to 1.
pub(crate) fn open_unit(bits: u64) -> f64 {
    ((bits >> 12) as f64 + 0.5) * (1.0 / (1u64 << 52) as f64)
}

/// Two independent standard normal numbers out of 128 random bits (Box–Muller).
pub(crate) fn normal_pair(radius_bits: u64, angle_bits: u64) -> (f32, f32) {
    let radius = (-2.0 * portable_ln(open_unit(radius_bits))).sqrt();
    let (sine, cosine) = turn(open_unit(angle_bits));
    ((radius * cosine) as f32, (radius * sine) as f32)
}

/// Natural logarithm of a normal positive number, to about 1e-13.
///
/// `x = 2^e·m` with m near 1, and `ln m = 2 atanh((m−1)/(m+1))` by its series.
fn portable_ln(x: f64) -> f64 {
    const LN_2: f64 = std::f64::consts::LN_2;
    // Shifting the mantissa's range to [√½, √2) keeps |s| under 0.172.
    let bits = x.to_bits().wrapping_sub(0x3fe6_a09e_667f_3bcd);
    let exponent = (bits.cast_signed() >> 52) as f64;
    let mantissa = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) + 0x3fe6_a09e_667f_3bcd);
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let q = s * s;
    let mut series = 1.0 / 17.0;
    for odd in [15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        series = series * q + 1.0 / odd;
    }
    exponent * LN_2 + 2.0 * s * series
}

/// Sine and cosine of `2π·t` for t in `(0, 1)`, to about 1e-13.
fn turn(t: f64) -> (f64, f64) {
    let quarter = (4.0 * t + 0.5).floor();
    let x = (4.0 * t - quarter) * std::f64::consts::FRAC_PI_2; // |x| ≤ π/4
    let q = x * x;
    let (mut sine, mut cosine) = (1.0, 1.0);
    for k in [7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0] {
        sine = 1.0 - sine * q / (2.0 * k * (2.0 * k + 1.0));
        cosine = 1.0 - cosine * q / (2.0 * k * (2.0 * k - 1.0));
    }
    sine *= x;
    match quarter as u8 & 3 {
        0 => (sine, cosine),
        1 => (cosine, -sine),
        2 => (-sine, -cosine),
        _ => (-cosine, sine),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithm_and_turn_agree_with_the_standard_library() {
        let proposals = Proposals::new(1);
        let mut u = vec![0.0; 20_000];
        proposals.fill_uniform(Purpose::Class, 0, &mut u);
        for x in u
            .into_iter()
            .chain([1e-300, 2f64.powi(-54), 0.5, 1.0 - 2f64.powi(-53)])
        {
            assert!(
                (portable_ln(x) - x.ln()).abs() <= 2e-13 * x.ln().abs(),
                "ln {x}"
            );
            let (sine, cosine) = turn(x);
            let angle = std::f64::consts::TAU * x;
            assert!((sine - angle.sin()).abs() < 1e-12, "sin {x}");
            assert!((cosine - angle.cos()).abs() < 1e-12, "cos {x}");
        }
    }

    #[test]
    fn a_proposal_is_the_same_wherever_a_batch_starts() {
        let proposals = Proposals::new(7);
        for size in [1, 2, 5, 100] {
            let mut whole = vec![0.0; 40 * size];
            proposals.fill_normal(0, 0, size, &mut whole);
            for first in [0, 1, 13, 39] {
                let mut part = vec![0.0; (40 - first) * size];
                proposals.fill_normal(0, first as u64, size, &mut part);
                assert_eq!(part, whole[first * size..], "size {size}, first {first}");
                let mut flat = vec![0.0; 3 * size];
                proposals.fill_symmetric_uniform(1, first as u64, size, &mut flat);
                let mut later = vec![0.0; size];
                proposals.fill_symmetric_uniform(1, first as u64 + 2, size, &mut later);
                assert_eq!(later, flat[2 * size..]);
            }
        }
        let mut u = [0.0; 9];
        proposals.fill_uniform(Purpose::Accept, 1000, &mut u);
        assert_eq!(u[8], proposals.uniform(Purpose::Accept, 1008));
    }

    #[test]
    fn uniform_numbers_never_touch_their_ends() {
        assert!(open_unit(0) > 0.0 && open_unit(u64::MAX) < 1.0);
    }

    #[test]
    fn streams_and_seeds_and_stages_differ() {
        let value = |seed, stage, purpose| Proposals::new(seed).at_stage(stage).uniform(purpose, 3);
        let all = [
            value(1, 0, Purpose::Class),
            value(2, 0, Purpose::Class),
            value(1, 1, Purpose::Class),
            value(1, 0, Purpose::Accept),
            value(1, 0, Purpose::Resample),
            value(1, 0, Purpose::Mixture),
            value(1, 0, Purpose::Component),
            value(1, 0, Purpose::Latent(0)),
            value(1, 0, Purpose::Latent(1)),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|b| a != b));
        }
    }

    /// The first numbers of seed 0; a change here would change every sample ever drawn. They were
    /// computed a second time by a ChaCha8 written in Python 3.11 with its `math` module.
    #[test]
    fn the_first_proposals_never_change() {
        let mut latents = [0.0; 4];
        Proposals::new(0).fill_normal(0, 0, 2, &mut latents);
        assert_eq!(latents.map(f32::to_bits), FIRST_LATENTS);
        assert_eq!(
            Proposals::new(0).uniform(Purpose::Accept, 0).to_bits(),
            FIRST_ACCEPT
        );
    }

    const FIRST_LATENTS: [u32; 4] = [1_057_176_401, 3_221_847_553, 1_037_566_014, 1_066_624_776];
    const FIRST_ACCEPT: u64 = 4_607_028_435_189_019_541;

    /// Mean, variance, skewness, kurtosis within five standard errors; tails counted.
    #[test]
    fn latents_are_standard_normal() {
        let n = 400_000;
        let mut x = vec![0.0f32; n];
        Proposals::new(11).fill_normal(0, 0, 5, &mut x);
        let moment = |p: i32| x.iter().map(|&v| f64::from(v).powi(p)).sum::<f64>() / n as f64;
        // Standard errors of the raw moments 1..4 of a standard normal: √(1, 2, 15, 96)/√n.
        for (p, expected, variance) in
            [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)]
        {
            let error = (variance / n as f64).sqrt();
            assert!(
                (moment(p) - expected).abs() < 5.0 * error,
                "moment {p}: {}",
                moment(p)
            );
        }
        let beyond = x.iter().filter(|v| v.abs() > 3.0).count() as f64;
        let expected = 0.002_699_796 * n as f64;
        assert!(
            (beyond - expected).abs() < 5.0 * expected.sqrt(),
            "{beyond} against {expected}"
        );
    }
}

//! Random numbers that belong to a replica, a purpose and a step, made by tensor operations.
//!
//! Word `k` of a stream is SplitMix64 at counter `k`: `mix(key + (k + 1)·γ)`, in wrapping 64-bit
//! integers, so that every device computes the same words, a run resumes anywhere, and a replica
//! draws the same numbers alone or among others. One word gives two numbers of 23 bits; Box–Muller
//! turns them into two normal numbers.
//!
//! Reference: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.

pub use s2m_core::streams::training::Purpose;
use s2m_core::streams::training::UNNAMED;
use tch::{Device, Kind, Tensor};

/// Step between counters: the golden ratio in 64 bits, odd.
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;
const FIRST: u64 = 0xBF58_476D_1CE4_E5B9;
const SECOND: u64 = 0x94D0_49BB_1331_11EB;

/// SplitMix64's output function.
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(FIRST);
    word = (word ^ (word >> 27)).wrapping_mul(SECOND);
    word ^ (word >> 31)
}

/// The key of a stream: one replica's seed, a purpose, and a name within the purpose.
pub fn key(seed: u64, purpose: Purpose, name: &str) -> u64 {
    let start = mix(seed.wrapping_add(GAMMA)) ^ mix(purpose.number());
    name.bytes()
        .fold(mix(start), |key, byte| mix(key ^ u64::from(byte)))
}

/// `word ^ (word >> shift)` with a logical shift, which libtorch does not have.
fn fold(word: &Tensor, shift: u32) -> Tensor {
    let mask = i64::try_from(u64::MAX >> shift).expect("shifts are positive");
    let shifted = word
        .bitwise_right_shift_tensor_scalar(i64::from(shift))
        .bitwise_and_(mask);
    word.bitwise_xor_tensor(&shifted)
}

/// The 64-bit pattern as libtorch's signed integer.
fn signed(word: u64) -> i64 {
    word.cast_signed()
}

/// Words `first .. first + count` of every stream: `[streams, count]`.
fn words(keys: &[u64], first: u64, count: i64, device: Device) -> Tensor {
    let start = |key: &u64| signed(key.wrapping_add(first.wrapping_add(1).wrapping_mul(GAMMA)));
    let starts: Vec<i64> = keys.iter().map(start).collect();
    let counters = Tensor::arange(count, (Kind::Int64, device)) * signed(GAMMA);
    let starts = Tensor::from_slice(&starts).to_device(device).unsqueeze(1);
    let mixed = fold(&(counters + starts), 30) * signed(FIRST);
    let mixed = fold(&mixed, 27) * signed(SECOND);
    fold(&mixed, 31)
}

/// The 23 bits above `shift` as a number strictly between 0 and 1; half a bit more still fits a float.
fn open_unit(words: &Tensor, shift: i64) -> Tensor {
    let bits = words
        .bitwise_right_shift_tensor_scalar(shift)
        .bitwise_and_(0x7F_FFFF_i64);
    (bits.to_kind(Kind::Float) + 0.5) * (1.0 / 8_388_608.0)
}

/// Uniform numbers in (0, 1): `[streams, count]`, starting at word `first`.
pub fn uniform(keys: &[u64], first: u64, count: i64, device: Device) -> Tensor {
    open_unit(&words(keys, first, count, device), 41)
}

/// Standard normal numbers: `[streams, 2·pairs]`, starting at word `first`.
pub fn normal(keys: &[u64], first: u64, pairs: i64, device: Device) -> Tensor {
    let words = words(keys, first, pairs, device);
    let radius = (open_unit(&words, 41).log() * -2.0).sqrt();
    let angle = open_unit(&words, 16) * std::f64::consts::TAU;
    Tensor::cat(&[&radius * angle.cos(), &radius * angle.sin()], 1)
}

/// How many numbers one training step takes from each stream of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    pub normal: i64,
    pub uniform: i64,
}

/// Numbers for the steps of a run, made for many steps at once.
pub struct Noise {
    normal_keys: Vec<u64>,
    uniform_keys: Vec<u64>,
    needs: Needs,
    device: Device,
    /// Steps made at once.
    stretch: u64,
    made: Option<Stretch>,
}

/// The numbers of a stretch of steps: `[replicas, steps, numbers]`.
struct Stretch {
    first: u64,
    normal: Tensor,
    uniform: Tensor,
}

/// Words made at once over all replicas: enough to fill a GPU, little enough for a CPU's cache.
const WORDS_CUDA: i64 = 1 << 24;
const WORDS_CPU: i64 = 1 << 18;

impl Noise {
    /// Streams for the given seeds, one per replica.
    pub fn new(seeds: &[u64], needs: Needs, device: Device) -> Self {
        let keys = |purpose| seeds.iter().map(|&s| key(s, purpose, UNNAMED)).collect();
        let budget = if device.is_cuda() {
            WORDS_CUDA
        } else {
            WORDS_CPU
        };
        let per_step = seeds.len() as i64 * (needs.normal / 2 + needs.uniform).max(1);
        Self {
            normal_keys: keys(Purpose::Normal),
            uniform_keys: keys(Purpose::Uniform),
            needs,
            device,
            stretch: (budget / per_step).clamp(1, 1024) as u64,
            made: None,
        }
    }

    /// The numbers of one step: normal and uniform, `[replicas, numbers]` each.
    pub fn at(&mut self, step: u64) -> [Tensor; 2] {
        let first = step - step % self.stretch;
        if self.made.as_ref().is_none_or(|made| made.first != first) {
            self.made = Some(self.make(first));
        }
        let made = self.made.as_ref().expect("made above");
        let row = (step - first) as i64;
        [made.normal.select(1, row), made.uniform.select(1, row)]
    }

    fn make(&self, first: u64) -> Stretch {
        let steps = self.stretch as i64;
        // An odd number of normal numbers wastes half a word of every step.
        let pairs = (self.needs.normal + 1) / 2;
        let replicas = self.normal_keys.len() as i64;
        let at = |per_step: i64| first.wrapping_mul(per_step as u64);
        let normal = {
            let words = words(&self.normal_keys, at(pairs), pairs * steps, self.device)
                .view([replicas, steps, pairs]);
            let radius = (open_unit(&words, 41).log() * -2.0).sqrt();
            let angle = open_unit(&words, 16) * std::f64::consts::TAU;
            Tensor::cat(&[&radius * angle.cos(), &radius * angle.sin()], 2)
        };
        let count = self.needs.uniform;
        let uniform = uniform(&self.uniform_keys, at(count), count * steps, self.device)
            .view([replicas, steps, count]);
        Stretch {
            first,
            normal,
            uniform,
        }
    }
}

/// The numbers of one step, handed out in order.
pub struct Draws {
    normal: Tensor,
    uniform: Tensor,
    taken: Needs,
}

impl Draws {
    pub fn new([normal, uniform]: [Tensor; 2]) -> Self {
        Self {
            normal,
            uniform,
            taken: Needs::default(),
        }
    }

    /// The next normal numbers: `[replicas, rows, columns]`.
    pub fn normal(&mut self, rows: i64, columns: i64) -> Tensor {
        let taken = self.normal.narrow(1, self.taken.normal, rows * columns);
        self.taken.normal += rows * columns;
        taken.reshape([-1, rows, columns])
    }

    /// The next uniform numbers: `[replicas, rows]`.
    pub fn uniform(&mut self, rows: i64) -> Tensor {
        let taken = self.uniform.narrow(1, self.taken.uniform, rows);
        self.taken.uniform += rows;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SplitMix64 from the reference: the first outputs for seed 1234567, as published with the
    /// generator (Vigna, splitmix64.c; the same numbers stand in Rosetta Code's task).
    #[test]
    fn words_are_splitmix64() {
        let found: Vec<i64> =
            Vec::try_from(words(&[1_234_567], 0, 3, Device::Cpu).view(-1)).unwrap();
        let wanted = [
            6_457_827_717_110_365_317_u64,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(found, wanted.map(signed));
    }

    #[test]
    fn words_start_anywhere_and_do_not_depend_on_their_neighbours() {
        let many = words(&[3, 8], 0, 10, Device::Cpu);
        let one = words(&[8], 4, 3, Device::Cpu);
        assert_eq!(many.narrow(0, 1, 1).narrow(1, 4, 3), one);
    }

    #[test]
    fn normal_numbers_have_the_right_moments() {
        let x = normal(&[key(0, Purpose::Normal, "")], 0, 200_000, Device::Cpu);
        let n = 400_000_f64;
        let moment = |p: i64| x.pow_tensor_scalar(p).mean(Kind::Double).double_value(&[]);
        // Standard errors of the first four moments of a normal: 1, √2, √15, √96 over √n.
        for (p, wanted, sd) in [
            (1, 0.0, 1.0),
            (2, 1.0, 2.0_f64.sqrt()),
            (3, 0.0, 15.0_f64.sqrt()),
            (4, 3.0, 96.0_f64.sqrt()),
        ] {
            let found = moment(p);
            assert!(
                (found - wanted).abs() < 5.0 * sd / n.sqrt(),
                "moment {p}: {found}"
            );
        }
    }

    #[test]
    fn a_step_has_the_same_numbers_whatever_was_made_before_it() {
        let needs = Needs {
            normal: 7,
            uniform: 3,
        };
        let mut straight = Noise::new(&[1, 2], needs, Device::Cpu);
        let mut late = Noise::new(&[2], needs, Device::Cpu);
        late.stretch = 5;
        for step in 0..20 {
            let mut all = Draws::new(straight.at(step));
            let mut one = Draws::new(late.at(step));
            assert_eq!(all.normal(7, 1).narrow(0, 1, 1), one.normal(7, 1));
            assert_eq!(all.uniform(3).narrow(0, 1, 1), one.uniform(3));
        }
    }
}

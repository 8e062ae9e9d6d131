//! BigGAN against PyTorch, against itself in other precisions and replicas, and its statistics against their formula.

use tch::{Device, no_grad};

use super::critic::{Critic, Head};
use super::generator::{Generator, Statistics};
use super::*;
use crate::parameters::{First, Spec};

fn generator(side: i64, codes: i64) -> Generator {
    let (channels, parts) = if side == 32 { (2, 4) } else { (4, 5) };
    Generator {
        picture: [3, side, side],
        channels,
        latent: 5 * parts,
        codes,
        shared: 6,
        attention: true,
    }
}

fn critic(side: i64, head: Head) -> Critic {
    Critic {
        picture: [3, side, side],
        channels: if side == 32 { 4 } else { 8 },
        head,
        attention: true,
    }
}

/// Numbers in [−1, 1) that look random and are the same everywhere.
fn numbers(t: i64, shape: &[i64]) -> Tensor {
    let k = Tensor::arange(shape.iter().product::<i64>(), (Kind::Int64, Device::Cpu));
    let whole = (&k * (&k + 17) * 31 + t * 7919).remainder(4099);
    (whole.to_kind(Kind::Double) / 2049.5 - 1.0)
        .to_kind(Kind::Float)
        .view(shape)
}

/// The weights of the reference.
fn filled(specs: Vec<Spec>) -> Parameters {
    let tensor = |(t, spec): (i64, &Spec)| {
        let n = numbers(t, &spec.for_replicas(1));
        let fan_in: i64 = spec.shape[1..].iter().product();
        match spec.name.rsplit('.').next() {
            Some("weight") if spec.first == First::Orthogonal => n / (fan_in as f64).sqrt(),
            Some("weight" | "var") => n * 0.1 + 1.0,
            Some("u") => &n / n.norm(),
            Some("strength") => n * 0.0 + 0.5,
            _ => n * 0.1,
        }
    };
    let tensors: Vec<Tensor> = (0..).zip(&specs).map(tensor).collect();
    Parameters::from_tensors(specs, &tensors)
}

fn weights(specs: &[Spec]) -> i64 {
    let trained = |spec: &&Spec| !matches!(spec.first, First::Statistic(_) | First::Direction);
    let sizes = specs.iter().filter(trained);
    sizes.map(|spec| spec.shape.iter().product::<i64>()).sum()
}

fn compare(y: &Tensor, wanted: [f64; 5], what: &str) {
    let flat = y.reshape([-1]).to_kind(Kind::Double);
    let at = |n: i64| flat.double_value(&[n]);
    let last = flat.size()[0] - 1;
    let found = [
        at(0),
        at(777 % (last + 1)),
        at(last),
        flat.mean(Kind::Double).double_value(&[]),
        flat.std(true).double_value(&[]),
    ];
    for (found, wanted) in found.into_iter().zip(wanted) {
        let off = (found - wanted).abs();
        assert!(
            off < 1e-5 * wanted.abs().max(1.0),
            "{what}: {found} against {wanted}"
        );
    }
}

fn code() -> Tensor {
    let rows = [
        [1.0, 0.0, 0.0],
        [0.0, 0.5, 0.5],
        [1.0 / 3.0; 3],
        [0.0, 0.0, 1.0_f32],
    ];
    Tensor::from_slice(&rows.concat()).view([1, 4, 3])
}

/// Values of `tests/twins/biggan.py` with PyTorch 2.11.0.
#[test]
fn generators_agree_with_pytorch() {
    let cases = [
        (
            generator(32, 0),
            5284,
            [
                -0.001_169,
                -0.566_366_2,
                0.099_679_89,
                0.044_866_34,
                0.461_261_22,
            ],
            [
                0.327_230_36,
                -0.297_266_42,
                -0.106_227_92,
                -0.007_382_29,
                0.353_267_31,
            ],
        ),
        (
            generator(64, 0),
            47_764,
            [
                -0.074_780_85,
                -0.544_417_2,
                0.130_037_52,
                -0.216_739_37,
                0.366_900_94,
            ],
            [
                -0.132_947_18,
                -0.011_723_39,
                -0.216_136_78,
                -0.289_472_77,
                0.275_345_46,
            ],
        ),
        (
            generator(32, 3),
            5878,
            [
                0.233_802_24,
                -0.007_163_38,
                -0.380_982_1,
                -0.092_879_46,
                0.455_316_01,
            ],
            [
                -0.070_281_95,
                0.115_143_56,
                -0.165_554_58,
                -0.003_787_6,
                0.167_378_9,
            ],
        ),
    ];
    for (network, size, by_batch, by_kept) in cases {
        assert_eq!(weights(&network.specs()), size);
        let weights = filled(network.specs());
        let z = numbers(1000, &[1, 4, network.latent]);
        let code = (network.codes > 0).then(code);
        for (statistics, wanted) in [(Statistics::Batch, by_batch), (Statistics::Kept, by_kept)] {
            let ready = Ready::all(&weights, Power::Kept, Kind::Float);
            let drawn = (&z, code.as_ref());
            let x = no_grad(|| network.forward(&ready, drawn, (statistics, Kind::Float)));
            compare(&x, wanted, &format!("{network:?} {statistics:?}"));
        }
    }
}

/// Scores and class logits of the critic that has both.
const CLASSES: ([f64; 5], [f64; 5]) = (
    [
        4.705_248_36,
        4.699_942_59,
        4.700_091_84,
        4.699_967_27,
        0.004_353_58,
    ],
    [
        3.932_883_5,
        3.944_514_51,
        0.439_729_33,
        1.216_491_24,
        2.069_201_28,
    ],
);

/// Values of `tests/twins/biggan.py` with PyTorch 2.11.0.
#[test]
fn critics_agree_with_pytorch() {
    let cases = [
        (
            critic(32, Head::Score),
            4506,
            [
                12.228_419_3,
                11.896_867_75,
                11.337_034_23,
                11.785_865_55,
                0.374_429_4,
            ],
            [
                7.638_607_03,
                7.534_689_9,
                7.236_318_11,
                7.472_134_47,
                0.170_569_37,
            ],
        ),
        (
            critic(32, Head::Projection(3)),
            4530,
            [
                26.892_456_05,
                12.384_511_95,
                24.929_975_51,
                20.275_101_66,
                6.810_631_76,
            ],
            [
                18.262_374_88,
                6.252_858_64,
                13.113_946_91,
                11.958_842_87,
                5.056_310_43,
            ],
        ),
        (
            critic(64, Head::Classes(3)),
            306_797,
            CLASSES.0,
            [
                4.556_658_27,
                4.558_363_44,
                4.556_546_21,
                4.556_375_03,
                0.001_828_55,
            ],
        ),
    ];
    for (network, size, wanted, wanted_later) in cases {
        assert_eq!(weights(&network.specs()), size);
        let weights = filled(network.specs());
        let side = network.picture[1];
        let x = numbers(1000, &[1, 4, 3 * side * side]);
        for wanted in [wanted, wanted_later] {
            let ready = Ready::all(&weights, Power::Moved, Kind::Float);
            let judged = no_grad(|| network.forward(&ready, &x, Some(&code()), Kind::Float));
            compare(&judged.score, wanted, &format!("{network:?}"));
            if wanted == CLASSES.0 {
                compare(&judged.class, CLASSES.1, "class");
            }
        }
    }
}

/// Running statistics after n batches are the means over them of means and unbiased variances.
#[test]
fn measured_statistics_are_means_over_batches() {
    let network = generator(32, 0);
    let weights = Parameters::new("generator", network.specs(), &[1, 2], Device::Cpu);
    let ready = Ready::all(&weights, Power::Kept, Kind::Float);
    let [mut mean, mut var] = [0.0, 0.0];
    let batches = 3;
    for before in 0..batches {
        let z = numbers(i64::from(before), &[2, 6, network.latent]);
        let how = (Statistics::Measured(before), Kind::Float);
        let _ = no_grad(|| network.forward(&ready, (&z, None), how));
        // The first norm sees the first layer alone, whose pixels can be had without it.
        let first = no_grad(|| ready[1].linear(&z.get(1).narrow(1, 0, 5), "first"));
        let pixels = first.view([6, 8, 16]).select(1, 3).to_kind(Kind::Double);
        let count = 96.0;
        let own = pixels.mean(Kind::Double).double_value(&[]);
        let spread = (pixels - own).square().sum(Kind::Double).double_value(&[]);
        mean += own / f64::from(batches);
        var += spread / (count - 1.0) / f64::from(batches);
    }
    let saved = weights.replica(1).unwrap();
    let kept = |name: &str| f64::from(saved[&format!("blocks.0.first-norm.{name}")].1[3]);
    assert!((kept("mean") - mean).abs() < 1e-6, "{mean}");
    assert!((kept("var") - var).abs() < 1e-6, "{var}");
    let others = weights.replica(0).unwrap();
    assert_ne!(saved["last-norm.mean"], others["last-norm.mean"]);
    // By batch and by what is kept, nothing is written.
    for statistics in [Statistics::Batch, Statistics::Kept] {
        let z = numbers(9, &[2, 6, network.latent]);
        let _ = no_grad(|| network.forward(&ready, (&z, None), (statistics, Kind::Float)));
    }
    assert_eq!(weights.replica(1).unwrap(), saved);
}

#[test]
fn a_replica_is_the_same_alone_and_among_others() {
    let (maker, judge) = (generator(32, 3), critic(32, Head::Projection(3)));
    let both = |seeds: &[u64], rows: i64| {
        let made = Parameters::new("generator", maker.specs(), seeds, Device::Cpu);
        let critic = Parameters::new("critic", judge.specs(), seeds, Device::Cpu);
        let z = numbers(1, &[2, 4, maker.latent]).narrow(0, 2 - rows, rows);
        let code = code().expand([rows, 4, 3], false);
        let ready = Ready::all(&made, Power::Moved, Kind::Float);
        let how = (Statistics::Batch, Kind::Float);
        let x = no_grad(|| maker.forward(&ready, (&z, Some(&code)), how));
        let ready = Ready::all(&critic, Power::Moved, Kind::Float);
        let judged = no_grad(|| judge.forward(&ready, &x, Some(&code), Kind::Float));
        (x, judged.score)
    };
    let (many, one) = (both(&[1, 2], 2), both(&[2], 1));
    for (many, one) in [(&many.0, &one.0), (&many.1, &one.1)] {
        let off = (many.get(1) - one.get(0)).abs().max().double_value(&[]);
        // Rounding is relative to the values: kernels sum in other orders from one processor to another.
        let scale = one.abs().max().double_value(&[]);
        assert!(off < 1e-5 * scale, "{off} at a scale of {scale}");
    }
}

#[test]
fn a_gradient_reaches_every_weight() {
    let (maker, judge) = (generator(32, 3), critic(32, Head::Classes(3)));
    let made = filled(maker.specs());
    let ready = Ready::all(&made, Power::Moved, Kind::Float);
    let z = numbers(1000, &[1, 4, maker.latent]);
    let how = (Statistics::Batch, Kind::Float);
    let x = maker.forward(&ready, (&z, Some(&code())), how);
    let critic = filled(judge.specs());
    let ready = Ready::all(&critic, Power::Moved, Kind::Float);
    let judged = judge.forward(&ready, &x, None, Kind::Float);
    let loss =
        judged.score.sum(Kind::Float) + (judged.class * numbers(5, &[1, 4, 3])).sum(Kind::Float);
    let gradients = crate::parameters::gradients(&loss, [&made, &critic]);
    for (gradient, network) in gradients.iter().zip([&made, &critic]) {
        let by_weight = Parameters::from_flat(network.specs().to_vec(), gradient);
        for (spec, view) in by_weight.specs().iter().zip(by_weight.views()) {
            if !matches!(spec.first, First::Statistic(_) | First::Direction) {
                let reached = view.ne(0.0).to_kind(Kind::Float).mean(Kind::Float);
                assert!(reached.double_value(&[]) > 0.5, "{}", spec.name);
            }
        }
    }
}

/// Pictures, scores and gradients of a step. Without attention, because libtorch's products of bfloat16 matrices need
/// instructions that not every CPU has.
#[test]
fn bfloat16_is_close_to_32_bits_and_ends_in_them() {
    let maker = Generator {
        attention: false,
        ..generator(32, 3)
    };
    let judge = Critic {
        attention: false,
        ..critic(32, Head::Projection(3))
    };
    let step = |kind: Kind| {
        let (made, critic) = (filled(maker.specs()), filled(judge.specs()));
        let ready = Ready::all(&made, Power::Moved, kind);
        let z = numbers(1000, &[1, 4, maker.latent]);
        let x = maker.forward(&ready, (&z, Some(&code())), (Statistics::Batch, kind));
        let ready = Ready::all(&critic, Power::Moved, kind);
        let score = judge.forward(&ready, &x, Some(&code()), kind).score;
        let gradients = crate::parameters::gradients(&score.sum(Kind::Float), [&made, &critic]);
        let [first, second] = gradients;
        [x.detach(), score.detach(), first, second]
    };
    let limits = [0.05, 0.05, 0.5, 0.2];
    let (found, wanted) = (step(Kind::BFloat16), step(Kind::Float));
    for ((found, wanted), limit) in found.iter().zip(&wanted).zip(limits) {
        assert_eq!(found.kind(), Kind::Float);
        let far = ((found - wanted).norm() / wanted.norm()).double_value(&[]);
        assert!(far > 0.0 && far < limit, "{far} against {limit}");
    }
}

#[test]
fn names_are_given_once_and_sizes_follow_the_rule() {
    for side in SIDES {
        let parts = chunks(side);
        let maker = Generator {
            picture: [3, side, side],
            channels: 8,
            latent: 4 * parts,
            codes: 2,
            shared: 5,
            attention: true,
        };
        let judge = Critic {
            picture: [3, side, side],
            channels: 8,
            head: Head::Classes(2),
            attention: true,
        };
        for specs in [maker.specs(), judge.specs()] {
            let names: std::collections::BTreeSet<_> =
                specs.iter().map(|spec| &spec.name).collect();
            assert_eq!(names.len(), specs.len());
        }
        let made = Parameters::new("generator", maker.specs(), &[1], Device::Cpu);
        let critic = Parameters::new("critic", judge.specs(), &[1], Device::Cpu);
        let z = numbers(1, &[1, 2, maker.latent]);
        let code = Tensor::ones([1, 2, 2], (Kind::Float, Device::Cpu));
        let x = no_grad(|| maker.evaluate(&made, &z, Some(&code)));
        assert_eq!(x.size(), [1, 2, 3 * side * side]);
        let ready = Ready::all(&critic, Power::Kept, Kind::Float);
        let judged = no_grad(|| judge.forward(&ready, &x, None, Kind::Float));
        assert_eq!(judged.score.size(), [1, 2]);
        assert_eq!(judged.class.size(), [1, 2, 2]);
    }
}

#[test]
fn pictures_without_a_rule_are_refused() {
    let refused = |picture: &[usize], latent, attention| {
        check(picture, latent, attention).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&[1, 24, 24], 80, None),
        "BigGAN makes pictures of 28×28, 32×32, 64×64 or 128×128 pixels; the data's have 24×24"
    );
    assert_eq!(
        refused(&[3, 32, 64], 80, None),
        "BigGAN makes pictures of 28×28, 32×32, 64×64 or 128×128 pixels; the data's have 64×32"
    );
    assert!(refused(&[2], 80, None).contains("points of [2] numbers"));
    assert_eq!(
        refused(&[3, 32, 32], 81, None),
        "`network.latent` is 81; pictures of 32 pixels take a multiple of 4, a part for the first layer and one for each block"
    );
    assert!(refused(&[3, 64, 64], 80, Some(4)).contains("at least 8 channels"));
    assert_eq!(check(&[3, 64, 64], 100, Some(8)).unwrap(), [3, 64, 64]);
    assert_eq!(check(&[1, 128, 128], 120, None).unwrap(), [1, 128, 128]);
}

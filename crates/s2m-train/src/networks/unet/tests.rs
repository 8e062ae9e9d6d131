//! The U-Net against PyTorch, against itself in other precisions and replicas, and its file against libtorch.

use tch::Device;

use super::*;

const COLOUR: UNet = UNet {
    picture: [3, 16, 16],
    channels: 16,
    steps: 3,
};
const GREY: UNet = UNet {
    picture: [1, 28, 28],
    channels: 16,
    steps: 2,
};

/// Numbers in [−1, 1) that look random and are the same everywhere.
fn numbers(t: i64, shape: &[i64]) -> Tensor {
    let k = Tensor::arange(shape.iter().product::<i64>(), (Kind::Int64, Device::Cpu));
    let whole = (&k * (&k + 17) * 31 + t * 7919).remainder(4099);
    (whole.to_kind(Kind::Double) / 2049.5 - 1.0)
        .to_kind(Kind::Float)
        .view(shape)
}

/// The weights of the reference; the last convolution too, which starts at 0.
fn filled(network: &UNet) -> Parameters {
    let specs = network.specs();
    let tensor = |(t, spec): (i64, &Spec)| {
        let n = numbers(t, &spec.for_replicas(1));
        let fan_in: i64 = spec.shape[1..].iter().product();
        match (spec.name.ends_with("weight"), spec.shape.len()) {
            (true, 1) => n * 0.1 + 1.0,
            (true, _) => n / (fan_in as f64).sqrt(),
            (false, _) => n * 0.1,
        }
    };
    let tensors: Vec<Tensor> = (0..).zip(&specs).map(tensor).collect();
    Parameters::from_tensors(specs, &tensors)
}

fn images(network: &UNet) -> Tensor {
    numbers(1000, &[1, 4, network.latent()])
}

fn times() -> Tensor {
    Tensor::from_slice(&[0.0_f32, 0.25, 0.5, 0.9]).view([1, 4])
}

fn compare(y: &Tensor, wanted: [f64; 5]) {
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
        assert!((found - wanted).abs() < 1e-5, "{found} against {wanted}");
    }
}

fn filled_velocity(network: &UNet, kind: Kind) -> Tensor {
    let (weights, x) = (filled(network), images(network));
    no_grad(|| network.velocity(&weights, &x, &times(), kind))
}

/// Values of `tests/twins/unet.py` with PyTorch 2.11.0.
#[test]
fn velocities_and_ways_agree_with_pytorch() {
    let cases = [
        (
            COLOUR,
            171_171,
            [
                -0.051_127_97,
                0.076_232_4,
                -0.238_496_74,
                0.034_491_78,
                0.352_517_01,
            ],
            [0.796_627_28, 0.487_838_66, -1.0, 0.024_062_16, 0.625_929_47],
        ),
        (
            GREY,
            294_625,
            [
                0.133_623_09,
                -0.241_555_2,
                -0.160_436_96,
                -0.076_314_77,
                0.312_925_41,
            ],
            [1.0, 0.179_708_3, -0.965_338_95, -0.075_036_66, 0.556_780_22],
        ),
    ];
    for (network, size, velocity, image) in cases {
        let sizes = network.specs();
        let sizes = sizes.iter().map(|spec| spec.shape.iter().product::<i64>());
        assert_eq!(sizes.sum::<i64>(), size);
        compare(&filled_velocity(&network, Kind::Float), velocity);
        let made = no_grad(|| network.flow(&filled(&network), &images(&network)));
        compare(&made, image);
    }
}

#[test]
fn a_file_goes_the_whole_way_as_libtorch_does() {
    let runtime = s2m_model::runtime::Runtime::load(None).unwrap();
    for network in [COLOUR, GREY] {
        let weights = filled(&network);
        let x = images(&network);
        let made = no_grad(|| network.flow(&weights, &x));
        let file = network.onnx(&weights.replica(0).unwrap()).unwrap();
        let input = crate::export::Input {
            name: "z",
            rows: &x.get(0),
        };
        let far = crate::export::check(&runtime, &file, &[input], &[("x", &made.get(0))]);
        assert!(far.unwrap() < 1e-5);
        let held = made.abs().ge(1.0).to_kind(Kind::Float).mean(Kind::Float);
        let held = held.double_value(&[]);
        assert!(held > 0.01 && held < 0.99, "{held} of the numbers are held");
    }
}

/// The last convolution starts at 0. With a bias alone every velocity is that bias, and so is the whole way.
#[test]
fn a_constant_velocity_moves_an_image_by_itself_whatever_the_steps() {
    for steps in [1, 5] {
        let network = UNet { steps, ..COLOUR };
        let weights = Parameters::new("generator", network.specs(), &[3], Device::Cpu);
        let z = images(&network) * 2.0;
        let made = no_grad(|| network.flow(&weights, &z));
        assert_eq!(made, z.clamp(-1.0, 1.0));
        let at = network.specs().len() - 1;
        let bias = [0.25_f32, -0.5, 0.125];
        no_grad(|| weights.views()[at].get(0).copy_(&Tensor::from_slice(&bias)));
        let moved = Tensor::from_slice(&bias).view([1, 1, 3, 1]);
        let wanted = (&z.view([1, 4, 3, 256]) + moved).clamp(-1.0, 1.0);
        let made = no_grad(|| network.flow(&weights, &z)).view([1, 4, 3, 256]);
        let far = (made - wanted).abs().max().double_value(&[]);
        assert!(far < 1e-6, "{far}");
    }
}

#[test]
fn a_replica_is_the_same_alone_and_among_others() {
    let start = |keys: &[u64]| {
        let weights = Parameters::new("generator", COLOUR.specs(), keys, Device::Cpu);
        let at = COLOUR.specs().len() - 2;
        no_grad(|| {
            let noise = numbers(5, &[3, 16, 3, 3]);
            for replica in 0..keys.len() as i64 {
                weights.views()[at].get(replica).copy_(&noise);
            }
        });
        weights
    };
    let x = numbers(1, &[2, 4, COLOUR.latent()]);
    let t = Tensor::cat(&[times(), times()], 0);
    let both = no_grad(|| COLOUR.velocity(&start(&[4, 9]), &x, &t, Kind::Float));
    let own = x.narrow(0, 1, 1);
    let alone = no_grad(|| COLOUR.velocity(&start(&[9]), &own, &times(), Kind::Float));
    assert_eq!(both.narrow(0, 1, 1), alone);
    assert_ne!(both.get(0), both.get(1));
}

#[test]
fn bfloat16_is_close_to_32_bits_and_ends_in_them() {
    let [half, whole] = [Kind::BFloat16, Kind::Float].map(|kind| filled_velocity(&COLOUR, kind));
    assert_eq!(half.kind(), Kind::Float);
    let far = ((half - &whole).norm() / whole.norm()).double_value(&[]);
    assert!(far > 1e-4 && far < 3e-2, "{far}");
}

#[test]
fn a_gradient_reaches_every_weight() {
    let weights = filled(&COLOUR);
    let y = COLOUR.velocity(&weights, &images(&COLOUR), &times(), Kind::Float);
    let gradient = weights.gradient(&(&y * numbers(4, &y.size())).sum(Kind::Float));
    let mut first = 0;
    for spec in COLOUR.specs() {
        let size: i64 = spec.shape.iter().product();
        let largest = gradient.narrow(1, first, size).abs().max();
        assert!(largest.double_value(&[]) > 1e-6, "{}", spec.name);
        first += size;
    }
}

#[test]
fn sides_that_cannot_be_halved_and_doubled_back_are_refused() {
    for side in [4, 8, 14, 16, 28, 32, 64, 128] {
        assert_eq!(UNet::check(&[3, side, side]).unwrap()[1], side as i64);
    }
    let refused = |shape: &[usize]| UNet::check(shape).unwrap_err().to_string();
    assert_eq!(
        refused(&[3, 30, 30]),
        "a U-Net makes square images whose side can be halved down to at most 8 pixels; the data's have 30×30"
    );
    assert!(refused(&[1, 16, 32]).contains("32×16"));
    assert!(refused(&[2]).contains("points of [2] numbers"));
}

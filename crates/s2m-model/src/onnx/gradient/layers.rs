//! Products with weights, normalisation, and softmax.

use super::super::proto::{AttributeProto, as_int};
use super::tape::Step;
use crate::error::Error;

/// Writes the rule of a node, if it is one of these.
pub(super) fn rule(step: &mut Step<'_, '_>) -> Result<bool, Error> {
    match step.operator() {
        "MatMul" => matmul(step)?,
        "Gemm" => gemm(step)?,
        "Conv" => conv(step)?,
        "ConvTranspose" => conv_transpose(step)?,
        "BatchNormalization" => batch_norm(step)?,
        "InstanceNormalization" | "LayerNormalization" => own_norm(step)?,
        "Softmax" | "LogSoftmax" => softmax(step)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn matmul(step: &mut Step<'_, '_>) -> Result<(), Error> {
    let dims = [step.x_dims(0)?, step.x_dims(1)?, step.y_dims(0)?];
    if dims.iter().any(|dims| dims.len() < 2) {
        return Err(step.refused("with a vector"));
    }
    let dy = step.dy()?;
    for input in 0..2 {
        if !step.needs(input) {
            continue;
        }
        let rank = dims[1 - input].len();
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(rank - 2, rank - 1);
        let other = step.x(1 - input);
        let other = step.transposed(&other, &order);
        let pair = if input == 0 {
            [&dy, &other]
        } else {
            [&other, &dy]
        };
        let part = step.op("MatMul", &pair.map(String::as_str));
        // Sides in front of the last two broadcast.
        let (own, made) = (&dims[input], &dims[2]);
        let from = [&made[..made.len() - 2], &own[own.len() - 2..]].concat();
        let part = step.unbroadcast(part, &from, own);
        step.give(input, part);
    }
    Ok(())
}

fn gemm(step: &mut Step<'_, '_>) -> Result<(), Error> {
    let (alpha, beta) = (step.float("alpha", 1.0), step.float("beta", 1.0));
    let [turned_a, turned_b] = ["transA", "transB"].map(|name| step.int(name, 0));
    let dy = step.dy()?;
    let product = |step: &mut Step<'_, '_>, pair: [&str; 2], turned: [i64; 2]| {
        let attributes = vec![
            AttributeProto::float("alpha", alpha),
            AttributeProto::int("transA", turned[0]),
            AttributeProto::int("transB", turned[1]),
        ];
        step.op_with("Gemm", &pair, attributes)
    };
    if step.needs(0) {
        let b = step.x(1);
        let part = if turned_a == 0 {
            product(step, [&dy, &b], [0, 1 - turned_b])
        } else {
            product(step, [&b, &dy], [turned_b, 1])
        };
        step.give(0, part);
    }
    if step.needs(1) {
        let a = step.x(0);
        let part = if turned_b == 0 {
            product(step, [&a, &dy], [1 - turned_a, 0])
        } else {
            product(step, [&dy, &a], [1, turned_a])
        };
        step.give(1, part);
    }
    if step.needs(2) {
        let beta = step.number(beta);
        let part = step.op("Mul", &[&dy, &beta]);
        step.give_broadcast(2, part)?;
    }
    Ok(())
}

/// Windows of a convolution: for each axis of an image its size, step, gap and the pads before and behind.
struct Windows {
    kernel: Vec<i64>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    before: Vec<i64>,
    after: Vec<i64>,
    group: i64,
}

impl Windows {
    /// `wide` is the image that windows lie on, `narrow` has a place for each window.
    fn of(
        step: &Step<'_, '_>,
        kernel: &[usize],
        wide: &[usize],
        narrow: &[usize],
    ) -> Result<Self, Error> {
        let kernel: Vec<i64> = kernel.iter().map(|&k| as_int(k)).collect();
        let ones = || vec![1; kernel.len()];
        let strides = step.ints("strides").unwrap_or_else(ones);
        let dilations = step.ints("dilations").unwrap_or_else(ones);
        let given = step
            .ints("pads")
            .unwrap_or_else(|| vec![0; 2 * kernel.len()]);
        let (mut before, mut after) = (
            given[..kernel.len()].to_vec(),
            given[kernel.len()..].to_vec(),
        );
        let auto = step.text("auto_pad").unwrap_or("NOTSET");
        for axis in 0..kernel.len() {
            let reach = dilations[axis] * (kernel[axis] - 1) + 1;
            let total =
                ((as_int(narrow[axis]) - 1) * strides[axis] + reach - as_int(wide[axis])).max(0);
            match auto {
                "NOTSET" => {}
                "VALID" => (before[axis], after[axis]) = (0, 0),
                "SAME_UPPER" if step.operator() == "Conv" => {
                    (before[axis], after[axis]) = (total / 2, total - total / 2);
                }
                "SAME_LOWER" if step.operator() == "Conv" => {
                    (before[axis], after[axis]) = (total - total / 2, total / 2);
                }
                _ => return Err(step.refused("with pads of its own")),
            }
        }
        let group = step.int("group", 1);
        Ok(Self {
            kernel,
            strides,
            dilations,
            before,
            after,
            group,
        })
    }

    fn attributes(&self) -> Vec<AttributeProto> {
        let pads = [self.before.as_slice(), &self.after].concat();
        vec![
            AttributeProto::ints("kernel_shape", self.kernel.clone()),
            AttributeProto::ints("strides", self.strides.clone()),
            AttributeProto::ints("dilations", self.dilations.clone()),
            AttributeProto::ints("pads", pads),
            AttributeProto::int("group", self.group),
        ]
    }
}

/// From so many channels on a convolution is faster than a transposed one.
const MANY_CHANNELS: usize = 48;

const WEIGHTS: &str = "whose weights depend on the latents";

fn conv(step: &mut Step<'_, '_>) -> Result<(), Error> {
    step.fixed(1..3, WEIGHTS)?;
    let (wide, weight, narrow) = (step.x_dims(0)?, step.x_dims(1)?, step.y_dims(0)?);
    let windows = Windows::of(step, &weight[2..], &wide[2..], &narrow[2..])?;
    let dy = step.dy()?;
    // At stride 1 it is a convolution itself, by the mirrored kernel, which is faster than a transposed one where it
    // makes many channels, and several times slower where it makes few (ONNX Runtime 1.31.1 on a processor).
    let plain =
        wide[1] >= MANY_CHANNELS && windows.group == 1 && windows.strides.iter().all(|&s| s == 1);
    let turned = |pads: &[i64]| -> Vec<i64> {
        let reach = windows.kernel.iter().zip(&windows.dilations);
        reach
            .zip(pads)
            .map(|((k, d), pad)| d * (k - 1) - pad)
            .collect()
    };
    let (before, after) = (turned(&windows.before), turned(&windows.after));
    if plain
        && before.iter().chain(&after).all(|&pad| pad >= 0)
        && let Some(values) = step.weights(1)
    {
        let (dims, values) = mirrored(&weight, &values);
        let weight = step.numbers(&dims, &values);
        let windows = Windows {
            before,
            after,
            ..windows
        };
        let part = step.op_with("Conv", &[&dy, &weight], windows.attributes());
        step.give(0, part);
        return Ok(());
    }
    let mut attributes = windows.attributes();
    let missing = |axis: usize| {
        let reach = windows.dilations[axis] * (windows.kernel[axis] - 1) + 1;
        let made = (as_int(narrow[axis + 2]) - 1) * windows.strides[axis] + reach;
        as_int(wide[axis + 2]) - (made - windows.before[axis] - windows.after[axis])
    };
    let missing: Vec<i64> = (0..windows.kernel.len()).map(missing).collect();
    attributes.push(AttributeProto::ints("output_padding", missing));
    let weight = step.x(1);
    let part = step.op_with("ConvTranspose", &[&dy, &weight], attributes);
    step.give(0, part);
    Ok(())
}

/// Weights `[m, c, …]` as `[c, m, …]`, with every axis of the window turned round.
fn mirrored(dims: &[usize], values: &[f32]) -> (Vec<usize>, Vec<f32>) {
    let (m, c) = (dims[0], dims[1]);
    let places: usize = dims[2..].iter().product();
    let mut turned = vec![0.0; values.len()];
    for row in 0..m {
        for column in 0..c {
            let from = &values[(row * c + column) * places..][..places];
            let to = &mut turned[(column * m + row) * places..][..places];
            // All axes turned round is the whole window read from behind.
            to.iter_mut()
                .zip(from.iter().rev())
                .for_each(|(to, from)| *to = *from);
        }
    }
    let mut sizes = dims.to_vec();
    sizes.swap(0, 1);
    (sizes, turned)
}

fn conv_transpose(step: &mut Step<'_, '_>) -> Result<(), Error> {
    step.fixed(1..3, WEIGHTS)?;
    if step.ints("output_shape").is_some() {
        return Err(step.refused("with pads of its own"));
    }
    let (narrow, weight, wide) = (step.x_dims(0)?, step.x_dims(1)?, step.y_dims(0)?);
    let windows = Windows::of(step, &weight[2..], &wide[2..], &narrow[2..])?;
    let (dy, weight) = (step.dy()?, step.x(1));
    let part = step.op_with("Conv", &[&dy, &weight], windows.attributes());
    step.give(0, part);
    Ok(())
}

/// One number per channel, as it broadcasts over images.
fn per_channel(step: &mut Step<'_, '_>, value: &str, dims: &[usize]) -> String {
    let mut sizes = vec![1; dims.len().max(2)];
    sizes[1] = dims.get(1).copied().unwrap_or(1);
    sizes.truncate(dims.len());
    step.reshaped(value, &sizes)
}

fn batch_norm(step: &mut Step<'_, '_>) -> Result<(), Error> {
    step.fixed(1..5, WEIGHTS)?;
    if step.int("training_mode", 0) != 0 {
        return Err(step.refused("in training"));
    }
    let dims = step.x_dims(0)?;
    let epsilon = step.float("epsilon", 1e-5);
    let (scale, variance, epsilon) = (step.x(1), step.x(4), step.number(epsilon));
    let variance = step.op("Add", &[&variance, &epsilon]);
    let deviation = step.op("Sqrt", &[&variance]);
    let slope = step.op("Div", &[&scale, &deviation]);
    let slope = per_channel(step, &slope, &dims);
    let dy = step.dy()?;
    let part = step.op("Mul", &[&dy, &slope]);
    step.give(0, part);
    Ok(())
}

/// Normalisation by an item's own mean and variance: `s/σ · (u − mean u − x̂ mean(u x̂))`.
fn own_norm(step: &mut Step<'_, '_>) -> Result<(), Error> {
    step.fixed(1..3, WEIGHTS)?;
    let dims = step.x_dims(0)?;
    let instance = step.operator() == "InstanceNormalization";
    let first = if instance {
        2
    } else {
        step.axis(step.int("axis", -1), dims.len())?
    };
    let axes: Vec<usize> = (first..dims.len()).collect();
    let epsilon = step.float("epsilon", 1e-5);
    let (x, scale, dy, epsilon) = (step.x(0), step.x(1), step.dy()?, step.number(epsilon));
    let mean = |step: &mut Step<'_, '_>, value: &str| {
        let axes = step.sizes(&axes);
        step.op("ReduceMean", &[value, &axes])
    };
    let centre = mean(step, &x);
    let off = step.op("Sub", &[&x, &centre]);
    let square = step.op("Mul", &[&off, &off]);
    let variance = mean(step, &square);
    let variance = step.op("Add", &[&variance, &epsilon]);
    let deviation = step.op("Sqrt", &[&variance]);
    let unit = step.op("Div", &[&off, &deviation]);
    let scale = if instance {
        per_channel(step, &scale, &dims)
    } else {
        scale
    };
    let u = step.op("Mul", &[&dy, &scale]);
    let along = step.op("Mul", &[&u, &unit]);
    let along = mean(step, &along);
    let along = step.op("Mul", &[&unit, &along]);
    let level = mean(step, &u);
    let rest = step.op("Sub", &[&u, &level]);
    let rest = step.op("Sub", &[&rest, &along]);
    let part = step.op("Div", &[&rest, &deviation]);
    step.give(0, part);
    Ok(())
}

fn softmax(step: &mut Step<'_, '_>) -> Result<(), Error> {
    let dims = step.x_dims(0)?;
    let axis = step.axis(step.int("axis", -1), dims.len())?;
    let (y, dy) = (step.y(), step.dy()?);
    let part = if step.operator() == "Softmax" {
        let along = step.op("Mul", &[&dy, &y]);
        let sum = step.summed(&along, &[axis]);
        let rest = step.op("Sub", &[&dy, &sum]);
        step.op("Mul", &[&rest, &y])
    } else {
        let sum = step.summed(&dy, &[axis]);
        let share = step.op("Exp", &[&y]);
        let share = step.op("Mul", &[&share, &sum]);
        step.op("Sub", &[&dy, &share])
    };
    step.give(0, part);
    Ok(())
}

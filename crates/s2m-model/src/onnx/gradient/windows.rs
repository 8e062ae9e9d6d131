//! Pools and changes of size.

use super::super::proto::{AttributeProto, as_int};
use super::tape::Step;
use crate::error::Error;

/// Writes the rule of a node, if it is one of these.
pub(super) fn rule(step: &mut Step<'_, '_>) -> Result<bool, Error> {
    match step.operator() {
        "MaxPool" => max_pool(step)?,
        "AveragePool" => average_pool(step)?,
        "GlobalAveragePool" | "GlobalMaxPool" => global_pool(step)?,
        "Resize" | "Upsample" => resize(step)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// What arrives at a largest value goes to the place where it stood, and to all where several of a window are as large.
///
/// Windows side by side are compared with their image, enlarged: to ask the runtime for places makes its pool about
/// 15 times slower.
fn plain_max_pool(step: &mut Step<'_, '_>) -> Result<bool, Error> {
    let (dims, made) = (step.x_dims(0)?, step.y_dims(0)?);
    let (Some(kernel), Some(strides)) = (step.ints("kernel_shape"), step.ints("strides")) else {
        return Ok(false);
    };
    let all = |name, value| {
        step.ints(name)
            .is_none_or(|found| found.iter().all(|&v| v == value))
    };
    let covered = |axis: usize| made[axis + 2] * kernel[axis] as usize == dims[axis + 2];
    let plain = dims.len() == 4
        && kernel == strides
        && all("pads", 0)
        && all("dilations", 1)
        && step.text("auto_pad").is_none_or(|auto| auto == "NOTSET")
        && covered(0)
        && covered(1);
    if !plain {
        return Ok(false);
    }
    let factors = step.numbers(&[4], &[1.0, 1.0, kernel[0] as f32, kernel[1] as f32]);
    let enlarged = |step: &mut Step<'_, '_>, value: &str| {
        let attributes = vec![
            AttributeProto::string("mode", "nearest"),
            AttributeProto::string("coordinate_transformation_mode", "asymmetric"),
            AttributeProto::string("nearest_mode", "floor"),
        ];
        step.op_with("Resize", &[value, "", &factors], attributes)
    };
    let (x, y, dy) = (step.x(0), step.y(), step.dy()?);
    let (y, dy) = (enlarged(step, &y), enlarged(step, &dy));
    let same = step.op("Equal", &[&x, &y]);
    let part = step.only_where(&same, &dy);
    step.give(0, part);
    Ok(true)
}

/// The same by the places that the runtime tells.
fn max_pool(step: &mut Step<'_, '_>) -> Result<(), Error> {
    if plain_max_pool(step)? {
        return Ok(());
    }
    if step.int("storage_order", 0) != 0 {
        return Err(step.refused("by columns"));
    }
    let dims = step.x_dims(0)?;
    let (all, made): (usize, usize) = (dims.iter().product(), step.y_dims(0)?.iter().product());
    let (places, dy, zero) = (step.places(), step.dy()?, step.number(0.0));
    let places = step.reshaped(&places, &[made]);
    let dy = step.reshaped(&dy, &[made]);
    let size = step.sizes(&[all]);
    let zeros = step.op("Expand", &[&zero, &size]);
    let part = step.op_with(
        "ScatterElements",
        &[&zeros, &places, &dy],
        vec![
            AttributeProto::int("axis", 0),
            AttributeProto::string("reduction", "add"),
        ],
    );
    let part = step.reshaped(&part, &dims);
    step.give(0, part);
    Ok(())
}

fn average_pool(step: &mut Step<'_, '_>) -> Result<(), Error> {
    let (dims, made) = (step.x_dims(0)?, step.y_dims(0)?);
    let (Some(kernel), &[n, c, height, width]) = (step.ints("kernel_shape"), dims.as_slice())
    else {
        return Err(step.refused("of anything but images"));
    };
    let (rows, columns) = (made[2], made[3]);
    let strides = step.ints("strides").unwrap_or_else(|| vec![1, 1]);
    let pads = step.ints("pads").unwrap_or_else(|| vec![0; 4]);
    let plain =
        |step: &Step<'_, '_>, name| step.ints(name).is_none_or(|d| d.iter().all(|&d| d == 1));
    if !plain(step, "dilations") || step.text("auto_pad").is_some_and(|auto| auto != "NOTSET") {
        return Err(step.refused("with pads of its own"));
    }
    // How many numbers of the image each mean is over.
    let padded = step.int("count_include_pad", 0) != 0;
    let counted = |axis: usize, size: usize, at: usize| -> f32 {
        let first = as_int(at) * strides[axis] - pads[axis];
        let last = first + kernel[axis];
        let [low, high] = if padded {
            [-pads[axis], as_int(size) + pads[axis + 2]]
        } else {
            [0, as_int(size)]
        };
        (last.min(high) - first.max(low)) as f32
    };
    let mut shares = Vec::with_capacity(rows * columns);
    for row in 0..rows {
        for column in 0..columns {
            shares.push(1.0 / (counted(0, height, row) * counted(1, width, column)));
        }
    }
    let (dy, shares) = (step.dy()?, step.numbers(&[1, 1, rows, columns], &shares));
    let part = step.op("Mul", &[&dy, &shares]);
    let part = step.reshaped(&part, &[n * c, 1, rows, columns]);
    let window = [kernel[0] as usize, kernel[1] as usize];
    let ones = step.numbers(
        &[1, 1, window[0], window[1]],
        &vec![1.0; window[0] * window[1]],
    );
    let attributes = vec![
        AttributeProto::ints("kernel_shape", kernel.clone()),
        AttributeProto::ints("strides", strides.clone()),
    ];
    let part = step.op_with("ConvTranspose", &[&part, &ones], attributes);
    // The image lies inside of what the windows cover, or a little beyond it.
    let covered = |axis: usize, places: usize| (as_int(places) - 1) * strides[axis] + kernel[axis];
    let behind = [
        as_int(height) - (covered(0, rows) - pads[0]),
        as_int(width) - (covered(1, columns) - pads[1]),
    ];
    let pads = step.list(&[0, 0, -pads[0], -pads[1], 0, 0, behind[0], behind[1]]);
    let part = step.op("Pad", &[&part, &pads]);
    let part = step.reshaped(&part, &dims);
    step.give(0, part);
    Ok(())
}

fn global_pool(step: &mut Step<'_, '_>) -> Result<(), Error> {
    let dims = step.x_dims(0)?;
    let dy = step.dy()?;
    let part = if step.operator() == "GlobalMaxPool" {
        let (x, y) = (step.x(0), step.y());
        let same = step.op("Equal", &[&x, &y]);
        step.only_where(&same, &dy)
    } else {
        let count: usize = dims[2..].iter().product();
        let count = step.number(count as f32);
        let part = step.op("Div", &[&dy, &count]);
        let sizes = step.sizes(&dims);
        step.op("Expand", &[&part, &sizes])
    };
    step.give(0, part);
    Ok(())
}

/// Enlarging by a whole number of equal pixels: they are added up again.
fn resize(step: &mut Step<'_, '_>) -> Result<(), Error> {
    const WHY: &str = "but for whole numbers of equal pixels";
    let (dims, made) = (step.x_dims(0)?, step.y_dims(0)?);
    let how = step
        .text("coordinate_transformation_mode")
        .unwrap_or("half_pixel");
    let rounding = step.text("nearest_mode").unwrap_or("round_prefer_floor");
    let equal = matches!(
        (how, rounding),
        ("asymmetric", "floor")
            | (
                "half_pixel" | "pytorch_half_pixel",
                "round_prefer_floor" | "round_prefer_ceil"
            )
    );
    let nearest = step.text("mode").unwrap_or("nearest") == "nearest";
    let whole = dims
        .iter()
        .zip(&made)
        .all(|(from, to)| to.is_multiple_of(*from));
    if !(nearest && whole && (equal || step.operator() == "Upsample"))
        || step.ints("axes").is_some()
    {
        return Err(step.refused(WHY));
    }
    let (mut apart, mut axes) = (Vec::new(), Vec::new());
    for (&from, &to) in dims.iter().zip(&made) {
        apart.push(from);
        if to != from {
            axes.push(apart.len());
            apart.push(to / from);
        }
    }
    let dy = step.dy()?;
    let mut part = step.reshaped(&dy, &apart);
    if !axes.is_empty() {
        part = step.summed(&part, &axes);
    }
    let part = step.reshaped(&part, &dims);
    step.give(0, part);
    Ok(())
}

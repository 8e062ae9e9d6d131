//! Operators that move numbers about, or add them up along axes.

use super::super::proto::{AttributeProto, as_int};
use super::tape::Step;
use crate::error::Error;

/// Writes the rule of a node, if it is one of these.
pub(super) fn rule(step: &mut Step<'_, '_>) -> Result<bool, Error> {
    match step.operator() {
        "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" => {
            let (dy, dims) = (step.dy()?, step.x_dims(0)?);
            let part = step.reshaped(&dy, &dims);
            step.give(0, part);
        }
        "Expand" => {
            let dy = step.dy()?;
            step.give_broadcast(0, dy)?;
        }
        "Transpose" => transpose(step)?,
        "Concat" => concat(step)?,
        "Split" => split(step)?,
        "Slice" => slice(step)?,
        "Gather" => gather(step)?,
        "Pad" => pad(step)?,
        "DepthToSpace" | "SpaceToDepth" => depth(step)?,
        "ReduceSum" | "ReduceMean" | "ReduceMax" | "ReduceMin" | "ReduceSumSquare" | "ReduceL2"
        | "ReduceLogSumExp" => reduce(step)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn transpose(step: &mut Step<'_, '_>) -> Result<(), Error> {
    let rank = step.x_dims(0)?.len();
    let order = match step.ints("perm") {
        Some(order) => order.iter().map(|&axis| axis as usize).collect(),
        None => (0..rank).rev().collect::<Vec<_>>(),
    };
    let mut back = vec![0; rank];
    for (to, &from) in order.iter().enumerate() {
        back[from] = to;
    }
    let dy = step.dy()?;
    let part = step.transposed(&dy, &back);
    step.give(0, part);
    Ok(())
}

/// A stretch of one axis.
fn stretch(step: &mut Step<'_, '_>, value: &str, axis: usize, range: [usize; 2]) -> String {
    let (first, last, axis) = (
        step.sizes(&[range[0]]),
        step.sizes(&[range[1]]),
        step.sizes(&[axis]),
    );
    step.op("Slice", &[value, &first, &last, &axis])
}

fn concat(step: &mut Step<'_, '_>) -> Result<(), Error> {
    let rank = step.y_dims(0)?.len();
    let axis = step.axis(step.int("axis", 0), rank)?;
    let dy = step.dy()?;
    let mut first = 0;
    for input in 0..step.inputs() {
        let last = first + step.x_dims(input)?[axis];
        if step.needs(input) {
            let part = stretch(step, &dy, axis, [first, last]);
            step.give(input, part);
        }
        first = last;
    }
    Ok(())
}

fn split(step: &mut Step<'_, '_>) -> Result<(), Error> {
    let rank = step.x_dims(0)?.len();
    let axis = step.axis(step.int("axis", 0), rank)?;
    let mut parts = Vec::with_capacity(step.outputs());
    for output in 0..step.outputs() {
        if let Some(part) = step.cotangent(output) {
            parts.push(part);
            continue;
        }
        let (dims, zero) = (step.y_dims(output)?, step.number(0.0));
        let dims = step.sizes(&dims);
        parts.push(step.op("Expand", &[&zero, &dims]));
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let part = step.op_with(
        "Concat",
        &parts,
        vec![AttributeProto::int("axis", as_int(axis))],
    );
    step.give(0, part);
    Ok(())
}

/// Adds `value`, whose places along an axis came from `places` of the input, back where they came from.
fn scatter(
    step: &mut Step<'_, '_>,
    value: &str,
    (axis, places): (usize, &[i64]),
    (from, to): (&[usize], &[usize]),
) -> String {
    let mut dims = vec![1; from.len()];
    dims[axis] = places.len();
    let places = step.list(places);
    let places = step.reshaped(&places, &dims);
    let all = step.sizes(from);
    let places = step.op("Expand", &[&places, &all]);
    let (zero, sizes) = (step.number(0.0), step.sizes(to));
    let zeros = step.op("Expand", &[&zero, &sizes]);
    step.op_with(
        "ScatterElements",
        &[&zeros, &places, value],
        vec![
            AttributeProto::int("axis", as_int(axis)),
            AttributeProto::string("reduction", "add"),
        ],
    )
}

fn slice(step: &mut Step<'_, '_>) -> Result<(), Error> {
    let dims = step.x_dims(0)?;
    let (starts, ends) = (
        step.whole(1)?.unwrap_or_default(),
        step.whole(2)?.unwrap_or_default(),
    );
    let axes = step
        .whole(3)?
        .unwrap_or_else(|| (0..as_int(starts.len())).collect());
    let steps = step.whole(4)?.unwrap_or_else(|| vec![1; starts.len()]);
    // Axis by axis, the last first.
    let mut sizes = step.y_dims(0)?;
    let mut part = step.dy()?;
    for (((&start, &end), &axis), &by) in starts.iter().zip(&ends).zip(&axes).zip(&steps).rev() {
        let axis = step.axis(axis, dims.len())?;
        let size = as_int(dims[axis]);
        let from_front = |place: i64| {
            if place < 0 {
                place.saturating_add(size)
            } else {
                place
            }
        };
        let (first, last) = if by > 0 {
            (
                from_front(start).clamp(0, size),
                from_front(end).clamp(0, size),
            )
        } else {
            (
                from_front(start).clamp(0, size - 1),
                from_front(end).clamp(-1, size - 1),
            )
        };
        let mut places = Vec::new();
        let mut place = first;
        while (by > 0 && place < last) || (by < 0 && place > last) {
            places.push(place);
            place += by;
        }
        let from = sizes.clone();
        sizes[axis] = dims[axis];
        if from == sizes && by == 1 {
            continue;
        }
        part = if by == 1 {
            let mut pads = vec![0; 2 * dims.len()];
            pads[axis] = first;
            pads[dims.len() + axis] = size - last;
            let pads = step.list(&pads);
            step.op("Pad", &[&part, &pads])
        } else {
            scatter(step, &part, (axis, &places), (&from, &sizes))
        };
    }
    step.give(0, part);
    Ok(())
}

fn gather(step: &mut Step<'_, '_>) -> Result<(), Error> {
    let dims = step.x_dims(0)?;
    let axis = step.axis(step.int("axis", 0), dims.len())?;
    let Some(places) = step.whole(1)? else {
        return Err(step.refused("without places"));
    };
    let size = as_int(dims[axis]);
    let places: Vec<i64> = places
        .iter()
        .map(|&p| if p < 0 { p + size } else { p })
        .collect();
    let mut from = dims.clone();
    from[axis] = places.len();
    let dy = step.dy()?;
    let dy = step.reshaped(&dy, &from);
    let part = scatter(step, &dy, (axis, &places), (&from, &dims));
    step.give(0, part);
    Ok(())
}

fn pad(step: &mut Step<'_, '_>) -> Result<(), Error> {
    let dims = step.x_dims(0)?;
    let mode = step.text("mode").unwrap_or("constant");
    let pads = step.whole(1)?.unwrap_or_default();
    let given = step
        .whole(3)?
        .unwrap_or_else(|| (0..as_int(dims.len())).collect());
    if pads.len() != 2 * given.len() || pads.iter().any(|&pad| pad < 0) {
        return Err(step.refused("that takes something away"));
    }
    let mut part = step.dy()?;
    let mut sizes = step.y_dims(0)?;
    for (at, &axis) in given.iter().enumerate() {
        let axis = step.axis(axis, dims.len())?;
        let (before, after) = (pads[at], pads[given.len() + at]);
        if before == 0 && after == 0 {
            continue;
        }
        let size = as_int(dims[axis]);
        let from = sizes.clone();
        sizes[axis] = dims[axis];
        part = match mode {
            "constant" => {
                let first = before as usize;
                stretch(step, &part, axis, [first, first + dims[axis]])
            }
            "reflect" | "edge" => {
                let place = |k: i64| match mode {
                    "edge" => k.clamp(0, size - 1),
                    _ if size == 1 => 0,
                    _ => {
                        let turn = k.rem_euclid(2 * (size - 1));
                        turn.min(2 * (size - 1) - turn)
                    }
                };
                let places: Vec<i64> = (-before..size + after).map(place).collect();
                scatter(step, &part, (axis, &places), (&from, &sizes))
            }
            _ => return Err(step.refused("in this mode")),
        };
    }
    step.give(0, part);
    Ok(())
}

fn depth(step: &mut Step<'_, '_>) -> Result<(), Error> {
    let dims = step.x_dims(0)?;
    let [n, c, h, w] = dims[..] else {
        return Err(step.refused("of anything but images"));
    };
    let b = usize::try_from(step.int("blocksize", 1))
        .unwrap_or(1)
        .max(1);
    let dy = step.dy()?;
    let (apart, order) = if step.operator() == "SpaceToDepth" {
        (vec![n, b, b, c, h / b, w / b], [0, 3, 4, 1, 5, 2])
    } else if step.text("mode") == Some("CRD") {
        (vec![n, c / (b * b), h, b, w, b], [0, 1, 3, 5, 2, 4])
    } else {
        (vec![n, c / (b * b), h, b, w, b], [0, 3, 5, 1, 2, 4])
    };
    let part = step.reshaped(&dy, &apart);
    let part = step.transposed(&part, &order);
    let part = step.reshaped(&part, &dims);
    step.give(0, part);
    Ok(())
}

/// Sums and their kin: the cotangent is spread again over what was put together.
fn reduce(step: &mut Step<'_, '_>) -> Result<(), Error> {
    let dims = step.x_dims(0)?;
    let asked = match step.ints("axes") {
        Some(axes) => Some(axes),
        None => step.whole(1)?,
    };
    let mut axes = Vec::new();
    for axis in asked.unwrap_or_default() {
        axes.push(step.axis(axis, dims.len())?);
    }
    if axes.is_empty() {
        if step.int("noop_with_empty_axes", 0) != 0 {
            return Err(step.refused("over no axes"));
        }
        axes = (0..dims.len()).collect();
    }
    let mut kept = dims.clone();
    for &axis in &axes {
        kept[axis] = 1;
    }
    let count: usize = axes.iter().map(|&axis| dims[axis]).product();
    let dy = step.dy()?;
    let dy = step.reshaped(&dy, &kept);
    let op = step.operator();
    let mut y = || {
        let y = step.y();
        step.reshaped(&y, &kept)
    };
    let part = match op {
        "ReduceSum" => dy,
        "ReduceMean" => {
            let count = step.number(count as f32);
            step.op("Div", &[&dy, &count])
        }
        "ReduceMax" | "ReduceMin" => {
            let y = y();
            let x = step.x(0);
            let same = step.op("Equal", &[&x, &y]);
            let part = step.only_where(&same, &dy);
            step.give(0, part);
            return Ok(());
        }
        "ReduceLogSumExp" => {
            let y = y();
            let x = step.x(0);
            let below = step.op("Sub", &[&x, &y]);
            let share = step.op("Exp", &[&below]);
            step.op("Mul", &[&dy, &share])
        }
        "ReduceL2" => {
            let y = y();
            let x = step.x(0);
            let share = step.op("Div", &[&x, &y]);
            step.op("Mul", &[&dy, &share])
        }
        _ => {
            let (x, two) = (step.x(0), step.number(2.0));
            let twice = step.op("Mul", &[&x, &two]);
            step.op("Mul", &[&dy, &twice])
        }
    };
    let sizes = step.sizes(&dims);
    let part = step.op("Expand", &[&part, &sizes]);
    step.give(0, part);
    Ok(())
}

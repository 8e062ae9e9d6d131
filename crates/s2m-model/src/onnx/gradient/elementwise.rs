//! Operators that work on each number by itself, with broadcasting.

use super::tape::Step;
use crate::error::Error;

/// Writes the rule of a node, if it is one of these.
pub(super) fn rule(step: &mut Step<'_, '_>) -> Result<bool, Error> {
    match step.operator() {
        "Identity" | "Dropout" | "Cast" | "Round" | "Floor" | "Ceil" => {
            let dy = step.dy()?;
            step.give(0, dy);
        }
        "Add" | "Sum" => spread(step, |_, _, dy| Ok(dy))?,
        "Sub" => spread(step, |step, input, dy| {
            Ok(if input == 0 {
                dy
            } else {
                step.op("Neg", &[&dy])
            })
        })?,
        "Mean" => spread(step, |step, _, dy| {
            let share = step.number(1.0 / step.inputs() as f32);
            Ok(step.op("Mul", &[&dy, &share]))
        })?,
        "Mul" => spread(step, |step, input, dy| {
            let other = step.x(1 - input);
            Ok(step.op("Mul", &[&dy, &other]))
        })?,
        "Div" => spread(step, |step, input, dy| {
            let by = step.x(1);
            let part = step.op("Div", &[&dy, &by]);
            if input == 0 {
                return Ok(part);
            }
            let y = step.y();
            let part = step.op("Mul", &[&part, &y]);
            Ok(step.op("Neg", &[&part]))
        })?,
        "Max" | "Min" => spread(step, |step, input, dy| {
            let (x, y) = (step.x(input), step.y());
            let same = step.op("Equal", &[&x, &y]);
            Ok(step.only_where(&same, &dy))
        })?,
        "Pow" => power(step)?,
        "Where" => {
            let (condition, zero, dy) = (step.x(0), step.number(0.0), step.dy()?);
            for (input, parts) in [(1, [&dy, &zero]), (2, [&zero, &dy])] {
                if step.needs(input) {
                    let part = step.op("Where", &[&condition, parts[0], parts[1]]);
                    step.give_broadcast(input, part)?;
                }
            }
        }
        "PRelu" => {
            step.fixed(1..2, "with a slope that depends on the latents")?;
            let slope = step.x(1);
            leak(step, &slope)?;
        }
        _ => return curve(step),
    }
    Ok(true)
}

/// Hands to each input what `part` makes of the cotangent.
fn spread(
    step: &mut Step<'_, '_>,
    part: impl Fn(&mut Step<'_, '_>, usize, String) -> Result<String, Error>,
) -> Result<(), Error> {
    for input in 0..step.inputs() {
        if step.needs(input) {
            let dy = step.dy()?;
            let part = part(step, input, dy)?;
            step.give_broadcast(input, part)?;
        }
    }
    Ok(())
}

fn power(step: &mut Step<'_, '_>) -> Result<(), Error> {
    use super::super::proto::AttributeProto;
    step.fixed(1..2, "with an exponent that depends on the latents")?;
    let (x, exponent, one, dy) = (step.x(0), step.x(1), step.number(1.0), step.dy()?);
    // An exponent may be a whole number.
    let to = vec![AttributeProto::int("to", i64::from(super::FLOAT))];
    let exponent = step.op_with("Cast", &[&exponent], to);
    let less = step.op("Sub", &[&exponent, &one]);
    let power = step.op("Pow", &[&x, &less]);
    let slope = step.op("Mul", &[&power, &exponent]);
    let part = step.op("Mul", &[&dy, &slope]);
    step.give_broadcast(0, part)
}

/// What is above zero passes, the rest is multiplied by `slope`.
fn leak(step: &mut Step<'_, '_>, slope: &str) -> Result<(), Error> {
    let (x, zero, dy) = (step.x(0), step.number(0.0), step.dy()?);
    let above = step.op("Greater", &[&x, &zero]);
    let below = step.op("Mul", &[&dy, slope]);
    let part = step.op("Where", &[&above, &dy, &below]);
    step.give(0, part);
    Ok(())
}

/// Functions of one number: the cotangent times a slope.
fn curve(step: &mut Step<'_, '_>) -> Result<bool, Error> {
    let slope = match step.operator() {
        "Relu" => {
            let (y, zero, dy) = (step.y(), step.number(0.0), step.dy()?);
            let above = step.op("Greater", &[&y, &zero]);
            let part = step.only_where(&above, &dy);
            step.give(0, part);
            return Ok(true);
        }
        "LeakyRelu" => {
            let alpha = step.float("alpha", 0.01);
            let alpha = step.number(alpha);
            leak(step, &alpha)?;
            return Ok(true);
        }
        "Clip" => {
            let (x, y, dy) = (step.x(0), step.y(), step.dy()?);
            let inside = step.op("Equal", &[&x, &y]);
            let part = step.only_where(&inside, &dy);
            step.give(0, part);
            return Ok(true);
        }
        "Neg" => step.number(-1.0),
        "Abs" => {
            let x = step.x(0);
            step.op("Sign", &[&x])
        }
        "Tanh" => {
            let (y, one) = (step.y(), step.number(1.0));
            let square = step.op("Mul", &[&y, &y]);
            step.op("Sub", &[&one, &square])
        }
        "Sigmoid" => {
            let (y, one) = (step.y(), step.number(1.0));
            let rest = step.op("Sub", &[&one, &y]);
            step.op("Mul", &[&y, &rest])
        }
        "Softplus" => {
            let x = step.x(0);
            step.op("Sigmoid", &[&x])
        }
        "Softsign" => {
            let (x, one) = (step.x(0), step.number(1.0));
            let size = step.op("Abs", &[&x]);
            let size = step.op("Add", &[&size, &one]);
            let square = step.op("Mul", &[&size, &size]);
            step.op("Reciprocal", &[&square])
        }
        "Exp" => step.y(),
        "Log" => {
            let x = step.x(0);
            step.op("Reciprocal", &[&x])
        }
        "Sqrt" => {
            let (y, half) = (step.y(), step.number(0.5));
            step.op("Div", &[&half, &y])
        }
        "Reciprocal" => {
            let y = step.y();
            let square = step.op("Mul", &[&y, &y]);
            step.op("Neg", &[&square])
        }
        "Erf" => {
            let (x, height) = (step.x(0), step.number(std::f32::consts::FRAC_2_SQRT_PI));
            let square = step.op("Mul", &[&x, &x]);
            let down = step.op("Neg", &[&square]);
            let bell = step.op("Exp", &[&down]);
            step.op("Mul", &[&bell, &height])
        }
        _ => return rarer_curve(step),
    };
    steeper(step, &slope)?;
    Ok(true)
}

/// Hands on the cotangent times a slope.
fn steeper(step: &mut Step<'_, '_>, slope: &str) -> Result<(), Error> {
    let dy = step.dy()?;
    let part = step.op("Mul", &[&dy, slope]);
    step.give(0, part);
    Ok(())
}

/// More of them.
fn rarer_curve(step: &mut Step<'_, '_>) -> Result<bool, Error> {
    let slope = match step.operator() {
        "Sin" => {
            let x = step.x(0);
            step.op("Cos", &[&x])
        }
        "Cos" => {
            let x = step.x(0);
            let sine = step.op("Sin", &[&x]);
            step.op("Neg", &[&sine])
        }
        "Elu" => {
            let alpha = step.float("alpha", 1.0);
            bent(step, 1.0, alpha)
        }
        "Selu" => {
            let alpha = step.float("alpha", 1.673_263_2);
            let gamma = step.float("gamma", 1.050_701);
            bent(step, gamma, alpha * gamma)
        }
        "HardSigmoid" => {
            let alpha = step.float("alpha", 0.2);
            let (y, zero, one) = (step.y(), step.number(0.0), step.number(1.0));
            let low = step.op("Greater", &[&y, &zero]);
            let high = step.op("Less", &[&y, &one]);
            let inside = step.op("And", &[&low, &high]);
            let alpha = step.number(alpha);
            step.only_where(&inside, &alpha)
        }
        _ => return Ok(false),
    };
    steeper(step, &slope)?;
    Ok(true)
}

/// The slope of `above·x` for positive x and `depth·(eˣ − 1)` for others.
fn bent(step: &mut Step<'_, '_>, above: f32, depth: f32) -> String {
    let (x, y, zero) = (step.x(0), step.y(), step.number(0.0));
    let positive = step.op("Greater", &[&x, &zero]);
    let (above, depth) = (step.number(above), step.number(depth));
    let below = step.op("Add", &[&y, &depth]);
    step.op("Where", &[&positive, &above, &below])
}

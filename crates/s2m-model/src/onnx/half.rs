//! Weights stored in half precision, for files of half the size; all arithmetic stays in 32 bits.
//!
//! A weight `w` becomes the 16-bit constant `w/half` and a cast to 32 bits that is called `w`. Rounding is to the
//! nearest number, halves to even, with 10 bits after the point; what is too large for 16 bits stays as it was, and
//! so do small constants, which are not worth a cast. [`restored`] takes the casts out again when a file is read,
//! so that everything which looks for constants finds them.

use std::collections::HashMap;

use prost::{DecodeError, Message as _};

use super::proto::{AttributeProto, ModelProto, NodeProto, TensorProto, data_type};

/// `TensorProto.DataType` of 16-bit floats.
pub(super) const FLOAT16: i32 = 10;

/// What stands behind the name of a weight that is stored in 16 bits.
const STORED: &str = "/half";

/// Fewest numbers of a weight that is stored so.
const FEWEST: usize = 64;

/// A file with its weights in 16 bits.
pub fn file_in_half(bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let model = ModelProto::decode(bytes)?;
    Ok(in_half(&model).encode_to_vec())
}

/// The same model with its weights in 16 bits.
pub fn in_half(model: &ModelProto) -> ModelProto {
    let mut model = model.clone();
    let Some(graph) = model.graph.as_mut() else {
        return model;
    };
    let mut casts = Vec::new();
    for weight in &mut graph.initializer {
        let Some(stored) = halves(weight) else {
            continue;
        };
        let name = format!("{}{STORED}", weight.name);
        let cast = NodeProto::new("Cast", &[&name], &weight.name);
        casts.push(cast.with(AttributeProto::int("to", i64::from(data_type::FLOAT))));
        weight.name = name;
        weight.data_type = FLOAT16;
        weight.raw_data = Some(stored);
    }
    casts.append(&mut graph.node);
    graph.node = casts;
    model
}

/// The model with 32-bit weights in the place of such casts, or none where there is no such cast.
pub fn restored(model: &ModelProto) -> Option<ModelProto> {
    let graph = model.graph.as_ref()?;
    let weights: HashMap<&str, usize> = graph
        .initializer
        .iter()
        .enumerate()
        .filter(|(_, weight)| weight.data_type == FLOAT16 && weight.name.ends_with(STORED))
        .map(|(at, weight)| (weight.name.as_str(), at))
        .collect();
    let of = |node: &NodeProto| {
        let [name] = node.input.as_slice() else {
            return None;
        };
        let to_floats = node
            .attribute
            .iter()
            .any(|a| a.name == "to" && a.i == Some(i64::from(data_type::FLOAT)));
        let at = weights.get(name.as_str()).copied()?;
        let again = format!("{}{STORED}", node.output.first()?);
        (node.op_type == "Cast" && to_floats && again == *name).then_some(at)
    };
    let found: Vec<Option<usize>> = graph.node.iter().map(of).collect();
    // A weight that somebody else reads in 16 bits stays.
    let uses = |at: usize| {
        let name = &graph.initializer[at].name;
        let inputs = graph.node.iter().flat_map(|node| &node.input);
        inputs.filter(|input| *input == name).count()
    };
    let found: Vec<Option<usize>> = found
        .into_iter()
        .map(|at| at.filter(|&at| uses(at) == 1 && graph.initializer[at].raw_data.is_some()))
        .collect();
    if found.iter().all(Option::is_none) {
        return None;
    }
    let mut model = model.clone();
    let graph = model.graph.as_mut()?;
    let mut kept = Vec::new();
    for (node, at) in std::mem::take(&mut graph.node).into_iter().zip(found) {
        let Some(at) = at else {
            kept.push(node);
            continue;
        };
        let weight = &mut graph.initializer[at];
        let bytes = weight.raw_data.take().unwrap_or_default();
        let pairs = bytes.chunks_exact(2);
        let wide =
            pairs.flat_map(|two| widened(u16::from_le_bytes([two[0], two[1]])).to_le_bytes());
        weight.raw_data = Some(wide.collect());
        weight.data_type = data_type::FLOAT;
        weight.name.truncate(weight.name.len() - STORED.len());
    }
    graph.node = kept;
    Some(model)
}

/// The bytes of a weight in 16 bits, if it can be stored so.
fn halves(weight: &TensorProto) -> Option<Vec<u8>> {
    let raw = weight.raw_data.as_ref()?;
    if weight.data_type != data_type::FLOAT || raw.len() < 4 * FEWEST {
        return None;
    }
    let mut stored = Vec::with_capacity(raw.len() / 2);
    for four in raw.chunks_exact(4) {
        let value = f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        stored.extend(narrowed(value)?.to_le_bytes());
    }
    Some(stored)
}

/// The nearest 16-bit float; none where it would be infinite.
pub(super) fn narrowed(value: f32) -> Option<u16> {
    let bits = value.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let size = bits & 0x7FFF_FFFF;
    // 65520 and above round to infinity.
    if size >= 0x477F_F000 {
        return None;
    }
    if size < 0x3880_0000 {
        // Below 2⁻¹⁴ numbers are multiples of 2⁻²⁴; the product is exact.
        let steps = (value.abs() * 16_777_216.0).round_ties_even();
        return Some(sign | steps as u16);
    }
    // 13 bits go; their half is added, less one where the last bit that stays is even.
    let rounded = size + 0xFFF + ((size >> 13) & 1);
    Some(sign | ((rounded - 0x3800_0000) >> 13) as u16)
}

/// A finite 16-bit float in 32 bits.
fn widened(half: u16) -> f32 {
    let sign = if half & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = ((half >> 10) & 0x1F, half & 0x3FF);
    let size = if exponent == 0 {
        f32::from(fraction) / 16_777_216.0
    } else {
        let bits = (u32::from(exponent) + 112) << 23 | u32::from(fraction) << 13;
        f32::from_bits(bits)
    };
    sign * size
}

#[cfg(test)]
mod tests {
    use super::super::graph::{Element, GraphBuilder};
    use super::*;

    /// Every 16-bit number comes back, and between two neighbours the nearer one is taken, halves to even.
    #[test]
    fn numbers_are_rounded_to_the_nearest() {
        for half in 0..0x7C00_u16 {
            let value = widened(half);
            assert_eq!(narrowed(value), Some(half));
            assert_eq!(narrowed(-value), Some(half | 0x8000));
            if half < 0x7BFF {
                let next = widened(half + 1);
                let middle = f32::midpoint(value, next);
                assert_eq!(narrowed(middle), Some(half + half % 2), "{value}");
                assert_eq!(narrowed(middle.next_down()), Some(half));
                assert_eq!(narrowed(middle.next_up()), Some(half + 1));
            }
        }
        assert_eq!(narrowed(1.0), Some(0x3C00));
        assert_eq!(narrowed(65_519.9), Some(0x7BFF));
        for beyond in [65_520.0, f32::INFINITY, f32::NAN] {
            assert_eq!(narrowed(beyond), None);
        }
    }

    fn toy() -> ModelProto {
        let mut graph = GraphBuilder::new("toy");
        let x = graph.input("x", &[16], Element::F32).unwrap();
        let values: Vec<f32> = (0..128).map(|n| n as f32 / 7.0 - 9.0).collect();
        let weight = graph.constant("w", &[8, 16], &values).unwrap();
        let bias = graph.constant("b", &[8], &[0.1; 8]).unwrap();
        let y = graph.linear(&x, &weight, &bias).unwrap();
        graph.output(&y, "y").unwrap();
        graph.finish()
    }

    #[test]
    fn large_weights_are_stored_in_half_and_come_back_rounded() {
        let (model, stored) = (toy(), in_half(&toy()));
        assert!(stored.encode_to_vec().len() < model.encode_to_vec().len() - 200);
        let graph = stored.graph.as_ref().unwrap();
        assert_eq!(graph.node[0].op_type, "Cast");
        assert_eq!(graph.initializer[0].name, "w/half");
        assert_eq!(graph.initializer[1].name, "b");
        let again = restored(&stored).unwrap();
        assert_eq!(
            again.graph.as_ref().unwrap().node,
            model.graph.as_ref().unwrap().node
        );
        let weight = &again.graph.as_ref().unwrap().initializer[0];
        assert_eq!(
            (weight.name.as_str(), weight.data_type),
            ("w", data_type::FLOAT)
        );
        let raw = weight.raw_data.as_ref().unwrap();
        for (n, four) in raw.chunks_exact(4).enumerate() {
            let found = f32::from_le_bytes(four.try_into().unwrap());
            let wanted = n as f32 / 7.0 - 9.0;
            assert!((found - wanted).abs() <= wanted.abs() / 2048.0, "{found}");
        }
        assert!(restored(&model).is_none());
        assert_eq!(restored(&in_half(&again)), Some(again));
    }

    #[test]
    fn what_is_too_large_stays_as_it_is() {
        let mut model = toy();
        let weight = &mut model.graph.as_mut().unwrap().initializer[0];
        let raw = weight.raw_data.as_mut().unwrap();
        raw[..4].copy_from_slice(&1e6_f32.to_le_bytes());
        assert_eq!(in_half(&model), model);
    }
}

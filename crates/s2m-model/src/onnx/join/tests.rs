use super::*;
use crate::error::Error;
use crate::onnx::adapter::{Axes, ItemFormat, Layout, levels_model};
use crate::onnx::graph::{Conv2d, Element, GraphBuilder};
use crate::onnx::inspect::describe;
use crate::onnx::proto::{
    AttributeProto, FunctionProto, SparseTensorProto, StringStringEntryProto, TrainingInfoProto,
};

fn ramp(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i % 7) as f32 * 0.1 - 0.3).collect()
}

/// A plain network: `[n, 2]` and a class to `[n, 4·4·1]`, with an output that nobody wants.
fn generator() -> Result<ModelProto, Error> {
    let mut graph = GraphBuilder::new("generator");
    let z = graph.input("z", &[2], Element::F32)?;
    let class = graph.input("class", &[], Element::I64)?;
    let table = graph.constant("embed.weight", &[3, 2], &ramp(6))?;
    let rows = graph.gather(&table, &class)?;
    let hidden = graph.add(&z, &rows)?;
    let w = graph.constant("fc.weight", &[16, 2], &ramp(32))?;
    let b = graph.constant("fc.bias", &[16], &ramp(16))?;
    let x = graph.linear(&hidden, &w, &b)?;
    let x = graph.tanh(&x)?;
    let unwanted = graph.neg(&x)?;
    graph.output(&x, "image")?;
    graph.output(&unwanted, "unwanted")?;
    Ok(graph.finish())
}

/// A convolution on `[n, 1, 4, 4]`; its names are those of the generator on purpose.
fn classifier() -> Result<ModelProto, Error> {
    let mut graph = GraphBuilder::new("classifier");
    let x = graph.input("image", &[1, 4, 4], Element::F32)?;
    let weight = graph.constant("fc.weight", &[3, 1, 4, 4], &ramp(48))?;
    let conv = Conv2d {
        weight: &weight,
        bias: None,
        stride: 1,
        pad: 0,
        groups: 1,
    };
    let x = graph.conv2d(&x, &conv)?;
    let x = graph.flatten(&x)?;
    let unwanted = graph.exp(&x)?;
    graph.output(&x, "logits")?;
    graph.output(&unwanted, "unwanted")?;
    Ok(graph.finish())
}

fn adapter() -> Adapter {
    let from = ItemFormat {
        layout: Layout::Nhwc,
        shape: vec![4, 4, 1],
        range: Some([-1.0, 1.0]),
        bits: Some(8),
    };
    let to = ItemFormat {
        layout: Layout::Nchw,
        shape: vec![1, 4, 4],
        range: Some([0.0, 1.0]),
        bits: None,
    };
    let adapter = Adapter::new(from, to).unwrap();
    adapter.with_axes(Axes::Flat, Axes::Item)
}

fn join_them(g: &ModelProto, c: &ModelProto) -> Result<ModelProto, NotJoinable> {
    let bytes = join(Join {
        generator: g,
        classifier: c,
        adapter: &adapter(),
        generator_output: "image",
        classifier_input: "image",
        outputs: &[("logits", "log_class")],
    })?;
    Ok(ModelProto::decode(bytes.as_slice()).unwrap())
}

/// The message for a generator that was changed.
fn refusal(change: impl Fn(&mut ModelProto)) -> String {
    let mut changed = generator().unwrap();
    change(&mut changed);
    let failure = join_them(&changed, &classifier().unwrap()).unwrap_err();
    failure.to_string()
}

fn graph(model: &mut ModelProto) -> &mut GraphProto {
    model.graph.as_mut().unwrap()
}

#[test]
fn the_joined_model_has_the_generators_inputs_and_the_wanted_outputs() {
    let joined = join_them(&generator().unwrap(), &classifier().unwrap()).unwrap();
    let found = describe(&joined);
    let names = |ports: &[crate::onnx::Port]| -> Vec<String> {
        ports.iter().map(|p| p.name.clone()).collect()
    };
    assert_eq!(names(&found.inputs), ["z", "class"]);
    assert_eq!(names(&found.outputs), ["log_class"]);
    assert_eq!(found.outputs[0].dims, Some(vec![None, Some(3)]));
    assert_eq!(joined.opset_import, generator().unwrap().opset_import);
    let output = &joined.graph.unwrap().output[0];
    assert_eq!(batch_name(output), Some("n"));
}

#[test]
fn unwanted_nodes_and_weights_are_left_out() {
    let joined = join_them(&generator().unwrap(), &classifier().unwrap()).unwrap();
    let graph = joined.graph.unwrap();
    let ops: Vec<&str> = graph.node.iter().map(|n| n.op_type.as_str()).collect();
    assert_eq!(
        ops.join(" "),
        "Gather Add Gemm Tanh Identity \
             Reshape Max Min Sub Mul Round Mul Add Transpose \
             Conv Flatten Identity Identity"
    );
    let weights: Vec<&str> = graph.initializer.iter().map(|w| w.name.as_str()).collect();
    assert_eq!(weights[..3], ["g/embed.weight", "g/fc.weight", "g/fc.bias"]);
    assert_eq!(weights.last(), Some(&"c/fc.weight"));
}

#[test]
fn an_optional_input_that_is_not_there_stays_away() {
    let mut c = classifier().unwrap();
    graph(&mut c).node[0].input.push(String::new());
    let joined = join_them(&generator().unwrap(), &c).unwrap();
    let nodes = joined.graph.unwrap().node;
    let conv = nodes.iter().find(|n| n.op_type == "Conv").unwrap();
    assert_eq!(conv.input[1..], ["c/fc.weight", ""]);
}

#[test]
fn each_kind_of_model_that_would_be_half_understood_is_refused() {
    assert_eq!(refusal(|m| m.graph = None), "the generator has no graph");
    assert_eq!(
        refusal(|m| m.functions.push(FunctionProto::default())),
        "the generator has functions of its own"
    );
    assert_eq!(
        refusal(|m| m.training_info.push(TrainingInfoProto::default())),
        "the generator carries training graphs"
    );
    assert_eq!(
        refusal(|m| {
            let sparse = SparseTensorProto::default();
            graph(m).sparse_initializer.push(sparse);
        }),
        "the generator has sparse weights"
    );
    assert_eq!(
        refusal(|m| graph(m).node[1].attribute.push(AttributeProto {
            g: Some(GraphProto::default()),
            ..AttributeProto::default()
        })),
        "the generator has a graph inside node `Add#2`"
    );
}

#[test]
fn weights_in_another_file_are_refused_even_inside_an_attribute() {
    let outside = || TensorProto {
        data_location: 1,
        external_data: vec![StringStringEntryProto {
            key: "location".to_owned(),
            value: "../w.bin".to_owned(),
        }],
        ..TensorProto::default()
    };
    let message = "the generator keeps weights in another file, `../w.bin`";
    let weights = refusal(|m| graph(m).initializer.push(outside()));
    assert_eq!(weights, message);
    let attribute = refusal(|m| {
        graph(m).node[0].attribute.push(AttributeProto {
            t: Some(outside()),
            ..AttributeProto::default()
        });
    });
    assert_eq!(attribute, message);
}

#[test]
fn operator_versions_must_agree() {
    assert_eq!(
        refusal(|m| m.opset_import[0].version = 12),
        "the generator uses opset 12, wanted 13 or later"
    );
    assert_eq!(
        refusal(|m| m.opset_import.clear()),
        "the generator uses opset 1, wanted 13 or later"
    );
    assert_eq!(
        refusal(|m| m.opset_import[0].version = 17),
        "the generator uses opset 17 and the classifier opset 18, wanted the same"
    );
    let custom = |version| OperatorSetIdProto {
        domain: "com.example".to_owned(),
        version,
    };
    let (mut g, mut c) = (generator().unwrap(), classifier().unwrap());
    g.opset_import.push(custom(1));
    c.opset_import.push(custom(2));
    assert_eq!(
        join_them(&g, &c).unwrap_err().to_string(),
        "operators of `com.example` are wanted in version 1 and in version 2"
    );
    c.opset_import.pop();
    c.opset_import[0].domain = "ai.onnx".to_owned();
    let opsets = join_them(&g, &c).unwrap().opset_import;
    assert_eq!(opsets, [OperatorSetIdProto::default_domain(18), custom(1)]);
}

#[test]
fn a_name_that_does_not_exist_is_answered_with_those_that_do() {
    let (g, c, adapter) = (generator().unwrap(), classifier().unwrap(), adapter());
    let good = Join {
        generator: &g,
        classifier: &c,
        adapter: &adapter,
        generator_output: "image",
        classifier_input: "image",
        outputs: &[("logits", "log_class")],
    };
    let cases = [
        (
            Join {
                generator_output: "x",
                ..good
            },
            "the generator has no output `x`, it has `image`, `unwanted`",
        ),
        (
            Join {
                classifier_input: "x",
                ..good
            },
            "the classifier has no input `x`, it has `image`",
        ),
        (
            Join {
                outputs: &[("x", "y")],
                ..good
            },
            "the classifier has no output `x`, it has `logits`, `unwanted`",
        ),
        (
            Join {
                outputs: &[("logits", "z")],
                ..good
            },
            "the name `z` would be given twice in the joined model",
        ),
    ];
    for (parts, message) in cases {
        assert_eq!(join(parts).unwrap_err().to_string(), message);
    }
}

#[test]
fn shapes_and_elements_that_the_adapter_does_not_fit_are_refused() {
    let wider = vec![DimensionValue::batch(), DimensionValue::DimValue(17)];
    let wider = ValueInfoProto::tensor("image", 1, wider);
    assert_eq!(
        refusal(|m| graph(m).output[0] = wider.clone()),
        "`image` of the generator has items of [17], wanted [16]"
    );
    let half = ValueInfoProto::tensor("image", 10, vec![]);
    assert_eq!(
        refusal(|m| graph(m).output[0] = half.clone()),
        "`image` of the generator is ONNX element type 10, wanted f32"
    );
    let mut c = classifier().unwrap();
    let second = ValueInfoProto::tensor("mask", 1, vec![]);
    graph(&mut c).input.push(second);
    assert_eq!(
        join_them(&generator().unwrap(), &c)
            .unwrap_err()
            .to_string(),
        "the classifier has a second input, `mask`"
    );
}

#[test]
fn a_generator_that_hands_on_its_input_can_be_joined() {
    let item = ItemFormat {
        layout: Layout::Points,
        shape: vec![2],
        range: None,
        bits: None,
    };
    let adapter = Adapter::new(item.clone(), item).unwrap();
    let mut pass = GraphBuilder::new("pass");
    let z = pass.input("z", &[2], Element::F32).unwrap();
    pass.output(&z, "out").unwrap();
    let mut g = pass.finish();
    graph(&mut g).node.clear();
    graph(&mut g).output[0].name = "z".to_owned();
    let mut scores = GraphBuilder::new("scores");
    let x = scores.input("x", &[2], Element::F32).unwrap();
    let y = scores.exp(&x).unwrap();
    scores.output(&y, "y").unwrap();

    let bytes = join(Join {
        generator: &g,
        classifier: &scores.finish(),
        adapter: &adapter,
        generator_output: "z",
        classifier_input: "x",
        outputs: &[("y", "first"), ("y", "second")],
    });

    let joined = ModelProto::decode(bytes.unwrap().as_slice()).unwrap();
    let nodes = joined.graph.unwrap().node;
    assert_eq!(nodes[0].input, ["z"]);
    assert_eq!(nodes.len(), 4);
}

/// Xorshift of Marsaglia (2003); enough to pick bytes.
struct Bits(u64);

impl Bits {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

#[test]
fn damaged_files_are_never_a_crash() {
    let (g, c) = (generator().unwrap(), classifier().unwrap());
    let mut bits = Bits(0x9e37_79b9_7f4a_7c15);
    let mut decoded = 0;
    for round in 0..4000 {
        let first = round % 2 == 0;
        let mut bytes = if first { &g } else { &c }.encode_to_vec();
        for _ in 0..=bits.below(3) {
            let at = bits.below(bytes.len());
            match bits.below(4) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] = bits.below(256) as u8,
                _ => bytes[at] ^= 1 << bits.below(8),
            }
        }
        let Ok(model) = ModelProto::decode(bytes.as_slice()) else {
            continue;
        };
        decoded += 1;
        describe(&model);
        external_paths(&model);
        let result = if first {
            join_them(&model, &c)
        } else {
            join_them(&g, &model)
        };
        drop(result);
    }
    assert!(decoded > 200, "only {decoded} files still decoded");
}

#[test]
fn the_same_parts_give_the_same_bytes() {
    let bytes = || {
        let joined = join_them(&generator().unwrap(), &classifier().unwrap());
        let adapter = adapter();
        let levels = levels_model(adapter.generator_format(), Axes::Flat, "x", "y");
        (joined.unwrap().encode_to_vec(), levels.unwrap())
    };
    assert_eq!(bytes(), bytes());
}

//! The messages of an ONNX file, written by hand for `prost`.
//!
//! Field numbers are those of `onnx.proto`. A message that nothing here looks into is kept as bytes,
//! so that decoding and encoding again loses nothing. Functions, sparse tensors and training graphs
//! are spelt out, although nothing runs them: each can hold a tensor whose values lie in another
//! file, and [`external_paths`](super::inspect::external_paths) must see every such tensor.
//!
//! Reference: <https://github.com/onnx/onnx/blob/main/onnx/onnx.proto>.

#![expect(
    missing_docs,
    reason = "fields and variants are those of `onnx.proto`, which says what they mean"
)]

use prost::{Message, Oneof};

/// `TensorProto.DataType` of the element types that this workspace writes.
pub mod data_type {
    pub const FLOAT: i32 = 1;
    pub const INT64: i32 = 7;
    pub const BOOL: i32 = 9;
}

/// `AttributeProto.AttributeType` of the attributes that this workspace writes.
pub mod attribute_type {
    pub const FLOAT: i32 = 1;
    pub const INT: i32 = 2;
    pub const STRING: i32 = 3;
    pub const INTS: i32 = 7;
}

/// A whole file.
#[derive(Clone, PartialEq, Message)]
pub struct ModelProto {
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    #[prost(string, tag = "2")]
    pub producer_name: String,
    #[prost(string, tag = "3")]
    pub producer_version: String,
    #[prost(string, tag = "4")]
    pub domain: String,
    #[prost(int64, tag = "5")]
    pub model_version: i64,
    #[prost(string, tag = "6")]
    pub doc_string: String,
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<StringStringEntryProto>,
    #[prost(message, repeated, tag = "20")]
    pub training_info: Vec<TrainingInfoProto>,
    #[prost(message, repeated, tag = "25")]
    pub functions: Vec<FunctionProto>,
    /// `DeviceConfigurationProto`, kept as bytes.
    #[prost(bytes = "vec", repeated, tag = "26")]
    pub configuration: Vec<Vec<u8>>,
}

/// Which version of which operators the nodes mean.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct OperatorSetIdProto {
    #[prost(string, tag = "1")]
    pub domain: String,
    #[prost(int64, tag = "2")]
    pub version: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct StringStringEntryProto {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    #[prost(string, tag = "10")]
    pub doc_string: String,
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "13")]
    pub value_info: Vec<ValueInfoProto>,
    /// `TensorAnnotation`, kept as bytes.
    #[prost(bytes = "vec", repeated, tag = "14")]
    pub quantization_annotation: Vec<Vec<u8>>,
    #[prost(message, repeated, tag = "15")]
    pub sparse_initializer: Vec<SparseTensorProto>,
    #[prost(message, repeated, tag = "16")]
    pub metadata_props: Vec<StringStringEntryProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NodeProto {
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(string, tag = "4")]
    pub op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
    #[prost(string, tag = "6")]
    pub doc_string: String,
    #[prost(string, tag = "7")]
    pub domain: String,
    #[prost(string, tag = "8")]
    pub overload: String,
    #[prost(message, repeated, tag = "9")]
    pub metadata_props: Vec<StringStringEntryProto>,
    /// `NodeDeviceConfigurationProto`, kept as bytes.
    #[prost(bytes = "vec", repeated, tag = "10")]
    pub device_configurations: Vec<Vec<u8>>,
}

/// A setting of a node. `f`, `i` and `s` remember whether they were written, because readers of the
/// older proto2 form ask.
#[derive(Clone, PartialEq, Message)]
pub struct AttributeProto {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub s: Option<Vec<u8>>,
    #[prost(message, optional, tag = "5")]
    pub t: Option<TensorProto>,
    #[prost(message, optional, tag = "6")]
    pub g: Option<GraphProto>,
    #[prost(float, repeated, tag = "7")]
    pub floats: Vec<f32>,
    #[prost(int64, repeated, tag = "8")]
    pub ints: Vec<i64>,
    #[prost(bytes = "vec", repeated, tag = "9")]
    pub strings: Vec<Vec<u8>>,
    #[prost(message, repeated, tag = "10")]
    pub tensors: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub graphs: Vec<GraphProto>,
    #[prost(string, tag = "13")]
    pub doc_string: String,
    /// `TypeProto`, kept as bytes.
    #[prost(bytes = "vec", optional, tag = "14")]
    pub tp: Option<Vec<u8>>,
    /// `TypeProto`, kept as bytes.
    #[prost(bytes = "vec", repeated, tag = "15")]
    pub type_protos: Vec<Vec<u8>>,
    /// One of [`attribute_type`], or another number of `AttributeType`.
    #[prost(int32, tag = "20")]
    pub r#type: i32,
    #[prost(string, tag = "21")]
    pub ref_attr_name: String,
    #[prost(message, optional, tag = "22")]
    pub sparse_tensor: Option<SparseTensorProto>,
    #[prost(message, repeated, tag = "23")]
    pub sparse_tensors: Vec<SparseTensorProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    #[prost(int64, repeated, tag = "1")]
    pub dims: Vec<i64>,
    /// One of [`data_type`], or another number of `DataType`.
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    /// `Segment`, kept as bytes.
    #[prost(bytes = "vec", optional, tag = "3")]
    pub segment: Option<Vec<u8>>,
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub string_data: Vec<Vec<u8>>,
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    #[prost(string, tag = "8")]
    pub name: String,
    /// Little-endian values; remembers whether it was written, as an empty tensor may do so.
    #[prost(bytes = "vec", optional, tag = "9")]
    pub raw_data: Option<Vec<u8>>,
    #[prost(double, repeated, tag = "10")]
    pub double_data: Vec<f64>,
    #[prost(uint64, repeated, tag = "11")]
    pub uint64_data: Vec<u64>,
    #[prost(string, tag = "12")]
    pub doc_string: String,
    /// Where the values lie in another file; the key `location` is its path.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    /// 0: the values are in this message. 1: they are in another file.
    #[prost(int32, tag = "14")]
    pub data_location: i32,
    #[prost(message, repeated, tag = "16")]
    pub metadata_props: Vec<StringStringEntryProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SparseTensorProto {
    #[prost(message, optional, tag = "1")]
    pub values: Option<TensorProto>,
    #[prost(message, optional, tag = "2")]
    pub indices: Option<TensorProto>,
    #[prost(int64, repeated, tag = "3")]
    pub dims: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TrainingInfoProto {
    #[prost(message, optional, tag = "1")]
    pub initialization: Option<GraphProto>,
    #[prost(message, optional, tag = "2")]
    pub algorithm: Option<GraphProto>,
    #[prost(message, repeated, tag = "3")]
    pub initialization_binding: Vec<StringStringEntryProto>,
    #[prost(message, repeated, tag = "4")]
    pub update_binding: Vec<StringStringEntryProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FunctionProto {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, repeated, tag = "4")]
    pub input: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    pub output: Vec<String>,
    #[prost(string, repeated, tag = "6")]
    pub attribute: Vec<String>,
    #[prost(message, repeated, tag = "7")]
    pub node: Vec<NodeProto>,
    #[prost(string, tag = "8")]
    pub doc_string: String,
    #[prost(message, repeated, tag = "9")]
    pub opset_import: Vec<OperatorSetIdProto>,
    #[prost(string, tag = "10")]
    pub domain: String,
    #[prost(message, repeated, tag = "11")]
    pub attribute_proto: Vec<AttributeProto>,
    #[prost(message, repeated, tag = "12")]
    pub value_info: Vec<ValueInfoProto>,
    #[prost(string, tag = "13")]
    pub overload: String,
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<StringStringEntryProto>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct ValueInfoProto {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
    #[prost(string, tag = "3")]
    pub doc_string: String,
    #[prost(message, repeated, tag = "4")]
    pub metadata_props: Vec<StringStringEntryProto>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct TypeProto {
    #[prost(string, tag = "6")]
    pub denotation: String,
    #[prost(oneof = "TypeValue", tags = "1, 4, 5, 7, 8, 9")]
    pub value: Option<TypeValue>,
}

/// What a value is. Everything but a plain tensor is kept as bytes.
#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum TypeValue {
    #[prost(message, tag = "1")]
    Tensor(TensorType),
    #[prost(bytes, tag = "4")]
    Sequence(Vec<u8>),
    #[prost(bytes, tag = "5")]
    Map(Vec<u8>),
    #[prost(bytes, tag = "7")]
    Opaque(Vec<u8>),
    #[prost(bytes, tag = "8")]
    SparseTensor(Vec<u8>),
    #[prost(bytes, tag = "9")]
    Optional(Vec<u8>),
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct TensorType {
    #[prost(int32, tag = "1")]
    pub elem_type: i32,
    /// Absent when not even the number of axes is known.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShapeProto>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct TensorShapeProto {
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<Dimension>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Dimension {
    #[prost(string, tag = "3")]
    pub denotation: String,
    #[prost(oneof = "DimensionValue", tags = "1, 2")]
    pub value: Option<DimensionValue>,
}

#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum DimensionValue {
    #[prost(int64, tag = "1")]
    DimValue(i64),
    #[prost(string, tag = "2")]
    DimParam(String),
}

/// Opset of the default domain in every file written here.
pub const OPSET: i64 = 18;

/// File format version in every file written here.
pub const IR_VERSION: i64 = 9;

/// Name under which the batch axis appears in every file written here.
pub const BATCH: &str = "n";

/// A size or an axis as the format writes it; no tensor reaches the number where this saturates.
pub(super) fn as_int(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl ModelProto {
    /// A model around `graph`, with the given operator versions.
    pub fn around(graph: GraphProto, ir_version: i64, opsets: Vec<OperatorSetIdProto>) -> Self {
        Self {
            ir_version,
            producer_name: "s2m".to_owned(),
            graph: Some(graph),
            opset_import: opsets,
            ..Self::default()
        }
    }
}

impl OperatorSetIdProto {
    /// The default domain at `version`.
    pub fn default_domain(version: i64) -> Self {
        Self {
            domain: String::new(),
            version,
        }
    }
}

impl NodeProto {
    /// A node of the default domain, named after its first output.
    pub fn new(op_type: &str, input: &[&str], output: &str) -> Self {
        Self {
            input: input.iter().map(|&name| name.to_owned()).collect(),
            output: vec![output.to_owned()],
            name: output.to_owned(),
            op_type: op_type.to_owned(),
            ..Self::default()
        }
    }

    /// The same node with one more attribute.
    #[must_use]
    pub fn with(mut self, attribute: AttributeProto) -> Self {
        self.attribute.push(attribute);
        self
    }
}

impl AttributeProto {
    /// A decimal attribute.
    pub fn float(name: &str, value: f32) -> Self {
        Self {
            f: Some(value),
            ..Self::named(name, attribute_type::FLOAT)
        }
    }

    /// A whole-number attribute.
    pub fn int(name: &str, value: i64) -> Self {
        Self {
            i: Some(value),
            ..Self::named(name, attribute_type::INT)
        }
    }

    /// A list of whole numbers.
    pub fn ints(name: &str, values: Vec<i64>) -> Self {
        Self {
            ints: values,
            ..Self::named(name, attribute_type::INTS)
        }
    }

    /// A text attribute.
    pub fn string(name: &str, value: &str) -> Self {
        Self {
            s: Some(value.as_bytes().to_vec()),
            ..Self::named(name, attribute_type::STRING)
        }
    }

    fn named(name: &str, kind: i32) -> Self {
        Self {
            name: name.to_owned(),
            r#type: kind,
            ..Self::default()
        }
    }
}

impl TensorProto {
    /// An `f32` tensor; the caller has checked that `values` fill `dims`.
    pub fn f32(name: &str, dims: &[usize], values: &[f32]) -> Self {
        let raw = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Self::raw(name, dims, data_type::FLOAT, raw)
    }

    /// An `i64` tensor; the caller has checked that `values` fill `dims`.
    pub fn i64(name: &str, dims: &[usize], values: &[i64]) -> Self {
        let raw = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Self::raw(name, dims, data_type::INT64, raw)
    }

    fn raw(name: &str, dims: &[usize], data_type: i32, raw_data: Vec<u8>) -> Self {
        Self {
            dims: dims.iter().map(|&d| as_int(d)).collect(),
            data_type,
            name: name.to_owned(),
            raw_data: Some(raw_data),
            ..Self::default()
        }
    }
}

impl ValueInfoProto {
    /// A tensor of known shape, `dims` in order.
    pub fn tensor(name: &str, elem_type: i32, dims: Vec<DimensionValue>) -> Self {
        let dim = dims.into_iter().map(|value| Dimension {
            value: Some(value),
            ..Dimension::default()
        });
        let shape = Some(TensorShapeProto { dim: dim.collect() });
        Self {
            name: name.to_owned(),
            r#type: Some(TypeProto {
                value: Some(TypeValue::Tensor(TensorType { elem_type, shape })),
                ..TypeProto::default()
            }),
            ..Self::default()
        }
    }

    /// The tensor type, or `None` for sequences, maps and missing types.
    pub fn tensor_type(&self) -> Option<&TensorType> {
        match self.r#type.as_ref()?.value.as_ref()? {
            TypeValue::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }
}

impl DimensionValue {
    /// The batch axis.
    pub fn batch() -> Self {
        Self::DimParam(BATCH.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model with every field of every message above set, to a value that names it, written by the
    /// Python package onnx 1.23.2 (`ModelProto.SerializeToString`).
    const EVERY_FIELD: &str = "\
        08091201701a02707622026d6428033201643a85060ac6020a01780a001201791a026e6e22024f702a99020a\
        0161150000003f18002201782a5d080210071a02080122040000003f2a0afeffffffffffffffff013201733a\
        0afdffffffffffffffff014201774a0201025208000000000000d03f5a0109620274646a0d0a086c6f636174\
        696f6e12016670018201080a02746b12027476320512037375623d0000c03f400140ffffffffffffffffff01\
        4a01795204420274325a061204737562326a02616472033201787a03320179a00102aa010172b201660a5d08\
        0210071a02080122040000003f2a0afeffffffffffffffff013201733a0afdffffffffffffffff014201774a\
        0201025208000000000000d03f5a0109620274646a0d0a086c6f636174696f6e12016670018201080a02746b\
        1202747612034201691804ba0102180532026e643a016442026f764a080a026e6b12026e7652030a01631202\
        676e2a5d080210071a02080122040000003f2a0afeffffffffffffffff013201733a0afdffffffffffffffff\
        014201774a0201025208000000000000d03f5a0109620274646a0d0a086c6f636174696f6e12016670018201\
        080a02746b12027476520267645a2b0a017812180a110801120d0a0712016e1a0264640a020800320364656e\
        1a02766422080a02766b12027676621f0a0179120c22050a03320178320364656e1a02766422080a02766b12\
        0276766a1e0a036d617012092a020807320364656e1a02766422080a02766b120276766a220a066f70617175\
        65120a320364656e3a030a01781a02766422080a02766b120276766a210a067370617273651209320364656e\
        420208071a02766422080a02766b120276766a260a086f7074696f6e616c120c320364656e4a050a03320178\
        1a02766422080a02766b1202767672030a01777a660a5d080210071a02080122040000003f2a0afeffffffff\
        ffffffff013201733a0afdffffffffffffffff014201774a0201025208000000000000d03f5a010962027464\
        6a0d0a086c6f636174696f6e12016670018201080a02746b12027476120342016918048201080a02676b1202\
        677642060a026f64101272080a026d6b12026d76a201230a061204696e697412051203616c671a080a02696b\
        1202697622080a02756b12027576ca01470a02666e220266692a02666f320266613a071a05666e6f64654202\
        66644a070a03666f641012520466646f6d5a040a02667062040a0266766a03666f7672080a02666b12026676\
        d201050a03636667";

    fn every_field() -> Vec<u8> {
        let digits = EVERY_FIELD.as_bytes().chunks(2);
        let pairs = digits.map(|pair| std::str::from_utf8(pair).unwrap());
        pairs
            .map(|pair| u8::from_str_radix(pair, 16).unwrap())
            .collect()
    }

    #[test]
    fn encoding_and_decoding_keeps_every_field() {
        let model = ModelProto::decode(every_field().as_slice()).unwrap();
        let back = model.encode_to_vec();
        assert_eq!(ModelProto::decode(back.as_slice()).unwrap(), model);
    }

    fn model_attribute(model: &ModelProto) -> &AttributeProto {
        &model.graph.as_ref().unwrap().node[0].attribute[0]
    }

    #[test]
    fn fields_are_where_the_python_package_puts_them() {
        let model = ModelProto::decode(every_field().as_slice()).unwrap();
        let texts = |m: &ModelProto| {
            [
                &m.producer_name,
                &m.producer_version,
                &m.domain,
                &m.doc_string,
            ]
            .map(String::clone)
        };
        assert_eq!(texts(&model), ["p", "pv", "md", "d"]);
        assert_eq!((model.ir_version, model.model_version), (9, 3));
        assert_eq!(model.opset_import[0].version, 18);
        assert_eq!(model.metadata_props[0].key, "mk");
        assert_eq!(model.functions[0].node[0].name, "fnode");
        assert_eq!(model.functions[0].attribute_proto[0].name, "fp");
        let training = &model.training_info[0];
        assert_eq!(training.initialization.as_ref().unwrap().name, "init");
        assert_eq!(training.algorithm.as_ref().unwrap().name, "alg");

        let graph = model.graph.as_ref().unwrap();
        assert_eq!(
            (graph.name.as_str(), graph.doc_string.as_str()),
            ("gn", "gd")
        );
        assert_eq!(graph.input[0].name, "x");
        assert_eq!(graph.output[0].name, "y");
        let kinds = graph
            .value_info
            .iter()
            .map(|v| v.r#type.clone().unwrap().value.unwrap());
        let [map, opaque, sparse, optional] = kinds.collect::<Vec<_>>().try_into().unwrap();
        assert!(matches!(map, TypeValue::Map(_)) && matches!(opaque, TypeValue::Opaque(_)));
        assert!(matches!(sparse, TypeValue::SparseTensor(_)));
        assert!(matches!(optional, TypeValue::Optional(_)));
        let dims = &graph.input[0]
            .tensor_type()
            .unwrap()
            .shape
            .as_ref()
            .unwrap()
            .dim;
        assert_eq!(dims[0].value, Some(DimensionValue::batch()));
        assert_eq!(dims[1].value, Some(DimensionValue::DimValue(0)));

        let node = &graph.node[0];
        assert_eq!(
            (node.input.clone(), node.output.clone()),
            (vec!["x".into(), String::new()], vec!["y".into()])
        );
        let texts = [
            &node.name,
            &node.op_type,
            &node.domain,
            &node.overload,
            &node.doc_string,
        ];
        assert_eq!(texts, ["nn", "Op", "d", "ov", "nd"]);
    }

    #[test]
    fn attributes_and_tensors_are_read_as_the_python_package_means_them() {
        let model = ModelProto::decode(every_field().as_slice()).unwrap();
        let attribute = model_attribute(&model);
        assert_eq!(
            (attribute.f, attribute.i, attribute.s.as_deref()),
            (Some(0.5), Some(0), Some(&b"x"[..]))
        );
        assert_eq!(
            (attribute.floats.as_slice(), attribute.ints.as_slice()),
            (&[1.5][..], &[1, -1][..])
        );
        assert_eq!(attribute.strings, [b"y"]);
        assert_eq!(attribute.g.as_ref().unwrap().name, "sub");
        assert_eq!(attribute.graphs[0].name, "sub2");
        assert_eq!(attribute.tensors[0].name, "t2");
        assert_eq!(attribute.sparse_tensors[0].dims, [5]);
        let sparse = attribute.sparse_tensor.as_ref().unwrap();
        assert_eq!(sparse.indices.as_ref().unwrap().name, "i");
        assert_eq!(
            (attribute.r#type, attribute.ref_attr_name.as_str()),
            (2, "r")
        );

        let tensor = attribute.t.as_ref().unwrap();
        assert_eq!((tensor.dims.as_slice(), tensor.data_type), (&[2][..], 7));
        assert_eq!((tensor.float_data[0], tensor.double_data[0]), (0.5, 0.25));
        assert_eq!(
            (
                tensor.int32_data[0],
                tensor.int64_data[0],
                tensor.uint64_data[0]
            ),
            (-2, -3, 9)
        );
        assert_eq!(
            (tensor.name.as_str(), tensor.doc_string.as_str()),
            ("w", "td")
        );
        assert_eq!(tensor.raw_data.as_deref(), Some(&[1, 2][..]));
        assert_eq!(
            (tensor.data_location, tensor.external_data[0].value.as_str()),
            (1, "f")
        );
    }

    #[test]
    fn an_attribute_of_zero_is_written_and_not_left_out() {
        let bytes = AttributeProto::int("i", 0).encode_to_vec();
        let back = AttributeProto::decode(bytes.as_slice()).unwrap();
        assert_eq!(back.i, Some(0));
    }

    #[test]
    fn a_cut_off_file_is_an_error() {
        let bytes = every_field();
        assert!(ModelProto::decode(&bytes[..bytes.len() - 1]).is_err());
    }

    /// Each level of this file is a subgraph in an attribute of a node of the level above.
    #[test]
    fn a_file_nested_a_thousand_deep_is_an_error_and_not_a_crash() {
        let mut graph = Vec::new();
        for _ in 0..1000 {
            for tag in [0x32, 0x2a, 0x0a] {
                let mut outer = vec![tag]; // attribute.g, node.attribute, graph.node
                prost::encoding::encode_varint(graph.len() as u64, &mut outer);
                outer.append(&mut graph);
                graph = outer;
            }
        }
        assert!(GraphProto::decode(graph.as_slice()).is_err());
    }
}

use std::fs;
use std::io::{Cursor, Write as _};

use flate2::Compression;
use flate2::write::DeflateEncoder;
use proptest::prelude::*;

use super::types::{CHUNK, half};
use super::*;
use crate::made::npy;

// The files below are of NumPy 2.4.6, printed by
//
// import io, numpy as np
// def file(array, version=None):
//     b = io.BytesIO(); np.lib.format.write_array(b, array, version); print(b.getvalue())
// a = np.arange(6).reshape(2, 3)
//
// file(a.astype(">f4"))
const BIG_ENDIAN: &[u8] = b"\x93NUMPY\x01\x00v\x00{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }                                                          \n\
        \x00\x00\x00\x00?\x80\x00\x00@\x00\x00\x00@@\x00\x00@\x80\x00\x00@\xa0\x00\x00";

// file(np.array([1, -2, 0.1, 65504, 6e-8, np.inf], "<f2"))
const HALF: &[u8] = b"\x93NUMPY\x01\x00v\x00{'descr': '<f2', 'fortran_order': False, 'shape': (6,), }                                                            \n\
        \x00<\x00\xc0f.\xff{\x01\x00\x00|";

// file(np.asfortranarray(np.arange(12, dtype="u1").reshape(2, 3, 2)))
const FORTRAN: &[u8] = b"\x93NUMPY\x01\x00v\x00{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 2), }                                                        \n\
        \x00\x06\x02\x08\x04\n\x01\x07\x03\x09\x05\x0b";

// file(a.astype("<i8") - 3, (2, 0))
const VERSION_2: &[u8] = b"\x93NUMPY\x02\x00t\x00\x00\x00{'descr': '<i8', 'fortran_order': False, 'shape': (2, 3), }                                                        \n\
        \xfd\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\
        \x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00";

// file(np.array(3.5), (3, 0))
const VERSION_3: &[u8] = b"\x93NUMPY\x03\x00t\x00\x00\x00{'descr': '<f8', 'fortran_order': False, 'shape': (), }                                                            \n\
        \x00\x00\x00\x00\x00\x00\x0c@";

// file(np.array([True, False]))
const TRUTH: &[u8] = b"\x93NUMPY\x01\x00v\x00{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }                                                            \n\
        \x01\x00";

// file(np.array([None], object))
const OBJECTS: &[u8] = b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }                                                             \n\
        \x80\x04\x95\x8a\x00\x00\x00\x00\x00\x00\x00\x8c\x16numpy._core\
        .multiarray\x94\x8c\x0c_reconstru\
        ct\x94\x93\x94\x8c\x05numpy\x94\x8c\x07ndarray\x94\x93\
        \x94K\x00\x85\x94C\x01b\x94\x87\x94R\x94(K\x01K\x01\x85\x94h\x03\x8c\x05\
        dtype\x94\x93\x94\x8c\x02O8\x94\x89\x88\x87\x94R\x94(K\x03\x8c\x01\
        |\x94NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK?t\x94b\x89]\x94N\
        at\x94b.";

// file(np.zeros(1, [("a", "<f4"), ("b", "<i2")]))
const FIELDS: &[u8] = b"\x93NUMPY\x01\x00v\x00{'descr': [('a', '<f4'), ('b', '<i2')], 'fortran_order': False, 'shape': (1,), }                                     \n\
        \x00\x00\x00\x00\x00\x00";

// def archive(save, **arrays):
//     b = io.BytesIO(); save(b, **arrays); print(b.getvalue().hex())
// archive(np.savez_compressed, x=np.zeros((4, 5), "f4") + np.arange(5, dtype="f4"))
const DEFLATED: &str = "\
        504b03042d000000080000002100b2d48b59ffffffffffffffff05001400782e6e707901001000d00000\
        000000000055000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e\
        965f54529498179f5f94920a12774bcc294e058a17672416a402f91a263a0aa69a3a0ab50a64032e0630\
        68b007120e4004c40d0e94880100504b01022d032d000000080000002100b2d48b5955000000d0000000\
        050000000000000000000000800100000000782e6e7079504b05060000000001000100330000008c0000\
        000000\
    ";

// archive(np.savez, first=np.array([1, 2, 3], "u1"), second=np.array([0.5], "f8"))
const STORED: &str = "\
        504b03042d0000000000000021002ae38eb1ffffffffffffffff0900140066697273742e6e7079010010\
        0083000000000000008300000000000000934e554d5059010076007b276465736372273a20277c753127\
        2c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028332c292c207d\
        202020202020202020202020202020202020202020202020202020202020202020202020202020202020\
        2020202020202020202020202020202020200a010203504b03042d000000000000002100eac5199dffff\
        ffffffffffff0a0014007365636f6e642e6e70790100100088000000000000008800000000000000934e\
        554d5059010076007b276465736372273a20273c6638272c2027666f727472616e5f6f72646572273a20\
        46616c73652c20277368617065273a2028312c292c207d20202020202020202020202020202020202020\
        20202020202020202020202020202020202020202020202020202020202020202020202020202020200a\
        000000000000e03f504b01022d032d0000000000000021002ae38eb18300000083000000090000000000\
        00000000000080010000000066697273742e6e7079504b01022d032d000000000000002100eac5199d88\
        000000880000000a00000000000000000000008001be0000007365636f6e642e6e7079504b0506000000\
        00020002006f000000820100000000\
    ";

// DEFLATED with all sizes and offsets of its directory in 64 bits; np.load reads it too.
const ZIP_64: &str = "\
        504b03042d000000080000002100b2d48b59ffffffffffffffff05001400782e6e707901001000d00000\
        000000000055000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e\
        965f54529498179f5f94920a12774bcc294e058a17672416a402f91a263a0aa69a3a0ab50a64032e0630\
        68b007120e4004c40d0e94880100504b01022d032d000000080000002100b2d48b59ffffffffffffffff\
        05001c0000000000000000008001ffffffff782e6e707901001800d00000000000000055000000000000\
        000000000000000000504b06062c000000000000002d002d000000000000000000010000000000000001\
        000000000000004f000000000000008c00000000000000504b060700000000db00000000000000010000\
        00504b050600000000ffffffffffffffffffffffff0000\
    ";

fn hex(text: &str) -> Vec<u8> {
    let (pairs, _) = text.as_bytes().as_chunks::<2>();
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.iter().map(|pair| byte(pair)).collect()
}

fn parse(bytes: &[u8]) -> Result<Array, Error> {
    Source::new(bytes, bytes.len() as u64, place("d/a.npy")).read()
}

#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method itself is of one lifetime only"
)]
fn unpack(bytes: &[u8], entry: Option<&str>) -> Result<Array, Error> {
    read_archive(
        Cursor::new(bytes.to_vec()),
        Path::new("d/a.npz"),
        entry,
        |source| source.read(),
    )
}

fn message(bytes: &[u8]) -> String {
    parse(bytes).unwrap_err().to_string()
}

fn unpack_message(bytes: &[u8], entry: Option<&str>) -> String {
    unpack(bytes, entry).unwrap_err().to_string()
}

fn array(shape: &[usize], values: &[f32]) -> Array {
    Array {
        shape: shape.to_vec(),
        values: Values::F32(values.to_vec()),
    }
}

/// A file of version 1 with this header.
fn file(header: &str, data: &[u8]) -> Vec<u8> {
    let length = (header.len() as u16).to_le_bytes();
    [MAGIC, &[1, 0], &length, header.as_bytes(), data].concat()
}

fn header(descr: &str, shape: &str) -> String {
    format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n")
}

/// An archive of one deflated entry that claims to have `size` bytes.
fn archive(name: &str, unpacked: &[u8], size: u32) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(unpacked).unwrap();
    let packed = encoder.finish().unwrap();
    let mut crc = flate2::Crc::new();
    crc.update(unpacked);
    let sizes = [crc.sum(), packed.len() as u32, size].map(u32::to_le_bytes);
    let name_size = (name.len() as u32).to_le_bytes(); // and no extra
    let middle = [
        &[20, 0, 0, 0, 8, 0, 0, 0, 0, 0],
        sizes.as_flattened(),
        &name_size,
    ]
    .concat();
    let local = [b"PK\x03\x04", &middle[..], name.as_bytes(), &packed].concat();
    let record = [
        b"PK\x01\x02\x14\x00",
        &middle[..],
        &[0; 14],
        name.as_bytes(),
    ]
    .concat();
    let at = [record.len(), local.len()].map(|size| (size as u32).to_le_bytes());
    let end = [
        b"PK\x05\x06\x00\x00\x00\x00\x01\x00\x01\x00",
        at.as_flattened(),
        &[0; 2],
    ]
    .concat();
    [local, record, end].concat()
}

#[test]
fn wide_numbers_keep_their_digits_for_who_asks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("array.npy");
    let read = |descr: &str, bytes: &[u8]| {
        fs::write(&path, npy(descr, "(2,)", bytes)).unwrap();
        read_precise(&path, None).unwrap()
    };
    let double = |values: [f64; 2]| Precise::Double {
        shape: vec![2],
        values: values.to_vec(),
    };
    let floats = [1e8 + 0.25, -3.0].map(f64::to_le_bytes).concat();
    assert_eq!(read("<f8", &floats), double([1e8 + 0.25, -3.0]));
    let whole = [(1_i64 << 40) + 1, -7].map(i64::to_be_bytes).concat();
    assert_eq!(read(">i8", &whole), double([1_099_511_627_777.0, -7.0]));
    let narrow = [0.5_f32, 2.0].map(f32::to_le_bytes).concat();
    assert!(matches!(read("<f4", &narrow), Precise::Single(_)));
}

#[test]
fn files_of_numpy_are_read() {
    let six = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
    assert_eq!(parse(BIG_ENDIAN).unwrap(), array(&[2, 3], &six));
    // The nearest halves to 0.1 and to 6e-8, the latter being the smallest there is.
    let halves = [
        1.0,
        -2.0,
        0.099_975_586,
        65_504.0,
        5.960_464_5e-8,
        f32::INFINITY,
    ];
    assert_eq!(parse(HALF).unwrap(), array(&[6], &halves));
    let signed = six.map(|value| value - 3.0);
    assert_eq!(parse(VERSION_2).unwrap(), array(&[2, 3], &signed));
    assert_eq!(parse(VERSION_3).unwrap(), array(&[], &[3.5]));
    let truth = parse(TRUTH).unwrap();
    assert_eq!(
        (truth.shape, truth.values),
        (vec![2], Values::U8(vec![1, 0]))
    );
}

#[test]
fn the_order_of_fortran_is_turned_round() {
    let wanted = Array {
        shape: vec![2, 3, 2],
        values: Values::U8((0..12).collect()),
    };
    assert_eq!(parse(FORTRAN).unwrap(), wanted);
    let empty = "{'descr': '<f4', 'fortran_order': True, 'shape': (4294967296, 4294967296, 0)}";
    assert!(parse(&file(empty, &[])).unwrap().values.is_empty());
}

#[test]
fn every_type_of_number_is_read_in_both_orders() {
    let cases: [(&str, &[u8], f32); 10] = [
        ("i1", &[0xfe], -2.0),
        ("i2", &[0xfe, 0xff], -2.0),
        ("i4", &[0, 0, 1, 0], 65_536.0),
        ("i8", &[0xff; 8], -1.0),
        ("u2", &[1, 2], 513.0),
        ("u4", &[0, 0, 0, 0x80], 2_147_483_648.0),
        (
            "u8",
            &[0, 0, 0, 0, 0, 0, 0, 0x80],
            9_223_372_036_854_775_808.0,
        ),
        ("f2", &[0, 0xb8], -0.5),
        ("f4", &[0, 0, 0x20, 0x41], 10.0),
        ("f8", &[0, 0, 0, 0, 0, 0, 0xe0, 0x3f], 0.5),
    ];
    for (name, bytes, value) in cases {
        let little = file(&header(&format!("<{name}"), "(1,)"), bytes);
        assert_eq!(parse(&little).unwrap(), array(&[1], &[value]), "{name}");
        let reversed: Vec<u8> = bytes.iter().rev().copied().collect();
        let big = file(&header(&format!(">{name}"), "(1,)"), &reversed);
        assert_eq!(parse(&big).unwrap(), array(&[1], &[value]), "{name}");
    }
}

/// Halves are ± fraction × 2^(exponent − 25), where the fraction has a hidden bit.
#[test]
fn all_halves_are_exact() {
    for bits in 0..=u16::MAX {
        let [exponent, fraction] = [(bits >> 10 & 31) as i32, i32::from(bits & 1023)];
        let magnitude = match exponent {
            0 => f64::from(fraction) * 2f64.powi(-24),
            31 if fraction == 0 => f64::INFINITY,
            31 => f64::NAN,
            _ => f64::from(fraction + 1024) * 2f64.powi(exponent - 25),
        };
        let wanted = if bits >> 15 == 1 {
            -magnitude
        } else {
            magnitude
        } as f32;
        let found = half(bits);
        assert!(
            found == wanted || found.is_nan() && wanted.is_nan(),
            "{bits:04x}"
        );
    }
}

#[test]
fn more_numbers_than_are_converted_at_once_are_read() {
    let count = 2 * CHUNK + 3;
    let data: Vec<u8> = (0..count).flat_map(|i| (i as u32).to_le_bytes()).collect();
    let read = parse(&file(&header("<u4", &format!("({count},)")), &data)).unwrap();
    let wanted: Vec<f32> = (0..count).map(|i| i as f32).collect();
    assert_eq!(read.values, Values::F32(wanted));
}

#[test]
fn headers_of_others_are_read() {
    let odd = "{\"shape\":(2L, 1 ,),'fortran_order':False , 'descr':\"=f4\"}";
    assert_eq!(
        parse(&file(odd, &[0; 8])).unwrap(),
        array(&[2, 1], &[0.0, 0.0])
    );
}

#[test]
fn a_header_that_is_not_one_says_where() {
    let large = "{'shape': (99999999999999999999,)}";
    let cases = [
        ("", "{", ""),
        ("{'descr': 5}", "text in quotes", "5}"),
        ("{'descr': '<f4' 'shape'", "`,` or `}`", "'shape'"),
        ("{'fortran_order': 0}", "True or False", "0}"),
        ("{'shape': (-1,)}", "a size", "-1,)}"),
        ("{'shape': (1 2)}", "`,` or `)`", "2)}"),
        (large, "a size", "99999999999999999999,)}"),
        ("{'code': 1}", "only descr, fortran_order and shape", "code"),
        ("{'shape': (1,)}", "descr", ""),
        ("{} {}", "its end", "{}"),
    ];
    for (header, wanted, found) in cases {
        assert_eq!(
            message(&file(header, &[])),
            format!("the header of `d/a.npy` should have {wanted} where it has `{found}`")
        );
    }
}

#[test]
fn objects_are_refused_and_nothing_of_them_is_read() {
    assert_eq!(
        message(OBJECTS),
        "`d/a.npy` holds Python objects, not numbers; they are not read, because that would run \
             code out of the file\n\
             hint: save it again as numbers, for instance with `array.astype(\"float32\")`"
    );
    let inside = "{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (1,)}";
    assert!(message(&file(inside, &[])).contains("holds Python objects"));
    assert_eq!(
        message(FIELDS),
        "`d/a.npy` holds values of type `[('a', '<f4'), ('b', '<i2')]`; \
             b1, i1 to i8, u1 to u8 and f2 to f8 can be read"
    );
    for descr in ["<c8", "<U4", "|S3", "<M8[s]", "<f16", "f4", ""] {
        let failure = message(&file(&header(descr, "(1,)"), &[0; 8]));
        assert!(
            failure.contains(&format!("values of type `{descr}`")),
            "{failure}"
        );
    }
}

#[test]
fn what_is_not_an_array_is_named() {
    assert_eq!(
        message(b"GIF8"),
        "`d/a.npy` is not a NumPy array: it starts with [47, 49, 46, 38]"
    );
    assert_eq!(
        message(b"\x93NUMPY\x09\x00"),
        "`d/a.npy` is of version 9 of NumPy's format; versions 1 to 3 can be read"
    );
    assert_eq!(
        message(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{"),
        "`d/a.npy` has a header of 4294967295 bytes; 65536 are the most"
    );
}

#[test]
fn a_length_that_does_not_fit_the_shape_is_refused() {
    let header = header("<f4", "(2, 3)");
    let start = file(&header, &[]).len();
    for data in [23, 25] {
        assert_eq!(
            message(&file(&header, &vec![0; data])),
            format!(
                "`d/a.npy` is of shape [2, 3], so it should have {} bytes, but it has {}",
                start + 24,
                start + data
            )
        );
    }
    let vast = self::header("<f8", "(4294967296, 4294967296)");
    assert_eq!(
        message(&file(&vast, &[0; 8])),
        "`d/a.npy` is of shape [4294967296, 4294967296], which is more than 68719476736 bytes"
    );
}

#[test]
fn archives_are_read() {
    let rows = [0.0, 1.0, 2.0, 3.0, 4.0].repeat(4);
    for file in [DEFLATED, ZIP_64] {
        for entry in [None, Some("x"), Some("x.npy")] {
            assert_eq!(unpack(&hex(file), entry).unwrap(), array(&[4, 5], &rows));
        }
    }
    let first = unpack(&hex(STORED), Some("first")).unwrap();
    assert_eq!(first.values, Values::U8(vec![1, 2, 3]));
    let second = unpack(&hex(STORED), Some("second")).unwrap();
    assert_eq!(second, array(&[1], &[0.5]));
}

#[test]
fn an_archive_of_several_arrays_lists_them() {
    assert_eq!(
        unpack_message(&hex(STORED), None),
        "`d/a.npz` should have one array, but has `first`, `second`\nhint: say which one"
    );
    assert_eq!(
        unpack_message(&hex(STORED), Some("third")),
        "`d/a.npz` has no array `third`, only `first`, `second`"
    );
    let other = archive("readme.txt", b"text", 4);
    assert_eq!(
        unpack_message(&other, None),
        "`d/a.npz` should have one array, but has none\nhint: say which one"
    );
}

#[test]
fn the_first_bytes_tell_an_archive_from_an_array() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, hex(STORED)).unwrap();
    assert_eq!(read(&path, Some("second")).unwrap(), array(&[1], &[0.5]));
    fs::write(&path, VERSION_3).unwrap();
    assert_eq!(read(&path, None).unwrap(), array(&[], &[3.5]));
    let failure = read(&path, Some("x")).unwrap_err().to_string();
    assert!(
        failure.ends_with("a` is one array, so there is no array `x` in it"),
        "{failure}"
    );
    let failure = read(&folder.path().join("b"), None)
        .unwrap_err()
        .to_string();
    assert!(failure.starts_with("could not read `"), "{failure}");
}

#[test]
fn damaged_archives_are_refused() {
    let whole = hex(DEFLATED);
    for end in 0..whole.len() {
        assert!(unpack(&whole[..end], None).is_err(), "{end} bytes");
    }
    assert_eq!(
        unpack_message(&whole[..100], None),
        "could not read the archive `d/a.npz`: it has no list of entries at its end\n\
             hint: the file is cut short; fetch it again"
    );
    let directory = whole
        .windows(4)
        .position(|four| four == b"PK\x01\x02")
        .unwrap();
    let damage = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[directory + at] = byte;
        unpack_message(&bytes, None)
    };
    assert_eq!(
        damage(16, 0),
        "`x` of `d/a.npz` does not fit its checksum\nhint: the file is damaged; fetch it again"
    );
    let start = "could not read the archive `d/a.npz`: ";
    assert_eq!(damage(8, 1), format!("{start}entry `x.npy` is encrypted"));
    assert_eq!(
        damage(10, 12),
        format!(
            "{start}entry `x.npy` is packed with method 12; only 0 (stored) and 8 (deflate) can be read"
        )
    );
    let again = "is damaged\nhint: fetch the file again";
    assert_eq!(damage(0, 0), format!("{start}its list of entries {again}"));
    assert_eq!(damage(42, 7), format!("{start}its local header {again}"));
    assert_eq!(damage(21, 7), format!("{start}its local header {again}"));
    let end = whole.len() - directory - 22;
    assert_eq!(
        damage(end + 19, 7),
        format!("{start}its list of entries {again}")
    );
}

/// Whatever packed bytes could become, only what shape and directory agree on is unpacked.
#[test]
fn a_small_archive_cannot_unpack_into_a_large_one() {
    let mut bomb = file(&header("|u1", "(4,)"), &[0; 4]);
    let honest = bomb.len();
    bomb.resize(50_000_000, 0);
    let claims_all = archive("x.npy", &bomb, 50_000_000);
    assert!(claims_all.len() < 60_000);
    assert_eq!(
        unpack_message(&claims_all, None),
        format!(
            "`x` of `d/a.npz` is of shape [4], so it should have {honest} bytes, but it has 50000000"
        )
    );
    let claims_little = archive("x.npy", &bomb, honest as u32);
    assert!(unpack_message(&claims_little, None).contains("does not fit its checksum"));
    let sound = file(&header("|u1", "(4000000000,)"), &[]);
    let claims_much = archive("x.npy", &sound, 4_000_000_000);
    let failure = unpack_message(&claims_much, None);
    assert!(
        failure.contains("entry `x.npy` claims 4000000000 bytes, but only "),
        "{failure}"
    );
}

const FILES: [&[u8]; 7] = [
    BIG_ENDIAN, HALF, FORTRAN, VERSION_2, VERSION_3, TRUTH, OBJECTS,
];

/// Characters of four bytes in both orders, and bytes of UTF-8; zeros fill up short texts.
#[test]
fn texts_are_read_where_they_are_asked_for() {
    let wide = |order: fn(u32) -> [u8; 4], text: &str| -> Vec<u8> {
        let mut letters: Vec<u32> = text.chars().map(u32::from).collect();
        letters.resize(5, 0);
        letters.into_iter().flat_map(order).collect()
    };
    let names = ["a.png", "ü.j", "", "x"];
    let texts = |file: &[u8]| {
        let source = Source::new(file, file.len() as u64, place("t.npy"));
        source.read_content().unwrap()
    };
    let wanted = Content::Texts(names.map(str::to_owned).to_vec());
    for (descr, order) in [
        ("<U5", u32::to_le_bytes as fn(u32) -> [u8; 4]),
        (">U5", u32::to_be_bytes),
    ] {
        let bytes: Vec<u8> = names.iter().flat_map(|name| wide(order, name)).collect();
        assert_eq!(texts(&npy(descr, "(4,)", &bytes)), wanted);
    }
    let bytes = b"a.png\xc3\xbc.j\0\0\0\0\0\0x\0\0\0\0";
    assert_eq!(texts(&npy("|S5", "(2, 2)", bytes)), wanted);
    let file = npy("|u1", "(2,)", &[7, 9]);
    assert_eq!(
        texts(&file),
        Content::Numbers(Array {
            shape: vec![2],
            values: Values::U8(vec![7, 9])
        })
    );
}

#[test]
fn texts_without_length_or_in_place_of_numbers_are_refused() {
    let failure = |descr: &str, shape: &str| {
        let file = npy(descr, shape, b"");
        let source = Source::new(&file[..], file.len() as u64, place("t.npy"));
        source.read_content().unwrap_err().to_string()
    };
    for descr in ["<U0", "|S0", "<U99999999999999999999", "<U70000", "|O"] {
        let failure = failure(descr, "(1000000000000,)");
        assert!(failure.contains("holds "), "{failure}");
    }
    assert!(failure("<U9", "(9,)").contains("so it should have"));
    let file = npy("<U1", "(1,)", b"a\0\0\0");
    let source = Source::new(&file[..], file.len() as u64, place("t.npy"));
    let failure = source.read().unwrap_err().to_string();
    assert!(failure.contains("holds values of type `<U1`"), "{failure}");
}

fn place(path: &str) -> String {
    format!("`{path}`")
}

proptest! {
    #[test]
    fn texts_never_panic(
        descr in "[<>|][US][0-9]{0,3}",
        bytes in prop::collection::vec(any::<u8>(), 0..64),
        count in 0..20usize,
    ) {
        let file = npy(&descr, &format!("({count},)"), &bytes);
        let _ = Source::new(&file[..], file.len() as u64, place("t.npy")).read_content();
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = (parse(&bytes), unpack(&bytes, None));
        let _ = parse(&[MAGIC, &[1, 0], &bytes].concat());
        let _ = unpack(&[&bytes[..], b"PK\x05\x06", &bytes].concat(), None);
    }

    #[test]
    fn arbitrary_headers_never_panic(text in "[{}()\\['\"a-z:, <|0-9LOTrue]{0,60}", descr in "[<>|=é]?[biufcO][0-9]{0,2}") {
        let _ = parse(&file(&text, &[0; 8]));
        let _ = parse(&file(&header(&descr, "(1,)"), &[0; 8]));
        let _ = parse(&file(&header("<f4", &format!("({text})")), &[0; 8]));
    }

    #[test]
    fn damaged_files_never_panic(
        which in 0..FILES.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        end in any::<prop::sample::Index>(),
    ) {
        let mut bytes = FILES[which].to_vec();
        prop_assert!(parse(&bytes[..end.index(bytes.len())]).is_err());
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(array) = parse(&bytes) {
            prop_assert_eq!(array.values.len(), array.shape.iter().product::<usize>());
        }
    }

    #[test]
    fn damaged_archives_never_panic(
        which in 0..3usize,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let mut bytes = hex([DEFLATED, STORED, ZIP_64][which]);
        for (at, byte) in damage {
            // From the end, where the directory is.
            let at = bytes.len() - 1 - at.index(150);
            bytes[at] = byte;
        }
        let _ = (unpack(&bytes, None), unpack(&bytes, Some("second")));
    }
}

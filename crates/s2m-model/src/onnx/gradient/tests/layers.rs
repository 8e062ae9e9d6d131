//! Products with weights, normalisation, pools and changes of size.

use super::*;

#[test]
fn products() {
    for (z, w) in [
        (&[2, 3][..], &[3, 4][..]),
        (&[5, 2, 3], &[3, 4]),
        (&[5, 2, 3], &[5, 3, 2]),
        (&[2, 3], &[5, 3, 4]),
    ] {
        Net::new(z)
            .weight("w", w)
            .node("MatMul", &["z", "w"], "y", vec![])
            .check(&format!("MatMul {z:?} {w:?}"));
    }
    for (w, z) in [
        (&[4, 2][..], &[2, 3][..]),
        (&[5, 4, 2], &[2, 3]),
        (&[4, 2], &[5, 2, 3]),
    ] {
        Net::new(z)
            .weight("w", w)
            .node("MatMul", &["w", "z"], "y", vec![])
            .check(&format!("MatMul {w:?} {z:?}"));
    }
    for a in [0, 1] {
        for b in [0, 1] {
            let attributes = || {
                vec![
                    int("transA", a),
                    int("transB", b),
                    AttributeProto::float("alpha", 0.7),
                    AttributeProto::float("beta", -1.3),
                ]
            };
            let z = if a == 0 { [2, 3] } else { [3, 2] };
            let w = if b == 0 { [3, 4] } else { [4, 3] };
            Net::new(&z)
                .weight("w", &w)
                .weight("c", &[4])
                .node("Gemm", &["z", "w", "c"], "y", attributes())
                .check(&format!("Gemm {a}{b}"));
            // The other factor, and what is added.
            let first = if a == 0 { [2, 3] } else { [3, 2] };
            Net::new(&w)
                .weight("a", &first)
                .weights_of("one", &[1, 1], &[1.0])
                .node("ReduceSum", &["z"], "s", vec![int("keepdims", 1)])
                .node("Gemm", &["a", "z", "s"], "y", attributes())
                .check(&format!("Gemm {a}{b}, second"));
        }
    }
}

#[test]
fn convolutions() {
    let cases = [
        (&[1, 1][..], &[0, 0, 0, 0][..], &[1, 1][..], 1, 3),
        (&[1, 1], &[1, 1, 1, 1], &[1, 1], 1, 3),
        (&[2, 2], &[1, 0, 1, 2], &[1, 1], 1, 3),
        (&[2, 1], &[2, 2, 1, 1], &[2, 1], 1, 2),
        (&[1, 1], &[1, 1, 1, 1], &[1, 1], 2, 3),
        (&[3, 3], &[0, 0, 0, 0], &[1, 1], 1, 2),
    ];
    for (strides, pads, dilations, group, kernel) in cases {
        let attributes = || {
            vec![
                ints("strides", strides),
                ints("pads", pads),
                ints("dilations", dilations),
                int("group", group),
            ]
        };
        let what =
            format!("strides {strides:?}, pads {pads:?}, dilations {dilations:?}, groups {group}");
        let inner = 4 / group as usize;
        Net::new(&[2, 4, 5, 6])
            .weight("w", &[6, inner, kernel, kernel])
            .weight("b", &[6])
            .node("Conv", &["z", "w", "b"], "y", attributes())
            .check(&format!("Conv, {what}"));
        let outer = 6 / group as usize;
        Net::new(&[2, 4, 3, 4])
            .weight("w", &[4, outer, kernel, kernel])
            .weight("b", &[6])
            .node("ConvTranspose", &["z", "w", "b"], "y", attributes())
            .check(&format!("ConvTranspose, {what}"));
    }
    for auto in ["SAME_UPPER", "SAME_LOWER", "VALID"] {
        Net::new(&[1, 2, 5, 6])
            .weight("w", &[3, 2, 4, 4])
            .node(
                "Conv",
                &["z", "w"],
                "y",
                vec![text("auto_pad", auto), ints("strides", &[2, 2])],
            )
            .check(auto);
    }
    Net::new(&[1, 2, 3, 3])
        .weight("w", &[2, 3, 4, 4])
        .node(
            "ConvTranspose",
            &["z", "w"],
            "y",
            vec![
                ints("strides", &[2, 2]),
                ints("pads", &[1, 1, 1, 1]),
                ints("output_padding", &[1, 0]),
            ],
        )
        .check("ConvTranspose with more at its end");
    Net::new(&[2, 3, 7])
        .weight("w", &[4, 3, 3])
        .node("Conv", &["z", "w"], "y", vec![])
        .check("Conv of one axis");
    // Many channels, which take another way.
    Net::new(&[1, 48, 3, 4])
        .weight("w", &[2, 48, 3, 3])
        .node("Conv", &["z", "w"], "y", vec![ints("pads", &[1, 2, 0, 1])])
        .check("Conv of many channels");
}

#[test]
fn normalisation() {
    for dims in [&[3, 4][..], &[2, 4, 3], &[2, 4, 3, 2]] {
        Net::new(dims)
            .weight("s", &[4])
            .weight("b", &[4])
            .weight("m", &[4])
            .weights_of("v", &[4], &[0.5, 1.5, 0.9, 2.0])
            .node(
                "BatchNormalization",
                &["z", "s", "b", "m", "v"],
                "y",
                vec![],
            )
            .check("BatchNormalization");
    }
    Net::new(&[2, 3, 2, 4])
        .weight("s", &[3])
        .weight("b", &[3])
        .node("InstanceNormalization", &["z", "s", "b"], "y", vec![])
        .check("InstanceNormalization");
    Net::new(&[2, 3, 4])
        .weight("s", &[3, 4])
        .weight("b", &[3, 4])
        .node(
            "LayerNormalization",
            &["z", "s", "b"],
            "y",
            vec![int("axis", 1)],
        )
        .check("LayerNormalization");
}

#[test]
fn pools_and_sizes() {
    for (kernel, strides, pads) in [
        (2, 2, [0; 4]),
        (3, 2, [1, 1, 1, 1]),
        (3, 1, [0; 4]),
        (2, 3, [0, 1, 0, 0]),
    ] {
        let attributes = || {
            vec![
                ints("kernel_shape", &[kernel, kernel]),
                ints("strides", &[strides, strides]),
                ints("pads", &pads),
            ]
        };
        let what = format!("{kernel} by {strides}, pads {pads:?}");
        let apart = (0..140)
            .map(|k| 0.1 * ((k * 37 % 140) as f32) - 7.03)
            .collect();
        Net::new(&[2, 2, 5, 7])
            .at(apart)
            .node("MaxPool", &["z"], "y", attributes())
            .check(&format!("MaxPool {what}"));
        for count in [0, 1] {
            let mut attributes = attributes();
            attributes.push(int("count_include_pad", count));
            Net::new(&[2, 2, 5, 7])
                .node("AveragePool", &["z"], "y", attributes)
                .check(&format!("AveragePool {what}, {count}"));
        }
    }
    Net::new(&[2, 2, 5, 7])
        .node(
            "AveragePool",
            &["z"],
            "y",
            vec![
                ints("kernel_shape", &[2, 2]),
                ints("strides", &[2, 2]),
                int("ceil_mode", 1),
            ],
        )
        .check("AveragePool that goes beyond");
    for op in ["GlobalAveragePool", "GlobalMaxPool"] {
        Net::new(&[2, 3, 2, 4])
            .node(op, &["z"], "y", vec![])
            .check(op);
    }
    for (how, rounding) in [
        ("asymmetric", "floor"),
        ("half_pixel", "round_prefer_floor"),
    ] {
        for factor in [2.0, 3.0] {
            Net::new(&[1, 2, 2, 3])
                .weights_of("f", &[4], &[1.0, 1.0, factor, factor])
                .node(
                    "Resize",
                    &["z", "", "f"],
                    "y",
                    vec![
                        text("mode", "nearest"),
                        text("coordinate_transformation_mode", how),
                        text("nearest_mode", rounding),
                    ],
                )
                .check(how);
        }
    }
    let apart = (0..96)
        .map(|k| 0.1 * ((k * 37 % 96) as f32) - 4.83)
        .collect();
    Net::new(&[2, 2, 4, 6])
        .at(apart)
        .node(
            "MaxPool",
            &["z"],
            "y",
            vec![ints("kernel_shape", &[2, 3]), ints("strides", &[2, 3])],
        )
        .check("MaxPool of whole windows side by side");
}

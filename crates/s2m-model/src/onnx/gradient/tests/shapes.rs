//! What moves numbers about, and sums along axes.

use super::*;

#[test]
fn axes_are_moved_back() {
    let two = || Net::new(&[2, 3, 4]);
    two()
        .list("s", &[0, -1])
        .node("Reshape", &["z", "s"], "y", vec![])
        .check("Reshape");
    two()
        .node("Flatten", &["z"], "y", vec![int("axis", 2)])
        .check("Flatten");
    two()
        .list("a", &[1])
        .node("Unsqueeze", &["z", "a"], "u", vec![])
        .node("Squeeze", &["u", "a"], "y", vec![])
        .check("Squeeze");
    two()
        .node("Transpose", &["z"], "y", vec![ints("perm", &[1, 2, 0])])
        .check("Transpose");
    two()
        .node("Transpose", &["z"], "y", vec![])
        .check("Transpose without an order");
    two()
        .list("s", &[5, 2, 3, 4])
        .node("Expand", &["z", "s"], "y", vec![])
        .check("Expand");
    two()
        .weight("w", &[2, 1, 4])
        .node("Tanh", &["z"], "t", vec![])
        .node("Concat", &["z", "w", "t"], "y", vec![int("axis", -2)])
        .check("Concat");
    two()
        .node(
            "Split",
            &["z"],
            "s1",
            vec![int("axis", 2), int("num_outputs", 2)],
        )
        .splits()
        .check("Split");
    two()
        .list("i", &[2, 0, 2, -1])
        .node("Gather", &["z", "i"], "y", vec![int("axis", 2)])
        .check("Gather");
    two()
        .weights_i64("i", &[], &[1])
        .node("Gather", &["z", "i"], "y", vec![int("axis", 1)])
        .check("Gather of one");
    for (starts, ends, axes, steps) in [
        (&[1, 0][..], &[3, 2][..], &[1, 2][..], &[1, 1][..]),
        (&[-1, 3], &[-4, 0], &[1, -1], &[-1, -2]),
        (&[0], &[i64::MAX], &[2], &[3]),
        (&[-2], &[i64::MAX], &[2], &[1]),
    ] {
        two()
            .list("s", starts)
            .list("e", ends)
            .list("a", axes)
            .list("t", steps)
            .node("Slice", &["z", "s", "e", "a", "t"], "y", vec![])
            .check(&format!("Slice {starts:?}"));
    }
    two()
        .list("s", &[0, 1])
        .list("e", &[1, 3])
        .node("Slice", &["z", "s", "e"], "y", vec![])
        .check("Slice without axes");
    for mode in ["constant", "reflect", "edge"] {
        two()
            .list("p", &[0, 1, 2, 0, 2, 1])
            .node("Pad", &["z", "p"], "y", vec![text("mode", mode)])
            .check(&format!("Pad {mode}"));
    }
    for mode in ["DCR", "CRD"] {
        Net::new(&[2, 8, 2, 3])
            .node(
                "DepthToSpace",
                &["z"],
                "y",
                vec![int("blocksize", 2), text("mode", mode)],
            )
            .check(mode);
    }
    Net::new(&[2, 3, 4, 6])
        .node("SpaceToDepth", &["z"], "y", vec![int("blocksize", 2)])
        .check("SpaceToDepth");
}

#[test]
fn sums_and_their_kin() {
    for op in [
        "ReduceSum",
        "ReduceMean",
        "ReduceMax",
        "ReduceMin",
        "ReduceSumSquare",
        "ReduceL2",
        "ReduceLogSumExp",
    ] {
        for kept in [0, 1] {
            Net::new(&[2, 3, 4])
                .list("a", &[-1, 0])
                .node(op, &["z", "a"], "y", vec![int("keepdims", kept)])
                .check(op);
        }
        Net::new(&[2, 3])
            .node(op, &["z"], "y", vec![])
            .check(&format!("{op} over all"));
    }
    for op in ["Softmax", "LogSoftmax"] {
        Net::new(&[2, 3, 4]).node(op, &["z"], "y", vec![]).check(op);
        Net::new(&[2, 3, 4])
            .node(op, &["z"], "y", vec![int("axis", 1)])
            .check(op);
    }
}

/// Whole numbers that only depend on sizes may be made by nodes.
#[test]
fn a_shape_may_be_worked_out_by_nodes() {
    Net::new(&[2, 3, 4])
        .list("places", &[0])
        .list("rest", &[-1])
        .node("Shape", &["z"], "shape", vec![])
        .node("Gather", &["shape", "places"], "batch", vec![])
        .node("Concat", &["batch", "rest"], "wanted", vec![int("axis", 0)])
        .node("Tanh", &["z"], "t", vec![])
        .node("Reshape", &["t", "wanted"], "y", vec![])
        .check("Reshape by a shape");
}

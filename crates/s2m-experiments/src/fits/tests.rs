use super::*;

/// Two classes of samples, one of which gave none; rows that are there and rows that are missing.
#[test]
fn rows_are_means_over_what_gave_samples_and_missing_ones_are_named() {
    let figures = |accuracy, calls| {
        Some(Figures {
            accuracy,
            predicted: 0.9,
            plain: 0.8,
            calls,
        })
    };
    let row = |floor, found: [Option<Figures>; 3]| Measured {
        drawing: Drawing::new(PosteriorName::Joint, 1.0),
        floor: Some(floor),
        classes: ["A", "B", "C"]
            .map(str::to_owned)
            .into_iter()
            .zip(found)
            .collect(),
    };
    let some = row(0.9, [figures(0.5, 10.0), None, figures(1.0, 30.0)]);
    let means = some.means().unwrap();
    assert_eq!((means.accuracy, means.calls), (0.75, 20.0));
    let none = row(0.95, [None; 3]);
    assert_eq!(none.means(), None);
    let mut table = Table::new("", &[""; 8]);
    let mut missing = Vec::new();
    let source = Source::File("generator.onnx");
    let ceiling = Fit::learnt("resnet9", "ResNet-9", source, None)
        .ceiling("ceiling", "ResNet-9, all labels (ceiling)");
    let row = Row {
        presence: [("A", "present", 20, true), ("B", "absent", 1, false)]
            .map(|(query, verdict, reached, exists)| {
                let told = Presence {
                    verdict: verdict.to_owned(),
                    reached,
                    exists,
                };
                (query.to_owned(), told)
            })
            .into(),
        measured: vec![some, none],
    };
    let line = row.presence("ResNet-9, seed 0");
    let absent = "`B` (1 items, which nothing has)";
    assert_eq!(line, ["ResNet-9, seed 0", "`A` (20 items)", "", absent]);
    let found = [(0, Some(row)), (1, None)];
    add_rows(&mut table, &mut missing, ceiling, &found).unwrap();
    assert_eq!(
        table.rows,
        [[
            "ResNet-9, all labels (ceiling), joint",
            "0.9",
            "75.00",
            "90.00",
            "80.00",
            "20.0",
            "2.0",
            "0; 1 missing"
        ]]
    );
    let name = "ResNet-9, all labels (ceiling), joint";
    for wanted in [
        format!("{name}, seed 0: no joint class gave samples"),
        format!("{name}, seed 0, 1: not trained"),
        format!("{name}, no D_v, seed 0, 1: not trained"),
    ] {
        assert_eq!(
            missing.iter().filter(|m| **m == wanted).count(),
            1,
            "{missing:?}"
        );
    }
}

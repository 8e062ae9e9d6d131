use super::*;

fn panel(points: Vec<[f32; 2]>) -> Panel {
    Panel {
        title: "title".to_owned(),
        caption: "caption".to_owned(),
        points,
        colour: [200, 30, 30],
        ..Panel::default()
    }
}

fn count(canvas: &Canvas, wanted: impl Fn(Colour) -> bool) -> usize {
    let (width, height) = (canvas.width().cast_signed(), canvas.height().cast_signed());
    (0..height)
        .flat_map(|y| (0..width).map(move |x| (x, y)))
        .filter(|&(x, y)| canvas.pixel(x, y).is_some_and(&wanted))
        .count()
}

fn is_reddish([r, g, b]: Colour) -> bool {
    g == b && r > g.saturating_add(20)
}

fn square(side: f32) -> Vec<[f32; 2]> {
    vec![[0.0, 0.0], [0.0, side], [side, 0.0], [side, side]]
}

#[test]
fn nothing_at_all_is_still_a_picture() {
    for heading in [
        "",
        "A heading that is far too long for an empty sheet, so it is wrapped",
    ] {
        let canvas = scatter(&[], 0, heading);
        assert!(canvas.to_png().is_ok());
    }
}

#[test]
fn panels_without_a_finite_point_are_drawn_empty() {
    let odd = vec![[f32::NAN, 0.0], [f32::INFINITY, f32::NAN]];
    for drawing in [Drawing::Points, Drawing::Bars] {
        for points in [vec![], odd.clone()] {
            let empty = Panel {
                drawing,
                marks: odd.clone(),
                ..panel(points)
            };
            let canvas = scatter(&[empty.clone(), Panel::default(), empty], 2, "");
            assert_eq!(count(&canvas, is_reddish), 0);
        }
    }
}

#[test]
fn points_of_any_size_give_a_picture() {
    for side in [0.0, 1e-40, 1e-5, 1.0, 1e20, f32::MAX] {
        for drawing in [Drawing::Points, Drawing::Bars] {
            let panel = Panel {
                drawing,
                marks: square(-side),
                ..panel(square(side))
            };
            assert!(count(&scatter(&[panel], 1, ""), is_reddish) > 0, "{side}");
        }
    }
}

#[test]
fn four_points_are_four_discs() {
    let canvas = scatter(&[panel(square(1.0))], 1, "");
    let area = count(&canvas, is_reddish);
    assert!((4 * 12..=4 * 24).contains(&area), "{area}");
}

/// Middles of the discs in a picture of a few points, from left to right.
fn middles(canvas: &Canvas) -> Vec<[f64; 2]> {
    let (width, height) = (canvas.width().cast_signed(), canvas.height().cast_signed());
    let pixels = (0..width).flat_map(|x| (0..height).map(move |y| [x, y]));
    let mut found: Vec<Vec<[i32; 2]>> = Vec::new();
    for at in pixels.filter(|&[x, y]| canvas.pixel(x, y).is_some_and(is_reddish)) {
        let near = |disc: &&mut Vec<[i32; 2]>| (0..2).all(|i| disc[0][i].abs_diff(at[i]) < 8);
        match found.iter_mut().find(near) {
            Some(disc) => disc.push(at),
            None => found.push(vec![at]),
        }
    }
    let mean = |disc: &Vec<[i32; 2]>, i: usize| {
        disc.iter().map(|at| f64::from(at[i])).sum::<f64>() / disc.len() as f64
    };
    found
        .iter()
        .map(|disc| [mean(disc, 0), mean(disc, 1)])
        .collect()
}

#[test]
fn points_land_where_their_numbers_say() {
    let panel = panel(vec![[0.0, 0.0], [1.0, 4.0], [4.0, 2.0]]);
    let found = middles(&scatter(&[panel], 1, ""));
    assert_eq!(found.len(), 3, "{found:?}");
    let [a, b, c] = [found[0], found[1], found[2]];
    // One step, as long across as it is up; the second coordinate grows upwards.
    let step = (c[0] - a[0]) / 4.0;
    assert!(
        (step - f64::from(SIDE / px(1)) / 4.0 / 1.1).abs() < 0.5,
        "{step}"
    );
    let wanted = [
        [a[0] + step, a[1] - 4.0 * step],
        [a[0] + 4.0 * step, a[1] - 2.0 * step],
    ];
    for (found, wanted) in [b, c].as_flattened().iter().zip(wanted.as_flattened()) {
        assert!((found - wanted).abs() < 1.0, "{found} {wanted}");
    }
}

#[test]
fn a_small_panel_is_not_an_outlier_among_large_ones() {
    let large = panel((0..10_000).map(|i| [i as f32 / 1e4, 0.0]).collect());
    let small = panel(vec![[5.0, 5.0]; 3]);
    assert_eq!(note(&small, &Scales::of(&[large, small.clone()])), None);
}

#[test]
fn points_out_of_view_are_counted_in_a_note() {
    let mut points: Vec<_> = (0..1000).map(|i| [i as f32, (i % 10) as f32]).collect();
    points.extend([[1e9, 0.0], [f32::NAN, 0.0]]);
    for drawing in [Drawing::Points, Drawing::Bars] {
        let panel = Panel {
            drawing,
            ..panel(points.clone())
        };
        let scales = Scales::of(std::slice::from_ref(&panel));
        assert_eq!(note(&panel, &scales).as_deref(), Some("2 out of view"));
    }
}

#[test]
fn long_words_are_cut_or_wrapped() {
    let usual = scatter(&[panel(square(1.0))], 1, "heading");
    let long = "long ".repeat(500);
    let wordy = Panel {
        title: long.clone(),
        caption: long.clone(),
        ..panel(square(1.0))
    };
    let canvas = scatter(&[wordy], 1, &long);
    assert_eq!(canvas.width(), usual.width());
    let lines = (MOST_LINES as u32 - 1) * (line(SMALL) + line(HEADING));
    assert_eq!(canvas.height() - usual.height(), lines / px(1));
    let right = canvas.width().cast_signed() - (EDGE / px(1)).cast_signed();
    let margin = (0..canvas.height().cast_signed()).map(|y| canvas.pixel(right + 2, y));
    assert!(margin.into_iter().all(|pixel| pixel == Some([255; 3])));
}

#[test]
fn more_points_are_fainter_but_never_invisible() {
    let opacities = [0, 100, 1_000, 10_000, usize::MAX].map(opacity);
    assert!(opacities.is_sorted_by(|a, b| a >= b), "{opacities:?}");
    assert!(opacities[4] > 0.05);
}

#[test]
fn bars_hold_every_point_once() {
    let points: Vec<_> = (0..=1000)
        .map(|i| [i as f32 / 7.0, f32::from(i as i16)])
        .collect();
    let bars = Panel {
        drawing: Drawing::Bars,
        ..panel(points)
    };
    let scales = Scales::of(std::slice::from_ref(&bars));
    let total: f64 = shares(&bars, &scales.bars[0], scales.bins).iter().sum();
    assert!((total - 1.0).abs() < 1e-12, "{total}");
}

#[test]
fn a_point_on_either_end_of_the_axis_is_in_the_bar_there() {
    let ends = panel(vec![[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]);
    assert_eq!(shares(&ends, &Axis::over(0.0..1.0), 3), [0.25, 0.0, 0.75]);
}

#[test]
fn bars_ignore_the_second_coordinate() {
    let bars = |y| Panel {
        drawing: Drawing::Bars,
        ..panel(vec![[0.0, y], [1.0, y], [1.5, y]])
    };
    assert_eq!(
        scatter(&[bars(0.0)], 1, ""),
        scatter(&[bars(f32::NAN)], 1, "")
    );
}

#[test]
fn taller_bars_stand_for_more_points() {
    let mut points = vec![[0.0, 0.0]; 30];
    points.extend(vec![[1.0, 0.0]; 10]);
    let bars = Panel {
        drawing: Drawing::Bars,
        ..panel(points)
    };
    let canvas = scatter(&[bars], 1, "");
    let is_bar = |x, y| canvas.pixel(x, y).is_some_and(is_reddish);
    let heights: Vec<usize> = (0..canvas.width().cast_signed())
        .map(|x| {
            (0..canvas.height().cast_signed())
                .filter(|&y| is_bar(x, y))
                .count()
        })
        .filter(|&height| height > 0)
        .collect();
    let (first, last) = (heights[0] as f64, heights[heights.len() - 1] as f64);
    assert!((first / last - 3.0).abs() < 0.05, "{first} and {last}");
}

/// Even points and their own density: the line runs along the tops of the bars.
#[test]
fn a_curve_is_in_the_unit_of_the_bars() {
    let even = Panel {
        drawing: Drawing::Bars,
        curve: (0..=20).map(|i| [i as f32 / 10.0, 0.5]).collect(),
        ..panel((0..3000).map(|i| [i as f32 / 1500.0, 0.0]).collect())
    };
    let scales = Scales::of(std::slice::from_ref(&even));
    let bars = shares(&even, &scales.bars[0], scales.bins);
    let middle = bars[bars.len() / 2];
    for (_, share) in curve_shares(&even, &scales.bars[0], scales.bins) {
        assert!((share / middle - 1.0).abs() < 0.05, "{share} {middle}");
    }
    let without = Panel {
        curve: Vec::new(),
        ..even.clone()
    };
    let ink = |panel: &Panel| {
        let canvas = scatter(std::slice::from_ref(panel), 1, "");
        count(&canvas, |colour| colour == INK)
    };
    // Two or three whole pixels for each column between the two ends, which the margin leaves out.
    let drawn = ink(&even) - ink(&without);
    assert!((800..=3 * 460).contains(&drawn), "{drawn}");
}

#[test]
fn faint_discs_on_one_place_add_up_to_the_full_colour() {
    let many = panel(vec![[0.0, 0.0]; 100_000]);
    let canvas = scatter(&[many], 1, "");
    let is_full = |[r, g, b]: Colour| r.abs_diff(200).max(g.abs_diff(30)).max(b.abs_diff(30)) < 10;
    assert!(count(&canvas, is_full) > 0);
}

#[test]
fn the_longest_caption_makes_every_row_higher() {
    let long = Panel {
        caption: "one\ntwo\nthree\nfour".to_owned(),
        ..panel(vec![])
    };
    let height = |panels: &[Panel]| scatter(panels, 2, "").height();
    let short = || panel(vec![]);
    let base = height(&[short(), short(), short()]);
    let step = 2 * line(SMALL) / px(1);
    assert_eq!(height(&[long, short(), short()]), base + 2 * step);
}

#[test]
fn columns_stay_between_one_and_the_number_of_panels() {
    let panels = vec![panel(square(1.0)); 3];
    let width = |columns| scatter(&panels, columns, "").width();
    assert_eq!(width(0), width(1));
    assert_eq!(width(3), width(usize::MAX));
    assert!(width(2) > width(1));
}

#[test]
fn equal_panels_give_equal_bytes() {
    let draw = || {
        scatter(&[panel(square(3.0))], 1, "heading")
            .to_png()
            .unwrap()
    };
    assert_eq!(draw(), draw());
}

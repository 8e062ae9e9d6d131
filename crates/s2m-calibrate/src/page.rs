//! The page of a calibration: reliability curves, the discriminator, and every joint class.

use maud::{Markup, Render, html};
use s2m_show::page::html::count;
use s2m_show::page::{document, plots, section};

use crate::error::Error;
use crate::found::{Found, JointClass, MarginFound, PAGE, REPORT, Reliability, WayFound};

/// Most joint classes in the table; the rest is in the JSON file.
const MOST_ROWS: usize = 128;

impl Found {
    /// Its two files in a bundle: name and text of each.
    pub fn files(&self) -> Result<[(&'static str, String); 2], Error> {
        let report = serde_json::to_string_pretty(self);
        let report = report.map_err(|e| Error::Setting(e.to_string()))?;
        Ok([(REPORT, report + "\n"), (PAGE, page(self))])
    }
}

/// The page, ready to be written.
fn page(found: &Found) -> String {
    let body = html! {
        (header(found))
        (warnings(found))
        (section("Every joint class", &joint_classes(found)))
        (section("Predicted and seen", &curves(found)))
        (section("The discriminator", &real(found)))
        (section("Label weights", &label_weights(found)))
        (audit(found))
    };
    document(&format!("Calibration of {}", found.model), &body)
}

fn header(found: &Found) -> Markup {
    let facts = [
        (
            "held out",
            format!("{} real items", count(found.held_out_real)),
        ),
        ("generated", format!("{} items", count(found.generated))),
        (
            "class head",
            format!(
                "temperature {:.3}; mean largest probability {:.3} on real, {:.3} on generated items",
                found.class.temperature,
                found.class_on_real.mean_largest_probability,
                found.class_on_generated.mean_largest_probability
            ),
        ),
    ];
    html! {
        header {
            h1 { "Calibration" }
            p { (found.model) }
            dl {
                @for (name, value) in facts { div { dt { (name) } dd { (value) } } }
            }
        }
    }
}

fn warnings(found: &Found) -> Markup {
    if found.warnings.is_empty() {
        return html! {};
    }
    let list = html! { ul { @for warning in &found.warnings { li { (warning) } } } };
    section("To know", &list)
}

/// What stands for no number.
const NONE: &str = "–";

/// A share with two digits behind the point, or what stands for none.
fn percent(share: Option<f64>) -> String {
    share.map_or(NONE.to_owned(), |s| format!("{:.2} %", 100.0 * s))
}

/// The head of a column, with what stands below in small print.
type Head = (&'static str, &'static str);

/// A table whose first cells are heads of rows.
fn table(class: Option<&str>, caption: &str, heads: &[Head], rows: &[Vec<Markup>]) -> Markup {
    html! {
        div.scroll {
            table class=[class] {
                caption { span { (caption) } }
                thead {
                    tr {
                        @for (head, small) in heads {
                            th scope="col" { (head) @if !small.is_empty() { small { (small) } } }
                        }
                    }
                }
                tbody {
                    @for row in rows {
                        tr {
                            @for (at, cell) in row.iter().enumerate() {
                                @if at == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn joint_classes(found: &Found) -> Markup {
    if found.joint_classes.is_empty() {
        return html! { p.quiet { "There are too many labels to list their joint classes." } };
    }
    let share = "effective share";
    let purity = "predicted purity";
    let mut heads = vec![
        ("query", ""),
        ("items with weight", ""),
        (share, "without the discriminator"),
        (share, "by its likelihood"),
        (share, "as used"),
        ("floor", ""),
        (purity, "without the floor"),
        (purity, "with it"),
    ];
    let present = found.joint_classes.values().any(|j| j.presence.is_some());
    if present {
        heads.push((
            "in the data",
            "held-out items that reach the floor, and how many of them errors explain",
        ));
    }
    let margins = found.joint_classes.values().any(|j| j.margin.is_some());
    if margins {
        heads.extend([("margin", ""), ("exclusion error", "promised")]);
    }
    let row = |(query, joint): (&String, &JointClass)| {
        let shares = joint.effective_share;
        let mut cells = vec![
            html! { code { (query) } },
            count(joint.supported).render(),
            percent(shares.map(|s| s.without_real)).render(),
            percent(shares.map(|s| s.by_likelihood)).render(),
            percent(shares.map(|s| s.used)).render(),
            format!("{:.3}", joint.floor).render(),
            percent(joint.without_floor.map(|p| p.predicted_purity)).render(),
            percent(joint.with_floor.map(|p| p.predicted_purity)).render(),
        ];
        if present {
            cells.push(presence(joint));
        }
        if margins {
            cells.extend(margin(joint).map(|text| text.render()));
        }
        cells
    };
    let rows: Vec<_> = found
        .joint_classes
        .iter()
        .take(MOST_ROWS)
        .map(row)
        .collect();
    let mut caption = format!("Of {} generated items.", count(found.generated / 2));
    if margins {
        caption.push_str(
            " The exclusion error is the probability that a new real item which shows an excluded label gets \
             weight; it says nothing about generated items.",
        );
    }
    table(Some("wide"), &caption, &heads, &rows)
}

/// Whether the data holds a class, and by what counts.
fn presence(joint: &JointClass) -> Markup {
    html! {
        @match &joint.presence {
            None => (NONE),
            Some(found) => {
                (found.verdict)
                small {
                    (count(found.reached)) " of " (count(found.items)) ", "
                    (format!("{:.1} explained", found.explained))
                }
            }
        }
    }
}

/// A margin and what it promises.
fn margin(joint: &JointClass) -> [String; 2] {
    match &joint.margin {
        Some(MarginFound::Promised {
            margin,
            exclusion_error,
            ..
        }) => [format!("{margin:.4}"), percent(Some(*exclusion_error))],
        Some(MarginFound::None(_)) | None => [percent(None), percent(None)],
    }
}

fn points(of: &Reliability) -> Vec<[f64; 3]> {
    let point = |bin: &crate::found::Bin| [bin.predicted, bin.seen, bin.weight];
    of.curve.iter().map(point).collect()
}

fn curves(found: &Found) -> Markup {
    let real = plots::reliability(
        &[
            ("as the network gives it", points(&found.real.before)),
            ("corrected", points(&found.real.after)),
        ],
        "reliability of the discriminator",
    );
    let class = plots::reliability(
        &[("after its temperature", points(&found.class_reliability))],
        "reliability of the class head",
    );
    let figure = |plot: &Markup, caption: String| {
        html! { figure { (plot) figcaption { (caption) } } }
    };
    let on_both = format!(
        "Real against generated: mean distance {} before, {} after correction.",
        percent(Some(found.real.before.error)),
        percent(Some(found.real.after.error))
    );
    let on_labels = format!(
        "The label that an item shows: mean distance {}.",
        percent(Some(found.class_reliability.error))
    );
    html! { div.pair { (figure(&real, on_both)) (figure(&class, on_labels)) } }
}

fn real(found: &Found) -> Markup {
    let real = &found.real;
    let rows: Vec<Vec<Markup>> = ["temperature", "platt", "isotonic"]
        .iter()
        .filter_map(|name| {
            let [loss, excess, error] = *real.tried.get(*name)?;
            let chosen = if *name == real.correction {
                " (chosen)"
            } else {
                ""
            };
            Some(vec![
                html! { (name) (chosen) },
                format!("{loss:.5}").render(),
                format!("{excess:.5} ± {error:.5}").render(),
            ])
        })
        .collect();
    let said = format!(
        "AUC {:.3} on held-out items. Its weights take away {:.3} of the KL distance between real and generated items. Temperature {:.2} by likelihood. Odds above {} count as this.",
        real.auc,
        real.gain,
        real.by_likelihood,
        real.cap
            .map_or_else(|| count(real.odds_clip as usize), |cap| format!("{cap:.2}")),
    );
    let heads = [
        ("correction", ""),
        ("loss", ""),
        ("above the least", "± standard error"),
    ];
    let caption = "Loss of a real and a generated item together, on items that the correction was not fitted to. The simplest within one standard error of the least is chosen.";
    html! {
        p { (said) }
        (likeness(found))
        (ways(found))
        (table(None, caption, &heads, &rows))
    }
}

/// What witnesses tell before and after, and why the cap of the odds is not higher.
fn likeness(found: &Found) -> Markup {
    let Some(likeness) = &found.likeness else {
        return html! {};
    };
    let path = |[share, sum]: &[f64; 2]| {
        vec![percent(Some(*share)).render(), format!("{sum:.3}").render()]
    };
    let rows: Vec<Vec<Markup>> = likeness.path.iter().map(path).collect();
    let told = if likeness.still_tell {
        "as long as they do, predicted purity is an upper value"
    } else {
        "no more than chance explains"
    };
    let said = format!(
        "{} tell real from generated items by {:.3} ± {:.3} without weights and by {:.3} ± {:.3} with them, {told}. \
         Rejection accepts {} of all generated items by the odds alone; why not less: {}.",
        match likeness.witnesses {
            1 => "One witness, the discriminator itself, can".to_owned(),
            many => format!("{many} witnesses"),
        },
        likeness.before[0],
        likeness.before[1],
        likeness.after[0],
        likeness.after[1],
        percent(Some(likeness.accepted_share)),
        likeness.stopped,
    );
    let caption = "What witnesses tell, Σ|AUC − ½|, when odds of the discriminator are capped to an accepted share.";
    let heads = [("accepted share", ""), ("witnesses", "")];
    html! { p { (said) } (table(None, caption, &heads, &rows)) }
}

/// The discriminator variants, where several were tried.
fn ways(found: &Found) -> Markup {
    if found.ways.is_empty() {
        return html! {};
    }
    let row = |(name, way): (&String, &WayFound)| {
        let chosen = if *way == found.way { " (kept)" } else { "" };
        let number = |value: Option<f64>| value.map_or(NONE.to_owned(), |v| format!("{v:.3}"));
        [
            format!("{name}{chosen}"),
            number(way.auc),
            percent(Some(way.effective_share)),
            number(way.witnesses.map(|[before, _]| before)),
            number(way.witnesses.map(|[_, after]| after)),
            percent(way.outside),
            percent(Some(way.reliability_error)),
        ]
        .map(|text| text.render())
        .to_vec()
    };
    let caption = "Ways to fit it. Kept is the one whose weights, capped to the same accepted share, leave \
                   the least to all ways as witnesses; within one standard error the simplest.";
    let witnesses = "witnesses";
    let heads = [
        ("way", ""),
        ("AUC", ""),
        ("effective share", "of generated items, without a cap"),
        (witnesses, "without weights"),
        (witnesses, "with its weights"),
        ("outside the data", "of generated items"),
        ("mean distance", "of predicted and seen"),
    ];
    let rows: Vec<Vec<Markup>> = found.ways.iter().map(row).collect();
    table(None, caption, &heads, &rows)
}

fn label_weights(found: &Found) -> Markup {
    let weights = &found.label_weights;
    if weights.pairs.is_empty() {
        return html! {
            p.quiet { "Too few held-out items carry two labels at once to compare them." }
        };
    }
    let rows: Vec<Vec<Markup>> = weights
        .pairs
        .iter()
        .map(|pair| {
            vec![
                pair.labels.join(" : ").render(),
                format!("{:.3}", pair.ratio).render(),
                format!("{:.1} %", 100.0 * pair.standard_error).render(),
                count(pair.items).render(),
            ]
        })
        .collect();
    let heads = ["labels", "ratio", "standard error", "items"].map(|head| (head, ""));
    table(
        None,
        "How many times as readily the first label is shown by items that carry both.",
        &heads,
        &rows,
    )
}

fn audit(found: &Found) -> Markup {
    let Some(audit) = &found.audit else {
        return html! {};
    };
    let rows: Vec<Vec<Markup>> = audit
        .joint_classes
        .iter()
        .take(MOST_ROWS)
        .map(|(query, c)| {
            vec![
                html! { code { (query) } },
                count(c.items).render(),
                percent(Some(c.predicted)).render(),
                html! { (percent(Some(c.measured))) " ± " (percent(Some(c.standard_error))) },
            ]
        })
        .collect();
    let plot = plots::reliability(
        &[("posteriors", points(&audit.reliability))],
        "audited posteriors",
    );
    let caption = format!(
        "Share of weight on wrong items among {} fully labelled items, without floors.",
        count(audit.items)
    );
    let heads = ["query", "items with weight", "predicted", "measured"].map(|head| (head, ""));
    let body = html! { (table(None, &caption, &heads, &rows)) (plot) };
    section("Audit", &body)
}

//! The page of a calibration: reliability curves, the discriminator, and every joint class.

use std::fmt::Write as _;

use s2m_show::page::html::{count, escape};
use s2m_show::page::{document, plots, section};

use super::found::{Found, JointClass, MarginFound, Reliability, WayFound};

/// Most joint classes in the table; the rest is in the JSON file.
const MOST_ROWS: usize = 128;

/// The page, ready to be written.
pub(super) fn page(found: &Found) -> String {
    let body = [
        header(found),
        warnings(found),
        section("Every joint class", &joint_classes(found)),
        section("Predicted and seen", &curves(found)),
        section("The discriminator", &real(found)),
        section("Label weights", &label_weights(found)),
        audit(found),
    ];
    document(&format!("Calibration of {}", found.model), &body.concat())
}

fn header(found: &Found) -> String {
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
    let mut html = format!(
        "<header>\n<h1>Calibration</h1>\n<p>{}</p>\n<dl>\n",
        escape(&found.model)
    );
    for (name, value) in facts {
        let _ = writeln!(html, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    }
    html + "</dl>\n</header>\n"
}

fn warnings(found: &Found) -> String {
    if found.warnings.is_empty() {
        return String::new();
    }
    let mut html = "<ul>\n".to_owned();
    for warning in &found.warnings {
        let _ = writeln!(html, "<li>{}</li>", escape(warning));
    }
    section("To know", &(html + "</ul>\n"))
}

/// A share with two digits behind the point, or what stands for none.
fn percent(share: Option<f64>) -> String {
    share.map_or("–".to_owned(), |s| format!("{:.2} %", 100.0 * s))
}

fn table(caption: &str, heads: &[&str], rows: &[Vec<String>]) -> String {
    let mut html = format!(
        "<div class=\"scroll\">\n<table>\n<caption><span>{caption}</span></caption>\n<thead>\n<tr>"
    );
    for head in heads {
        let _ = write!(html, "<th scope=\"col\">{head}</th>");
    }
    html.push_str("</tr>\n</thead>\n<tbody>\n");
    for row in rows {
        let (first, rest) = row.split_first().map_or(("", &[][..]), |(f, r)| (f, r));
        let _ = write!(html, "<tr><th scope=\"row\">{first}</th>");
        for cell in rest {
            let _ = write!(html, "<td>{cell}</td>");
        }
        html.push_str("</tr>\n");
    }
    html + "</tbody>\n</table>\n</div>\n"
}

fn joint_classes(found: &Found) -> String {
    if found.joint_classes.is_empty() {
        return "<p class=\"quiet\">There are too many labels to list their joint classes.</p>\n"
            .to_owned();
    }
    let mut heads = vec![
        "query",
        "items with weight",
        "effective share<small>without the discriminator</small>",
        "effective share<small>by its likelihood</small>",
        "effective share<small>as used</small>",
        "floor",
        "predicted purity<small>without the floor</small>",
        "predicted purity<small>with it</small>",
    ];
    let present = found.joint_classes.values().any(|j| j.presence.is_some());
    if present {
        heads.push("in the data<small>held-out items that reach the floor, and how many of them errors explain</small>");
    }
    let margins = found.joint_classes.values().any(|j| j.margin.is_some());
    if margins {
        heads.extend(["margin", "exclusion error<small>promised</small>"]);
    }
    let row = |(query, joint): (&String, &JointClass)| {
        let shares = joint.effective_share;
        let mut cells = vec![
            format!("<code>{}</code>", escape(query)),
            count(joint.supported),
            percent(shares.map(|s| s.without_real)),
            percent(shares.map(|s| s.by_likelihood)),
            percent(shares.map(|s| s.used)),
            format!("{:.3}", joint.floor),
            percent(joint.without_floor.map(|p| p.predicted_purity)),
            percent(joint.with_floor.map(|p| p.predicted_purity)),
        ];
        if present {
            cells.push(presence(joint));
        }
        if margins {
            cells.extend(margin(joint));
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
    table(&caption, &heads, &rows).replacen("<table>", "<table class=\"wide\">", 1)
}

/// Whether the data holds a class, and by what counts.
fn presence(joint: &JointClass) -> String {
    joint.presence.as_ref().map_or("–".to_owned(), |found| {
        format!(
            "{}<small>{} of {}, {:.1} explained</small>",
            escape(&found.verdict),
            count(found.reached),
            count(found.items),
            found.explained
        )
    })
}

/// A margin and what it promises.
fn margin(joint: &JointClass) -> [String; 2] {
    match &joint.margin {
        Some(MarginFound::Promised {
            margin,
            exclusion_error,
            ..
        }) => [format!("{margin:.4}"), percent(Some(*exclusion_error))],
        Some(MarginFound::None(_)) | None => ["–".to_owned(), percent(None)],
    }
}

fn points(of: &Reliability) -> Vec<[f64; 3]> {
    let point = |bin: &super::found::Bin| [bin.predicted, bin.seen, bin.weight];
    of.curve.iter().map(point).collect()
}

fn curves(found: &Found) -> String {
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
    let figure = |svg: &str, caption: &str| {
        format!("<figure>\n{svg}<figcaption>{caption}</figcaption>\n</figure>\n")
    };
    format!(
        "<div class=\"pair\">\n{}{}</div>\n",
        figure(
            &real,
            &format!(
                "Real against generated: mean distance {} before, {} after correction.",
                percent(Some(found.real.before.error)),
                percent(Some(found.real.after.error))
            )
        ),
        figure(
            &class,
            &format!(
                "The label that an item shows: mean distance {}.",
                percent(Some(found.class_reliability.error))
            )
        ),
    )
}

fn real(found: &Found) -> String {
    let real = &found.real;
    let rows: Vec<Vec<String>> = ["temperature", "platt", "isotonic"]
        .iter()
        .filter_map(|name| {
            let [loss, excess, error] = *real.tried.get(*name)?;
            let chosen = if *name == real.correction {
                " (chosen)"
            } else {
                ""
            };
            Some(vec![
                format!("{name}{chosen}"),
                format!("{loss:.5}"),
                format!("{excess:.5} ± {error:.5}"),
            ])
        })
        .collect();
    let said = format!(
        "<p>AUC {:.3} on held-out items. Its weights take away {:.3} of the KL distance between real and generated items. Temperature {:.2} by likelihood. Odds above {} count as this.</p>\n",
        real.auc,
        real.gain,
        real.by_likelihood,
        real.cap
            .map_or_else(|| count(real.odds_clip as usize), |cap| format!("{cap:.2}")),
    );
    let heads = [
        "correction",
        "loss",
        "above the least<small>± standard error</small>",
    ];
    said + &likeness(found)
        + &ways(found)
        + &table(
            "Loss of a real and a generated item together, on items that the correction was not fitted to. The simplest within one standard error of the least is chosen.",
            &heads,
            &rows,
        )
}

/// What witnesses tell before and after, and why the cap of the odds is not higher.
fn likeness(found: &Found) -> String {
    let Some(likeness) = &found.likeness else {
        return String::new();
    };
    let path = |[share, sum]: &[f64; 2]| vec![percent(Some(*share)), format!("{sum:.3}")];
    let rows: Vec<Vec<String>> = likeness.path.iter().map(path).collect();
    let told = if likeness.still_tell {
        "as long as they do, predicted purity is an upper value"
    } else {
        "no more than chance explains"
    };
    let said = format!(
        "<p>{} tell real from generated items by {:.3} ± {:.3} without weights and by {:.3} ± {:.3} with them, {told}. \
         Rejection accepts {} of all generated items by the odds alone; why not less: {}.</p>\n",
        match likeness.witnesses {
            1 => "One witness, the discriminator itself, can".to_owned(),
            many => format!("{many} witnesses"),
        },
        likeness.before[0],
        likeness.before[1],
        likeness.after[0],
        likeness.after[1],
        percent(Some(likeness.accepted_share)),
        escape(&likeness.stopped),
    );
    let caption = "What witnesses tell, Σ|AUC − ½|, when odds of the discriminator are capped to an accepted share.";
    said + &table(caption, &["accepted share", "witnesses"], &rows)
}

/// The discriminator variants, where several were tried.
fn ways(found: &Found) -> String {
    if found.ways.is_empty() {
        return String::new();
    }
    let row = |(name, way): (&String, &WayFound)| {
        let chosen = if *way == found.way { " (kept)" } else { "" };
        let number = |value: Option<f64>| value.map_or("–".to_owned(), |v| format!("{v:.3}"));
        vec![
            format!("{}{chosen}", escape(name)),
            number(way.auc),
            percent(Some(way.effective_share)),
            number(way.witnesses.map(|[before, _]| before)),
            number(way.witnesses.map(|[_, after]| after)),
            percent(way.outside),
            percent(Some(way.reliability_error)),
        ]
    };
    let caption = "Ways to fit it. Kept is the one whose weights, capped to the same accepted share, leave \
                   the least to all ways as witnesses; within one standard error the simplest.";
    let heads = [
        "way",
        "AUC",
        "effective share<small>of generated items, without a cap</small>",
        "witnesses<small>without weights</small>",
        "witnesses<small>with its weights</small>",
        "outside the data<small>of generated items</small>",
        "mean distance<small>of predicted and seen</small>",
    ];
    let rows: Vec<Vec<String>> = found.ways.iter().map(row).collect();
    table(caption, &heads, &rows)
}

fn label_weights(found: &Found) -> String {
    let weights = &found.label_weights;
    if weights.pairs.is_empty() {
        return "<p class=\"quiet\">Too few held-out items carry two labels at once to compare them.</p>\n"
            .to_owned();
    }
    let rows: Vec<Vec<String>> = weights
        .pairs
        .iter()
        .map(|pair| {
            vec![
                format!("{} : {}", escape(&pair.labels[0]), escape(&pair.labels[1])),
                format!("{:.3}", pair.ratio),
                format!("{:.1} %", 100.0 * pair.standard_error),
                count(pair.items),
            ]
        })
        .collect();
    table(
        "How many times as readily the first label is shown by items that carry both.",
        &["labels", "ratio", "standard error", "items"],
        &rows,
    )
}

fn audit(found: &Found) -> String {
    let Some(audit) = &found.audit else {
        return String::new();
    };
    let rows: Vec<Vec<String>> = audit
        .joint_classes
        .iter()
        .take(MOST_ROWS)
        .map(|(query, c)| {
            vec![
                format!("<code>{}</code>", escape(query)),
                count(c.items),
                percent(Some(c.predicted)),
                format!(
                    "{} ± {}",
                    percent(Some(c.measured)),
                    percent(Some(c.standard_error))
                ),
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
    let heads = ["query", "items with weight", "predicted", "measured"];
    section("Audit", &(table(&caption, &heads, &rows) + &plot))
}

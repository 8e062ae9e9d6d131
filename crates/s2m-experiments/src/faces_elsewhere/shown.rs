//! Chains as tables, and what is missing.

use super::measure::Of;
use super::{LINES, Link, Made, Triple};
use crate::results::{NOTHING, Table};

/// The lines of a triple, and its joint classes.
pub(super) fn tables(triple: &Triple, links: &[Link]) -> [Table; 2] {
    let mut means = Table::new(
        triple.title,
        &[
            "latent, line",
            "right %",
            "predicted %",
            "calls per sample",
            "classes",
            "samples of each",
        ],
    );
    let [before, after] = triple.published;
    for (name, right) in [("StyleGAN2", before), ("StyleGAN2 + S2M", after)] {
        let mut row = vec![format!("the paper's {name}"), format!("{right:.2}")];
        row.resize(means.columns.len(), NOTHING.to_owned());
        means.rows.push(row);
    }
    for link in links {
        for (name, _) in LINES {
            let made = link.made.as_ref().ok();
            means
                .rows
                .push(line(&format!("{}, {name}", link.fit.title), name, made));
        }
    }
    let mut columns = vec![
        "joint class",
        "training items",
        "test items",
        "referee right on them %",
    ];
    let right: Vec<String> = links
        .iter()
        .flat_map(|link| LINES.map(|(name, _)| format!("{}, {name}", link.fit.title)))
        .collect();
    columns.extend(right.iter().map(String::as_str));
    let title = format!("{}, joint class by joint class: right %", triple.title);
    let mut classes = Table::new(&title, &columns);
    let known = links.iter().find_map(|link| link.made.as_ref().ok());
    for (query, items) in known.iter().flat_map(|made| &made.items) {
        let mut row = vec![
            format!("`{query}`"),
            items.train.to_string(),
            items.test.to_string(),
            percent(items.referee),
        ];
        for link in links {
            let made = link.made.as_ref().ok();
            row.extend(LINES.map(|(name, _)| {
                let of = made.and_then(|made| made.lines.get(name)?.get(query)?.as_ref());
                percent(of.map(|of| of.right))
            }));
        }
        classes.rows.push(row);
    }
    [means, classes]
}

/// Means over the joint classes that gave samples.
fn line(title: &str, name: &str, made: Option<&Made>) -> Vec<String> {
    let classes = made.and_then(|made| made.lines.get(name));
    let found: Vec<Of> = classes
        .into_iter()
        .flat_map(|classes| classes.values().copied().flatten())
        .collect();
    let mean = |of: &dyn Fn(&Of) -> Option<f64>| {
        let values: Vec<f64> = found.iter().filter_map(of).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let calls = mean(&|of| Some(of.calls));
    let of = |count: usize| format!("{} of {count}", found.len());
    vec![
        title.to_owned(),
        percent(mean(&|of| Some(of.right))),
        percent(mean(&|of| of.predicted)),
        calls.map_or(NOTHING.to_owned(), |calls| format!("{calls:.1}")),
        classes.map_or(NOTHING.to_owned(), |classes| of(classes.len())),
        made.map_or(NOTHING.to_owned(), |made| made.samples.to_string()),
    ]
}

fn percent(share: Option<f64>) -> String {
    share.map_or(NOTHING.to_owned(), |share| format!("{:.2}", 100.0 * share))
}

/// Chains that are not made, joint classes that gave no samples, and those without a real item to test by.
pub(super) fn missing(links: &[Link]) -> Vec<String> {
    let mut missing = Vec::new();
    for link in links {
        let made = match &link.made {
            Ok(made) => made,
            Err(why) => {
                missing.push(why.clone());
                continue;
            }
        };
        for (name, _) in LINES {
            let classes = made.lines.get(name).into_iter().flatten();
            let none = classes.filter(|(_, of)| of.is_none());
            missing.extend(none.map(|(query, _)| {
                let chain = link.fit.name;
                format!("chain `{chain}`, {name}: `{query}` gave no samples within the calls")
            }));
        }
    }
    let known = links.iter().find_map(|link| link.made.as_ref().ok());
    let untested = known.iter().flat_map(|made| &made.items);
    let untested = untested.filter(|(_, items)| items.test == 0);
    missing.extend(untested.map(|(query, items)| {
        let train = items.train;
        format!("`{query}`: no real test item, {train} for training; how often the referee errs on it is not known")
    }));
    missing
}

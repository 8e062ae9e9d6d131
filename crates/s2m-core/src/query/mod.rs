//! Which labels must hold, must not hold, or hold in some combination: any boolean query.
//!
//! ```
//! use s2m_core::{labels::Labels, query::Query};
//!
//! let labels = Labels::new(["Black_Hair", "Smiling", "Male"])?;
//! let query = Query::parse("Black_Hair + Smiling - Male", &labels)?;
//! assert_eq!(query, Query::parse("!(Male or !Smiling) & Black_Hair", &labels)?);
//! assert_eq!(query.forced(2), Some(false));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod diagram;
mod parse;

use crate::error::Error;
use crate::labels::{LabelSet, Labels, Quoted};
use diagram::{Builder, Diagram};
use parse::Expression;

/// Of a name that is no label, with a hint at what was meant.
fn unknown(name: &str, text: &str, labels: &Labels) -> Error {
    let inside = labels
        .names()
        .find(|l| l.contains('-') && text.contains(l) && l.contains(name));
    let hint = if let Some(label) = inside {
        format!("\nhint: `-` is an operator; write \"{label}\" in quotes")
    } else if let Some(near) = nearest(name, labels) {
        format!("\nhint: did you mean `{near}`?")
    } else {
        let known: Vec<&str> = labels.names().take(12).collect();
        let more = if labels.len() > known.len() {
            ", …"
        } else {
            ""
        };
        format!("\nhint: the labels are {}{more}", known.join(", "))
    };
    Error::unknown_label(format!("unknown label `{name}`{hint}"))
}

/// A boolean function of labels that can hold, and only where some label is present.
///
/// A query is valid once built, so code that receives one never checks it again. Two queries are
/// equal when they mean the same, however they were written.
#[derive(Debug, Clone)]
pub struct Query {
    text: String,
    label_count: usize,
    diagram: Diagram,
    conjunction: Option<(LabelSet, LabelSet)>,
    forced: Vec<Option<bool>>,
}

impl PartialEq for Query {
    fn eq(&self, other: &Self) -> bool {
        self.label_count == other.label_count && self.diagram == other.diagram
    }
}

impl Eq for Query {}

impl Query {
    /// Reads a query over the given labels.
    pub fn parse(text: &str, labels: &Labels) -> Result<Self, Error> {
        let expression = parse::parse(text, labels)?;
        let mut builder = Builder::new();
        let root = compile(&expression, &mut builder)?;
        let diagram = builder.finish(root);
        if !diagram.possible(LabelSet::EMPTY, LabelSet::EMPTY) {
            return Err(Error::contradiction(format!(
                "the query contradicts itself: {}",
                clash(&expression, labels)
            )));
        }
        if diagram.holds(LabelSet::EMPTY) {
            // A label that the query leaves possible; "none of all" leaves no such label.
            let only = |label| LabelSet::EMPTY.with(label);
            let possible = |label: &usize| diagram.possible(only(*label), LabelSet::EMPTY);
            let example = match (0..labels.len()).find(possible) {
                Some(label) => format!("{} + ({})", Quoted(labels.name(label)), text.trim()),
                None => Quoted(labels.name(0)).to_string(),
            };
            return Err(Error::holds_without_label(format!(
                "the query also holds for items with no label at all, and single positive labels say nothing about those\nhint: add a label that must be present, as in \"{example}\""
            )));
        }
        Ok(Self::from_diagram(
            text.trim().to_owned(),
            labels.len(),
            diagram,
        ))
    }

    /// The joint class of a non-empty set: these labels hold and all others do not.
    pub fn joint(set: LabelSet, labels: &Labels) -> Option<Self> {
        if set.is_empty() {
            return None;
        }
        let name = |label: usize| Quoted(labels.name(label)).to_string();
        let absent = (0..labels.len()).filter(|&l| !set.contains(l));
        let present: Vec<String> = set.iter().map(name).collect();
        let parts: Vec<String> = std::iter::once(present.join(" + "))
            .chain(absent.map(name))
            .collect();
        let text = parts.join(" - ");
        Self::parse(&text, labels).ok()
    }

    /// One label, whatever the others are.
    pub fn label(label: usize, labels: &Labels) -> Self {
        let text = Quoted(labels.name(label)).to_string();
        Self::parse(&text, labels).expect("a label's own name is a query")
    }

    /// All joint classes, from the first label alone to all labels together.
    pub fn all_joint(labels: &Labels) -> impl Iterator<Item = Self> {
        let last = labels.all().bits();
        (1..=last).filter_map(move |bits| Self::joint(LabelSet::from_bits(bits), labels))
    }

    fn from_diagram(text: String, label_count: usize, diagram: Diagram) -> Self {
        let forced = |label: usize| {
            let only = LabelSet::EMPTY.with(label);
            let present = diagram.possible(only, LabelSet::EMPTY);
            let absent = diagram.possible(LabelSet::EMPTY, only);
            (present != absent).then_some(present)
        };
        Self {
            text,
            label_count,
            conjunction: diagram.conjunction(),
            forced: (0..label_count).map(forced).collect(),
            diagram,
        }
    }

    /// The query as it was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Number of labels that the bundle has.
    pub fn label_count(&self) -> usize {
        self.label_count
    }

    /// Whether the query holds for an item with exactly these labels.
    pub fn holds(&self, set: LabelSet) -> bool {
        self.diagram.holds(set)
    }

    /// Log probability that the query holds where labels are present independently of each other,
    /// each with these log probabilities of being present and absent.
    pub fn log_probability(&self, log_present: &[f64], log_absent: &[f64]) -> f64 {
        self.diagram.log_probability(log_present, log_absent)
    }

    /// `(I, J)` when the query is a plain "all of I, none of J".
    pub fn conjunction(&self) -> Option<(LabelSet, LabelSet)> {
        self.conjunction
    }

    /// The value that the query forces on a label, or none where it leaves the label open.
    pub fn forced(&self, label: usize) -> Option<bool> {
        self.forced[label]
    }

    /// The smallest sets of labels that meet every label set on which the query holds.
    ///
    /// Over dozens of labels not all sets of a size are tried, and a larger one may come out.
    ///
    /// A conditional generator asked for the classes of one such set can produce every item of the
    /// query. For "all of I, none of J" these are the single labels of I.
    pub fn covers(&self) -> Vec<LabelSet> {
        let meets_all = |set| !self.diagram.possible(LabelSet::EMPTY, set);
        let support = self.diagram.support();
        // A label whose set {label} satisfies the query can be met in no other way.
        let needed: LabelSet = support
            .iter()
            .filter(|&l| self.holds(LabelSet::EMPTY.with(l)))
            .collect();
        let optional: Vec<usize> = support.iter().filter(|&l| !needed.contains(l)).collect();
        for extra in 0..=optional.len() {
            let found: Vec<LabelSet> = subsets(&optional, extra)
                .take(MAX_COVER_TRIALS)
                .map(|set| set.union(needed))
                .filter(|&set| meets_all(set))
                .collect();
            if !found.is_empty() {
                return found;
            }
        }
        unreachable!("all labels that matter together meet every set on which the query holds")
    }

    /// All labels of [`covers`](Self::covers) together, which meet every such set too.
    pub fn covering(&self) -> LabelSet {
        let covers = self.covers();
        covers.into_iter().fold(LabelSet::EMPTY, LabelSet::union)
    }
}

/// Sets tried per size in [`Query::covers`]; reached only by queries over dozens of labels.
const MAX_COVER_TRIALS: usize = 20_000;

/// All subsets of `items` with `size` members, in lexicographic order.
fn subsets(items: &[usize], size: usize) -> impl Iterator<Item = LabelSet> + '_ {
    let mut chosen: Option<Vec<usize>> = (size <= items.len()).then(|| (0..size).collect());
    std::iter::from_fn(move || {
        let current = chosen.clone()?;
        let set = current.iter().map(|&i| items[i]).collect();
        let movable = (0..size)
            .rev()
            .find(|&i| current[i] + size - i < items.len());
        chosen = movable.map(|at| {
            let mut next = current;
            next[at] += 1;
            for later in at + 1..size {
                next[later] = next[later - 1] + 1;
            }
            next
        });
        Some(set)
    })
}

fn compile(expression: &Expression, builder: &mut Builder) -> Result<u32, Error> {
    match expression {
        Expression::Label(label) => builder.label(*label),
        Expression::Not(inner) => {
            let inner = compile(inner, builder)?;
            builder.not(inner)
        }
        Expression::All(parts) => fold(parts, builder, Builder::and),
        Expression::Any(parts) => fold(parts, builder, Builder::or),
    }
}

fn fold(
    parts: &[Expression],
    builder: &mut Builder,
    join: fn(&mut Builder, u32, u32) -> Result<u32, Error>,
) -> Result<u32, Error> {
    let (first, rest) = parts
        .split_first()
        .expect("the parser never makes an empty list");
    let mut joined = compile(first, builder)?;
    for part in rest {
        let part = compile(part, builder)?;
        joined = join(builder, joined, part)?;
    }
    Ok(joined)
}

/// Names the label that is asked to be both present and absent, if there is such a one.
fn clash(expression: &Expression, labels: &Labels) -> String {
    let (mut present, mut absent) = (LabelSet::EMPTY, LabelSet::EMPTY);
    demands(expression, true, &mut present, &mut absent);
    let both = present.iter().find(|&l| absent.contains(l));
    both.map_or_else(
        || "no set of labels satisfies it".to_owned(),
        |label| {
            format!(
                "label `{}` is asked to be both present and absent",
                labels.name(label)
            )
        },
    )
}

/// Collects the labels that a conjunction demands outright.
fn demands(part: &Expression, wanted: bool, present: &mut LabelSet, absent: &mut LabelSet) {
    match part {
        Expression::Label(label) if wanted => *present = present.with(*label),
        Expression::Label(label) => *absent = absent.with(*label),
        Expression::Not(inner) => demands(inner, !wanted, present, absent),
        Expression::All(parts) if wanted || parts.len() == 1 => {
            for part in parts {
                demands(part, wanted, present, absent);
            }
        }
        Expression::Any(parts) if !wanted || parts.len() == 1 => {
            for part in parts {
                demands(part, wanted, present, absent);
            }
        }
        Expression::All(_) | Expression::Any(_) => {}
    }
}

/// The label nearest in spelling, if it is near enough to be what was meant.
fn nearest<'a>(name: &str, labels: &'a Labels) -> Option<&'a str> {
    let distance = |label: &str| edits(&name.to_lowercase(), &label.to_lowercase());
    let best = labels.names().min_by_key(|label| distance(label))?;
    let length = name.chars().count();
    // A word that shares no character with the label is no misspelling of it.
    let allowed = (1 + length / 4).min(length.saturating_sub(1));
    (distance(best) <= allowed).then_some(best)
}

/// Least number of inserted, dropped or changed characters between two words.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &cb) in b.iter().enumerate() {
            let change = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::Kind;

    fn labels() -> Labels {
        Labels::new(["A", "B", "C", "Black-hair", "5_o_Clock", "or"]).unwrap()
    }

    fn query(text: &str) -> Query {
        Query::parse(text, &labels()).unwrap()
    }

    fn message(text: &str) -> String {
        Query::parse(text, &labels()).unwrap_err().to_string()
    }

    #[test]
    fn operators_have_their_ranks_and_spellings() {
        assert_eq!(query("A + B - C"), query("A & B & !C"));
        assert_eq!(query("A and B and not C"), query("A&B&~C"));
        assert_eq!(query("A | B + C"), query("A or (B and C)"));
        assert_eq!(query("A - B + C"), query("(A & !B) & C"));
        assert_eq!(query("-B + A"), query("A - B"));
        assert_eq!(query("A + -B"), query("A - B"));
        assert_eq!(query("!(!A | B)"), query("A - B"));
        assert_eq!(
            query("\"Black-hair\" + 5_o_Clock"),
            query("'Black-hair'&5_o_Clock")
        );
        assert_eq!(query("\"or\" or A"), query("A|\"or\""));
        assert_ne!(query("A"), query("A + B"));
    }

    #[test]
    fn every_malformed_query_names_its_fault() {
        assert_eq!(
            message("  "),
            "the query is empty\nhint: name at least one label, as in \"A + B - C\""
        );
        assert_eq!(message("A +"), "expected a label, but the query ends there");
        assert_eq!(
            message("A B"),
            "expected an operator or the end at position 3, found `B`"
        );
        assert_eq!(
            message("A + )"),
            "expected a label at position 5, found `)`"
        );
        assert_eq!(message("(A"), "the parenthesis at position 1 is not closed");
        assert_eq!(
            message("(A B)"),
            "expected an operator or `)` at position 4, found `B`"
        );
        assert_eq!(message("A + \"B"), "the quote at position 5 is not closed");
        assert!(message("A ^ B").starts_with("character '^' at position 3 is not part"));
        assert_eq!(message(&"(".repeat(500)), "the query is nested too deeply");
        assert_eq!(
            message(&"A".repeat(10_001)),
            "the query is 10001 bytes long; at most 10000 are read"
        );
    }

    #[test]
    fn an_unknown_label_comes_with_a_cure() {
        assert_eq!(
            message("Z9Z9Z9"),
            "unknown label `Z9Z9Z9`\nhint: the labels are A, B, C, Black-hair, 5_o_Clock, or"
        );
        assert_eq!(
            message("A + 5_O_clok"),
            "unknown label `5_O_clok`\nhint: did you mean `5_o_Clock`?"
        );
        assert_eq!(
            message("A + Black-hair"),
            "unknown label `Black`\nhint: `-` is an operator; write \"Black-hair\" in quotes"
        );
    }

    #[test]
    fn contradictions_are_refused_with_the_reason() {
        assert_eq!(
            message("A + B - A"),
            "the query contradicts itself: label `A` is asked to be both present and absent"
        );
        assert_eq!(
            message("(A | B) - A - B"),
            "the query contradicts itself: no set of labels satisfies it"
        );
    }

    #[test]
    fn a_query_that_holds_without_any_label_is_refused() {
        let expected = "the query also holds for items with no label at all, and single positive \
                        labels say nothing about those\nhint: add a label that must be present, as in ";
        assert_eq!(message("!A"), format!("{expected}\"B + (!A)\""));
        assert_eq!(message("B | !B"), format!("{expected}\"A + (B | !B)\""));
    }

    #[test]
    fn forced_values_follow_from_the_meaning() {
        let q = query("(A | B) - B");
        assert_eq!(
            (q.forced(0), q.forced(1), q.forced(2)),
            (Some(true), Some(false), None)
        );
        let q = query("A | B");
        assert_eq!((q.forced(0), q.forced(1)), (None, None));
    }

    #[test]
    fn joint_classes_are_all_listed_once_and_partition_the_label_sets() {
        let labels = Labels::new(["A", "B c", "C"]).unwrap();
        let all: Vec<Query> = Query::all_joint(&labels).collect();
        let texts: Vec<&str> = all.iter().map(Query::text).collect();
        assert_eq!(all.len(), 7);
        assert_eq!(texts[0], "A - \"B c\" - C");
        assert_eq!(texts[6], "A + \"B c\" + C");
        for bits in 1..8 {
            let holding = all
                .iter()
                .filter(|q| q.holds(LabelSet::from_bits(bits)))
                .count();
            assert_eq!(holding, 1);
        }
    }

    #[test]
    fn covers_are_the_smallest_sets_that_meet_the_query() {
        let set = |members: &[usize]| members.iter().copied().collect::<LabelSet>();
        assert_eq!(query("A + B - C").covers(), [set(&[0]), set(&[1])]);
        assert_eq!(query("A | B").covers(), [set(&[0, 1])]);
        assert_eq!(query("(A + B) | (A + C)").covers(), [set(&[0])]);
        // Two of three: any two labels meet every such set, one does not.
        assert_eq!(query("A+B | A+C | B+C").covers().len(), 3);
        assert_eq!(query("A + B - C").covering(), set(&[0, 1]));
        assert_eq!(query("A - B - C").covering(), set(&[0]));
    }

    /// A random expression as text, with its truth computed directly.
    fn expression() -> impl Strategy<Value = String> {
        let leaf =
            prop::sample::select(vec!["A", "B", "C", "\"Black-hair\""]).prop_map(String::from);
        leaf.prop_recursive(5, 40, 3, |inner| {
            prop_oneof![
                inner.clone().prop_map(|e| format!("!({e})")),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) + ({b})")),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) - ({b})")),
                (inner.clone(), inner).prop_map(|(a, b)| format!("({a}) | ({b})")),
            ]
        })
    }

    fn truth(expression: &Expression, set: LabelSet) -> bool {
        match expression {
            Expression::Label(l) => set.contains(*l),
            Expression::Not(e) => !truth(e, set),
            Expression::All(parts) => parts.iter().all(|e| truth(e, set)),
            Expression::Any(parts) => parts.iter().any(|e| truth(e, set)),
        }
    }

    proptest! {
        #[test]
        fn diagrams_agree_with_direct_evaluation(text in expression()) {
            let labels = labels();
            let tree = parse::parse(&text, &labels).unwrap();
            let sets: Vec<LabelSet> = (0..16).map(LabelSet::from_bits).collect();
            let table: Vec<bool> = sets.iter().map(|&s| truth(&tree, s)).collect();
            match Query::parse(&text, &labels) {
                Ok(query) => {
                    for (&set, &expected) in sets.iter().zip(&table) {
                        prop_assert_eq!(query.holds(set), expected);
                    }
                    for label in 0..4 {
                        let values: Vec<bool> = sets.iter().zip(&table)
                            .filter(|(_, holds)| **holds).map(|(s, _)| s.contains(label)).collect();
                        let forced = values.iter().all(|&v| v == values[0]).then(|| values[0]);
                        prop_assert_eq!(query.forced(label), forced);
                    }
                    for cover in query.covers() {
                        let met = sets.iter().zip(&table).all(|(s, &h)| !h || s.meets(cover));
                        prop_assert!(met);
                    }
                }
                Err(error) => match error.kind() {
                    Kind::Contradiction => prop_assert!(!table.contains(&true)),
                    Kind::HoldsWithoutLabel => prop_assert!(table[0]),
                    _ => prop_assert!(false, "{}", error),
                },
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[AB()!~&|+\\-\"' notandor\\PC]{0,60}") {
            let _ = Query::parse(&text, &labels());
        }
    }
}

//! Decision diagrams: one canonical form for every boolean query.
//!
//! A diagram asks the labels in their order and follows one of two edges per answer, down to "holds"
//! or "does not hold". Reduced and ordered, it is unique: two queries mean the same if and only if
//! their diagrams are equal, however they were written.
//!
//! Reference: Bryant, "Graph-Based Algorithms for Boolean Function Manipulation", 1986.

use std::collections::HashMap;

use crate::error::Error;
use crate::labels::LabelSet;
use crate::logspace::log_sum_exp;

/// Diagrams larger than this are refused; real queries have a few dozen nodes.
const MAX_NODES: usize = 20_000;

const NO: u32 = 0;
const YES: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Node {
    label: u8,
    absent: u32,
    present: u32,
}

/// A boolean function of label sets, in canonical form.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Diagram {
    /// Node `i` is reached by the number `i + 2`; 0 and 1 are "no" and "yes".
    nodes: Vec<Node>,
    root: u32,
}

impl Diagram {
    /// Whether the function holds on this set.
    pub(super) fn holds(&self, set: LabelSet) -> bool {
        let mut at = self.root;
        while at > YES {
            let node = self.nodes[at as usize - 2];
            at = if set.contains(node.label as usize) {
                node.present
            } else {
                node.absent
            };
        }
        at == YES
    }

    /// Whether some set with all of `present` and none of `absent` satisfies the function.
    pub(super) fn possible(&self, present: LabelSet, absent: LabelSet) -> bool {
        // Children stand before their parents, so one pass from the leaves up is enough.
        let mut reaches = vec![false, true];
        for node in &self.nodes {
            let label = node.label as usize;
            let low = !present.contains(label) && reaches[node.absent as usize];
            let high = !absent.contains(label) && reaches[node.present as usize];
            reaches.push(low || high);
        }
        reaches[self.root as usize]
    }

    /// Log probability that the function holds where labels are present independently of each other,
    /// each with these log probabilities of being present and absent.
    pub(super) fn log_probability(&self, log_present: &[f64], log_absent: &[f64]) -> f64 {
        let mut reached = vec![f64::NEG_INFINITY, 0.0];
        for node in &self.nodes {
            let label = node.label as usize;
            let ways = [
                log_absent[label] + reached[node.absent as usize],
                log_present[label] + reached[node.present as usize],
            ];
            reached.push(log_sum_exp(ways.into_iter()));
        }
        reached[self.root as usize]
    }

    /// The labels on which the function depends.
    pub(super) fn support(&self) -> LabelSet {
        self.nodes.iter().map(|n| n.label as usize).collect()
    }

    /// `(present, absent)` when the function is a plain "all of these, none of those".
    pub(super) fn conjunction(&self) -> Option<(LabelSet, LabelSet)> {
        let (mut present, mut absent) = (LabelSet::EMPTY, LabelSet::EMPTY);
        let mut at = self.root;
        while at > YES {
            let node = self.nodes[at as usize - 2];
            let label = node.label as usize;
            match (node.absent, node.present) {
                (NO, next) => (present, at) = (present.with(label), next),
                (next, NO) => (absent, at) = (absent.with(label), next),
                _ => return None,
            }
        }
        (at == YES).then_some((present, absent))
    }
}

/// Makes diagrams out of smaller ones.
#[derive(Debug)]
pub(super) struct Builder {
    nodes: Vec<Node>,
    known: HashMap<Node, u32>,
    joined: HashMap<(u32, u32), u32>,
    negated: HashMap<u32, u32>,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            known: HashMap::new(),
            joined: HashMap::new(),
            negated: HashMap::new(),
        }
    }

    /// "This label is present."
    pub(super) fn label(&mut self, label: usize) -> Result<u32, Error> {
        self.node(Node {
            label: label as u8,
            absent: NO,
            present: YES,
        })
    }

    pub(super) fn not(&mut self, a: u32) -> Result<u32, Error> {
        if a <= YES {
            return Ok(1 - a);
        }
        if let Some(&done) = self.negated.get(&a) {
            return Ok(done);
        }
        let Node {
            label,
            absent,
            present,
        } = self.nodes[a as usize - 2];
        let (absent, present) = (self.not(absent)?, self.not(present)?);
        let done = self.node(Node {
            label,
            absent,
            present,
        })?;
        self.negated.insert(a, done);
        Ok(done)
    }

    pub(super) fn and(&mut self, a: u32, b: u32) -> Result<u32, Error> {
        match (a.min(b), a.max(b)) {
            (NO, _) => return Ok(NO),
            (YES, other) => return Ok(other),
            (low, high) if low == high => return Ok(low),
            key => {
                if let Some(&done) = self.joined.get(&key) {
                    return Ok(done);
                }
            }
        }
        let (na, nb) = (self.nodes[a as usize - 2], self.nodes[b as usize - 2]);
        let label = na.label.min(nb.label);
        let split = |n: Node, own: u32| {
            if n.label == label {
                (n.absent, n.present)
            } else {
                (own, own)
            }
        };
        let ((a0, a1), (b0, b1)) = (split(na, a), split(nb, b));
        let (absent, present) = (self.and(a0, b0)?, self.and(a1, b1)?);
        let done = self.node(Node {
            label,
            absent,
            present,
        })?;
        self.joined.insert((a.min(b), a.max(b)), done);
        Ok(done)
    }

    pub(super) fn or(&mut self, a: u32, b: u32) -> Result<u32, Error> {
        let (a, b) = (self.not(a)?, self.not(b)?);
        let neither = self.and(a, b)?;
        self.not(neither)
    }

    fn node(&mut self, node: Node) -> Result<u32, Error> {
        if node.absent == node.present {
            return Ok(node.absent);
        }
        if let Some(&known) = self.known.get(&node) {
            return Ok(known);
        }
        if self.nodes.len() == MAX_NODES {
            return Err(Error::too_large(
                "the query is too complex to be analysed\nhint: split it into several queries",
            ));
        }
        self.nodes.push(node);
        let number = self.nodes.len() as u32 + 1;
        self.known.insert(node, number);
        Ok(number)
    }

    /// The part under `root`, numbered by one fixed walk so that equal functions are equal values.
    pub(super) fn finish(&self, root: u32) -> Diagram {
        let mut renamed = HashMap::from([(NO, NO), (YES, YES)]);
        let mut nodes = Vec::new();
        let root = self.copy(root, &mut renamed, &mut nodes);
        Diagram { nodes, root }
    }

    fn copy(&self, at: u32, renamed: &mut HashMap<u32, u32>, nodes: &mut Vec<Node>) -> u32 {
        if let Some(&done) = renamed.get(&at) {
            return done;
        }
        let node = self.nodes[at as usize - 2];
        let absent = self.copy(node.absent, renamed, nodes);
        let present = self.copy(node.present, renamed, nodes);
        nodes.push(Node {
            label: node.label,
            absent,
            present,
        });
        let number = nodes.len() as u32 + 1;
        renamed.insert(at, number);
        number
    }
}

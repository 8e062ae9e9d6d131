//! Label names and sets of labels.

use std::fmt;

use crate::error::Error;

/// Most labels that one bundle may have: a set of labels is one machine word.
pub const MAX_LABELS: usize = 64;

/// Longest label name, in characters.
pub const MAX_NAME: usize = 200;

/// The names of all labels of a bundle, in its order; checked once, here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labels(Vec<String>);

impl Labels {
    /// Checks names for use as labels.
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Result<Self, Error> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        match names.len() {
            0 => return Err(Error::labels("a bundle needs at least one label")),
            n if n > MAX_LABELS => {
                return Err(Error::too_large(format!(
                    "at most {MAX_LABELS} labels are possible, got {n}"
                )));
            }
            _ => {}
        }
        for (at, name) in names.iter().enumerate() {
            let bad = |c: char| c.is_control() || c == '"';
            if name.is_empty() || name.chars().count() > MAX_NAME || name.contains(bad) {
                return Err(Error::labels(format!(
                    "label name {name:?} is not usable: names have 1 to {MAX_NAME} characters, none of them control characters or double quotes"
                )));
            }
            if names[..at].contains(name) {
                return Err(Error::labels(format!("label `{name}` is listed twice")));
            }
        }
        Ok(Self(names))
    }

    /// Number of labels, at least one.
    #[expect(clippy::len_without_is_empty, reason = "never empty once built")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The name of label `index`.
    pub fn name(&self, index: usize) -> &str {
        &self.0[index]
    }

    /// All names, in order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.0.iter().map(String::as_str)
    }

    /// The index of the label with exactly this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|n| n == name)
    }

    /// The set of all labels.
    pub fn all(&self) -> LabelSet {
        LabelSet::first(self.len())
    }
}

/// A set of labels, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct LabelSet(u64);

impl LabelSet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// The set whose members are the one-bits of `bits`.
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// One bit per member.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The labels `0 … count − 1`.
    pub fn first(count: usize) -> Self {
        assert!(count <= MAX_LABELS, "a label set holds {MAX_LABELS} labels");
        Self(if count == 0 {
            0
        } else {
            u64::MAX >> (64 - count)
        })
    }

    /// The set with `label` added.
    #[must_use]
    pub fn with(self, label: usize) -> Self {
        Self(self.0 | 1 << label)
    }

    /// Whether `label` is a member.
    pub fn contains(self, label: usize) -> bool {
        self.0 >> label & 1 == 1
    }

    /// Whether the two sets share a member.
    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Members of either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Number of members.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is no member.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The members in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> + Clone {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let label = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (label < MAX_LABELS).then_some(label)
        })
    }
}

impl FromIterator<usize> for LabelSet {
    fn from_iter<T: IntoIterator<Item = usize>>(labels: T) -> Self {
        labels.into_iter().fold(Self::EMPTY, Self::with)
    }
}

/// A label name as it must be typed in a query: quoted where it is not a plain name.
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = self.0.chars().all(is_name_character) && !is_word_operator(self.0);
        if plain {
            f.write_str(self.0)
        } else {
            write!(f, "\"{}\"", self.0)
        }
    }
}

/// Whether a character may stand in a label name without quotes.
pub(crate) fn is_name_character(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.'
}

/// Whether a bare word is an operator of the query language.
pub(crate) fn is_word_operator(word: &str) -> bool {
    matches!(word, "and" | "or" | "not")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(names: &[&str]) -> String {
        Labels::new(names.iter().copied()).unwrap_err().to_string()
    }

    #[test]
    fn unusable_names_are_refused_with_the_reason() {
        assert_eq!(message(&[]), "a bundle needs at least one label");
        assert_eq!(message(&["A", "A"]), "label `A` is listed twice");
        assert!(message(&["a\nb"]).starts_with("label name \"a\\nb\" is not usable"));
        assert!(message(&[""]).starts_with("label name \"\" is not usable"));
        let many: Vec<String> = (0..65).map(|i| format!("L{i}")).collect();
        assert_eq!(
            Labels::new(many).unwrap_err().to_string(),
            "at most 64 labels are possible, got 65"
        );
    }

    #[test]
    fn names_that_are_not_plain_are_quoted() {
        let quoted = |name| Quoted(name).to_string();
        assert_eq!(quoted("5_o_Clock"), "5_o_Clock");
        assert_eq!(quoted("Black-hair"), "\"Black-hair\"");
        assert_eq!(quoted("or"), "\"or\"");
    }

    #[test]
    fn sets_hold_the_first_and_the_last_label() {
        let set: LabelSet = [0, 63].into_iter().collect();
        assert_eq!(set.len(), 2);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63]);
        assert_eq!(LabelSet::first(64).len(), 64);
    }
}

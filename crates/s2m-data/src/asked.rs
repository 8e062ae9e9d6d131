//! The labels that somebody asks of data, of which every one has to be known.

use s2m_core::labels::{LabelSet, Labels};

use crate::error::Error;
use crate::message::quoted;

/// Of data that tells only some labels of each item.
pub(crate) fn not_known(what: &str) -> Error {
    Error::mismatch(format!(
        "{what}, but an audit needs every label of every item\nhint: write a table with one column for each label, and 1 or 0 in every cell"
    ))
}

/// Where the labels asked for stand among those of the data.
pub(crate) struct Asked(Vec<usize>);

impl Asked {
    pub(crate) fn new(data: &Labels, asked: &Labels) -> Result<Self, Error> {
        let find = |name: &str| {
            data.find(name).ok_or_else(|| {
                Error::not_found(format!(
                    "there is no label `{name}` to audit; the labels are {}",
                    quoted(data.names())
                ))
            })
        };
        Ok(Self(asked.names().map(find).collect::<Result<_, _>>()?))
    }

    /// A label set of the data by the numbers of the labels asked for.
    pub(crate) fn renumber(&self, set: LabelSet) -> LabelSet {
        let asked = self.0.iter().enumerate();
        asked
            .filter(|&(_, &label)| set.contains(label))
            .map(|(number, _)| number)
            .collect()
    }
}

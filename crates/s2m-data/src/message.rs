//! What the messages of all readers share: lists of names.

/// Names in quotes with commas between them.
pub(crate) fn quoted<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let quoted = names.into_iter().map(|name| format!("`{}`", name.as_ref()));
    quoted.collect::<Vec<_>>().join(", ")
}

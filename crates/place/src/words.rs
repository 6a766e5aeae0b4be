//! Words that stand for values.

/// The names of a table.
pub(crate) fn words<T>(table: &[(&'static str, T)]) -> Vec<&'static str> {
    table.iter().map(|&(name, _)| name).collect()
}

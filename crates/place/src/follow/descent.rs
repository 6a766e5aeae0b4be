//! Which processes descend from others.

use std::collections::BTreeMap;

use super::tasks::Numbers;
use crate::usage::Stat;

/// Some processes and all that descend from them.
pub(super) fn tree(roots: &[u32]) -> Vec<u32> {
    let mut children = BTreeMap::<u32, Vec<u32>>::new();
    for process in Numbers::of("/proc").into_iter().flatten().flatten() {
        if let Some(stat) = Stat::read(&format!("/proc/{process}")) {
            children.entry(stat.parent).or_default().push(process);
        }
    }
    let mut found = roots.to_vec();
    let mut at = 0;
    while at < found.len() {
        found.extend(children.remove(&found[at]).unwrap_or_default());
        at += 1;
    }
    found
}

//! A census: how many objects of which kind and size there are, and where they were allocated.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::ops::AddAssign;

use crate::snapshot::{ObjectId, Snapshot};

/// Objects and their bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Tally {
    /// Bytes of all.
    pub bytes: u64,
    /// How many.
    pub objects: u64,
}

impl Tally {
    /// One object.
    pub fn of(bytes: u64) -> Tally {
        Tally { bytes, objects: 1 }
    }

    /// Without a part of it.
    pub fn without(self, part: Tally) -> Tally {
        Tally {
            bytes: self.bytes.saturating_sub(part.bytes),
            objects: self.objects.saturating_sub(part.objects),
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.bytes += other.bytes;
        self.objects += other.objects;
    }
}

impl std::iter::Sum for Tally {
    fn sum<I: Iterator<Item = Tally>>(tallies: I) -> Tally {
        tallies.fold(Tally::default(), |mut sum, tally| {
            sum += tally;
            sum
        })
    }
}

/// Objects that are counted together.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Class {
    /// The name of their kind.
    pub kind: String,
    /// The bytes of each; `None` where kinds are types, whose objects are counted together whatever their size.
    pub bytes: Option<u64>,
}

/// Who is there.
pub struct Census {
    /// By kind and size, most bytes first.
    pub classes: Vec<(Class, Tally)>,
    /// By the site of allocation, most bytes first, as far as the snapshot tells.
    pub sites: Vec<(String, Tally)>,
}

impl Census {
    /// Of some objects of a snapshot.
    pub fn new(snapshot: &Snapshot, objects: impl Iterator<Item = ObjectId>) -> Census {
        let mut classes = HashMap::<u64, Tally>::new();
        let mut sites = vec![Tally::default(); snapshot.site_names.len()];
        for object in objects {
            let tally = Tally::of(snapshot.bytes(object));
            *classes.entry(snapshot.sizes[object as usize]).or_default() += tally;
            if let Some(site) = snapshot.site(object) {
                sites[site as usize] += tally;
            }
        }
        // Two kinds may have one name.
        let mut named = BTreeMap::<Class, Tally>::new();
        for (key, tally) in classes {
            let kind = snapshot.kind_name((key >> 48) as u16);
            let bytes = (!snapshot.is_precise).then_some(key & crate::line::MOST_BYTES);
            *named.entry(Class { kind, bytes }).or_default() += tally;
        }
        let sites = snapshot.site_names.iter().cloned().zip(sites);
        Census {
            classes: sorted(named.into_iter()),
            sites: sorted(sites.filter(|(_, tally)| tally.objects > 0)),
        }
    }
}

/// Most bytes first.
fn sorted<T>(rows: impl Iterator<Item = (T, Tally)>) -> Vec<(T, Tally)> {
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by_key(|(_, tally)| std::cmp::Reverse(*tally));
    rows
}

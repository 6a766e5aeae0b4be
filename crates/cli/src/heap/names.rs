//! How objects, words and classes are called.

use gleaner_heapgraph::{Class, ObjectId, Root, Snapshot, WordId};

use crate::words::{shown, size};

/// An object: its address, and what is known of it.
pub(super) fn object(snapshot: &Snapshot, object: ObjectId) -> String {
    let mut about = format!(
        "{}, {}",
        shown(&snapshot.kind_name(snapshot.kind(object))),
        size(snapshot.bytes(object))
    );
    if let Some(site) = snapshot.site_of(object) {
        about += ", allocated at ";
        about += &shown(site);
    }
    format!("{:x} ({about})", snapshot.base(object))
}

/// What is counted together.
pub(super) fn of_classes(snapshot: &Snapshot) -> &'static str {
    match snapshot.is_precise {
        true => "type",
        false => "kind, and size of each object",
    }
}

/// Objects that are counted together.
pub(super) fn class(class: &Class) -> String {
    let kind = shown(&class.kind);
    class
        .bytes
        .map_or(kind.clone(), |bytes| format!("{kind} of {}", size(bytes)))
}

/// A root.
pub(super) fn root(snapshot: &Snapshot, root: u32) -> String {
    shown(&snapshot.roots[root as usize].to_string())
}

/// Where a word lies, from the beginning of its range; nothing if it has no address.
pub(super) fn place(snapshot: &Snapshot, word: WordId) -> Option<String> {
    let word = &snapshot.words[word as usize];
    let low = snapshot.sections[word.section as usize].low?;
    Some(format!("+0x{:x}", word.slot?.wrapping_sub(low)))
}

/// A word, with its root.
pub(super) fn word(snapshot: &Snapshot, number: WordId) -> String {
    let root = snapshot.root_of(&snapshot.words[number as usize]);
    let name = match &snapshot.roots[root as usize] {
        Root::Static { path } => shown(path.rsplit('/').next().unwrap_or(path)),
        other => shown(&other.to_string()),
    };
    name + &place(snapshot, number).unwrap_or_default()
}

/// What a word is, as a number: the address of its object, and how far into it.
pub(super) fn value(snapshot: &Snapshot, word: WordId) -> String {
    let word = &snapshot.words[word as usize];
    let base = snapshot.base(word.object);
    match word.offset {
        0 => format!("{base:x}"),
        offset => format!("{base:x}+{offset}"),
    }
}

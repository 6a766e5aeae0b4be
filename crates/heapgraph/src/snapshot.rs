//! What is in a snapshot: objects, the references between them, and the words of roots that lead to them.
//!
//! An object is its place in arrays; nothing is allocated for it alone. References lie one after the other in the order
//! of their objects, as numbers of objects.

use std::collections::BTreeMap;
use std::fmt;

use crate::addresses::Addresses;

/// An object: its place among the objects of the snapshot.
pub type ObjectId = u32;
/// A word of a root: its place among those of the snapshot.
pub type WordId = u32;

/// Bytes in front of an object of debugging allocation, in which stands where that was.
const DEBUG_HEADER: u64 = 32;
/// Stands for no site.
pub(crate) const NO_SITE: u32 = u32::MAX;

/// From where the collector begins to mark.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Root {
    /// Static data of a program or a library.
    Static {
        /// Its file.
        path: String,
    },
    /// Memory that the program registered as a root.
    Registered {
        /// Its first address.
        low: u64,
    },
    /// The stack of a thread.
    Stack {
        /// The system's number of the thread.
        thread: u64,
        /// Its name.
        name: String,
    },
    /// Anything else, such as the uncollectable objects.
    Other(String),
}

impl Root {
    /// The same root has the same text in each process that runs the same program.
    pub fn in_any_process(&self) -> String {
        match self {
            Root::Registered { .. } => "memory that the program registered".into(),
            Root::Stack { name, .. } => format!("stacks of threads called {name}"),
            root => root.to_string(),
        }
    }
}

impl fmt::Display for Root {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Root::Static { path } => write!(to, "static data of {}", file_name(path)),
            Root::Registered { low } => write!(to, "memory registered at {low:x}"),
            Root::Stack { thread, name } if name.is_empty() => {
                write!(to, "stack of thread {thread}")
            }
            Root::Stack { thread, name } => write!(to, "stack of thread {thread} ({name})"),
            Root::Other(name) => match name.as_str() {
                "uncollectable" => to.write_str("uncollectable objects"),
                "finalizers" => to.write_str(
                    "finalizers that are ready, data of finalizers, and toggle references",
                ),
                other => to.write_str(other),
            },
        }
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A range of addresses of a root, or all of one that has none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    /// Which of [`Snapshot::roots`] it belongs to.
    pub root: u32,
    /// Its first address, if it has any.
    pub low: Option<u64>,
}

/// A word that leads to an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word {
    /// Which of [`Snapshot::sections`] it lies in.
    pub section: u32,
    /// Its address, if the root has any.
    pub slot: Option<u64>,
    /// Where it leads to.
    pub object: ObjectId,
    /// How many bytes into the object.
    pub offset: u64,
    /// Whether it leads inside of the object, and an object refers to the same place.
    pub is_held: bool,
}

/// What speaks for it that a word is a pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// It lies in static data, or in memory that the program registered, and leads to where pointers do; or the collector or
    /// the program listed it itself.
    Pointer,
    /// It lies on a stack, and leads to where pointers do: a variable, or what is left over from a call that has returned.
    Variable,
    /// It leads inside of an object, to a place that no object refers to.
    Doubtful,
}

impl Evidence {
    /// All, the best first.
    pub const ALL: [Evidence; 3] = [Evidence::Pointer, Evidence::Variable, Evidence::Doubtful];
}

/// How the file ended.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Ending {
    /// With the line `end`, which said what was there.
    #[default]
    Whole,
    /// Without it: it was cut off, in or after that line.
    Cut {
        /// From 1.
        line: u64,
    },
    /// With other numbers than what was there.
    Differs {
        /// Objects that were to be there.
        objects: u64,
        /// References that were to be there.
        edges: u64,
    },
}

/// A heap at one moment.
#[derive(Default)]
pub struct Snapshot {
    /// The number of the process.
    pub process: u64,
    /// The name of its program.
    pub name: String,
    /// Why the snapshot was made, such as `exit`.
    pub when: String,
    /// Bytes of the heap.
    pub capacity: u64,
    /// It is of a precise heap: kinds are types of the program, and objects may lie elsewhere in another snapshot.
    pub is_precise: bool,
    /// How the file ended.
    pub ending: Ending,
    /// The roots, in the order of the file.
    pub roots: Vec<Root>,
    /// Their ranges.
    pub sections: Vec<Section>,
    /// The words that lead to objects: those of a root lie together, in the order of the roots.
    pub words: Vec<Word>,
    /// Words whose object is not in the snapshot.
    pub lost_words: u64,
    /// References to objects that are not in the snapshot.
    pub lost_edges: u64,
    /// Objects at an address at which there is another one.
    pub repeated: u64,
    pub(crate) kinds: BTreeMap<u16, String>,
    pub(crate) bases: Vec<u64>,
    /// The kind above the size, of which there are 48 bits.
    pub(crate) sizes: Vec<u64>,
    /// Where the references of each object begin, and where those of the last one end.
    pub(crate) starts: Vec<u32>,
    pub(crate) edges: Vec<ObjectId>,
    /// The site of each object up to the last that has one.
    pub(crate) sites: Vec<u32>,
    pub(crate) site_names: Vec<String>,
    pub(crate) addresses: Addresses,
}

impl Snapshot {
    /// How many objects there are.
    pub fn count(&self) -> u32 {
        self.bases.len() as u32
    }

    /// All of them, in the order of the file.
    pub fn objects(&self) -> impl Iterator<Item = ObjectId> + use<> {
        0..self.count()
    }

    /// The address of an object.
    pub fn base(&self, object: ObjectId) -> u64 {
        self.bases[object as usize]
    }

    /// How many bytes it has.
    pub fn bytes(&self, object: ObjectId) -> u64 {
        self.sizes[object as usize] & crate::line::MOST_BYTES
    }

    /// The number of its kind.
    pub fn kind(&self, object: ObjectId) -> u16 {
        (self.sizes[object as usize] >> 48) as u16
    }

    /// The name of a kind.
    pub fn kind_name(&self, kind: u16) -> String {
        self.kinds
            .get(&kind)
            .map_or_else(|| format!("kind {kind}"), String::clone)
    }

    /// What it refers to.
    pub fn targets(&self, object: ObjectId) -> &[ObjectId] {
        let at = object as usize;
        &self.edges[self.starts[at] as usize..self.starts[at + 1] as usize]
    }

    /// How many references there are.
    pub fn edge_count(&self) -> u64 {
        self.edges.len() as u64
    }

    /// The number of the site where it was allocated, if the snapshot tells.
    pub(crate) fn site(&self, object: ObjectId) -> Option<u32> {
        let site = self.sites.get(object as usize).copied();
        site.filter(|site| *site != NO_SITE)
    }

    /// Where it was allocated, if the snapshot tells.
    pub fn site_of(&self, object: ObjectId) -> Option<&str> {
        self.site(object)
            .map(|site| self.site_names[site as usize].as_str())
    }

    /// The object that has this address inside of it.
    pub fn at(&self, address: u64) -> Option<ObjectId> {
        let (before, _) = self.around(address);
        before.filter(|object| {
            let into = address - self.base(*object);
            into < self.bytes(*object).max(1)
        })
    }

    /// The last object that does not begin behind the address, and the first one that does.
    pub fn around(&self, address: u64) -> (Option<ObjectId>, Option<ObjectId>) {
        self.addresses.around(address)
    }

    /// The object at exactly this address.
    pub fn exact(&self, base: u64) -> Option<ObjectId> {
        self.addresses.exact(base)
    }

    /// The root that a word belongs to.
    pub fn root_of(&self, word: &Word) -> u32 {
        self.sections[word.section as usize].root
    }

    /// Whether the word leads to where the program has the object begin: that is behind the header, if it has one of
    /// debugging allocation.
    pub fn leads_to_beginning(&self, word: &Word) -> bool {
        word.offset == 0 || word.offset == DEBUG_HEADER && self.site(word.object).is_some()
    }

    /// What speaks for it that the word is a pointer. Pointers lead to the beginning of an object, or to a place inside that
    /// objects refer to as well.
    pub fn evidence(&self, word: &Word) -> Evidence {
        let root = &self.roots[self.root_of(word) as usize];
        if word.slot.is_some() && !self.leads_to_beginning(word) && !word.is_held {
            Evidence::Doubtful
        } else if matches!(root, Root::Stack { .. }) {
            Evidence::Variable
        } else {
            Evidence::Pointer
        }
    }
}

//! The model: what the program knows of its objects, and which of them it can reach.
//!
//! Addresses are kept inverted, so that nothing here keeps an object alive or looks like a pointer to one. The closures
//! are written over sets, with no order of visits, so that they can be compared with the contract by eye.

use std::collections::{BTreeMap, BTreeSet};

use gleaner_mem::Address;
use gleaner_plans::mark_sweep::weak::Order;

/// Number of an object.
pub type Id = usize;
/// Numbers of objects.
pub type Set = BTreeSet<Id>;

/// A reference: to which object, how many bytes into it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reference {
    pub to: Id,
    pub displacement: usize,
}

/// What a word of an object holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// A number too small to be an address of the heap.
    Data(usize),
    Ref(Reference),
}

/// How the collector reads the objects of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// Not at all.
    Nothing,
    /// Every word.
    Words,
    /// Words 0 and 2 only.
    Bitmap,
    /// Word 1 only, by a mark procedure.
    Procedure,
}

/// One object.
pub struct Object {
    hidden: usize,
    pub bytes: usize,
    pub reading: Reading,
    pub uncollectable: bool,
    pub off_page: bool,
    /// Words that were written since the object was fresh.
    pub words: BTreeMap<usize, Word>,
}

impl Object {
    pub fn new(at: Address, bytes: usize, reading: Reading) -> Object {
        Object {
            hidden: !at.word(),
            bytes,
            reading,
            uncollectable: false,
            off_page: false,
            words: BTreeMap::new(),
        }
    }

    pub fn address(&self) -> Address {
        Address::new(!self.hidden)
    }

    /// Whether the collector looks at a word.
    fn reads(&self, word: usize) -> bool {
        match self.reading {
            Reading::Nothing => false,
            Reading::Words => true,
            Reading::Bitmap => word == 0 || word == 2,
            Reading::Procedure => word == 1,
        }
    }
}

/// A registered finalizer.
#[derive(Clone, Copy)]
pub struct Registered {
    pub order: Order,
    pub data: Option<Id>,
}

/// A disappearing link: a place outside of the heap, and the object.
pub struct Link {
    pub place: usize,
    pub object: Id,
}

/// What steps of a cycle can come upon: whatever a reference led to at some time since the cycle began. The program
/// knows objects that are not reachable any more, and may make them reachable again.
pub struct Cycle {
    from: Set,
    edges: BTreeMap<Id, Set>,
}

impl Cycle {
    pub fn led_to(&self) -> Set {
        closure(self.from.iter().copied(), |id| {
            self.edges.get(&id).cloned().unwrap_or_default()
        })
    }
}

/// The whole program.
#[derive(Default)]
pub struct Model {
    pub objects: BTreeMap<Id, Object>,
    pub roots: BTreeMap<usize, Reference>,
    pub finalizers: BTreeMap<Id, Registered>,
    pub ready: Vec<(Id, Option<Id>)>,
    pub short: Vec<Link>,
    pub long: Vec<Link>,
    /// Displacements that count, if not all do.
    pub displacements: Option<Vec<usize>>,
    /// What a collection that keeps marks finds marked.
    pub old: Set,
    /// The cycle of steps that is under way.
    pub cycle: Option<Cycle>,
    next: Id,
}

impl Model {
    pub fn insert(&mut self, object: Object) -> Id {
        self.next += 1;
        assert!(self.objects.insert(self.next, object).is_none());
        self.next
    }

    /// The object that a reference keeps alive, under the rule for references from the heap and from ranges.
    fn counts(&self, reference: &Reference) -> Option<Id> {
        let object = self.objects.get(&reference.to)?;
        let displacement = reference.displacement;
        let in_reach = !object.off_page || displacement < 4096;
        let registered = self
            .displacements
            .as_ref()
            .is_none_or(|some| displacement == 0 || some.contains(&displacement));
        (in_reach && registered).then_some(reference.to)
    }

    fn children(&self, id: Id) -> Set {
        let object = &self.objects[&id];
        let read = object.words.iter().filter(|(word, _)| object.reads(**word));
        read.filter_map(|(_, value)| match value {
            Word::Ref(reference) => self.counts(reference),
            Word::Data(_) => None,
        })
        .collect()
    }

    fn closure(&self, from: impl IntoIterator<Item = Id>) -> Set {
        closure(from, |id| self.children(id))
    }

    /// A reference is written.
    pub fn link(&mut self, from: Id, word: usize, reference: Reference) {
        let object = self.objects.get_mut(&from).unwrap();
        object.words.insert(word, Word::Ref(reference));
        let to = self.counts(&reference);
        if let (Some(cycle), Some(to)) = (&mut self.cycle, to)
            && self.objects[&from].reads(word)
        {
            cycle.edges.entry(from).or_default().insert(to);
        }
    }

    /// An object was born marked.
    pub fn born_old(&mut self, id: Id) {
        self.old.insert(id);
        if let Some(cycle) = &mut self.cycle {
            cycle.from.insert(id);
        }
    }

    /// A stop has left something to steps: of a cycle that begins there, or of the one that is under way. One `of_new`
    /// objects begins with what is old.
    pub fn goes_on_in_steps(&mut self, begins: bool, of_new: bool) {
        let mut from = self.roots();
        if of_new {
            from.extend(&self.old);
        }
        match &mut self.cycle {
            Some(cycle) if !begins => cycle.from.extend(from),
            _ => {
                let edges = self.objects.keys().map(|id| (*id, self.children(*id)));
                let edges = edges.collect();
                self.cycle = Some(Cycle { from, edges });
            }
        }
    }

    /// What the program reaches without the help of finalizers.
    fn roots(&self) -> Set {
        let ranges = self
            .roots
            .values()
            .filter_map(|reference| self.counts(reference));
        let uncollectable = self
            .objects
            .iter()
            .filter(|(_, object)| object.uncollectable)
            .map(|(id, _)| *id);
        let data = self
            .finalizers
            .values()
            .filter_map(|finalizer| finalizer.data);
        let ready = self
            .ready
            .iter()
            .flat_map(|(object, data)| [Some(*object), *data])
            .flatten();
        ranges
            .chain(uncollectable)
            .chain(data)
            .chain(ready)
            .collect()
    }

    /// A collection: which objects outlive it, which became ready, which places outside are cleared. One that keeps marks
    /// takes what is old for reachable.
    pub fn collect(&mut self, keeps_marks: bool) -> (Set, Set, Vec<usize>) {
        let mut from = self.roots();
        if keeps_marks {
            from.extend(&self.old);
        }
        let mut alive = self.closure(from);
        let mut cleared = Vec::new();
        clear(&mut self.short, &alive, &mut cleared);
        let unreached: Vec<Id> = self
            .finalizers
            .keys()
            .filter(|id| !alive.contains(id))
            .copied()
            .collect();
        for id in &unreached {
            let mut children = self.children(*id);
            match self.finalizers[id].order {
                Order::NoOrder => children.clear(),
                Order::IgnoreSelf => {
                    children.remove(id);
                }
                Order::Ordered | Order::Unreachable => {}
            }
            alive.extend(self.closure(children));
        }
        let newly: Set = unreached
            .into_iter()
            .filter(|id| !alive.contains(id))
            .collect();
        alive.extend(self.closure(newly.iter().copied()));
        for id in &newly {
            let finalizer = self.finalizers.remove(id).unwrap();
            self.ready.push((*id, finalizer.data));
        }
        clear(&mut self.long, &alive, &mut cleared);
        self.objects.retain(|id, _| alive.contains(id));
        (alive, newly, cleared)
    }

    /// The addresses of objects.
    pub fn addresses(&self, ids: &Set) -> BTreeSet<usize> {
        ids.iter()
            .map(|id| self.objects[id].address().word())
            .collect()
    }

    /// Forgets whatever refers to an object; returns the words of objects and roots that must be overwritten.
    pub fn forget(&mut self, id: Id) -> (Vec<(Id, usize)>, Vec<usize>) {
        let mut words = Vec::new();
        for (holder, object) in &mut self.objects {
            for (word, value) in &mut object.words {
                if matches!(value, Word::Ref(reference) if reference.to == id) {
                    *value = Word::Data(0);
                    words.push((*holder, *word));
                }
            }
        }
        let roots: Vec<usize> = self
            .roots
            .iter()
            .filter(|(_, to)| to.to == id)
            .map(|(root, _)| *root)
            .collect();
        roots.iter().for_each(|root| {
            self.roots.remove(root);
        });
        (words, roots)
    }
}

/// What `children` leads to.
fn closure(from: impl IntoIterator<Item = Id>, children: impl Fn(Id) -> Set) -> Set {
    let mut reached = Set::new();
    let mut work: Vec<Id> = from.into_iter().collect();
    while let Some(id) = work.pop() {
        if reached.insert(id) {
            work.extend(children(id));
        }
    }
    reached
}

fn clear(links: &mut Vec<Link>, alive: &Set, cleared: &mut Vec<usize>) {
    links.retain(|link| {
        let keep = alive.contains(&link.object);
        if !keep {
            cleared.push(link.place);
        }
        keep
    });
}

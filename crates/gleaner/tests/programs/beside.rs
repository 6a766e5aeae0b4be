//! What programs do beside the graph of their roots: global handles, weak references, ephemerons, finalizers, identity
//! hashes, walks.
//!
//! The oracle knows what is strongly reachable: that is never cleared, and never finalizable. What came back by another
//! way than a root (a weak reference, an ephemeron, a finalizer) may have been found dead before, together with all it
//! reaches: of that it only knows what it is. What exactly is cleared is for the tests of weak references to say.

use std::collections::HashMap;

use gleaner::raw::Value;
use gleaner::{Ephemeron, Finalizing, Handle, Local, OutOfMemory, Scope, Weak};

use super::shapes::{self, Form};
use super::{Did, Held, Known, Program, Source, Types, held};

/// So many of each kind.
const MOST: usize = 24;

/// A set of objects by their indices.
#[derive(Default)]
struct Objects {
    is_in: Vec<bool>,
    all: Vec<usize>,
}

impl Objects {
    fn contains(&self, object: usize) -> bool {
        self.is_in.get(object).is_some_and(|&is_in| is_in)
    }

    /// Whether it was not there.
    fn insert(&mut self, object: usize) -> bool {
        if object >= self.is_in.len() {
            self.is_in.resize((object + 1).next_power_of_two(), false);
        }
        let is_new = !std::mem::replace(&mut self.is_in[object], true);
        if is_new {
            self.all.push(object);
        }
        is_new
    }
}

/// What a program has beside its roots, as the oracle sees it.
#[derive(Default)]
pub struct Beside {
    handles: Vec<(Held, Handle)>,
    weak: Vec<(usize, Weak)>,
    ephemerons: Vec<([usize; 2], Ephemeron)>,
    /// Objects that wait for their finalizer, by their numbers.
    finalizers: HashMap<u64, usize>,
    hashes: HashMap<usize, u32>,
    /// What came back, and what it reached then.
    back: Objects,
}

impl Beside {
    /// What the handles refer to, until the next allocation or poll.
    pub fn held(&self) -> impl Iterator<Item = (Held, Value)> {
        self.handles
            .iter()
            .map(|(held, handle)| (*held, handle.get_raw()))
    }
}

impl<S: Source> Program<S> {
    /// Adds what is reached from there by references, as far as it is not in the set.
    fn reach(&self, from: impl IntoIterator<Item = Held>, found: &mut Objects) {
        let mut grey: Vec<Held> = from.into_iter().collect();
        while let Some(held) = grey.pop() {
            if let Held::Object(object) = held
                && found.insert(object)
            {
                let slots = self.objects[object].slots();
                grey.extend(slots.iter().filter(|&&held| held != Held::Null));
            }
        }
    }

    /// What the roots, the handles and words reach.
    fn alive(&self) -> Objects {
        let handles = self.beside.handles.iter().map(|(held, _)| *held);
        let roots = self.roots.iter().copied().chain(handles);
        let mut found = Objects::default();
        let kept = self.places.held().map(|(held, _)| held);
        self.reach(roots.chain(kept), &mut found);
        found
    }

    /// An object was found dead, says the heap.
    fn may_be_dead(&self, object: usize) {
        assert!(
            self.beside.back.contains(object) || !self.alive().contains(object),
            "object {object} is reachable and was taken for dead"
        );
    }

    /// An object came back by another way than a root.
    fn comes_back(
        &mut self,
        scope: &mut Scope<'_>,
        roots: &[Local<'_>],
        (root, object): (usize, usize),
        found: Local<'_>,
    ) {
        // What it reaches now: an object that came back before may have got other references since.
        let mut reached = Objects::default();
        self.reach([Held::Object(object)], &mut reached);
        for object in reached.all {
            self.beside.back.insert(object);
        }
        scope.assign(roots[root], found);
        self.roots[root] = Held::Object(object);
    }

    /// Room for one more of `held` things; one is dropped if there are too many.
    fn make_room<T>(&mut self, of: fn(&mut Beside) -> &mut Vec<T>) {
        if of(&mut self.beside).len() >= MOST {
            let gone = self.random.below(MOST);
            of(&mut self.beside).swap_remove(gone);
        }
    }

    fn choose(&mut self, count: usize) -> Option<usize> {
        (count > 0).then(|| self.random.below(count))
    }

    /// One step. `kind` is below 56.
    pub(super) fn step_beside(
        &mut self,
        scope: &mut Scope<'_>,
        roots: &[Local<'_>],
        types: Types,
        (root, other, kind): (usize, usize, usize),
    ) -> Result<(), OutOfMemory> {
        match kind {
            0 => {
                if let Some((held, handle)) = self.beside.handles.last_mut() {
                    scope.set_handle(handle, roots[root]);
                    *held = self.roots[root];
                }
            }
            1..6 => {
                self.make_room(|beside| &mut beside.handles);
                let handle = scope.handle(roots[root]).unwrap();
                self.beside.handles.push((self.roots[root], handle));
            }
            6..12 => self.open(scope, roots, root),
            12..19 => {
                if let Held::Object(object) = self.roots[root] {
                    self.make_room(|beside| &mut beside.weak);
                    let weak = scope.weak(roots[root])?;
                    self.beside.weak.push((object, weak));
                }
            }
            19..26 => self.upgrade(scope, roots, root),
            26..31 => {
                let (Held::Object(key), Held::Object(value)) =
                    (self.roots[root], self.roots[other])
                else {
                    return Ok(());
                };
                self.make_room(|beside| &mut beside.ephemerons);
                let ephemeron = scope.ephemeron(roots[root], roots[other])?;
                self.beside.ephemerons.push(([key, value], ephemeron));
            }
            31..36 => self.open_ephemeron(scope, roots, [root, other]),
            36..39 => {
                if let Held::Object(object) = self.roots[root]
                    && let Known::Node { number, .. } | Known::Shaped(Form { number, .. }, _) =
                        self.objects[object]
                    && !self.beside.finalizers.contains_key(&number)
                {
                    let finalizing = Finalizing {
                        order: (number % 8) as u8,
                        revives: true,
                    };
                    scope.nested(|scope| {
                        let nothing = scope.null();
                        scope.finalizer(roots[root], nothing, finalizing).map(drop)
                    })?;
                    self.beside.finalizers.insert(number, object);
                }
            }
            39..42 => self.finalize(scope, roots, root, types),
            42..47 => {
                if let Held::Object(object) = self.roots[root] {
                    let hash = scope.identity_hash(roots[root]);
                    let known = *self.beside.hashes.entry(object).or_insert(hash);
                    assert_eq!(known, hash, "the hash of object {object}");
                    self.did_if_shaped(object, Did::Hash);
                }
            }
            47 => {
                let mut objects = 0;
                scope.walk(&mut |found| {
                    assert!(found.bytes >= 8, "{found:?}");
                    objects += 1;
                });
                assert!(objects >= self.alive().all.len(), "a walk found {objects}");
            }
            48..50 => scope.poll(),
            _ => return self.step_arrays(scope, roots, types, (root, other, kind - 50)),
        }
        Ok(())
    }

    fn open(&mut self, scope: &mut Scope<'_>, roots: &[Local<'_>], root: usize) {
        let Some(chosen) = self.choose(self.beside.handles.len()) else {
            return;
        };
        let (held, handle) = &self.beside.handles[chosen];
        scope.nested(|scope| {
            let found = scope.open(handle);
            scope.assign(roots[root], found);
        });
        self.roots[root] = *held;
    }

    fn upgrade(&mut self, scope: &mut Scope<'_>, roots: &[Local<'_>], root: usize) {
        let Some(chosen) = self.choose(self.beside.weak.len()) else {
            return;
        };
        scope.nested(|scope| {
            let (object, weak) = &self.beside.weak[chosen];
            let (object, found) = (*object, scope.upgrade(weak));
            if scope.is_null(found) {
                self.may_be_dead(object);
                self.did_if_shaped(object, Did::Clear);
                self.beside.weak.swap_remove(chosen);
            } else {
                self.did_if_shaped(object, Did::Upgrade);
                self.comes_back(scope, roots, (root, object), found);
            }
        });
    }

    fn open_ephemeron(&mut self, scope: &mut Scope<'_>, roots: &[Local<'_>], into: [usize; 2]) {
        let Some(chosen) = self.choose(self.beside.ephemerons.len()) else {
            return;
        };
        scope.nested(|scope| {
            let (objects, ephemeron) = &self.beside.ephemerons[chosen];
            let objects = *objects;
            let found = [scope.key(ephemeron), scope.value_of(ephemeron)];
            if scope.is_null(found[0]) {
                assert!(scope.is_null(found[1]), "a value without its key");
                self.may_be_dead(objects[0]);
                self.did_if_shaped(objects[0], Did::ClearEphemeron);
                self.beside.ephemerons.swap_remove(chosen);
                return;
            }
            for side in 0..2 {
                self.did_if_shaped(objects[side], Did::Ephemeron);
                self.comes_back(scope, roots, (into[side], objects[side]), found[side]);
            }
        });
    }

    fn finalize(&mut self, scope: &mut Scope<'_>, roots: &[Local<'_>], root: usize, types: Types) {
        scope.nested(|scope| {
            let Some(found) = scope.next_finalizer().map(|ready| ready.object) else {
                return;
            };
            let number = if scope.is_a(found, types.node) {
                scope.read_u64(found, 0)
            } else {
                let object = held(scope, found).as_object().expect("an object");
                // SAFETY: what has a finalizer and is no node is shaped.
                unsafe { shapes::number(object) }
            };
            // Another program in the same heap may wait for it; it goes without.
            if let Some(object) = self.beside.finalizers.remove(&number) {
                self.may_be_dead(object);
                self.did_if_shaped(object, Did::Finalize);
                self.comes_back(scope, roots, (root, object), found);
            }
        });
    }

    fn did_if_shaped(&mut self, object: usize, what: Did) {
        if let Known::Shaped(..) = self.objects[object] {
            self.did(what);
        }
    }
}

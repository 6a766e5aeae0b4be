//! Steps of the raw layer: objects of tailed and traced types in the graph of the roots.

use std::cell::Cell;

use gleaner::raw::{Address, LARGE_BYTES, Value};
use gleaner::{Mutator, OutOfMemory};

use super::shapes::{Form, Fresh, KINDS, Shapes};
use super::{Did, Held, Known, Program, RAW, Source, Step, Types};

/// The object that a root holds now.
fn address(root: &Cell<Value>) -> Address {
    root.get().as_object().expect("the root is an object")
}

fn is_shaped(known: &Known) -> bool {
    matches!(known, Known::Shaped(..))
}

impl<S: Source> Program<S> {
    /// One step of the raw layer, whose roots are in a frame.
    pub(super) fn step_raw(
        &mut self,
        mutator: &mut Mutator,
        roots: &[Cell<Value>],
        types: Types,
        Step { root, other, kind }: Step,
    ) -> Result<(), OutOfMemory> {
        match kind - RAW.start {
            0..8 => return self.allocate_shaped(mutator, &roots[root], root, types.shapes),
            8..12 => self.store(mutator, roots, (root, other), types.shapes),
            12..14 => return self.write_numbers_raw(mutator, roots, root, types.cuts),
            14..18 => self.load(mutator, roots, (root, other), types.shapes),
            18..20 => self.copy_slots(mutator, roots, (root, other), types.shapes),
            20 => return self.copy_elements(mutator, roots, (root, other)),
            21 if self.once_in(self.rarely.collect) => {
                let everything = self.random.below(8) == 0;
                mutator.collect(everything);
            }
            22 if self.once_in(self.rarely.region) => {
                self.region(mutator, roots, types, [root, other]);
            }
            23 => self.step_places(mutator, &roots[root], root),
            _ => {}
        }
        Ok(())
    }

    fn allocate_shaped(
        &mut self,
        mutator: &mut Mutator,
        into: &Cell<Value>,
        root: usize,
        shapes: Shapes,
    ) -> Result<(), OutOfMemory> {
        let most = [8, 8, 8, 8, 8, 60, 800, 4000][self.random.below(8)];
        let form = Form {
            kind: self.random.below(KINDS),
            length: self.random.below(most) as u32,
            number: self.random.next(),
        };
        let fresh = [
            Fresh::Zeroed,
            Fresh::Zeroed,
            Fresh::Unwritten,
            Fresh::Pinned,
        ][self.random.below(4)];
        // SAFETY: the roots are in a frame.
        let object = unsafe { shapes.allocate(mutator, form, fresh) }?;
        into.set(Value::reference(object));
        let slots = vec![Held::Null; shapes.slots(form).len()];
        self.found(root, Known::Shaped(form, slots));
        self.did(Did::Allocate(form.kind));
        match fresh {
            Fresh::Zeroed => {}
            Fresh::Unwritten => self.did(Did::Unwritten),
            Fresh::Pinned => self.did(Did::Pinned),
        }
        if shapes.bytes(form) > LARGE_BYTES {
            self.did(Did::Large);
        }
        Ok(())
    }

    /// The first root from `start` on that is a shaped object, its form, a slot of it and where that is.
    fn choose_slot(&mut self, start: usize, shapes: Shapes) -> Option<(usize, Form, usize, usize)> {
        let root = self.first(start, is_shaped)?;
        let Known::Shaped(form, _) = self.objects[self.object(root)?] else {
            return None;
        };
        let offsets = shapes.slots(form);
        let index = self.random.next() as usize % offsets.len();
        Some((root, form, index, offsets[index]))
    }

    /// A slot of a shaped object becomes what `other` is.
    fn store(
        &mut self,
        mutator: &Mutator,
        roots: &[Cell<Value>],
        (root, other): (usize, usize),
        shapes: Shapes,
    ) {
        let Some((root, form, index, offset)) = self.choose_slot(root, shapes) else {
            return;
        };
        let held = self.roots[other];
        // SAFETY: both are roots, and the offset is that of a slot.
        unsafe { mutator.store_raw(address(&roots[root]), offset, roots[other].get()) };
        if let Some(object) = self.object(root)
            && let Known::Shaped(_, slots) = &mut self.objects[object]
        {
            slots[index] = held;
        }
        if held != Held::Null {
            self.did(Did::Store(form.kind));
        }
    }

    /// `other` becomes what a slot of a shaped object is.
    fn load(
        &mut self,
        mutator: &Mutator,
        roots: &[Cell<Value>],
        (root, other): (usize, usize),
        shapes: Shapes,
    ) {
        let Some((root, form, index, offset)) = self.choose_slot(root, shapes) else {
            return;
        };
        let Some(object) = self.object(root) else {
            return;
        };
        let held = self.objects[object].slots()[index];
        // SAFETY: a root, and the offset is that of a slot.
        roots[other].set(unsafe { mutator.load_raw(address(&roots[root]), offset) });
        self.roots[other] = held;
        if held != Held::Null {
            self.did(Did::Load(form.kind));
        }
    }

    /// Slots of a shaped object go to another or to the same one.
    fn copy_slots(
        &mut self,
        mutator: &Mutator,
        roots: &[Cell<Value>],
        (root, other): (usize, usize),
        shapes: Shapes,
    ) {
        let [Some(from), Some(to)] = [root, other].map(|start| self.first(start, is_shaped)) else {
            return;
        };
        let copy = self.choose_slots([from, to]);
        let [from, to] = [0, 1].map(|side| {
            let slots = match self.objects[copy.objects[side]] {
                Known::Shaped(form, _) => shapes.slots(form),
                _ => Vec::new(),
            };
            slots[copy.at[side]..][..copy.count].to_vec()
        });
        let [source, target] = copy.roots.map(|root| address(&roots[root]));
        // SAFETY: roots, and offsets of their slots.
        unsafe {
            // All are read before the first is written: they may be the same.
            let values: Vec<Value> = from
                .iter()
                .map(|&offset| mutator.load_raw(source, offset))
                .collect();
            for (offset, value) in to.into_iter().zip(values) {
                mutator.store_raw(target, offset, value);
            }
        }
        self.copied(&copy);
        if copy.count > 0 {
            self.did(Did::CopySlots);
        }
    }

    /// Elements of a list go to another or to the same one.
    fn copy_elements(
        &mut self,
        mutator: &mut Mutator,
        roots: &[Cell<Value>],
        (root, other): (usize, usize),
    ) -> Result<(), OutOfMemory> {
        let Some(copy) = self.choose_copy(root, other) else {
            return Ok(());
        };
        let [from, to] = copy.roots.map(|root| address(&roots[root]));
        let [from_at, to_at] = copy.at.map(|at| at as u32);
        // SAFETY: both are lists with so many elements.
        unsafe { mutator.copy_elements_raw(from, from_at, to, to_at, copy.count as u32) }?;
        self.copied(&copy);
        if copy.count > 0 {
            self.did(Did::CopyElements);
        }
        Ok(())
    }
}

impl Shapes {
    /// The object is as it was; what it refers to is `pending`.
    pub(super) fn compare(
        &self,
        mutator: &Mutator,
        value: Value,
        form: Form,
        slots: &[Held],
        pending: &mut Vec<(Held, Value)>,
    ) {
        let object = value.as_object().expect("an object");
        // SAFETY: a valid reference, and then offsets of its slots.
        unsafe {
            self.check(mutator, object, form);
            for (offset, &held) in self.slots(form).into_iter().zip(slots) {
                pending.push((held, mutator.load_raw(object, offset)));
            }
        }
    }
}

//! How the pointers of spines change (PLDI 2010, sections 4.4, 4.5 and 4.7): a part gets an arraylet when it is first
//! written, two spines share one, the collector takes one back.
//!
//! What is here are the steps on which mutators and workers have to agree, and their order. What an arraylet is filled
//! with, whether it is all zero and which cards it has are the callers' closures, so that the models (`loom_arrays`)
//! run the steps that ship.
//!
//! # Invariants
//! - An arraylet is filled, and old if its spine is, before a pointer leads to it. The pointer is set with a release,
//!   and read with an acquire: a thread that finds it finds the contents. (A mutator may fill it afterwards if no other
//!   thread uses the elements: [`Filling::Unwritten`](crate::scavenge::arrays::Filling::Unwritten).)
//! - While mutators run, a pointer changes by compare-and-swap, and only from tainted: to untainted
//!   ([`Part::instantiate`]), so each part has one winner, or to another tainted one ([`Part::lead_to`]).
//! - An untainted pointer is the only one to its arraylet.
//! - Pointers become tainted while no mutator is between a look at one and its store: the one that runs is the only one
//!   attached, or the world is stopped ([`Part::share`], [`Part::target`]). So nobody writes behind a tainted pointer, and
//!   any spine may get another tainted pointer to the same arraylet at any time.

use gleaner_mem::Address;
use gleaner_mem::spine::{Pieces, Pointer};
use gleaner_spaces::precise::arraylets::Arraylets;

/// A part of an array in pieces that is an arraylet.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// How the pointers of the heap's spines are read.
    pub pieces: &'a Pieces,
    /// Where arraylets live.
    pub arraylets: &'a Arraylets,
    /// The spine.
    pub spine: Address,
    /// The number of the pointer in it.
    pub number: usize,
}

/// Where a part lies that is to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writable {
    /// Where it lay.
    Already(Address),
    /// In the arraylet that the caller filled for it.
    Installed(Address),
    /// In the one of another mutator, which was faster.
    Others {
        /// Where it lies.
        at: Address,
        /// The caller's arraylet: a young one, to which nothing points.
        unused: Address,
    },
    /// Nowhere yet: the tainted pointer leads to something else by now, of which the caller's arraylet is no copy.
    Led {
        /// The caller's arraylet, as above.
        unused: Address,
    },
}

/// Where a part leads that a worker reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// To the zero arraylet.
    Zero,
    /// To the zero arraylet from now on.
    Compressed,
    /// To this arraylet, to which no other spine points.
    Own(Address),
    /// To this arraylet, to which others may point.
    Shared(Address),
}

impl Part<'_> {
    /// The pointer.
    ///
    /// # Safety
    /// The spine has this part.
    unsafe fn load(&self) -> Pointer {
        // SAFETY: the spine has this part, as asked.
        unsafe { self.pieces.load(self.spine, self.number) }
    }

    /// Makes the part writable (section 4.4). If it is not, `fill` gives an arraylet that holds what the tainted
    /// pointer leads to; before an old spine points at it, it is old, and `made_old` has been told.
    ///
    /// # Safety
    /// The caller is a mutator inside the gate. The spine has this part, and is an old one if `is_old`. What `fill`
    /// gives is a young arraylet of the caller's to which nothing points.
    #[inline]
    pub unsafe fn instantiate(
        &self,
        is_old: bool,
        fill: impl FnOnce(Pointer) -> Address,
        made_old: impl FnOnce(Address),
    ) -> Writable {
        // SAFETY: the spine has this part, as asked.
        let before = unsafe { self.load() };
        if !before.is_tainted() {
            return Writable::Already(self.pieces.target(before));
        }
        let arraylet = fill(before);
        if is_old {
            self.arraylets.make_old(arraylet);
            made_old(arraylet);
        }
        let own = self.pieces.pointer_to(arraylet);
        // SAFETY: the spine has this part, as asked.
        match unsafe { self.pieces.exchange(self.spine, self.number, before, own) } {
            Ok(()) => Writable::Installed(arraylet),
            Err(others) => {
                self.arraylets.make_young(arraylet);
                if others.is_tainted() {
                    return Writable::Led { unused: arraylet };
                }
                Writable::Others {
                    at: self.pieces.target(others),
                    unused: arraylet,
                }
            }
        }
    }

    /// Makes the part the same as another one by sharing its arraylet (section 4.7). If the arraylet becomes old by
    /// that, `made_old` is told. Whether the part was the zero arraylet, and is not any more.
    ///
    /// # Safety
    /// Both spines have these parts, and this one's is old if `is_old`. No other mutator is attached, as in the body of
    /// [`Collecting::while_alone`](crate::scavenge::stop::collecting::Collecting::while_alone), or the world is stopped: a store
    /// of a mutator that read the pointer before it was tainted would reach what is shared.
    pub unsafe fn share(
        &self,
        from: Part<'_>,
        is_old: bool,
        made_old: impl FnOnce(Address),
    ) -> bool {
        let pieces = self.pieces;
        // SAFETY: both spines have these parts, and no other mutator runs, as asked.
        unsafe {
            let (shared, before) = (from.load(), self.load());
            let tainted = shared.tainted();
            if before == tainted {
                return false;
            }
            if shared != pieces.zero {
                if !shared.is_tainted() {
                    pieces.store(from.spine, from.number, tainted);
                }
                let arraylet = pieces.target(shared);
                if is_old && self.arraylets.make_old(arraylet) {
                    made_old(arraylet);
                }
            }
            pieces.store(self.spine, self.number, tainted);
            if !before.is_tainted() && pieces.target(before) != pieces.target(shared) {
                self.arraylets.free(pieces.target(before));
            }
            before == pieces.zero
        }
    }

    /// Makes the part lead to an arraylet behind a tainted pointer of another spine, while other mutators run. If the
    /// arraylet becomes old by that, `made_old` is told. Whether the part was the zero arraylet, and is not any more; or
    /// where it lies, if it is untainted: then nothing is changed, since a mutator may be about to write there.
    ///
    /// # Safety
    /// The caller is a mutator inside the gate, and has found a tainted pointer to `arraylet` since it came in. The spine has
    /// this part, and is an old one if `is_old`.
    pub unsafe fn lead_to(
        &self,
        arraylet: Address,
        is_old: bool,
        made_old: impl FnOnce(Address),
    ) -> Result<bool, Address> {
        let pieces = self.pieces;
        let tainted = pieces.pointer_to(arraylet).tainted();
        // SAFETY: the spine has this part, as asked.
        let mut before = unsafe { self.load() };
        if before.is_tainted()
            && before != tainted
            && is_old
            && tainted != pieces.zero
            && self.arraylets.make_old(arraylet)
        {
            made_old(arraylet);
        }
        loop {
            if !before.is_tainted() {
                return Err(pieces.target(before));
            }
            if before == tainted {
                return Ok(false);
            }
            // SAFETY: the spine has this part, as asked.
            match unsafe { pieces.exchange(self.spine, self.number, before, tainted) } {
                Ok(()) => return Ok(before == pieces.zero),
                Err(others) => before = others,
            }
        }
    }

    /// Where the part leads. An arraylet of which `is_zero` says that it holds nothing but zeros is taken back (section
    /// 4.5): nothing points at it from here any more, so it is free when the collection is over unless it is claimed
    /// for another spine that shares it.
    ///
    /// # Safety
    /// The world is stopped. The spine has this part, of which the calling worker has the pointer to itself.
    #[inline]
    pub unsafe fn target(&self, is_zero: impl FnOnce(Address) -> bool) -> Target {
        // SAFETY: the spine has this part, as asked.
        unsafe { self.target_of(self.load(), is_zero) }
    }

    /// As [`Part::target`], of a pointer that was read before.
    ///
    /// # Safety
    /// As for [`Part::target`]; the part has this pointer.
    #[inline(always)]
    pub unsafe fn target_of(
        &self,
        pointer: Pointer,
        is_zero: impl FnOnce(Address) -> bool,
    ) -> Target {
        if pointer == self.pieces.zero {
            return Target::Zero;
        }
        let arraylet = self.pieces.target(pointer);
        if !is_zero(arraylet) {
            return match pointer.is_tainted() {
                true => Target::Shared(arraylet),
                false => Target::Own(arraylet),
            };
        }
        // SAFETY: the world is stopped, and no other worker sets the pointer, as asked.
        unsafe { self.pieces.store(self.spine, self.number, self.pieces.zero) };
        Target::Compressed
    }
}

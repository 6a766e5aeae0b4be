//! How a heap looks whether the program is idle, and gives memory back.

use gleaner_base::events::{Event, Phase};
use gleaner_os::clock;
use gleaner_spaces::mark_sweep::Stage;

use crate::mark_sweep::decide::idle::{Look, Next, Watch};
use crate::mark_sweep::heap::Heap;

const NOTHING_ALLOCATED: &str = "nothing was allocated for a while";
const LITTLE_ALLOCATED: &str = "little is allocated any more";

impl Heap {
    /// For a thread that watches the program: looks whether it is idle, and gives a piece of the unused memory back if so. When
    /// that thread is to look again: [`Next::GiveBack`] says at once.
    pub fn look_for_idleness(&mut self, watch: &mut Watch) -> Next {
        let next = watch.look(&Look {
            now_ns: clock::monotonic_ns(),
            activity: self.view().activity(),
            unused: self.space.unused_bytes(),
        });
        if next != Next::GiveBack {
            self.end_giving_back();
        } else if self.give_piece_back(NOTHING_ALLOCATED) {
            watch.note_all_is_back();
        }
        next
    }

    /// Where nobody watches the program: it allocates here, in a way that takes the lock. If such calls have become rare, a
    /// piece of the unused memory goes back.
    pub fn note_call(&mut self) {
        if self.space.stage != Stage::Between {
            return; // A callback of a collection.
        }
        let entered = self.space.account.entered;
        let bytes = entered.wrapping_sub(core::mem::replace(&mut self.idle.entered, entered));
        let unused = self.space.unused_bytes();
        let Some(fading) = &mut self.idle.fading else {
            return;
        };
        if !fading.call(clock::monotonic_ns(), bytes, unused) {
            self.end_giving_back();
        } else if self.give_piece_back(LITTLE_ALLOCATED)
            && let Some(fading) = &mut self.idle.fading
        {
            fading.note_all_is_back();
        }
    }

    /// Gives a piece back; whether nothing is left.
    fn give_piece_back(&mut self, reason: &'static str) -> bool {
        let began = clock::monotonic_ns();
        let piece = self.space.give_back_piece();
        let given = &mut self.idle.given;
        if given.objects == 0 {
            given.start_ns = began;
        }
        given.duration_ns += clock::monotonic_ns() - began;
        given.bytes += piece.bytes as u64;
        self.idle.free_bytes += piece.free_bytes;
        given.objects += 1;
        given.reason = reason;
        if piece.is_all {
            self.end_giving_back();
        }
        piece.is_all
    }

    /// Counts what went back since the program became idle, if anything did.
    fn end_giving_back(&mut self) {
        if self.idle.given.objects == 0 {
            return;
        }
        let nothing = Event::new(Phase::GiveBack, 0);
        let mut given = core::mem::replace(&mut self.idle.given, nothing);
        let free_bytes = core::mem::take(&mut self.idle.free_bytes);
        if given.bytes > 0 {
            self.idle.unlowered.note(free_bytes);
            self.totals.given_back += given.bytes;
            self.totals.idle_times += 1;
            given.collection = self.collections;
            self.publish_event(&given);
        }
    }

    /// After a collection that began when the heap held `held` bytes of memory and might hold `capacity`: of what went back in idle
    /// time, how much is to be taken off the capacity, since it was not used again.
    pub(crate) fn unused_since_idle(&mut self, capacity: usize, held: usize) -> usize {
        let release_after = self.settings.release_after;
        self.idle
            .unlowered
            .after_collection(capacity, held, release_after)
    }
}

//! How a heap looks whether the program is idle, and gives memory back.

use gleaner_base::events::reasons::{self, LITTLE_ALLOCATED, NOTHING_ALLOCATED};
use gleaner_base::events::{Event, Phase};
use gleaner_os::clock;
use gleaner_os::pressure::Pressure;
use gleaner_spaces::mark_sweep::Stage;

use crate::mark_sweep::decide::heap_size;
use crate::mark_sweep::decide::idle::{LEAST_WORTH, Look, Next, Watch};
use crate::mark_sweep::decide::idle_collection::{self as decide, Prospect};
use crate::mark_sweep::heap::Heap;

impl Heap {
    /// For a thread that watches the program: looks whether it is idle, and gives a piece of the unused memory back if so. What
    /// that thread is to do then: [`Next::GiveBack`] says that it is to look again at once.
    pub fn look_for_idleness(&mut self, watch: &mut Watch) -> Next {
        let now_ns = clock::monotonic_ns();
        let next = watch.look(&Look {
            now_ns,
            activity: self.view().activity(),
            unused: self.space.unused_bytes(),
            is_short: self.is_memory_short(now_ns),
        });
        if next != Next::GiveBack {
            self.end_giving_back();
        } else if self.give_piece_back(NOTHING_ALLOCATED) {
            watch.note_all_is_back();
        }
        next
    }

    /// Has idle time come sooner where threads wait for memory, as this tells.
    pub fn heed_pressure(&mut self, pressure: Pressure) {
        self.idle.pressure = pressure;
    }

    fn is_memory_short(&mut self, now_ns: u64) -> bool {
        let waited_us = self.idle.pressure.waited_us();
        let (held, left) = (self.held(), self.ask_left());
        self.idle.strain.is_short(now_ns, waited_us, left, held)
    }

    /// The program allocates here, in a way that takes the lock. If such calls have become rare, a piece of the unused memory goes
    /// back, unless a thread watches the program for that. Whether a collection is to be considered, too.
    pub fn note_call(&mut self, is_watched: bool) -> bool {
        if self.space.stage != Stage::Between {
            return false; // A callback of a collection.
        }
        let entered = self.space.account.entered;
        let bytes = entered.wrapping_sub(core::mem::replace(&mut self.idle.entered, entered));
        let Some(fading) = &mut self.idle.fading else {
            return false;
        };
        let are_rare = fading.call(clock::monotonic_ns(), bytes);
        let considers = fading.considers();
        if is_watched {
            return considers;
        }
        let has_begun = self.idle.given.objects > 0;
        if !are_rare || !has_begun && self.space.unused_bytes() < LEAST_WORTH {
            self.end_giving_back();
        } else if self.give_piece_back(LITTLE_ALLOCATED)
            && !considers
            && let Some(fading) = &mut self.idle.fading
        {
            fading.note_all_is_done();
        }
        considers
    }

    /// Whether a collection pays now that the program is idle, if it holds up one of the program's threads or none.
    pub fn calls_for_collection(&self, holds_up: bool) -> bool {
        let prospect = self.prospect();
        match holds_up {
            true => self.idle.collecting.pays_a_thread(&prospect),
            false => self.idle.collecting.pays(&prospect),
        }
    }

    /// Whether one will pay, if the program goes on being idle for long enough.
    pub fn will_call_for_collection(&self, holds_up: bool) -> bool {
        let prospect = self.prospect();
        let is_asked_for = holds_up && prospect.used <= prospect.initial;
        !is_asked_for && self.idle.collecting.will_pay(&prospect)
    }

    /// As [`Heap::calls_for_collection`], where the calling thread is the program's, which may go on.
    pub fn calls_for_collection_by_program(&self) -> bool {
        self.idle.collecting.pays_now(&self.prospect())
    }

    fn prospect(&self) -> Prospect {
        let measured = self.measure(0, 0);
        Prospect {
            now_ns: clock::monotonic_ns(),
            used: measured.used,
            initial: self.space.initial_capacity,
            live: self.space.census.live_bytes(),
            allocated: self.allocated_to_the_byte(measured.allocated),
            least: heap_size::least_between_collections(&measured),
            free: self.space.free_bytes(),
            cost_ns: decide::cost_ns(
                measured.used,
                self.totals.last_scanned,
                self.totals.last_marking_ns,
            ),
        }
    }

    /// Whether a thread that is none of the program's may stop it: it stops nobody, it was `asked` to, or there are several threads
    /// and collections have interrupted them before.
    pub fn may_be_stopped_in_idle_time(&self, asked: bool) -> bool {
        let has_several = self.mutators.count() > 1;
        asked || has_several && self.idle.has_stopped_others || !self.mutators.others_run()
    }

    /// A collection is about to stop the program's threads.
    pub(crate) fn note_stop(&mut self) {
        if self.idle.fading.is_some() && !self.idle.has_stopped_others {
            self.idle.has_stopped_others = self.mutators.others_run();
        }
    }

    /// A collection begins for that reason.
    pub(crate) fn note_begin(&mut self, reason: &'static str) {
        let used = self.space.used_bytes();
        let used = reasons::is_idle(reason).then_some(used);
        self.idle.collecting.begin(used);
    }

    /// Whether the collection that is going on is in idle time.
    pub(crate) fn is_collected_in_idle_time(&self) -> bool {
        self.idle.collecting.is_in_idle_time()
    }

    /// A collection is over.
    pub(crate) fn note_collection(&mut self) {
        let (used, live) = (self.space.used_bytes(), self.space.census.live_bytes());
        let now = clock::monotonic_ns();
        self.totals.idle_collections += u64::from(self.idle.collecting.note(now, used, live));
    }

    /// A collection was abandoned.
    pub(crate) fn note_abandoned(&mut self) {
        self.idle.collecting.note_abandoned(clock::monotonic_ns());
    }

    /// For the thread that watches: it has collected, and the idle time goes on.
    pub fn go_on_watching(&self, watch: &mut Watch) {
        watch.note_collected(clock::monotonic_ns(), self.view().activity());
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
    /// time, how much is to be taken off the capacity, since it was not used again. A collection in idle time makes it no older.
    pub(crate) fn unused_since_idle(&mut self, capacity: usize, held: usize) -> usize {
        if self.is_collected_in_idle_time() {
            return 0;
        }
        let release_after = self.settings.release_after;
        self.idle
            .unlowered
            .after_collection(capacity, held, release_after)
    }
}

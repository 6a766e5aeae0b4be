//! What a precise heap remembers from collection to collection.

use alloc::boxed::Box;

use gleaner_base::events::Ring;
use gleaner_base::options::{Generations, OldPolicy};
use gleaner_mem::Address;
use gleaner_os::clock;
use gleaner_os::log_file::LogFile;
use gleaner_spaces::precise::regions::MOST_NODES;

use super::arrays::ArrayCounts;
use super::config::Config;
use super::crew_sizes::CrewSizes;
use super::in_place::state::Growth;
use super::memory::uses::Uses;
use super::mutator_list::MutatorList;
use super::report::Censuses;
use super::sizes::Sizes;
use super::trace::Engine;
use super::zeroing::{Contention, Zeroed};
use super::{locality, waiting};
use crate::scavenge::decide::alone;
use crate::scavenge::decide::generations;
use crate::scavenge::decide::nursery;
use crate::scavenge::decide::sliding;
use crate::scavenge::decide::young_size::YoungSize;
use crate::scavenge::decide::zeroing::Trials;
use crate::shared::snapshot::Snapshots;

/// Why everything is collected where scavenges do not pay.
pub(super) const MUCH_SURVIVES: &str = "scavenges cost more than collections of everything";
/// Why everything is collected under `generations=never`.
pub(super) const NEVER: &str = "the young generation is never collected by itself";

/// Sums over the life of a heap.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Totals {
    /// Collections of the young generation.
    pub scavenges: u64,
    /// Collections of the whole heap.
    pub full_collections: u64,
    /// Time in which the world was stopped, in nanoseconds.
    pub stopped_ns: u64,
    /// The longest single stop.
    pub longest_stop_ns: u64,
    /// Of the time in which the world was stopped, what collections waited for mutators to stop.
    pub stopping_ns: u64,
    /// The longest such wait.
    pub longest_stopping_ns: u64,
    /// Bytes copied within the young generation.
    pub survived_bytes: u64,
    /// Bytes copied to the old space by scavenges.
    pub promoted_bytes: u64,
    /// How often workers of scavenges asked the old space for room, and it had none.
    pub vain_promotions: u64,
    /// How often collections looked at the key of an ephemeron.
    pub ephemeron_looks: u64,
    /// How often collections looked at weak slots of objects, and at finalizers.
    pub weak_looks: u64,
    /// How often collections of new objects that lie in the old space looked at an object because of a dirty card.
    pub remembered_looks: u64,
    /// Bytes that were allocated until the last collection.
    pub allocated_bytes: u64,
    /// What zeroing came to until the last collection, in nanoseconds.
    pub zeroed: Zeroed,
    /// What collections did about arrays in pieces, and mutators that are gone.
    pub arrays: ArrayCounts,
}

/// Moving averages over the last collections, and what was decided. Sizes are in bytes.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Lately {
    /// What scavenges promoted.
    pub(super) promoted: usize,
    /// What the last one promoted.
    pub(super) last_promoted: usize,
    /// What survived in the young generation.
    pub(super) survived: usize,
    /// What survived the last scavenge of what had been allocated just before.
    pub(super) fresh: usize,
    /// Nanoseconds that scavenges took for each KB that they copied.
    pub(super) copy_ns_per_kb: usize,
    /// The share of the time that scavenges took, in thousandths.
    pub(super) scavenge_share: usize,
    /// The share that full collections took.
    pub(super) full_share: usize,
    /// When the world was resumed.
    pub(super) resumed_ns: u64,
    /// What all spaces held after the last collection.
    pub(super) used: usize,
    /// Of that, what large and pinned objects took.
    pub(super) beside_used: usize,
    /// What was allocated between collections.
    pub(super) allocated: usize,
    /// Of that, what large and pinned objects took.
    pub(super) beside: usize,
    /// The most that large and pinned objects held lately when a collection began.
    pub(super) most_beside: usize,
    /// The most that the old space held lately then.
    pub(super) most_old: usize,
    /// What the young generation is to have while it is collected by itself.
    pub(super) young: usize,
    /// Up to which the old, the pinned and the large space are to be filled before everything is collected.
    pub(super) old_target: usize,
    /// What collections took since the full one before the last, for lack of room, in nanoseconds.
    pub(super) cycle_ns: u64,
    /// What was allocated meanwhile.
    pub(super) cycle_allocated: usize,
}

/// What is known of collections while new objects lay in the other place, in bytes: it says nothing of this one.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Elsewhere {
    /// What was to be allocated between two collections.
    young: usize,
    /// What was promoted, and what survived and stayed young.
    kept: [usize; 2],
}

impl Elsewhere {
    /// Nothing, but how much is to be allocated at first.
    pub(super) fn new(young: usize) -> Elsewhere {
        Elsewhere {
            young,
            ..Elsewhere::default()
        }
    }

    /// New objects change places.
    pub(super) fn change_places(&mut self, lately: &mut Lately) {
        core::mem::swap(&mut lately.young, &mut self.young);
        core::mem::swap(&mut lately.promoted, &mut self.kept[0]);
        core::mem::swap(&mut lately.survived, &mut self.kept[1]);
    }
}

/// What the last full collection was like.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct LastFull {
    /// What it took.
    pub(super) ns: u64,
    /// Bytes in the young generation that lived.
    pub(super) young_lived: usize,
    /// Bytes that the old generation held afterwards, holes left out.
    pub(super) filled: usize,
    /// Bytes of objects of the old space that lived, if it left them in their places by lines.
    pub(super) old_lived: usize,
}

/// What only the holder of `collecting` touches.
pub struct State {
    /// Attached mutators, with the numbers handed out so far.
    pub(super) mutators: MutatorList,
    pub(super) next_number: u32,
    pub(super) engine: Engine,
    /// How many of its workers take part.
    pub(super) crew_sizes: CrewSizes,
    /// Where ephemerons wait for their keys during a trace.
    pub(super) waiting: waiting::Waiting,
    /// Under `quarantine`, where the guards of each of eden's fragments begin.
    pub(super) guarded_from: [Address; MOST_NODES],
    /// Why the next collection has to be of everything, if it has.
    pub(super) wants_full: Option<&'static str>,
    /// Whether the young generation is collected by itself.
    pub(super) scavenging: bool,
    /// How the old generation is collected: as option `old` says, or in a forked child `child-old`.
    pub(super) old: OldPolicy,
    /// Whether marking may evacuate blocks: not in a forked child, where pages are shared.
    pub(super) evacuates: bool,
    /// What is remembered of collections in place that slid everything together after all.
    pub(super) slidings: sliding::Memory,
    /// What is known of the last collections.
    pub(super) lately: Lately,
    pub(super) last_full: LastFull,
    /// Where each of eden's fragments ended behind the last collection.
    pub(super) fresh_from: [Address; MOST_NODES],
    /// What was used lately of the heap's memory.
    pub(super) uses: Uses,
    /// What is known of sizes of the young generation.
    pub(super) young_size: YoungSize,
    /// What is known of collecting the young generation by itself.
    pub(super) generations: generations::Memory,
    /// What is known of collections while new objects lay in the other place.
    pub(super) elsewhere: Elsewhere,
    /// What is known of the places where new objects may lie.
    pub(super) nursery: nursery::Memory,
    /// When the last collection was over, what the process had taken of processor time, in nanoseconds.
    pub(super) cpu_ns: u64,
    /// What is known of the heap's growth where new objects lie in the old space.
    pub(super) growth: Growth,
    /// What is known there of collections of what is new.
    pub(super) alone: alone::Memory,
    /// What zeroing came to until the last collection, in ticks.
    pub(super) zeroed: Zeroed,
    /// What mutators zeroed since then that are gone.
    pub(super) zeroed_by_others: Zeroed,
    /// Where `zeroing=auto` is.
    pub(super) zeroing_trials: Trials,
    /// Whether a zeroing thread would have a processor.
    pub(super) contention: Contention,
    /// Which memory nodes workers were busy on, where that is counted.
    pub(super) locality: Option<Box<locality::Sums>>,
    /// What was found of arrays, where a report is made.
    pub(super) censuses: Censuses,
    /// Sums.
    pub totals: Totals,
    /// What writes the snapshots that the options ask for.
    pub(super) snapshots: Option<Box<Snapshots>>,
    /// The last events.
    pub events: Ring,
    /// The number of the heap among those of its process, which its events carry.
    pub(super) number: u32,
    /// Where events go as JSON lines.
    pub log: Option<LogFile>,
}

impl State {
    /// The young generation is collected by itself again, if it was not since that did not pay.
    pub(super) fn bring_scavenges_back(&mut self) {
        self.scavenging = true;
        self.wants_full = self.wants_full.filter(|&why| why != MUCH_SURVIVES);
    }

    /// Nothing was collected yet.
    pub(super) fn new(
        config: &Config,
        sizes: &Sizes,
        engine: Engine,
        locality: Option<Box<locality::Sums>>,
    ) -> State {
        let scavenging = config.options.generations != Generations::Never;
        State {
            mutators: MutatorList::new(),
            next_number: 1,
            engine,
            crew_sizes: CrewSizes::new(config),
            waiting: waiting::Waiting::default(),
            guarded_from: [Address::NULL; MOST_NODES],
            wants_full: (!scavenging).then_some(NEVER),
            scavenging,
            old: config.options.old,
            evacuates: true,
            slidings: sliding::Memory::NEW,
            last_full: LastFull::default(),
            fresh_from: [Address::NULL; MOST_NODES],
            uses: Uses::NONE,
            young_size: YoungSize::new(),
            generations: generations::Memory::new(),
            elsewhere: Elsewhere::new(sizes.first_young() + sizes.in_place),
            nursery: nursery::Memory::NEW,
            cpu_ns: 0,
            growth: Growth::NEW,
            alone: alone::Memory::NEW,
            zeroed: Zeroed::default(),
            zeroed_by_others: Zeroed::default(),
            zeroing_trials: Trials::default(),
            contention: Contention::new(config),
            lately: Lately {
                resumed_ns: clock::monotonic_ns(),
                young: sizes.first_young() + sizes.in_place,
                old_target: sizes.first_old_target(),
                ..Lately::default()
            },
            censuses: Censuses::default(),
            totals: Totals::default(),
            locality,
            snapshots: None,
            events: Ring::new(),
            number: 0,
            log: None,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_one_place_comes_back_with_it() {
        let mut lately = Lately {
            young: 8,
            promoted: 4,
            survived: 2,
            used: 100,
            ..Lately::default()
        };
        let mut elsewhere = Elsewhere::new(16);
        elsewhere.change_places(&mut lately);
        let known = |of: &Lately| (of.young, of.promoted, of.survived, of.used);
        assert_eq!(known(&lately), (16, 0, 0, 100));
        lately.young = 32;
        elsewhere.change_places(&mut lately);
        assert_eq!(known(&lately), (8, 4, 2, 100));
        elsewhere.change_places(&mut lately);
        assert_eq!(lately.young, 32);
    }
}

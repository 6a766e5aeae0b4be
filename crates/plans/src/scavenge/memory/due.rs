//! Collections that bytes outside of the heap call for.

use gleaner_base::events::Phase;
use gleaner_mem::slot::SlotFormat;

use crate::scavenge::allocate::Request;
use crate::scavenge::collect::Extent;
use crate::scavenge::decide::external::{Due, Measurements};
use crate::scavenge::mutator::Mutator;
use crate::scavenge::{Scavenge, State};
use crate::shared::record::Record;

impl<F: SlotFormat> Scavenge<F> {
    /// A mutator inside the gate collects if bytes outside of the heap call for it.
    pub(in crate::scavenge) fn collect_for_external(&self, mutator: &Mutator) {
        let seen = self.epoch();
        if let Some(due) = self.external.due() {
            let extent = match due {
                Due::Young => Extent::Young,
                Due::Everything => Extent::Full,
            };
            self.collect_unless_past(mutator, extent, due.reason(), seen, Request::NOTHING);
        }
    }

    /// Behind a collection: how many bytes may be added outside before the next ones.
    pub(in crate::scavenge) fn decide_external(
        &self,
        state: &State,
        record: &mut Record,
        was_full: bool,
    ) {
        let (is_negative, bytes) = (self.external.is_negative(), self.external.bytes());
        let found = Measurements {
            filled: state.last_full.filled,
            young: match state.scavenging {
                true => state.lately.young,
                false => usize::MAX,
            },
            limit: self.limit(),
        };
        self.external.begin(&found, was_full);
        if is_negative || bytes > 0 {
            record.step(Phase::External, |event| {
                event.bytes = bytes as u64;
                event.reason = if is_negative {
                    "more bytes were taken back than were added: the program counts some of them twice"
                } else {
                    "bytes outside of the heap, as the program has told"
                };
            });
        }
    }
}

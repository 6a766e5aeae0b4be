//! Descriptors that objects bring along, while another thread runs beside the steps.

use std::sync::atomic::{AtomicUsize, Ordering};

use gleaner_mem::Address;
use gleaner_plans::mark_sweep::collect::Outcome;
use gleaner_spaces::mark_sweep::kinds::{Kind, NORMAL, descriptor};

use super::{Begun, CALLS, COUNTED, ELSEWHERE, add_thread, counted_kind, store};

/// While another thread runs, a step reads a descriptor that stands in the object or in its type. If that names a client's
/// mark procedure, each stop asks it.
pub fn steps_read_what_objects_bring_along() {
    const SECOND: usize = 1 << 62 | descriptor::BITMAP;
    for (by_type, found) in [
        (false, SECOND),
        (true, SECOND),
        (false, COUNTED),
        (true, COUNTED),
    ] {
        let Some(mut begun) = Begun::before("stress=1000000") else {
            return;
        };
        let other = add_thread(&mut begun.bench);
        let asked = counted_kind(&mut begun.bench);
        let its_type = AtomicUsize::new(found);
        let kind = *begun.bench.heap.space.kinds.get(asked).unwrap();
        let kind = Kind {
            descriptor: match by_type {
                true => 0usize.wrapping_sub(descriptor::INDIRECT_BIAS) | descriptor::PER_OBJECT,
                false => descriptor::PER_OBJECT,
            },
            unlocked: false,
            ..kind
        };
        let kind = begun.bench.heap.space.kinds.add(kind).unwrap();
        let mut led_to = Vec::new();
        for number in 0..100 {
            let object = begun.bench.allocate(kind, 64).unwrap();
            let first_word = match by_type {
                true => its_type.as_ptr().addr(),
                false => found,
            };
            store(object, 0, first_word);
            store(begun.object(number), 2, object.word());
            let next = begun.bench.allocate(NORMAL, 64).unwrap();
            store(object, 1, next.word());
            led_to.push(!next.word());
        }
        assert_eq!(begun.bench.begin(), Outcome::Begun);
        let before = CALLS.load(Ordering::Relaxed);
        // SAFETY: the record is the test's.
        unsafe {
            (*other).blocked_at = Address::NULL;
            begun.mark();
            (*other).blocked_at = ELSEWHERE;
        }
        let is_marked = |begun: &Begun| {
            let mut all = led_to.iter();
            all.all(|inverted| begun.bench.is_marked(Address::new(!inverted)))
        };
        assert_eq!(is_marked(&begun), found == SECOND);
        let calls = |times: usize| before + if found == COUNTED { 100 * times } else { 0 };
        assert_eq!(CALLS.load(Ordering::Relaxed), calls(0));
        begun.end();
        assert!(begun.bench.was_stepped() && begun.all_live());
        assert_eq!(CALLS.load(Ordering::Relaxed), calls(1));
        assert_eq!(is_marked(&begun), found == SECOND);
        for times in 2..4 {
            assert_eq!(begun.bench.collect_new("new"), Outcome::Done);
            assert!(begun.bench.kept_marks());
            assert_eq!(CALLS.load(Ordering::Relaxed), calls(times));
        }
    }
}

//! Prefetch policies of the marker (ISMM 2000, section 4), as type parameters of the mark loop.
//!
//! `on-grey` prefetches a candidate as soon as it looks like a pointer, before it is checked. `fifo` sends what is
//! popped from the mark stack through a short queue and prefetches at its entry, so that every object has the length
//! of the queue to arrive. The permuted push order prefetches first what will be pushed last, so that what was just
//! greyed is seldom scanned at once. `edges` prefetches the marks too ([`super::edges`]).

use gleaner_mem::Address;

/// When the marker prefetches (option `prefetch`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prefetch {
    /// Never.
    None,
    /// When a candidate is found, before it is checked (the paper).
    OnGrey,
    /// Between popping and scanning, through a short queue.
    Fifo,
    /// When a candidate is found, together with its mark, which is checked a queue of candidates later.
    Edges,
}

/// A prefetch policy known at compile time.
pub trait Policy {
    /// When to prefetch.
    const PREFETCH: Prefetch;
    /// Whether the last pointer of an object is prefetched first and pushed last.
    const PERMUTED: bool;
    /// Whether objects are pushed without being greyed ([`super::targets`]).
    const OBSERVES: bool = false;
    /// Whether the words of objects are kept until there are enough to look at together ([`super::edges`]).
    const KEEPS_WORDS: bool =
        matches!(Self::PREFETCH, Prefetch::Edges) && !Self::PERMUTED && !Self::OBSERVES;
    /// Prefetches one cache line with the policy's hint.
    fn touch(address: usize);
    /// Prefetches the line of a mark byte, which is read and written soon and which other objects share.
    #[inline(always)]
    fn touch_mark(address: usize) {
        Address::new(address).prefetch();
    }
}

/// The policies: `MODE` is 0 none, 1 on-grey, 2 fifo, 3 edges.
pub struct Choice<const MODE: u8, const NTA: bool, const PERMUTED: bool>;

/// The policy for what is scanned one object at a time, where nothing is to wait in a queue, and for what is left in one.
pub type Plain = Choice<0, false, false>;

impl<const MODE: u8, const NTA: bool, const PERMUTED: bool> Policy for Choice<MODE, NTA, PERMUTED> {
    const PREFETCH: Prefetch = match MODE {
        0 => Prefetch::None,
        1 => Prefetch::OnGrey,
        2 => Prefetch::Fifo,
        _ => Prefetch::Edges,
    };
    const PERMUTED: bool = PERMUTED;

    #[inline(always)]
    fn touch(address: usize) {
        if NTA {
            Address::new(address).prefetch_once();
        } else {
            Address::new(address).prefetch();
        }
    }
}

/// The prefetch settings of a heap.
#[derive(Clone, Copy, Debug)]
pub struct PrefetchSettings {
    /// When to prefetch.
    pub prefetch: Prefetch,
    /// Hint `nta` instead of `t0`.
    pub non_temporal: bool,
    /// Permuted push order.
    pub permuted: bool,
    /// Cache lines to look ahead within an object that is being scanned; 0 for none.
    pub look_ahead: usize,
    /// Length of the queue of `fifo`, a power of two up to 64.
    pub fifo_length: usize,
    /// Edges that wait under `edges`, give or take those of one object: a power of two from 2 to 64.
    pub edges_length: usize,
}

/// Calls `$call` with the type parameter that the settings choose.
#[macro_export]
macro_rules! with_policy {
    ($settings:expr, $policy:ident => $call:expr) => {{
        use $crate::mark_sweep::prefetch::{Choice, Prefetch};
        match (
            $settings.prefetch,
            $settings.non_temporal,
            $settings.permuted,
        ) {
            (Prefetch::None, _, false) => {
                type $policy = Choice<0, false, false>;
                $call
            }
            (Prefetch::None, _, true) => {
                type $policy = Choice<0, false, true>;
                $call
            }
            (Prefetch::OnGrey, false, false) => {
                type $policy = Choice<1, false, false>;
                $call
            }
            (Prefetch::OnGrey, false, true) => {
                type $policy = Choice<1, false, true>;
                $call
            }
            (Prefetch::OnGrey, true, false) => {
                type $policy = Choice<1, true, false>;
                $call
            }
            (Prefetch::OnGrey, true, true) => {
                type $policy = Choice<1, true, true>;
                $call
            }
            (Prefetch::Fifo, false, false) => {
                type $policy = Choice<2, false, false>;
                $call
            }
            (Prefetch::Fifo, false, true) => {
                type $policy = Choice<2, false, true>;
                $call
            }
            (Prefetch::Fifo, true, false) => {
                type $policy = Choice<2, true, false>;
                $call
            }
            (Prefetch::Fifo, true, true) => {
                type $policy = Choice<2, true, true>;
                $call
            }
            (Prefetch::Edges, false, false) => {
                type $policy = Choice<3, false, false>;
                $call
            }
            (Prefetch::Edges, false, true) => {
                type $policy = Choice<3, false, true>;
                $call
            }
            (Prefetch::Edges, true, false) => {
                type $policy = Choice<3, true, false>;
                $call
            }
            (Prefetch::Edges, true, true) => {
                type $policy = Choice<3, true, true>;
                $call
            }
        }
    }};
}

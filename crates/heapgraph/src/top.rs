//! The largest few of many.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The `count` items with the largest keys, the largest first; of equal ones those that come first.
pub fn top<T: Ord + Copy>(items: impl Iterator<Item = (u64, T)>, count: usize) -> Vec<(u64, T)> {
    let mut largest = BinaryHeap::with_capacity(count + 1);
    for (key, item) in items {
        largest.push(Reverse((key, Reverse(item))));
        if largest.len() > count {
            largest.pop();
        }
    }
    let sorted = largest.into_sorted_vec();
    let plain = |Reverse((key, Reverse(item)))| (key, item);
    sorted.into_iter().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_come_first_and_equal_ones_in_their_order() {
        let items = [(3, 'a'), (9, 'b'), (3, 'c'), (1, 'd'), (9, 'e')];
        let expected = [(9, 'b'), (9, 'e'), (3, 'a')];
        assert_eq!(top(items.into_iter(), 3), expected);
        assert_eq!(top(items.into_iter(), 0), []);
        assert_eq!(top(items.into_iter(), 9).len(), 5);
    }
}

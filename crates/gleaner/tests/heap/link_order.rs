//! Chains whose links lie in an order that is hard on what follows them.

use crate::random::Rng;

/// In which order the links of a chain lie or are made, the first link being 0.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    Forward,
    Backward,
    Random,
    /// Neighbours in the chain lie in different tasks of a table.
    Across,
}

impl Order {
    pub const ALL: [Order; 4] = [
        Order::Forward,
        Order::Backward,
        Order::Random,
        Order::Across,
    ];

    /// The links, as they lie.
    pub fn links(self, count: usize) -> Vec<usize> {
        let mut links: Vec<usize> = (0..count).collect();
        match self {
            Order::Forward => {}
            Order::Backward => links.reverse(),
            Order::Random => {
                let mut random = Rng::new(4);
                for index in (1..count).rev() {
                    links.swap(index, random.below(index + 1));
                }
            }
            Order::Across => links.sort_by_key(|link| (link % 4, link / 4)),
        }
        links
    }
}

//! The workloads whose arrays are large, at the scale of `--tiny`.

use std::collections::BTreeMap;

use super::random::{Random, chained, scattered};

pub fn bigmap(thread: u32) -> u64 {
    /// A tenant: what its keys are made of, how many it gave out, and the step that made each entry.
    struct Tenant(u32, u32, BTreeMap<u32, u32>);

    impl Tenant {
        fn key(&self, number: u32) -> u32 {
            match self.0 % 2 {
                0 => 1 + self.0 * 256 + number,
                _ => scattered((u64::from(self.0) << 32) + u64::from(number)) as u32 | 1,
            }
        }

        fn all(&self) -> u64 {
            let entries = self.2.iter();
            let numbers = entries.map(|(&key, &step)| (u64::from(key) << 32) + u64::from(step));
            numbers.map(scattered).fold(0, u64::wrapping_add)
        }
    }

    let mut random = Random::new(14_000 + u64::from(thread));
    let mut arrived = 0..;
    // A plan is how large the table is, which changes nothing.
    let mut fresh = |random: &mut Random| {
        random.below(4);
        Tenant(arrived.next().unwrap(), 0, BTreeMap::new())
    };
    let mut tenants: Vec<Tenant> = (0..16).map(|_| fresh(&mut random)).collect();
    let mut sum = 0;
    for step in 0..6000 {
        if step % 100 == 99 {
            let index = random.below(16) as usize;
            sum = chained(sum, tenants[index].all());
            tenants[index] = fresh(&mut random);
        }
        let bound = random.below(16) + 1;
        let tenant = &mut tenants[random.below(bound) as usize];
        let what = random.below(16);
        if what < 6 {
            let key = tenant.key(tenant.1);
            tenant.1 += 1;
            tenant.2.insert(key, step);
            sum = chained(sum, 0);
            continue;
        }
        let key = tenant.key(random.below(tenant.1 + 1));
        let found = tenant.2.get(&key).copied();
        sum = chained(sum, found.map_or(1, u64::from));
        match (found, what) {
            (Some(_), 14) => drop(tenant.2.insert(key, step)),
            (Some(_), 15) => drop(tenant.2.remove(&key)),
            _ => {}
        }
    }
    tenants
        .iter()
        .fold(sum, |sum, tenant| chained(sum, tenant.all()))
}

//! Workloads whose mutators share their data, at the scale of `--tiny`: the same for any number of them.

use super::random::{Random, hash_of, scattered};

pub fn producer() -> u64 {
    (0..640 * 16).fold(0, |sum: u64, number: u64| {
        let length = scattered(number) % 1024;
        let bytes: Vec<u8> = (number..number + length).map(|byte| byte as u8).collect();
        sum.wrapping_add(scattered(hash_of(&bytes).wrapping_add(number)))
    })
}

pub fn agents() -> u64 {
    let mut sum = 0u64;
    for agent in 0..16 {
        let mut random = Random::new(8000 + u64::from(agent));
        let mut registers = [0u32; 64];
        for step in 1..=3000 * (agent + 1) {
            let mut last = step ^ agent;
            for register in &mut registers {
                *register = register.wrapping_mul(5).wrapping_add(last);
                last = *register;
            }
            if step % 4 == 0 {
                random.draw();
                sum = sum.wrapping_add(u64::from(last));
            }
            if step % 16 == 0 {
                sum = sum.wrapping_add(scattered(u64::from(last)));
            }
        }
    }
    sum
}

//! Random programs on the precise heap against their oracle: the bytes of the input are the program's decisions. The same
//! code runs in the tests of crate `gleaner`, which replay the seeds kept beside this.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/gleaner/tests/programs/mod.rs"]
mod programs;
#[path = "../../crates/plans/tests/harness/rng.rs"]
#[allow(dead_code, reason = "the fuzzer decides by bytes")]
mod random;
#[path = "../../crates/gleaner/tests/replay/mod.rs"]
mod replay;

fuzz_target!(|data: &[u8]| {
    replay::replay(data);
});

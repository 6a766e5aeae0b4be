//! What the fuzzer found interesting, on every run of the tests: each file in fuzz/seeds is a program.

use std::path::Path;

use crate::programs::{Did, Outcome};

#[test]
fn every_seed_is_as_the_oracle_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/programs");
    let (mut files, mut scavenges, mut full) = (0, 0, 0);
    let mut all = Outcome::default();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let data = std::fs::read(&path).unwrap();
        let done = std::panic::catch_unwind(|| crate::replay::replay(&data));
        let (outcome, totals) = done.unwrap_or_else(|_| panic!("seed {}", path.display()));
        files += 1;
        all.add(outcome);
        scavenges += totals.scavenges;
        full += totals.full_collections;
    }
    // The seeds cover what they are there for.
    assert!(
        files >= 10 && scavenges > 100 && full > 100,
        "{files} files, {scavenges}, {full}"
    );
    assert!(all.failed > 0, "no seed fills its heap");
    for did in Did::all() {
        assert!(all.did.contains_key(&did), "no seed reaches {did:?}");
    }
}

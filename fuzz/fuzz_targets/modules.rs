//! WebAssembly modules. What begins as one does is loaded, with all of its functions compiled: it is refused with a message, or
//! the checks of the code hold. Other bytes are the decisions by which `wasm-smith` makes a module, which is run under all
//! settings of the tests of crate `gleaner-wasm`. What differs is a panic.
#![no_main]

use gleaner::{Heap, References};
use gleaner_wasm::{Compile, Engine, Settings};
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/wasm/tests/random/outcomes.rs"]
#[allow(dead_code, reason = "the tests count what returns")]
mod outcomes;
#[path = "../../crates/wasm/tests/random/plan.rs"]
#[allow(dead_code, reason = "rivals read the plan as text")]
mod plan;
#[path = "../../crates/wasm/tests/random/settings.rs"]
mod settings;
#[path = "../../crates/wasm/tests/random/smith.rs"]
#[allow(
    dead_code,
    reason = "the tests make modules by numbers, and count what is in them"
)]
mod smith;

fn load(bytes: &[u8]) {
    let heap = Heap::builder()
        .limit(8 << 20)
        .references(References::Compressed);
    let settings = Settings {
        checks: true,
        compile: Compile::Eager,
        ..Settings::default()
    };
    let mut engine = Engine::with_settings(heap, settings).unwrap();
    if let Err(error) = engine.load(bytes) {
        assert!(
            !error.to_string().contains('\n'),
            "more than one line: {error}"
        );
    }
}

fn run(decisions: &[u8]) {
    let Some(bytes) = smith::module_by(decisions, decisions.len() as u64) else {
        return;
    };
    let plan = plan::plan(&bytes);
    let [first, others @ ..] = settings::SETTINGS;
    let expected = outcomes::outcome(&bytes, &plan, &first);
    for setting in others {
        let found = outcomes::outcome(&bytes, &plan, &setting);
        if let Some(difference) = outcomes::difference(&expected, &found) {
            panic!("{setting:?}: {difference:?}");
        }
    }
}

fuzz_target!(|data: &[u8]| {
    if data.starts_with(b"\0asm") {
        load(data);
    } else {
        run(data);
    }
});

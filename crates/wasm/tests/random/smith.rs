//! Modules by numbers.

use arbitrary::Unstructured;
use wasm_smith::{Config, Module};
use wasmparser::{Operator, Parser, Payload};

/// How often a module's loops and functions are entered in all, before it traps.
const FUEL: u32 = 250;

/// The module with this number; `None` for one that has too little to do.
pub fn module(seed: u64) -> Option<Vec<u8>> {
    let mut state = seed;
    let bytes: Vec<u8> = (0..512)
        .flat_map(|_| next(&mut state).to_le_bytes())
        .collect();
    module_by(&bytes, seed)
}

/// The module that comes of these decisions; `None` where there is none. The kind has what the others leave open.
pub fn module_by(decisions: &[u8], kind: u64) -> Option<Vec<u8>> {
    let mut decisions = Unstructured::new(decisions);
    let config = Config {
        // In half of the modules a trap means that the fuel is used up.
        disallow_traps: kind % 2 == 1,
        allow_start_export: kind.is_multiple_of(8),
        ..config()
    };
    let mut module = Module::new(config, &mut decisions).ok()?;
    module.ensure_termination(FUEL).ok()?;
    Some(module.to_bytes())
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

fn config() -> Config {
    Config {
        gc_enabled: true,
        reference_types_enabled: true,
        exceptions_enabled: true,
        tail_call_enabled: true,
        bulk_memory_enabled: true,
        extended_const_enabled: true,
        multi_value_enabled: true,
        saturating_float_to_int_enabled: true,
        sign_extension_ops_enabled: true,
        simd_enabled: false,
        relaxed_simd_enabled: false,
        threads_enabled: false,
        memory64_enabled: false,
        custom_page_sizes_enabled: false,
        wide_arithmetic_enabled: false,
        // Which NaN an operation makes is left to the engine.
        canonicalize_nans: true,
        generate_custom_sections: false,
        export_everything: true,
        max_imports: 0,
        min_types: 10,
        max_types: 30,
        min_funcs: 2,
        max_funcs: 12,
        max_instructions: 200,
        max_memories: 2,
        max_tables: 3,
        // How far these grow is left to the engine as well.
        memory_max_size_required: true,
        table_max_size_required: true,
        max_memory32_bytes: 1 << 20,
        max_table_elements: 100,
        limit_arrays_in_const_exprs: true,
        ..Config::default()
    }
}

/// In how many modules there are such instructions.
#[derive(Default, Debug)]
pub struct Features {
    structures: usize,
    arrays: usize,
    casts: usize,
    throws: usize,
    handlers: usize,
    tail_calls: usize,
    indirect: usize,
}

impl Features {
    /// Counts a module's.
    pub fn count(&mut self, bytes: &[u8]) {
        let mut of_module = Features::default();
        for payload in Parser::new(0).parse_all(bytes) {
            if let Payload::CodeSectionEntry(body) = payload.unwrap() {
                for operator in body.get_operators_reader().unwrap() {
                    of_module.see(&operator.unwrap());
                }
            }
        }
        for (sum, number) in self.all_mut().into_iter().zip(of_module.all_mut()) {
            *sum += usize::from(*number > 0);
        }
    }

    fn see(&mut self, operator: &Operator<'_>) {
        use Operator as O;
        let number = match operator {
            O::StructNew { .. } | O::StructNewDefault { .. } => &mut self.structures,
            O::ArrayNew { .. } | O::ArrayNewDefault { .. } | O::ArrayNewFixed { .. } => {
                &mut self.arrays
            }
            O::RefCastNonNull { .. }
            | O::RefCastNullable { .. }
            | O::RefTestNonNull { .. }
            | O::BrOnCast { .. } => &mut self.casts,
            O::Throw { .. } | O::ThrowRef => &mut self.throws,
            O::TryTable { .. } => &mut self.handlers,
            O::ReturnCall { .. } | O::ReturnCallIndirect { .. } | O::ReturnCallRef { .. } => {
                &mut self.tail_calls
            }
            O::CallRef { .. } | O::CallIndirect { .. } => &mut self.indirect,
            _ => return,
        };
        *number += 1;
    }

    fn all_mut(&mut self) -> [&mut usize; 7] {
        [
            &mut self.structures,
            &mut self.arrays,
            &mut self.casts,
            &mut self.throws,
            &mut self.handlers,
            &mut self.tail_calls,
            &mut self.indirect,
        ]
    }

    /// Whether each kind was in a module.
    pub fn are_all_there(&mut self) -> bool {
        self.all_mut().into_iter().all(|number| *number > 0)
    }
}

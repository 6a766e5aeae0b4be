//! What a layer of the interface does for a program, and the loop that runs one: after each step the array that was
//! written is what the model says, and now and then all of them are.

use super::model::{Array, Code, Kind, Known, Model};
use super::script::{Op, Script};
pub use crate::bits::Bits;
use gleaner::{Elements, Heap, ReferenceArray, Structure, Type};

/// More live bytes than these make a program drop all it has.
const MOST_LIVE: usize = 2 << 20;
/// The same for programs with large arrays.
const MOST_LIVE_OF_LARGE: usize = 6 << 20;
/// After so many steps everything is compared.
const BETWEEN_CHECKS: usize = 16;

/// The types of a heap: one for each kind, so that none is taken for another.
#[derive(Clone, Copy)]
pub struct Types {
    numbers: [gleaner::Array; 10],
    references: [ReferenceArray; 2],
    /// A structure with a reference and a number, that of the object in the model.
    pub boxed: Type,
}

impl Types {
    pub fn register(heap: &Heap) -> Types {
        let structure = Structure {
            references: 1,
            bytes: 8,
        };
        Types {
            numbers: std::array::from_fn(|kind| {
                let elements = match Kind::ALL[kind].bytes(0) {
                    1 => Elements::Bytes,
                    2 => Elements::Halves,
                    4 => Elements::Words,
                    _ => Elements::Doubles,
                };
                heap.array(elements).unwrap()
            }),
            references: [(); 2].map(|()| heap.reference_array().unwrap()),
            boxed: heap.structure(structure).unwrap(),
        }
    }

    pub fn numbers(&self, kind: Kind) -> gleaner::Array {
        self.numbers[kind as usize]
    }

    pub fn references(&self, kind: Kind) -> ReferenceArray {
        self.references[usize::from(kind == Kind::Objects)]
    }
}

/// Calls a method of `$layer` for the numbers of a kind.
macro_rules! with_numbers {
    ($layer:ident, $kind:expr, $method:ident($($argument:expr),* $(,)?), else $else:expr) => {
        match $kind {
            $crate::array_programs::model::Kind::U8 => $layer.$method::<u8>($($argument),*),
            $crate::array_programs::model::Kind::I8 => $layer.$method::<i8>($($argument),*),
            $crate::array_programs::model::Kind::U16 => $layer.$method::<u16>($($argument),*),
            $crate::array_programs::model::Kind::I16 => $layer.$method::<i16>($($argument),*),
            $crate::array_programs::model::Kind::U32 => $layer.$method::<u32>($($argument),*),
            $crate::array_programs::model::Kind::I32 => $layer.$method::<i32>($($argument),*),
            $crate::array_programs::model::Kind::F32 => $layer.$method::<f32>($($argument),*),
            $crate::array_programs::model::Kind::U64 => $layer.$method::<u64>($($argument),*),
            $crate::array_programs::model::Kind::I64 => $layer.$method::<i64>($($argument),*),
            $crate::array_programs::model::Kind::F64 => $layer.$method::<f64>($($argument),*),
            $crate::array_programs::model::Kind::Values | $crate::array_programs::model::Kind::Objects => $else,
        }
    };
}
pub(crate) use with_numbers;

/// A layer of the interface, with the roots of a program.
pub trait Layer {
    /// Does on the heap what the model will do next, and compares what is read by the way.
    fn apply(&mut self, op: &Op, model: &Model);

    /// Compares all elements of the array in a root, without what they refer to.
    fn check(&mut self, root: usize, array: &Array, model: &Model);

    /// Compares everything that the roots reach; a hash of it as the heap has it.
    fn check_all(&mut self, model: &Model) -> u64;
}

/// Runs a program; the hash of what it leaves.
pub fn run(
    layer: &mut impl Layer,
    mut script: Script,
    steps: usize,
    slot_bytes: usize,
    traces: bool,
) -> u64 {
    let mut model = Model::new(slot_bytes);
    let most_live = match script.has_large {
        true => MOST_LIVE_OF_LARGE,
        false => MOST_LIVE,
    };
    for step in 0..steps {
        let op = script.next(&model);
        if traces {
            println!("step {step}: {op:?}");
        }
        layer.apply(&op, &model);
        model.apply(&op);
        if let Some(root) = op.written() {
            layer.check(root, model.array(root).expect("it was written"), &model);
        }
        if step % BETWEEN_CHECKS == BETWEEN_CHECKS - 1 {
            layer.check_all(&model);
            if model.trim() > most_live {
                script.clear();
            }
        }
    }
    for everything in [false, true] {
        layer.apply(&Op::Collect { everything }, &model);
    }
    layer.check_all(&model)
}

/// What an expected element is, for a message.
pub fn expected(model: &Model, code: Code) -> String {
    match code {
        0 => "zero".into(),
        _ if code & 1 == 1 => format!("immediate {}", code as i64 >> 1),
        _ => match model.object(code) {
            Known::Boxed(_) => format!("box {}", code / 2),
            Known::Array(array) => format!(
                "array {} of {} {:?}",
                code / 2,
                array.elements.len(),
                array.kind
            ),
            Known::Gone => format!("object {}, which is gone", code / 2),
        },
    }
}

/// FNV-1a over words.
pub struct Hash(u64);

impl Hash {
    pub fn new() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }

    pub fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word)
            .wrapping_mul(0x100_0000_01b3)
            .rotate_left(29);
    }

    pub fn end(&self) -> u64 {
        self.0
    }
}

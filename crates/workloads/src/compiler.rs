//! A compiler: units of a small language, one after the other, from their text to code that is run.
//!
//! A unit's [text](crate::program) is split into tokens, parsed into a tree, its names are resolved through scopes, and
//! constants are folded, which makes a second tree. Code of three addresses goes into lists that grow by copying, and
//! each function is called once. What lives on are the functions, with their scopes and their code, of the last units,
//! and those functions of older ones that they call.
//!
//! Most of what is allocated dies young: tokens, trees and the registers of each call. What stays dies old, in the
//! order in which it was made.

mod code;
mod names;
mod syntax;

use std::cell::Cell;

use gleaner::raw::{Address, Value};
use gleaner::{Heap, Mutator, OutOfMemory};

use super::objects::{Allocated, Code, Numbers, Record, Slots, frame, object, value};
use super::program::{PARAMETERS, Programs};
use super::random::{Random, chained, scattered};
use super::vector::Vector;
use super::{Own, Prepared, Scale, failed};

type Done = Result<(), OutOfMemory>;

/// Places of a unit's table of functions.
const PLACES: usize = 32;

/// The references of a unit.
mod unit {
    /// Functions by name.
    pub const TABLE: usize = 0;
    /// Functions in the order of the text.
    pub const LIST: usize = 1;
}

/// The references of a function; its numbers are how many registers it needs, and how many parameters it has.
mod function {
    /// The next one in its place of the table.
    pub const NEXT: usize = 0;
    pub const LETTERS: usize = 1;
    /// The outermost scope.
    pub const SCOPE: usize = 2;
    /// A list of instructions.
    pub const CODE: usize = 3;
}

#[derive(Clone, Copy)]
struct Compiler<F> {
    bytes: Numbers<F, u8>,
    registers: Numbers<F, u32>,
    slots: Slots<F>,
    vector: Vector<F>,
    /// The next one, letters of a name; its kind, and which number it is.
    token: Record<F, 2, 8>,
    /// See `syntax::node`.
    node: Record<F, 4, 8>,
    /// See `names::scope`.
    scope: Record<F, 4, 0>,
    /// The one declared before it, its letters; its register.
    symbol: Record<F, 2, 4>,
    /// See [`function`].
    function: Record<F, 4, 8>,
    /// See [`unit`].
    unit: Record<F, 2, 0>,
    /// A function that it calls; what it does, and three operands.
    instruction: Record<F, 1, 16>,
    units: usize,
    /// Functions of a unit.
    functions: usize,
    /// Units that are kept.
    kept: usize,
}

/// 1000 units of 24 functions, of which 32 are kept, or 40 of 6 and 4.
pub fn prepare<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    let (units, functions, kept) = scale.of((1000, 24, 32), (40, 6, 4));
    let compiler = Compiler::<F> {
        bytes: Numbers::register(heap).map_err(failed)?,
        registers: Numbers::register(heap).map_err(failed)?,
        slots: Slots::register(heap).map_err(failed)?,
        vector: Vector::register(heap).map_err(failed)?,
        token: Record::register(heap).map_err(failed)?,
        node: Record::register(heap).map_err(failed)?,
        scope: Record::register(heap).map_err(failed)?,
        symbol: Record::register(heap).map_err(failed)?,
        function: Record::register(heap).map_err(failed)?,
        unit: Record::register(heap).map_err(failed)?,
        instruction: Record::register(heap).map_err(failed)?,
        units,
        functions,
        kept,
    };
    Ok(Box::new(Own(move |mutator: &mut Mutator, number| {
        compiler.run(mutator, Random::new(21_000 + u64::from(number)))
    })))
}

impl<F: Code> Compiler<F> {
    /// A number made of all code and of all that it computed.
    fn run(&self, mutator: &mut Mutator, random: Random) -> Result<u64, OutOfMemory> {
        let mut programs = Programs::new(random, self.functions, self.kept);
        let kept = self.slots.fresh(mutator, self.kept)?;
        frame(mutator, [kept, Address::NULL], |mutator, [kept, unit]| {
            let (mut sum, mut hashes) = (0, vec![None; self.kept]);
            for number in 0..self.units {
                let text = programs.unit();
                unit.set(value(self.compiled(mutator, text.as_bytes(), kept)?));
                let (place, hash) = (number % self.kept, self.hash(mutator, object(unit)));
                self.check(mutator, kept, place, hashes[place]);
                self.slots.set(mutator, object(kept), place, object(unit))?;
                hashes[place] = Some(hash);
                sum = chained(sum, hash);
                sum = chained(sum, self.called(mutator, unit, number)?);
            }
            for (place, hash) in hashes.into_iter().enumerate() {
                self.check(mutator, kept, place, hash);
            }
            Ok(sum)
        })
    }

    /// The unit of a text, which may call functions of those that are kept.
    fn compiled(&self, mutator: &mut Mutator, text: &[u8], kept: &Cell<Value>) -> Allocated {
        let text = self.bytes.copied(mutator, text)?;
        let roots = [text, Address::NULL, Address::NULL];
        frame(mutator, roots, |mutator, [text, tree, unit]| {
            // The text dies when there are tokens, and they when there is a tree.
            text.set(value(self.tokens(mutator, text)?));
            tree.set(value(self.parsed(mutator, text)?));
            text.set(Value::NULL);
            unit.set(value(self.fresh_unit(mutator)?));
            self.resolve_unit(mutator, object(tree), unit, kept)?;
            tree.set(value(self.folded_list(mutator, object(tree))?));
            self.translate(mutator, object(tree))?;
            Ok(object(unit))
        })
    }

    fn fresh_unit(&self, mutator: &mut Mutator) -> Allocated {
        frame(mutator, [Address::NULL; 2], |mutator, [table, list]| {
            table.set(value(self.slots.fresh(mutator, PLACES)?));
            list.set(value(self.vector.fresh(mutator)?));
            let unit = self.unit.fresh(mutator)?;
            self.unit
                .initialize(mutator, unit, unit::TABLE, object(table));
            self.unit
                .initialize(mutator, unit, unit::LIST, object(list));
            Ok(unit)
        })
    }

    /// What a call of each function of a unit returns.
    fn called(
        &self,
        mutator: &mut Mutator,
        unit: &Cell<Value>,
        number: usize,
    ) -> Result<u64, OutOfMemory> {
        let mut sum = 0;
        for index in 0..self.functions {
            let list = self.unit.get(mutator, object(unit), unit::LIST);
            let function = self.vector.get(mutator, list, index);
            let drawn = scattered((number * self.functions + index) as u64);
            let arguments = [drawn as u32, (drawn >> 32) as u32, index as u32];
            let count = self.function.number(function, 1) as usize;
            let returned = self.call(mutator, function, &arguments[..count])?;
            sum = chained(sum, u64::from(returned));
        }
        Ok(sum)
    }

    /// The unit that is kept there, if there is one, is as it was compiled.
    fn check(&self, mutator: &Mutator, kept: &Cell<Value>, place: usize, hash: Option<u64>) {
        let unit = self.slots.get(mutator, object(kept), place);
        let now = (unit != Address::NULL).then(|| self.hash(mutator, unit));
        assert_eq!(now, hash, "a unit stays as it is");
    }

    /// A number made of a unit: of the names, symbols and code of its functions.
    fn hash(&self, mutator: &Mutator, unit: Address) -> u64 {
        let list = self.unit.get(mutator, unit, unit::LIST);
        (0..self.vector.length(list)).fold(0, |sum, index| {
            let function = self.vector.get(mutator, list, index);
            let letters = self.function.get(mutator, function, function::LETTERS);
            let scope = self.function.get(mutator, function, function::SCOPE);
            let sum = chained(sum, self.bytes.hash(mutator, letters));
            let sum = chained(sum, self.symbols(mutator, scope));
            self.code_hash(mutator, function, sum)
        })
    }
}

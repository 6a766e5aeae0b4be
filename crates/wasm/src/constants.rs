//! Constant expressions of more than one instruction. Each runs once for an instance, so it is evaluated, and not compiled: a
//! program of Kotlin's or OCaml's has a hundred of them and more, which all run before its first function does.
//!
//! Operands that are objects are kept by handles, since each allocation may collect.

use gleaner::OutOfMemory;
use gleaner::raw::{Address, Fresh, NewObject, Value};
use wasmparser::{BinaryReader, Operator, OperatorsReader};

use crate::decode;
use crate::error::{Trap, TrapKind};
use crate::layout::{Cell, Layout, Place};
use crate::module::{Declarations, Expression};
use crate::runtime::arrays;
use crate::state::State;
use crate::types::{Number, ValType};
use crate::values::Object;

/// A value on the stack of an expression.
enum Operand {
    /// A number, a function, null, or an integer of 31 bits.
    Bits(u64),
    Object(Object),
}

impl Operand {
    /// Its bits. Those of an object are valid until the next allocation.
    fn bits(&self) -> u64 {
        match self {
            Operand::Bits(bits) => *bits,
            Operand::Object(object) => object.bits(),
        }
    }
}

/// An expression that is being evaluated.
struct Evaluation<'a> {
    state: &'a mut State,
    declarations: &'a Declarations,
    /// Of the instance.
    number: usize,
    stack: Vec<Operand>,
    /// Of the instruction, in the module's bytes.
    offset: u32,
}

/// The bits of an expression's value in an instance. A reference among them is valid until the next allocation.
pub(crate) fn evaluate(
    state: &mut State,
    declarations: &Declarations,
    number: usize,
    expression: &Expression,
) -> Result<u64, Trap> {
    let mut evaluation = Evaluation {
        state,
        declarations,
        number,
        stack: Vec::new(),
        offset: 0,
    };
    let start = expression.start as u64;
    let reader = BinaryReader::new_features(&expression.body, start, decode::FEATURES);
    let mut operators = OperatorsReader::new(reader);
    while !operators.eof() {
        let (operator, offset) = operators
            .read_with_offset()
            .expect("the expression was validated");
        evaluation.offset = offset as u32;
        evaluation.operator(&operator)?;
    }
    Ok(evaluation.pop().bits())
}

impl Evaluation<'_> {
    fn operator(&mut self, operator: &Operator<'_>) -> Result<(), Trap> {
        match *operator {
            Operator::I32Const { value } => self.push(u64::from(value as u32)),
            Operator::I64Const { value } => self.push(value as u64),
            Operator::F32Const { value } => self.push(value.bits().into()),
            Operator::F64Const { value } => self.push(value.bits()),
            Operator::I32Add => self.calculate32(u32::wrapping_add),
            Operator::I32Sub => self.calculate32(u32::wrapping_sub),
            Operator::I32Mul => self.calculate32(u32::wrapping_mul),
            Operator::I64Add => self.calculate64(u64::wrapping_add),
            Operator::I64Sub => self.calculate64(u64::wrapping_sub),
            Operator::I64Mul => self.calculate64(u64::wrapping_mul),
            Operator::RefNull { .. } => self.push(0),
            Operator::RefFunc { function_index } => {
                let instance = &self.state.instances[self.number];
                let record = instance.functions[function_index as usize];
                self.push(record.as_ptr() as u64);
            }
            Operator::GlobalGet { global_index } => {
                let global = self.state.instances[self.number].globals[global_index as usize];
                let global = &mut self.state.globals[global];
                let (ty, bits) = (global.ty.content, global.bits());
                self.push_typed(ty, bits)?;
            }
            Operator::RefI31 => {
                let integer = self.pop().bits() as i32;
                self.push(i64::from(integer << 1 | 1) as u64);
            }
            // Values of the host and of the program are held alike.
            Operator::AnyConvertExtern | Operator::ExternConvertAny | Operator::End => {}
            Operator::StructNew { struct_type_index } => {
                let (places, _) = self.structure(struct_type_index);
                let fields = self.pop_many(places.len());
                self.new_structure(struct_type_index, &fields)?;
            }
            Operator::StructNewDefault { struct_type_index } => {
                self.new_structure(struct_type_index, &[])?;
            }
            Operator::ArrayNew { array_type_index } => {
                let length = self.pop().bits() as u32;
                let element = self.pop();
                self.new_array(array_type_index, length, &[(element, length)])?;
            }
            Operator::ArrayNewDefault { array_type_index } => {
                let length = self.pop().bits() as u32;
                self.new_array(array_type_index, length, &[])?;
            }
            Operator::ArrayNewFixed {
                array_type_index,
                array_size,
            } => {
                let elements = self.pop_many(array_size as usize);
                let elements: Vec<_> = elements.into_iter().map(|element| (element, 1)).collect();
                self.new_array(array_type_index, array_size, &elements)?;
            }
            ref other => unreachable!("validation refuses {other:?} in constant expressions"),
        }
        Ok(())
    }

    fn push(&mut self, bits: u64) {
        self.stack.push(Operand::Bits(bits));
    }

    /// Pushes a value of a type, which is valid now.
    fn push_typed(&mut self, ty: ValType, bits: u64) -> Result<(), Trap> {
        let is_object = self.state.registry.is_managed(ty) && bits != 0 && bits & 1 == 0;
        match is_object {
            true => self.push_object(bits),
            false => {
                self.push(bits);
                Ok(())
            }
        }
    }

    fn push_object(&mut self, bits: u64) -> Result<(), Trap> {
        let object = Object::new(&mut self.state.mutator, self.state.id, bits);
        let object = object.ok_or_else(|| out_of_memory(self.offset))?;
        self.stack.push(Operand::Object(object));
        Ok(())
    }

    fn pop(&mut self) -> Operand {
        self.stack.pop().expect("validation counts operands")
    }

    fn pop_many(&mut self, count: usize) -> Vec<Operand> {
        self.stack.split_off(self.stack.len() - count)
    }

    fn calculate32(&mut self, operation: fn(u32, u32) -> u32) {
        let second = self.pop().bits() as u32;
        let first = self.pop().bits() as u32;
        self.push(operation(first, second).into());
    }

    fn calculate64(&mut self, operation: fn(u64, u64) -> u64) {
        let second = self.pop().bits();
        let first = self.pop().bits();
        self.push(operation(first, second));
    }

    fn type_number(&self, index: u32) -> Number {
        self.declarations.types[index as usize]
    }

    /// Where the fields of a structure lie, and its bytes.
    fn structure(&self, index: u32) -> (Vec<Place>, u32) {
        match self.state.registry.get(self.type_number(index)).layout() {
            Layout::Struct { places, bytes, .. } => (places.clone(), *bytes),
            Layout::Array { .. } => unreachable!("validation asks for a structure"),
        }
    }

    /// Pushes a structure; fields that are not given are zero.
    fn new_structure(&mut self, index: u32, fields: &[Operand]) -> Result<(), Trap> {
        let (places, bytes) = self.structure(index);
        let heap = self.state.registry.get(self.type_number(index)).heap();
        let new = NewObject::structure(heap, bytes as usize);
        // SAFETY: a structure's type and bytes; all references are kept by handles.
        let object = unsafe { self.state.mutator.allocate_raw(new, Fresh::Zeroed) };
        let object = object.map_err(|OutOfMemory { .. }| out_of_memory(self.offset))?;
        for (place, field) in places.iter().zip(fields) {
            // SAFETY: a field of the new object, and a value of its type that is valid: nothing allocates meanwhile.
            unsafe { self.write_field(object, *place, field.bits()) };
        }
        self.push_object(object.word() as u64)
    }

    /// # Safety
    /// The object has such a field there, and the bits are a valid value of it.
    unsafe fn write_field(&mut self, object: Address, Place { offset, cell }: Place, bits: u64) {
        let offset = offset as usize;
        let at = object.add(offset);
        // SAFETY: the caller's promise.
        unsafe {
            match cell {
                Cell::I8 => at.ptr::<u8>().write(bits as u8),
                Cell::I16 => at.ptr::<u16>().write(bits as u16),
                Cell::I32 | Cell::F32 => at.ptr::<u32>().write(bits as u32),
                Cell::I64 | Cell::F64 | Cell::Function => at.ptr::<u64>().write(bits),
                Cell::V128 => unreachable!("constants that are vectors are refused"),
                Cell::Slot { .. } => {
                    let value = Value::from_bits(bits);
                    self.state.mutator.store_raw(object, offset, value);
                }
            }
        }
    }

    /// Pushes an array of values, each so many times; elements behind them are zero.
    fn new_array(
        &mut self,
        index: u32,
        length: u32,
        elements: &[(Operand, u32)],
    ) -> Result<(), Trap> {
        let kind = arrays::kind(&self.state.registry, self.type_number(index));
        let mutator = &mut self.state.mutator;
        let full = |OutOfMemory { .. }| out_of_memory(self.offset);
        let array = arrays::fresh(mutator, kind, length).map_err(full)?;
        let mut at = 0;
        for &(ref element, count) in elements {
            // SAFETY: the array has this range, and the bits are a valid value of its elements: an array that lies in one
            // piece is filled without an allocation.
            let filled =
                unsafe { arrays::fill_range(mutator, kind, array, [at, count], element.bits()) };
            filled.map_err(full)?;
            at += count;
        }
        self.push_object(array.word() as u64)
    }
}

fn out_of_memory(offset: u32) -> Trap {
    Trap::Program {
        kind: TrapKind::OutOfMemory,
        offset: Some(offset),
        backtrace: Vec::new(),
    }
}

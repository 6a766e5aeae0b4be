//! Numbers: constants, arithmetic, comparisons and conversions.
//!
//! What traps is tested first, so that no instruction of the processor ever faults.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};
use wasmparser::Operator;

use super::Translator;
use crate::error::TrapKind;

/// The least and greatest numbers between which (both excluded) a conversion to an integer fits.
struct Between(f64, f64);

impl Translator<'_> {
    pub(super) fn numeric_operator(&mut self, operator: &Operator<'_>) -> bool {
        self.constant_operator(operator)
            || self.comparison_operator(operator)
            || self.integer_operator(operator)
            || self.float_operator(operator)
            || self.conversion_operator(operator)
    }

    fn constant_operator(&mut self, operator: &Operator<'_>) -> bool {
        let value = match *operator {
            Operator::I32Const { value } => self.int(value as u32),
            Operator::I64Const { value } => self.word(value),
            Operator::F32Const { value } => {
                self.builder.ins().f32const(f32::from_bits(value.bits()))
            }
            Operator::F64Const { value } => {
                self.builder.ins().f64const(f64::from_bits(value.bits()))
            }
            _ => return false,
        };
        self.push(value);
        true
    }

    fn compare(&mut self, how: IntCC) {
        let (one, other) = self.pop2();
        let flag = self.builder.ins().icmp(how, one, other);
        self.push_flag(flag);
    }

    fn compare_floats(&mut self, how: FloatCC) {
        let (one, other) = self.pop2();
        let flag = self.builder.ins().fcmp(how, one, other);
        self.push_flag(flag);
    }

    /// Pushes the result of a comparison, which has 8 bits.
    pub(super) fn push_flag(&mut self, flag: Value) {
        let value = self.builder.ins().uextend(types::I32, flag);
        self.push(value);
    }

    fn comparison_operator(&mut self, operator: &Operator<'_>) -> bool {
        match operator {
            Operator::I32Eqz | Operator::I64Eqz => {
                let value = self.pop();
                let flag = self.builder.ins().icmp_imm_u(IntCC::Equal, value, 0);
                self.push_flag(flag);
            }
            Operator::I32Eq | Operator::I64Eq => self.compare(IntCC::Equal),
            Operator::I32Ne | Operator::I64Ne => self.compare(IntCC::NotEqual),
            Operator::I32LtS | Operator::I64LtS => self.compare(IntCC::SignedLessThan),
            Operator::I32LtU | Operator::I64LtU => self.compare(IntCC::UnsignedLessThan),
            Operator::I32GtS | Operator::I64GtS => self.compare(IntCC::SignedGreaterThan),
            Operator::I32GtU | Operator::I64GtU => self.compare(IntCC::UnsignedGreaterThan),
            Operator::I32LeS | Operator::I64LeS => self.compare(IntCC::SignedLessThanOrEqual),
            Operator::I32LeU | Operator::I64LeU => self.compare(IntCC::UnsignedLessThanOrEqual),
            Operator::I32GeS | Operator::I64GeS => self.compare(IntCC::SignedGreaterThanOrEqual),
            Operator::I32GeU | Operator::I64GeU => self.compare(IntCC::UnsignedGreaterThanOrEqual),
            Operator::F32Eq | Operator::F64Eq => self.compare_floats(FloatCC::Equal),
            Operator::F32Ne | Operator::F64Ne => self.compare_floats(FloatCC::NotEqual),
            Operator::F32Lt | Operator::F64Lt => self.compare_floats(FloatCC::LessThan),
            Operator::F32Gt | Operator::F64Gt => self.compare_floats(FloatCC::GreaterThan),
            Operator::F32Le | Operator::F64Le => self.compare_floats(FloatCC::LessThanOrEqual),
            Operator::F32Ge | Operator::F64Ge => self.compare_floats(FloatCC::GreaterThanOrEqual),
            _ => return false,
        }
        true
    }

    fn integer_operator(&mut self, operator: &Operator<'_>) -> bool {
        macro_rules! unary {
            ($name:ident) => {{
                let value = self.pop();
                let value = self.builder.ins().$name(value);
                self.push(value);
            }};
        }
        macro_rules! binary {
            ($name:ident) => {{
                let (one, other) = self.pop2();
                let value = self.builder.ins().$name(one, other);
                self.push(value);
            }};
        }
        match operator {
            Operator::I32Clz | Operator::I64Clz => unary!(clz),
            Operator::I32Ctz | Operator::I64Ctz => unary!(ctz),
            Operator::I32Popcnt | Operator::I64Popcnt => unary!(popcnt),
            Operator::I32Add | Operator::I64Add => binary!(iadd),
            Operator::I32Sub | Operator::I64Sub => binary!(isub),
            Operator::I32Mul | Operator::I64Mul => binary!(imul),
            Operator::I32And | Operator::I64And => binary!(band),
            Operator::I32Or | Operator::I64Or => binary!(bor),
            Operator::I32Xor | Operator::I64Xor => binary!(bxor),
            Operator::I32Shl | Operator::I64Shl => binary!(ishl),
            Operator::I32ShrS | Operator::I64ShrS => binary!(sshr),
            Operator::I32ShrU | Operator::I64ShrU => binary!(ushr),
            Operator::I32Rotl | Operator::I64Rotl => binary!(rotl),
            Operator::I32Rotr | Operator::I64Rotr => binary!(rotr),
            Operator::I32DivS | Operator::I64DivS => {
                self.trap_if_divisor_is_zero();
                self.trap_if_quotient_overflows();
                binary!(sdiv);
            }
            Operator::I32DivU | Operator::I64DivU => {
                self.trap_if_divisor_is_zero();
                binary!(udiv);
            }
            Operator::I32RemS | Operator::I64RemS => {
                self.trap_if_divisor_is_zero();
                binary!(srem);
            }
            Operator::I32RemU | Operator::I64RemU => {
                self.trap_if_divisor_is_zero();
                binary!(urem);
            }
            _ => return false,
        }
        true
    }

    fn trap_if_divisor_is_zero(&mut self) {
        let divisor = *self.stack.last().expect("validation counts operands");
        let is_zero = self.builder.ins().icmp_imm_u(IntCC::Equal, divisor, 0);
        self.trap_if(TrapKind::DivisionByZero, is_zero);
    }

    /// The least integer divided by -1 has no result.
    fn trap_if_quotient_overflows(&mut self) {
        let (dividend, divisor) = self.pop2();
        let least = match self.builder.func.dfg.value_type(dividend) {
            types::I32 => i64::from(i32::MIN),
            _ => i64::MIN,
        };
        let is_least = self.builder.ins().icmp_imm_s(IntCC::Equal, dividend, least);
        let is_minus_one = self.builder.ins().icmp_imm_s(IntCC::Equal, divisor, -1);
        let overflows = self.builder.ins().band(is_least, is_minus_one);
        self.trap_if(TrapKind::IntegerOverflow, overflows);
        self.push(dividend);
        self.push(divisor);
    }

    fn float_operator(&mut self, operator: &Operator<'_>) -> bool {
        macro_rules! unary {
            ($name:ident) => {{
                let value = self.pop();
                let value = self.builder.ins().$name(value);
                self.push(value);
            }};
        }
        macro_rules! binary {
            ($name:ident) => {{
                let (one, other) = self.pop2();
                let value = self.builder.ins().$name(one, other);
                self.push(value);
            }};
        }
        match operator {
            Operator::F32Abs | Operator::F64Abs => unary!(fabs),
            Operator::F32Neg | Operator::F64Neg => unary!(fneg),
            Operator::F32Ceil | Operator::F64Ceil => unary!(ceil),
            Operator::F32Floor | Operator::F64Floor => unary!(floor),
            Operator::F32Trunc | Operator::F64Trunc => unary!(trunc),
            Operator::F32Nearest | Operator::F64Nearest => unary!(nearest),
            Operator::F32Sqrt | Operator::F64Sqrt => unary!(sqrt),
            Operator::F32Add | Operator::F64Add => binary!(fadd),
            Operator::F32Sub | Operator::F64Sub => binary!(fsub),
            Operator::F32Mul | Operator::F64Mul => binary!(fmul),
            Operator::F32Div | Operator::F64Div => binary!(fdiv),
            Operator::F32Min | Operator::F64Min => binary!(fmin),
            Operator::F32Max | Operator::F64Max => binary!(fmax),
            Operator::F32Copysign | Operator::F64Copysign => binary!(fcopysign),
            _ => return false,
        }
        true
    }

    fn conversion_operator(&mut self, operator: &Operator<'_>) -> bool {
        macro_rules! convert {
            ($name:ident, $ty:ident) => {{
                let value = self.pop();
                let value = self.builder.ins().$name(types::$ty, value);
                self.push(value);
            }};
        }
        macro_rules! extend {
            ($from:ident, $to:ident) => {{
                let value = self.pop();
                let value = self.builder.ins().ireduce(types::$from, value);
                let value = self.builder.ins().sextend(types::$to, value);
                self.push(value);
            }};
        }
        match operator {
            Operator::I32WrapI64 => convert!(ireduce, I32),
            Operator::I64ExtendI32S => convert!(sextend, I64),
            Operator::I64ExtendI32U => convert!(uextend, I64),
            Operator::I32Extend8S => extend!(I8, I32),
            Operator::I32Extend16S => extend!(I16, I32),
            Operator::I64Extend8S => extend!(I8, I64),
            Operator::I64Extend16S => extend!(I16, I64),
            Operator::I64Extend32S => extend!(I32, I64),
            Operator::F32ConvertI32S | Operator::F32ConvertI64S => convert!(fcvt_from_sint, F32),
            Operator::F64ConvertI32S | Operator::F64ConvertI64S => convert!(fcvt_from_sint, F64),
            Operator::F32ConvertI32U | Operator::F32ConvertI64U => convert!(fcvt_from_uint, F32),
            Operator::F64ConvertI32U | Operator::F64ConvertI64U => convert!(fcvt_from_uint, F64),
            Operator::F32DemoteF64 => convert!(fdemote, F32),
            Operator::F64PromoteF32 => convert!(fpromote, F64),
            Operator::I32ReinterpretF32 => self.reinterpret(types::I32),
            Operator::I64ReinterpretF64 => self.reinterpret(types::I64),
            Operator::F32ReinterpretI32 => self.reinterpret(types::F32),
            Operator::F64ReinterpretI64 => self.reinterpret(types::F64),
            Operator::I32TruncSatF32S | Operator::I32TruncSatF64S => {
                convert!(fcvt_to_sint_sat, I32)
            }
            Operator::I64TruncSatF32S | Operator::I64TruncSatF64S => {
                convert!(fcvt_to_sint_sat, I64)
            }
            Operator::I32TruncSatF32U | Operator::I32TruncSatF64U => {
                convert!(fcvt_to_uint_sat, I32)
            }
            Operator::I64TruncSatF32U | Operator::I64TruncSatF64U => {
                convert!(fcvt_to_uint_sat, I64)
            }
            // The greatest float below the least integer, and the least above the greatest.
            Operator::I32TruncF32S => {
                self.trap_unless_it_fits(Between(-2_147_483_904.0, 2_147_483_648.0));
                convert!(fcvt_to_sint_sat, I32);
            }
            Operator::I32TruncF64S => {
                self.trap_unless_it_fits(Between(-2_147_483_649.0, 2_147_483_648.0));
                convert!(fcvt_to_sint_sat, I32);
            }
            Operator::I64TruncF32S => {
                self.trap_unless_it_fits(Between(
                    -9_223_373_136_366_403_584.0,
                    9_223_372_036_854_775_808.0,
                ));
                convert!(fcvt_to_sint_sat, I64);
            }
            Operator::I64TruncF64S => {
                self.trap_unless_it_fits(Between(
                    -9_223_372_036_854_777_856.0,
                    9_223_372_036_854_775_808.0,
                ));
                convert!(fcvt_to_sint_sat, I64);
            }
            Operator::I32TruncF32U | Operator::I32TruncF64U => {
                self.trap_unless_it_fits(Between(-1.0, 4_294_967_296.0));
                convert!(fcvt_to_uint_sat, I32);
            }
            Operator::I64TruncF32U | Operator::I64TruncF64U => {
                self.trap_unless_it_fits(Between(-1.0, 18_446_744_073_709_551_616.0));
                convert!(fcvt_to_uint_sat, I64);
            }
            _ => return false,
        }
        true
    }

    fn reinterpret(&mut self, ty: Type) {
        let value = self.pop();
        let value = self.builder.ins().bitcast(ty, MemFlagsData::new(), value);
        self.push(value);
    }

    /// Traps if the number on the stack is not a number, or does not lie between the two.
    fn trap_unless_it_fits(&mut self, Between(low, high): Between) {
        let value = *self.stack.last().expect("validation counts operands");
        let is_nan = self.builder.ins().fcmp(FloatCC::Unordered, value, value);
        self.trap_if(TrapKind::InvalidConversion, is_nan);
        let is_single = self.builder.func.dfg.value_type(value) == types::F32;
        let mut number = |number: f64| match is_single {
            true => self.builder.ins().f32const(number as f32),
            false => self.builder.ins().f64const(number),
        };
        let (low, high) = (number(low), number(high));
        let is_low = self
            .builder
            .ins()
            .fcmp(FloatCC::LessThanOrEqual, value, low);
        let is_high = self
            .builder
            .ins()
            .fcmp(FloatCC::GreaterThanOrEqual, value, high);
        let does_not_fit = self.builder.ins().bor(is_low, is_high);
        self.trap_if(TrapKind::IntegerOverflow, does_not_fit);
    }
}

//! Elements of any kind as words: the bits of a number, or those of a value. That of null or of an immediate is what
//! the model has, too; that of an object is its address.

use super::layer::Bits;
use gleaner::raw::{Address, Compressed, Element, Object, SlotFormat, Value, Wide};

/// An element as a word.
pub trait Word: Element {
    fn item(word: u64) -> Self::Item;
    fn word(item: Self::Item) -> u64;
}

macro_rules! words {
    ($(($($for:tt)*) $element:ty: $of:expr, $bits:expr;)+) => {
        $(
            impl $($for)* Word for $element {
                fn item(word: u64) -> Self::Item {
                    $of(word)
                }

                fn word(item: Self::Item) -> u64 {
                    $bits(item)
                }
            }
        )+
    };
}

words! {
    () u8: u8::of, u8::bits;
    () i8: i8::of, i8::bits;
    () u16: u16::of, u16::bits;
    () i16: i16::of, i16::bits;
    () u32: u32::of, u32::bits;
    () i32: i32::of, i32::bits;
    () f32: f32::of, f32::bits;
    () u64: u64::of, u64::bits;
    () i64: i64::of, i64::bits;
    () f64: f64::of, f64::bits;
    () Wide: Value::from_bits, Value::bits;
    () Compressed: Value::from_bits, Value::bits;
    (<F: SlotFormat>) Object<F>: |word| Address::new(word as usize), |object: Address| object.word() as u64;
}

/// Calls a method of `$layer` for the elements of a kind, in a heap whose slots have the format `F`.
macro_rules! with_elements {
    ($layer:ident, $kind:expr, $method:ident($($argument:expr),* $(,)?)) => {
        $crate::array_programs::layer::with_numbers!($layer, $kind, $method($($argument),*), else match $kind {
            $crate::array_programs::model::Kind::Values => $layer.$method::<F>($($argument),*),
            _ => $layer.$method::<gleaner::raw::Object<F>>($($argument),*),
        })
    };
}
pub(crate) use with_elements;

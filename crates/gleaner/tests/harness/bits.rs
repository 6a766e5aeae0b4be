//! Numbers that programs over arrays use by their bits.

/// A number as the word of its bits.
pub trait Bits: gleaner::Number {
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
}

macro_rules! bits {
    ($($number:ty: $unsigned:ty;)+) => {
        $(
            impl Bits for $number {
                fn of(bits: u64) -> $number {
                    <$number>::from_ne_bytes((bits as $unsigned).to_ne_bytes())
                }

                fn bits(self) -> u64 {
                    <$unsigned>::from_ne_bytes(self.to_ne_bytes()).into()
                }
            }
        )+
    };
}

bits! {
    u8: u8; i8: u8; u16: u16; i16: u16; u32: u32; i32: u32; f32: u32; u64: u64; i64: u64; f64: u64;
}

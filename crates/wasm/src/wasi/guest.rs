//! What a function of WASI is called with: the memory of the program, and numbers. Each address is checked.

use super::errno::Errno;
use crate::values::Value;

/// The memory of the program. Numbers in it are little-endian and lie at any address.
pub(super) struct Guest<'a>(pub(super) &'a mut [u8]);

impl Guest<'_> {
    pub(super) fn bytes(&self, at: u32, count: u32) -> Result<&[u8], Errno> {
        let range = at as usize..at as usize + count as usize;
        self.0.get(range).ok_or(Errno::FAULT)
    }

    pub(super) fn bytes_mut(&mut self, at: u32, count: u32) -> Result<&mut [u8], Errno> {
        let range = at as usize..at as usize + count as usize;
        self.0.get_mut(range).ok_or(Errno::FAULT)
    }

    fn array<const N: usize>(&self, at: u32) -> Result<[u8; N], Errno> {
        let bytes = self.bytes(at, N as u32)?;
        Ok(bytes.try_into().expect("it has this length"))
    }

    pub(super) fn u8(&self, at: u32) -> Result<u8, Errno> {
        self.array::<1>(at).map(|[byte]| byte)
    }

    pub(super) fn u16(&self, at: u32) -> Result<u16, Errno> {
        self.array(at).map(u16::from_le_bytes)
    }

    pub(super) fn u32(&self, at: u32) -> Result<u32, Errno> {
        self.array(at).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&self, at: u32) -> Result<u64, Errno> {
        self.array(at).map(u64::from_le_bytes)
    }

    pub(super) fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Errno> {
        let count = u32::try_from(bytes.len()).map_err(|_| Errno::OVERFLOW)?;
        self.bytes_mut(at, count)?.copy_from_slice(bytes);
        Ok(())
    }

    pub(super) fn write_u32(&mut self, at: u32, number: u32) -> Result<(), Errno> {
        self.write(at, &number.to_le_bytes())
    }

    pub(super) fn write_u64(&mut self, at: u32, number: u64) -> Result<(), Errno> {
        self.write(at, &number.to_le_bytes())
    }
}

/// The arguments of a call, whose types were checked when the module was linked.
pub(super) struct Arguments<'a>(pub(super) &'a [Value]);

impl Arguments<'_> {
    pub(super) fn u32(&self, index: usize) -> u32 {
        match self.0[index] {
            Value::I32(number) => number as u32,
            ref other => panic!("argument {index} is {other:?}"),
        }
    }

    pub(super) fn u64(&self, index: usize) -> u64 {
        match self.0[index] {
            Value::I64(number) => number as u64,
            ref other => panic!("argument {index} is {other:?}"),
        }
    }
}

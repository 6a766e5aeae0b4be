//! What a program has of its host: arguments, environment, and descriptors by number.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::errno::Errno;

/// A name in a directory that is being listed.
pub(super) struct Name {
    pub(super) inode: u64,
    pub(super) kind: u8,
    pub(super) bytes: Vec<u8>,
}

/// What the program has open under a number.
pub(super) struct Descriptor {
    pub(super) file: OwnedFd,
    /// What the program calls it, if the host opened it as a directory.
    pub(super) guest_name: Option<Vec<u8>>,
    /// Whether the program opened it. What the host opened it may share with other processes, as a terminal.
    pub(super) is_own: bool,
    /// The names as they were when the program began to list them, so that their places stay what they are.
    pub(super) listing: Option<Vec<Name>>,
}

impl Descriptor {
    pub(super) fn new(file: OwnedFd) -> Descriptor {
        Descriptor {
            file,
            guest_name: None,
            is_own: false,
            listing: None,
        }
    }
}

/// What one program has.
pub(super) struct Context {
    pub(super) arguments: Vec<CString>,
    /// As `NAME=VALUE`.
    pub(super) environment: Vec<CString>,
    descriptors: Vec<Option<Descriptor>>,
    /// The number of its memory in the engine, once its instance is made.
    pub(super) memory: Option<usize>,
}

impl Context {
    pub(super) fn new(
        arguments: Vec<CString>,
        environment: Vec<CString>,
        descriptors: Vec<Descriptor>,
    ) -> Context {
        Context {
            arguments,
            environment,
            descriptors: descriptors.into_iter().map(Some).collect(),
            memory: None,
        }
    }

    pub(super) fn descriptor(&mut self, number: u32) -> Result<&mut Descriptor, Errno> {
        let place = self.descriptors.get_mut(number as usize);
        place.and_then(Option::as_mut).ok_or(Errno::BADF)
    }

    pub(super) fn file(&self, number: u32) -> Result<BorrowedFd<'_>, Errno> {
        let place = self.descriptors.get(number as usize);
        let descriptor = place.and_then(Option::as_ref).ok_or(Errno::BADF)?;
        Ok(descriptor.file.as_fd())
    }

    /// Gives a file that the program opened the lowest free number.
    pub(super) fn add(&mut self, file: OwnedFd) -> u32 {
        let descriptor = Some(Descriptor {
            is_own: true,
            ..Descriptor::new(file)
        });
        let free = self.descriptors.iter().position(Option::is_none);
        match free {
            Some(number) => {
                self.descriptors[number] = descriptor;
                number as u32
            }
            None => {
                self.descriptors.push(descriptor);
                self.descriptors.len() as u32 - 1
            }
        }
    }

    pub(super) fn close(&mut self, number: u32) -> Result<(), Errno> {
        let place = self.descriptors.get_mut(number as usize);
        place.and_then(Option::take).map(drop).ok_or(Errno::BADF)
    }

    /// Gives what is open under one number to another, which is closed first if something is open there. That must be so: a
    /// number that nothing was given is none to a program.
    pub(super) fn renumber(&mut self, from: u32, to: u32) -> Result<(), Errno> {
        self.file(from)?;
        self.file(to)?;
        if from != to {
            self.descriptors[to as usize] = self.descriptors[from as usize].take();
        }
        Ok(())
    }
}

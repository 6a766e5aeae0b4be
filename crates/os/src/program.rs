//! What runs, and on what: for the head of a log.
//!
//! Any thread, any state of the world; nothing here allocates.

use core::fmt;
use core::mem::MaybeUninit;

use crate::procfs;

/// The words of the command that started the process, one space between two, as far as they fit into `buffer`; what is no
/// UTF-8 ends it. Empty where the kernel does not say.
pub fn command_line(buffer: &mut [u8]) -> &str {
    let length = procfs::read(c"/proc/self/cmdline", buffer).map_or(0, <[u8]>::len);
    let text = &mut buffer[..length];
    for byte in text.iter_mut().filter(|byte| **byte == 0) {
        *byte = b' ';
    }
    let text = text.trim_ascii_end();
    match core::str::from_utf8(text) {
        Ok(text) => text,
        Err(error) => core::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or_default(),
    }
}

/// Writes the system's name, its version and the processor's: `Linux 6.1.0 x86_64`.
pub fn write_system(out: &mut dyn fmt::Write) -> fmt::Result {
    let mut names = MaybeUninit::<libc::utsname>::zeroed();
    // SAFETY: the kernel fills the struct, which is valid when zero, too.
    let names = unsafe {
        libc::uname(names.as_mut_ptr());
        names.assume_init()
    };
    for (index, name) in [&names.sysname, &names.release, &names.machine]
        .into_iter()
        .enumerate()
    {
        if index > 0 {
            out.write_char(' ')?;
        }
        for letter in name.iter().take_while(|letter| **letter != 0) {
            out.write_char(char::from(*letter as u8))?;
        }
    }
    Ok(())
}

/// Has the C library call a function when the process exits in order, behind those that are registered later. False when it
/// has no room for another one.
pub fn at_exit(function: extern "C" fn()) -> bool {
    // SAFETY: a function that lasts as long as the process.
    unsafe { libc::atexit(function) == 0 }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::string::String;

    #[test]
    fn the_command_and_the_system_are_known() {
        let mut buffer = [0; 4096];
        let whole = String::from(command_line(&mut buffer));
        let words: std::vec::Vec<_> = std::env::args().collect();
        assert_eq!(whole, words.join(" "));
        let mut small = [0; 5];
        assert_eq!(command_line(&mut small), &whole[..5]);
        let mut system = String::new();
        write_system(&mut system).unwrap();
        assert_eq!(system.split(' ').count(), 3, "{system}");
        assert!(system.ends_with(std::env::consts::ARCH), "{system}");
    }
}

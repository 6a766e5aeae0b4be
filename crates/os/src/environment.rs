//! Environment variables.
//!
//! A program with more rights than its user (setuid) sees none of them: the variables can name a file to
//! write to.

use core::ffi::{CStr, c_char};

unsafe extern "C" {
    fn secure_getenv(name: *const c_char) -> *mut c_char;
}

/// The value of a variable, or None; always None in a program that runs with raised rights.
///
/// The text lives in the environment block: it is to be read while the collector starts, before the program
/// has had a chance to change that variable with `setenv` or `putenv`. Takes no lock; not for signal
/// handlers.
pub fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name is a string; the answer is a string in the environment block, or null.
    unsafe {
        let value = secure_getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value))
    }
}

/// Whether the loader distrusts the environment, since the program runs with more rights than its user. As
/// [`variable`] sees it.
pub fn is_distrusted() -> bool {
    // SAFETY: takes a number, and reads what the kernel gave the program when it started.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_plain_program_may_trust_its_environment() {
        assert!(!is_distrusted());
    }

    #[test]
    fn a_variable_is_found_and_another_is_not() {
        let path = std::env::var("PATH").unwrap();
        assert_eq!(variable(c"PATH").unwrap().to_str().unwrap(), path);
        assert_eq!(variable(c"GLEANER_NO_SUCH_VARIABLE"), None);
    }
}

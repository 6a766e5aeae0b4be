//! The threads of a heap as the embedder makes them: `struct gleaner_thread_factory`.

use std::ffi::{CString, c_char, c_void};

use gleaner::{Join, NewThread};

/// What a thread of the embedder's calls, with what it was given.
type Run = unsafe extern "C" fn(argument: *mut c_void);

/// `struct gleaner_thread_factory`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ThreadFactory {
    start:
        Option<unsafe extern "C" fn(*mut c_void, *const c_char, Run, *mut c_void) -> *mut c_void>,
    join: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    data: *mut c_void,
}

// SAFETY: the header says that the functions are called on any thread.
unsafe impl Send for ThreadFactory {}
// SAFETY: the header says so, and that the data has to stand it.
unsafe impl Sync for ThreadFactory {}

/// A thread that `start` has answered.
struct Started(ThreadFactory, *mut c_void);

// SAFETY: `join` may be called on any thread, as the header says.
unsafe impl Send for Started {}

impl Started {
    fn join(self) {
        if let Some(join) = self.0.join {
            // SAFETY: the embedder's function, with its data and what its `start` answered, once.
            unsafe { join(self.0.data, self.1) };
        }
    }
}

impl ThreadFactory {
    /// What is missing, if something is.
    pub fn check(&self) -> Result<(), &'static str> {
        match (self.start, self.join) {
            (Some(_), Some(_)) => Ok(()),
            _ => Err("struct gleaner_thread_factory: start or join is NULL, and a heap needs both"),
        }
    }

    /// Starts a thread; `None` if the embedder has none.
    pub fn start(&self, thread: NewThread) -> Option<Join> {
        unsafe extern "C" fn run(argument: *mut c_void) {
            // SAFETY: the box that `start` made for this thread alone.
            unsafe { Box::from_raw(argument.cast::<NewThread>()) }.run();
        }
        // Names of threads have no byte 0.
        let name = CString::new(thread.name()).unwrap_or_default();
        let argument = Box::into_raw(Box::new(thread)).cast();
        let start = self.start?;
        // SAFETY: the embedder's function, with its data.
        let started = unsafe { start(self.data, name.as_ptr(), run, argument) };
        if started.is_null() {
            // SAFETY: made above, and there is no thread that has it.
            drop(unsafe { Box::from_raw(argument.cast::<NewThread>()) });
            return None;
        }
        let started = Started(*self, started);
        Some(Box::new(move || started.join()))
    }
}

//! What threads of an embedder are for.

pub use gleaner_base::roles::Role;

use gleaner_os::threads;

/// Registers what the calling thread is for, from now on: a mutator, or a thread that no heap knows, such as a
/// compiler's.
///
/// Its name becomes `gleaner-` and the role's, of which the kernel keeps 15 bytes (`gleaner-compile`). By that `gleaner
/// place` tells it from others: it places it, counts what it uses, and makes its cores slower or not (OOPSLA 2012,
/// sections 3.1 and 4.2). Threads of Gleaner's own have such names, and those that register nothing run the
/// application. A thread that is to keep a name of its own is told by `gleaner place --role NAME=ROLE` instead.
pub fn set_thread_role(role: Role) {
    threads::name_current(&role.thread_name());
}

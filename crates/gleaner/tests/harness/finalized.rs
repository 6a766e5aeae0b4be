//! Finalizers of the usual kind, for tests that are about other things: of the lowest order and without a value, and the
//! object comes to life again.

use gleaner::{Finalizing, Local, Scope};

/// Has [`next_finalized`] hand out an object.
pub fn finalize(scope: &mut Scope<'_>, object: Local<'_>) {
    scope.nested(|scope| {
        let nothing = scope.null();
        let finalizing = Finalizing::default();
        scope.finalizer(object, nothing, finalizing).unwrap();
    });
}

/// The next object.
pub fn next_finalized<'s>(scope: &mut Scope<'s>) -> Option<Local<'s>> {
    scope.next_finalizer().map(|ready| ready.object)
}

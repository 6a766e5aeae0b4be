//! What the command says of itself when nothing is asked of it: what it can do, in ten lines.

use std::io::Write;

const TEXT: &str = "\
gleaner runs programs that use Boehm's libgc on a faster collector, without rebuilding them.

  gleaner doctor -- PROGRAM    will it work? Runs nothing
  gleaner exec -- PROGRAM      run it; --stats, --log FILE and --snapshot FILE show what the collector does
  gleaner compare -- PROGRAM   is it faster than on the system's libgc?
  gleaner report LOG           a page of stops, phases and memory, from 'exec --log'
  gleaner heap SNAPSHOT        what lives and what keeps it, from 'exec --snapshot'
  gleaner options              what can be set, by --opt NAME=VALUE
  gleaner place -- java ...    start a JVM, and place its threads on the processors
'gleaner --help' has examples, and 'gleaner help COMMAND' says all of one.";

/// Writes it to standard error, since this is no answer to anything that a script could ask.
pub(crate) fn show() {
    // Nobody is left to be told that this cannot be written.
    let _ = writeln!(std::io::stderr(), "{TEXT}");
}

//! What `GLEANER_OPTIONS` may change of a heap that a program sets up.
//!
//! The user of a program has the last word on its heap, but not on how its objects lie in memory: code that was compiled
//! for slots of 8 bytes, or for arrays in one piece, is wrong on any other heap. So the embedder says what becomes of
//! such options ([`OutsideLayout`]).

use std::env;
use std::io::{self, Write};

use gleaner_base::options::{Foreign, HeapKind, Options};
use gleaner_os::environment;

use crate::build_error::{BuildError, VARIABLE};

/// What becomes of options in the environment that change how objects lie in memory: `refs`, `arrays` and what says how
/// arrays are cut ([`Builder::outside_layout`](crate::Builder::outside_layout)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutsideLayout {
    /// They count. The program asks the heap for the size of a slot and for the pieces of arrays, as the safe layer does.
    Followed,
    /// They are an error that names the option.
    Refused,
    /// They are left out; a line on standard error says so.
    LeftOut,
}

/// The options of a heap, and what of their layout the program does not know of.
pub(crate) struct Settled {
    pub(crate) options: Options,
    /// The option that came from outside while the program did not say what becomes of it. Raw types are refused then.
    pub(crate) unknown_layout: Option<&'static str>,
}

/// The program's own options, and over them those of the environment, unless that is ignored. Options have to hold
/// together as they are in the end; a mistake of the program's own is told first.
pub(crate) fn settle(
    own: Options,
    is_ignored: bool,
    layout: Option<OutsideLayout>,
) -> Result<Settled, BuildError> {
    let checked = own.check().map_err(BuildError::refused);
    match read(own, is_ignored, layout) {
        Ok(Some(settled)) => Ok(settled),
        Ok(None) => checked.map(|()| Settled {
            options: own,
            unknown_layout: None,
        }),
        Err(error) => checked.and(Err(BuildError::Environment(error))),
    }
}

/// `None` if the environment has no options.
fn read(
    own: Options,
    is_ignored: bool,
    layout: Option<OutsideLayout>,
) -> Result<Option<Settled>, String> {
    if is_ignored || environment::is_distrusted() {
        return Ok(None);
    }
    let Some(list) = env::var_os(VARIABLE) else {
        return Ok(None);
    };
    let list = list.to_str().ok_or("it is not UTF-8")?;
    let mut options = own;
    options
        .read_last_word_of(HeapKind::Precise, Foreign::Ignored, list)
        .map_err(|error| error.to_string())?;
    let asked = options;
    let changed = own.changed_layout(&asked);
    match (changed, layout) {
        (Some(change), Some(OutsideLayout::Refused)) => {
            return Err(format!(
                "{change}, which changes how objects lie in memory; this program is compiled for its own layout: leave \
                 {} out",
                change.name
            ));
        }
        (Some(change), Some(OutsideLayout::LeftOut)) => {
            // Who runs the program may have closed standard error.
            let _ = writeln!(
                io::stderr(),
                "gleaner: {VARIABLE} sets {change}, which changes how objects lie in memory; this program is compiled for \
                 its own layout, so that is left out"
            );
            options.take_layout_of(&own);
        }
        _ => {}
    }
    options.check().map_err(|error| error.to_string())?;
    Ok(Some(Settled {
        options,
        unknown_layout: changed
            .filter(|_| layout.is_none())
            .map(|change| change.name),
    }))
}

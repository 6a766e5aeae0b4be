//! The settings under which random modules are run.

use gleaner::References;
use gleaner_wasm::Compile;

use crate::outcomes::Setting;

const PRESSURE: &str = "stress=1,verify=edges,poison=on";

/// What a module does under the first is what it has to do under all.
pub const SETTINGS: [Setting; 4] = [
    Setting {
        references: References::Wide,
        options: "",
        compile: Compile::Lazy,
    },
    Setting {
        references: References::Compressed,
        options: "",
        compile: Compile::Eager,
    },
    Setting {
        references: References::Wide,
        options: PRESSURE,
        compile: Compile::Eager,
    },
    Setting {
        references: References::Compressed,
        options: PRESSURE,
        compile: Compile::Lazy,
    },
];

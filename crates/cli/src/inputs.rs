//! Files that `gleaner exec` has a program write and that other commands read: how they are opened, and that nothing takes
//! their place.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::failure::Failure;

/// A kind of such files.
pub(crate) struct Input {
    /// What it is called.
    pub(crate) name: &'static str,
    /// The option of `gleaner exec` that has it written.
    pub(crate) option: &'static str,
    /// The usual name of one.
    pub(crate) example: &'static str,
}

impl Input {
    /// Opens a file for reading.
    pub(crate) fn open(&self, path: &Path) -> Result<(File, Metadata), Failure> {
        let Input {
            name,
            option,
            example,
        } = self;
        let shown = path.display();
        let unreadable = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => Failure::usage(format_args!(
                "there is no {name} {shown}. 'gleaner exec {option} {shown} -- PROGRAM' writes it"
            )),
            _ => Failure::usage(format_args!("the {name} {shown} cannot be read: {error}")),
        };
        let file = File::open(path).map_err(unreadable)?;
        let kind = file.metadata().map_err(unreadable)?;
        if kind.is_dir() {
            return Err(Failure::usage(format_args!(
                "{shown} is a directory: name the {name} in it, such as {}",
                path.join(example).display()
            )));
        }
        Ok((file, kind))
    }

    /// Refuses to write `what` to `output`, which `option` names, if that is the file itself, under whatever name.
    pub(crate) fn keep(
        &self,
        path: &Path,
        kind: &Metadata,
        output: &Path,
        what: &str,
        option: &str,
    ) -> Result<(), Failure> {
        let is_input = |found: Metadata| (found.dev(), found.ino()) == (kind.dev(), kind.ino());
        if !std::fs::metadata(output).is_ok_and(is_input) {
            return Ok(());
        }
        let name = if output == path {
            String::new()
        } else {
            format!(", which {} is, too", output.display())
        };
        Err(Failure::usage(format_args!(
            "{what} would replace the {} {}{name}. Name another file with {option}",
            self.name,
            path.display()
        )))
    }
}

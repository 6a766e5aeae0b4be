//! Files that the command writes: there is never half of one under the name that was asked for, and none that was there
//! is lost where its successor cannot be written.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use crate::failure::Failure;

/// Refuses a file that cannot be written, before the work for it is done. `what` it is and the option that names another one are
/// for the message.
pub(crate) fn check(path: &Path, what: &str, option: &str) -> Result<(), Failure> {
    let shown = path.display();
    if path.is_dir() {
        return Err(Failure::usage(format_args!(
            "{what} {shown} cannot be written: it is a directory; name a file in it"
        )));
    }
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).map_err(|error| {
        Failure::usage(format_args!(
            "{what} {shown} cannot be written: {}: {error}. Name another file with {option} FILE",
            directory.display()
        ))
    })
}

/// Has `body` write the file `output`, under another name first. A device, a pipe or a link stays what it is, and is
/// written to.
pub(crate) fn write<T>(
    output: &Path,
    body: impl FnOnce(&mut BufWriter<File>) -> io::Result<T>,
) -> io::Result<T> {
    match std::fs::symlink_metadata(output) {
        Ok(found) if !found.is_file() => write_to(File::create(output)?, body),
        _ => write_beside(output, body),
    }
}

fn write_to<T>(
    file: File,
    body: impl FnOnce(&mut BufWriter<File>) -> io::Result<T>,
) -> io::Result<T> {
    let mut to = BufWriter::with_capacity(1 << 20, file);
    let result = body(&mut to)?;
    to.flush()?;
    Ok(result)
}

fn write_beside<T>(
    output: &Path,
    body: impl FnOnce(&mut BufWriter<File>) -> io::Result<T>,
) -> io::Result<T> {
    let mut beside = output.as_os_str().to_owned();
    // No other has that name: what is there already is not ours.
    beside.push(format!(".{}.new", std::process::id()));
    let beside = Path::new(&beside);
    let written = write_to(File::create_new(beside)?, body)
        .and_then(|result| std::fs::rename(beside, output).map(|()| result));
    if written.is_err() {
        let _ = std::fs::remove_file(beside);
    }
    written
}

//! Files that the command writes: there is never half of one under the name that was asked for, and none that was there
//! is lost where its successor cannot be written.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

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

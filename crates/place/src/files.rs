//! The files of the kernel that tell of energy and control speed, below a root (`/`, or in tests a directory
//! with a likeness).

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Where the files are.
#[derive(Clone, Debug)]
pub struct Files {
    root: PathBuf,
}

impl Files {
    /// Those below `root`.
    pub fn below(root: &Path) -> Files {
        Files { root: root.into() }
    }

    /// The root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path below the root of one that is absolute.
    pub(crate) fn path(&self, absolute: &str) -> PathBuf {
        self.root.join(absolute.trim_start_matches('/'))
    }

    pub(crate) fn text(&self, absolute: &str) -> io::Result<String> {
        fs::read_to_string(self.path(absolute))
    }

    /// The first number in a file.
    pub(crate) fn number(&self, absolute: &str) -> Option<u64> {
        let text = self.text(absolute).ok()?;
        text.split_whitespace().next()?.parse().ok()
    }

    /// The numbers in a file, as of a list of threads.
    pub(crate) fn numbers(&self, absolute: &str) -> io::Result<Vec<u32>> {
        let text = match self.text(absolute) {
            // No kernel has made the file of a new directory.
            Err(error) if self.is_likeness() && error.kind() == io::ErrorKind::NotFound => {
                String::new()
            }
            text => text?,
        };
        let numbers = text.split_whitespace().map(str::parse);
        Ok(numbers.filter_map(Result::ok).collect())
    }

    /// Sets what a file says.
    pub(crate) fn set(&self, absolute: &str, value: &str) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options
            .write(true)
            .truncate(true)
            .create(self.is_likeness());
        options
            .open(self.path(absolute))?
            .write_all(value.as_bytes())
    }

    /// Adds to what a file says, as a thread to those of a group.
    pub(crate) fn add(&self, absolute: &str, value: &str) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.append(true).create(self.is_likeness());
        let line = format!("{value}\n");
        options
            .open(self.path(absolute))?
            .write_all(line.as_bytes())
    }

    pub(crate) fn make_directory(&self, absolute: &str) -> io::Result<()> {
        fs::create_dir(self.path(absolute))
    }

    /// Removes a directory of the kernel's, whose files go with it.
    pub(crate) fn remove_directory(&self, absolute: &str) -> io::Result<()> {
        match self.is_likeness() {
            true => fs::remove_dir_all(self.path(absolute)),
            false => fs::remove_dir(self.path(absolute)),
        }
    }

    pub(crate) fn has(&self, absolute: &str) -> bool {
        self.path(absolute).exists()
    }

    /// The names in a directory; none if it cannot be read.
    pub(crate) fn names(&self, absolute: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(absolute));
        let names = entries.into_iter().flatten().flatten();
        names
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect()
    }

    /// In a likeness no kernel makes the files of a new directory, nor removes them with it.
    fn is_likeness(&self) -> bool {
        self.root != Path::new("/")
    }
}

//! For tests: a likeness of the kernel's files.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Files;

/// A directory with files, which goes at the end.
pub struct Tree(pub PathBuf);

impl Tree {
    pub fn new(files: &[(&str, &str)]) -> Tree {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("gleaner-likeness-{}-{number}", std::process::id());
        let tree = Tree(std::env::temp_dir().join(name));
        fs::create_dir_all(tree.0.join("run")).unwrap();
        files.iter().for_each(|(path, text)| tree.write(path, text));
        tree
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn text(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap_or("none".into())
    }

    pub fn files(&self) -> Files {
        Files::below(&self.0)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

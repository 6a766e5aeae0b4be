//! For tests: files below a directory of a test's own, in place of the system's.

use std::path::PathBuf;

/// The directory, which is removed with this.
pub(crate) struct Tree(PathBuf);

impl Tree {
    pub(crate) fn new(name: &str, files: &[(&str, &str)]) -> Tree {
        let name = format!("gleaner-tree-{}-{name}", std::process::id());
        let tree = Tree(std::env::temp_dir().join(name));
        for (path, text) in files {
            tree.write(path, text);
        }
        tree
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn remove(&self, path: &str) {
        std::fs::remove_file(self.0.join(path)).unwrap();
    }

    pub(crate) fn root(&self) -> &[u8] {
        self.0.to_str().unwrap().as_bytes()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

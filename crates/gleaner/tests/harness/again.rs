//! A test that runs again in a child, which is its binary with its name.

/// The name of a test as its binary knows it; `module` is the `module_path!()` of where the test is.
pub fn path(module: &str, test: &str) -> String {
    match module.split_once("::") {
        Some((_, module)) => format!("{module}::{test}"),
        None => test.to_string(),
    }
}

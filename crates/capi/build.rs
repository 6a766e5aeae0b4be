//! Gives the shared library its name for the loader: the major version is that of the interface.
fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libgleaner.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}

//! Gives the shared library its name for the loader, whose major version is that of the interface, and keeps it loaded
//! for good: the C library calls it when threads end.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libgleaner.so.0");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}

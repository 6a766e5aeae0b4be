//! Gives the library the name under which programs look for libgc, and keeps it loaded for good: signal handlers and
//! hooks of the C library lead into it.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libgc.so.1");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,now,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}

//! Gives the shared library its name for the loader, whose number is that of the interface (`GLEANER_INTERFACE` of the
//! header), and keeps it loaded for good: the C library calls it when threads end.

fn main() {
    let header = "include/gleaner.h";
    let text = std::fs::read_to_string(header).expect(header);
    let interface = text
        .lines()
        .find_map(|line| line.strip_prefix("#define GLEANER_INTERFACE "))
        .expect("the header defines GLEANER_INTERFACE");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libgleaner.so.{interface}");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed={header}");
    println!("cargo:rerun-if-changed=build.rs");
}

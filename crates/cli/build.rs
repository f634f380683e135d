//! Options of the linker for the program `wirelens`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A build id is a hash of symbols as well, and names of local symbols depend on the folder in
    // which the program is built. Without one, two builds of a commit are the same once they are
    // stripped: `make reproducible`.
    println!("cargo::rustc-link-arg-bins=-Wl,--build-id=none");
}

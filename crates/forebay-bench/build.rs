//! Tells the bench which profile it is built with, because its figures depend on it.

use std::path::Path;

fn main() {
    // Cargo's own variable knows `release` and `debug` alone; the folder has the profile's name:
    // target/PROFILE/build/forebay-bench-HASH/out.
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    let profile = Path::new(&out).ancestors().nth(3).and_then(Path::file_name);
    let profile = profile.map_or("unknown".into(), |name| name.to_string_lossy());
    println!("cargo::rustc-env=FOREBAY_PROFILE={profile}");
    println!("cargo::rerun-if-changed=build.rs");
}

//! Mounts a folder and does nothing else, to compare with: `floor SRC MNT`, until its standard
//! input ends.

use forebay_fuse::floor::Floor;
use std::io::Read;
use std::path::Path;

/// As many as a mount has.
const THREADS: usize = 8;

fn main() -> std::io::Result<()> {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let [source, mount_point] = &words[..] else {
        eprintln!("usage: floor SRC MNT");
        std::process::exit(2);
    };
    let floor = Floor::start(Path::new(source), Path::new(mount_point), THREADS)?;
    println!("{}", Path::new(mount_point).display());
    let read = std::io::stdin().read_to_end(&mut Vec::new());
    drop(floor);
    read.map(|_bytes| ())
}

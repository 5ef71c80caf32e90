//! Temporary.
fn main() {
    for seed in std::env::args().skip(1) {
        let seed = seed.parse().unwrap();
        std::panic::set_hook(Box::new(|i| eprintln!("{i}")));
        let s = forebay_lab::swarm::shrink(seed);
        println!("{s:?}");
        if let Some((mut r, _)) = s {
            r.is_loud = true;
            println!("{:?}", forebay_lab::swarm::run_seed(seed, &r));
        }
    }
}

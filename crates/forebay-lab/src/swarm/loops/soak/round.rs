//! Rounds of a soak: a scene in both worlds, or a drawn load on real threads.

use super::super::super::scene::Scene;
use super::super::super::verdict::Violation;
use super::comparison::Comparison;
use super::measured::SiteRates;
use super::play::play;
use forebay_rt::{Rt, Virtual, VirtualSettings, block_on};
use std::io;

impl Scene {
    /// Plays the scene in virtual time and in the time of `real`.
    ///
    /// # Errors
    /// If the system has no thread left for a writer.
    pub fn compare(&self, real: &Rt) -> io::Result<Comparison> {
        let machine = Virtual::new(VirtualSettings::default());
        let in_virtual = machine.run(play(machine.rt(), self))?;
        let in_real = block_on(play(real.clone(), self))?;
        Ok(Comparison::new(self.name(), in_virtual, in_real))
    }
}

/// The figures of a drawn load on real threads.
#[derive(Clone, Debug)]
pub struct LoadRun {
    /// The seed that drew it.
    pub seed: u64,
    /// How long it ran.
    pub seconds: f64,
    /// Pages that its stores took.
    pub pages: f64,
    /// The idle time of the store that was idle longest, in percent of the run.
    pub idle_percent: f64,
    /// The finding of an oracle, if there is one.
    pub found: Option<Violation>,
}

/// Runs the load that `seed` draws in the time of `real`.
///
/// # Errors
/// If the system has no thread left for a writer.
pub fn run_load(real: &Rt, seed: u64) -> io::Result<LoadRun> {
    let scene = Scene::drawn(seed);
    let seconds = scene.window.as_secs_f64();
    let measured = block_on(play(real.clone(), &scene))?;
    let found = measured.found.map(|found| found.of(&scene));
    let sites = measured.sites.iter();
    let rates = sites.clone().map(|site: &SiteRates| site.pages_per_s);
    let idle = sites.map(|site| site.idle_percent);
    Ok(LoadRun {
        seed,
        seconds,
        pages: seconds * rates.sum::<f64>(),
        idle_percent: idle.fold(0.0, f64::max),
        found,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_loads_break_nothing_in_virtual_time_either() {
        for seed in 0..4 {
            let machine = Virtual::new(VirtualSettings::default());
            let scene = Scene::drawn(seed);
            let measured = machine.run(play(machine.rt(), &scene)).unwrap();
            assert_eq!(measured.found, None, "{scene:?}");
            assert!(measured.sites.iter().any(|site| site.pages_per_s > 0.0));
        }
    }
}

//! Plays a scene, in the world of the runtime.

use super::super::super::machine::open_cache;
use super::super::super::null_store::NullStore;
use super::super::super::scene::{Crew, Scene, Site, Syncing};
use super::guard::Guard;
use super::measured::{CrewRates, Levels, Measured, SiteRates};
use super::meter::{Done, Meter, Metered};
use super::writer::{Running, Tally, Writer};
use forebay_base::sync::atomic::{AtomicBool, Ordering};
use forebay_base::{Instant, Span};
use forebay_engine::{AttachedStore, Cache};
use forebay_rt::Rt;
use forebay_store::{ObjectId, Rate, RateStore};
use std::io;
use std::sync::Arc;

/// The time between two looks.
const LOOK: Span = Span::from_millis(10);

/// Plays `scene` and measures it. Its oracles are judged from the start.
///
/// # Errors
/// If the system has no thread left for a writer.
pub(super) async fn play(rt: Rt, scene: &Scene) -> io::Result<Measured> {
    let cache = open_cache(&rt, scene.settings.clone(), scene.policy, None);
    let mut stage = Stage {
        rt,
        cache,
        guard: Arc::new(Guard::new(scene)),
        stop: Arc::new(AtomicBool::new(false)),
        stands: Vec::new(),
        running: Vec::new(),
    };
    let started = scene
        .sites
        .iter()
        .try_for_each(|site| stage.start(scene, site));
    let measured = match started {
        Ok(()) => Ok(stage.measure(scene).await),
        Err(error) => Err(error),
    };
    stage.end().await;
    measured
}

/// A cache, its stores and its writers.
struct Stage {
    rt: Rt,
    cache: Cache,
    guard: Arc<Guard>,
    stop: Arc<AtomicBool>,
    stands: Vec<Stand>,
    running: Vec<Running>,
}

/// A store of the stage.
struct Stand {
    medium: Arc<RateStore>,
    meter: Arc<Meter>,
    later_rate: Rate,
    crews: Vec<Vec<Arc<Tally>>>,
}

/// The sums at the start of the window of time that is measured.
struct Before {
    at: Instant,
    done: Vec<Done>,
    /// Pages and syncs of each writer.
    writers: Vec<Vec<Vec<(u64, u64)>>>,
}

impl Stage {
    fn start(&mut self, scene: &Scene, site: &Site) -> io::Result<()> {
        let null_store = NullStore {
            durability: site.durability,
        };
        let medium = Arc::new(RateStore::new(
            self.rt.clone(),
            Arc::new(null_store),
            site.rate,
        ));
        let age = Guard::age_of(scene, site);
        let meter = Meter::new(self.rt.clone(), medium.clone(), site.is_unstable(), age);
        let attached = self.cache.attach(Arc::new(Metered(meter.clone())));
        let store = attached.expect("a new cache takes a store");
        self.stands.push(Stand {
            medium,
            meter: meter.clone(),
            later_rate: site.later_rate,
            crews: Vec::new(),
        });
        let mut objects = (0..).map(ObjectId);
        for crew in &site.crews {
            let mut tallies = Vec::new();
            for object in objects.by_ref().take(crew.tasks as usize) {
                let writer = self.writer(&store, object, crew, &meter);
                tallies.push(writer.tally.clone());
                self.send_off(writer)?;
            }
            let stand = self.stands.last_mut().expect("it was just put there");
            stand.crews.push(tallies);
        }
        Ok(())
    }

    fn writer(
        &self,
        store: &AttachedStore,
        object: ObjectId,
        crew: &Crew,
        meter: &Arc<Meter>,
    ) -> Arc<Writer> {
        let opened = self.cache.open(store, object, 0);
        Arc::new(Writer {
            rt: self.rt.clone(),
            file: opened.expect("a new object opens"),
            object,
            crew: crew.clone(),
            meter: meter.clone(),
            guard: self.guard.clone(),
            stop: self.stop.clone(),
            tally: Arc::default(),
        })
    }

    fn send_off(&mut self, writer: Arc<Writer>) -> io::Result<()> {
        if writer.crew.syncing == Syncing::Concurrently {
            let syncs = writer.clone().sync_repeatedly();
            self.running
                .push(Running::start(&self.rt, "syncer", syncs)?);
        }
        let writes = writer.write();
        self.running
            .push(Running::start(&self.rt, "writer", writes)?);
        Ok(())
    }

    async fn measure(&self, scene: &Scene) -> Measured {
        let mut levels = Levels::default();
        let mut ignored = Levels::default();
        self.look_for(scene.warm_up, &mut ignored).await;
        let before = self.before();
        let third = Span::from_nanos(scene.window.as_nanos() / 3);
        self.look_for(third, &mut levels).await;
        for stand in &self.stands {
            stand.medium.set_rate(stand.later_rate);
        }
        let rest = scene.window.saturating_sub(third);
        self.look_for(rest, &mut levels).await;
        let after = self.before();
        let seconds = after.at.since(before.at).as_secs_f64();
        let sites = scene.sites.iter().enumerate().map(|(number, site)| {
            let (done, was) = (after.done[number], before.done[number]);
            let crews = site.crews.iter().enumerate().map(|(place, crew)| {
                let writers = &after.writers[number][place];
                let earlier = &before.writers[number][place];
                CrewRates::new(crew, writers, earlier, seconds)
            });
            let idle = done.idle.saturating_sub(was.idle).as_secs_f64();
            SiteRates {
                name: site.name,
                pages_per_s: (done.pages - was.pages) as f64 / seconds,
                idle_percent: 100.0 * idle / seconds,
                crews: crews.collect(),
            }
        });
        Measured {
            level_pages: levels.mean(),
            sites: sites.collect(),
            found: self.guard.found(),
        }
    }

    /// Looks at the levels for `span`, or until an oracle finds something.
    async fn look_for(&self, span: Span, levels: &mut Levels) {
        let meters: Vec<Arc<Meter>> = self.stands.iter().map(|of| of.meter.clone()).collect();
        let until = self.rt.now() + span;
        while self.rt.now() < until && self.guard.found().is_none() {
            self.rt.sleep(LOOK.min(until - self.rt.now())).await;
            let seen = self.cache.statistics();
            levels.add(seen.dirty());
            self.guard.look(self.rt.now(), &seen, &meters);
        }
    }

    fn before(&self) -> Before {
        let of_crew = |crew: &Vec<Arc<Tally>>| {
            let tallies = crew.iter();
            tallies.map(|of| (of.pages(), of.syncs())).collect()
        };
        let of_stand = |stand: &Stand| stand.crews.iter().map(of_crew).collect();
        Before {
            at: self.rt.now(),
            done: self.stands.iter().map(|of| of.meter.done()).collect(),
            writers: self.stands.iter().map(of_stand).collect(),
        }
    }

    /// Stops the writers, and waits until each has ended.
    async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for stand in &self.stands {
            stand.medium.set_rate(Rate::UNLIMITED);
        }
        for running in self.running {
            running.join().await;
        }
    }
}

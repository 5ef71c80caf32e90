//! The stage: a scene that is played in virtual time.

use super::super::client::PAGE;
use super::super::machine::{machine_of, open_cache};
use super::super::null_store::NullStore;
use super::super::verdict::Violation;
use super::actors::Actor;
use super::busy::Busy;
use super::observed_store::ObservedStore;
use super::observer::{Call, Events, Observer, SceneIo, Watch};
use super::plan::{Crew, Scene, Site, Syncing, Work};
use super::recomputed::Recomputed;
use super::shares::StoreShares;
use forebay_base::sync::atomic::{AtomicBool, Ordering};
use forebay_engine::lab::LabFile;
use forebay_engine::{AttachedStore, Cache, File};
use forebay_rt::{Rt, Task};
use forebay_store::{FaultStore, ObjectId, Rate, RateStore, Store};
use std::sync::Arc;

/// A cache with its stores and tasks.
pub(in super::super) struct Stage {
    pub(in super::super) rt: Rt,
    pub(in super::super) cache: Cache,
    pub(in super::super) actor: Actor,
    scene: Scene,
    stores: Vec<StageStore>,
    tasks: Vec<Task>,
}

/// A store of a stage, from bottom to top.
struct StageStore {
    faults: Option<Arc<FaultStore>>,
    /// None for a store that answers at once.
    rated: Option<Arc<RateStore>>,
    attached: AttachedStore,
}

/// Plays `scene` with the chances of `seed`, until `observer` finds something or its time is over.
pub(in super::super) fn judge(
    seed: u64,
    scene: &Scene,
    observer: impl Observer,
) -> Option<Violation> {
    judge_play(seed, scene, observer, async |stage| {
        stage.start_crews();
        stage.play().await;
        None
    })
}

/// Plays `scene` as `play` says, which may find something too.
pub(in super::super) fn judge_play(
    seed: u64,
    scene: &Scene,
    observer: impl Observer,
    play: impl AsyncFnOnce(&mut Stage) -> Option<Violation>,
) -> Option<Violation> {
    let machine = machine_of(seed);
    let mut stage = Stage::open(machine.rt(), scene, observer);
    let found = machine.run(async move {
        let found = play(&mut stage).await;
        stage.end().await.or(found)
    });
    found.map(|found| found.of(scene))
}

impl Stage {
    /// A cache with the stores of `scene`, without tasks.
    pub(in super::super) fn open(rt: Rt, scene: &Scene, observer: impl Observer) -> Stage {
        let general = Recomputed::default();
        let observers: Vec<Box<dyn Observer>> = vec![
            Box::new(observer),
            Box::new(general),
            Box::new(Busy::new(scene)),
            Box::new(StoreShares::new(scene)),
        ];
        let watch = Arc::new(Watch::new(rt.clone(), observers));
        let events = Arc::new(Events(watch.clone()));
        let cache = open_cache(&rt, scene.settings.clone(), scene.policy, Some(events));
        watch.begin(&cache);
        let stores = scene.sites.iter().enumerate();
        let stores = stores.map(|(number, site)| attach(&rt, &cache, &watch, number, site));
        Stage {
            stores: stores.collect(),
            actor: Actor {
                rt: rt.clone(),
                watch,
                stop: Arc::new(AtomicBool::new(false)),
                calm: scene.calm,
            },
            rt,
            cache,
            scene: scene.clone(),
            tasks: Vec::new(),
        }
    }

    /// The store of site `number`.
    pub(in super::super) fn store(&self, number: usize) -> &AttachedStore {
        &self.stores[number].attached
    }

    /// Opens `object` of store `number`, which has at least this many pages.
    pub(in super::super) fn open_file(&self, number: usize, object: ObjectId, pages: u64) -> File {
        let opened = self.cache.open(self.store(number), object, pages * PAGE);
        let file = opened.expect("a new object opens");
        file.on_node(object.0 as usize % self.scene.settings.nodes.len())
    }

    /// Starts a task that ends when the stage does.
    pub(in super::super) fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        self.tasks.push(self.rt.spawn(name, task));
    }

    /// Starts the tasks of all crews. The objects of a store have the numbers of its tasks.
    pub(in super::super) fn start_crews(&mut self) {
        for (number, site) in self.scene.sites.clone().into_iter().enumerate() {
            let faults = self.stores[number].faults.clone();
            if let Some((span, faults)) = site.faults_end.zip(faults) {
                let rt = self.rt.clone();
                self.spawn("faults end", async move {
                    rt.sleep(span).await;
                    faults.clear();
                });
            }
            let mut objects = (0..).map(ObjectId);
            for crew in &site.crews {
                for object in objects.by_ref().take(crew.tasks as usize) {
                    self.start(number, object, crew);
                }
            }
        }
    }

    /// Starts a task of `crew`.
    fn start(&mut self, number: usize, object: ObjectId, crew: &Crew) {
        let pages = match crew.work {
            Work::Write => 0,
            Work::Read => crew.file_pages,
        };
        let file = self.open_file(number, object, pages);
        if crew.syncing == Syncing::Concurrently {
            // Nobody waits for it, because a sync of a slow store takes long.
            self.rt
                .spawn("syncer", self.actor.clone().sync(file.clone()));
        }
        let call = Call {
            store: number,
            object,
            pages: 0..0,
        };
        let work = self.actor.clone().work(crew.clone(), file, call);
        self.spawn(crew.name, work);
    }

    /// Lets the observers look until one finds something or the time of the scene is over.
    pub(in super::super) async fn play(&self) {
        let began = self.rt.now();
        let mut has_changed = false;
        loop {
            let passed = self.rt.now().since(began);
            if passed >= self.scene.warm_up + self.scene.window || self.has_found() {
                return;
            }
            if !has_changed && passed >= self.scene.warm_up + self.scene.change_after {
                has_changed = true;
                self.change_rates();
            }
            self.rt.sleep(self.scene.look).await;
            self.look();
        }
    }

    fn change_rates(&self) {
        for (number, site) in self.scene.sites.iter().enumerate() {
            if let Some(rated) = &self.stores[number].rated {
                rated.set_rate(site.later_rate);
                let pages_per_s = site.later_rate.bytes_per_s / PAGE;
                let watch = &self.actor.watch;
                watch.io(SceneIo::RateChanges(number, pages_per_s));
            }
        }
    }

    pub(in super::super) fn look(&self) {
        self.actor.watch.look();
    }

    pub(in super::super) fn has_found(&self) -> bool {
        self.actor.watch.has_found()
    }

    /// Waits until all tasks have ended, and returns what was found.
    pub(in super::super) async fn end(self) -> Option<Violation> {
        self.actor.stop.store(true, Ordering::Relaxed);
        let found = self.actor.watch.end();
        for faults in self.stores.iter().filter_map(|store| store.faults.as_ref()) {
            faults.clear();
            faults.release();
        }
        for task in self.tasks {
            task.join().await;
        }
        found
    }
}

/// Attaches the store of `site`: its faults happen below its rate, so a request that fails takes as
/// long as any other.
fn attach(rt: &Rt, cache: &Cache, watch: &Arc<Watch>, number: usize, site: &Site) -> StageStore {
    let durability = site.durability;
    let mut inner: Arc<dyn Store> = Arc::new(NullStore { durability });
    // A store with faults leaves all durability to commits; others need not.
    let faults = (!site.faults.is_empty()).then(|| {
        let store = Arc::new(FaultStore::new(rt.clone(), inner.clone()));
        let faults = site.faults.iter().cloned();
        faults.for_each(|fault| store.inject(fault));
        inner = store.clone();
        store
    });
    let rated = (site.rate != Rate::UNLIMITED).then(|| {
        let store = Arc::new(RateStore::new(rt.clone(), inner.clone(), site.rate));
        inner = store.clone();
        store
    });
    let observed = ObservedStore {
        watch: watch.clone(),
        number,
        inner,
    };
    let attached = cache.attach_with(Arc::new(observed), site.backing);
    StageStore {
        faults,
        rated,
        attached: attached.expect("a new cache takes the stores of a scene"),
    }
}

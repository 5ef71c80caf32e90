//! One run of one seed: first safety, while everything goes wrong; then liveness, when nothing
//! does.

use super::budgets::change_memory;
use super::client::{Client, ClientName, PAGE, read_only};
use super::crowd::start_crowd;
use super::ledger::Ledger;
use super::part::Part;
use super::plan::{Plan, Reduction};
use super::reopen::{Promised, judge_images};
use super::roles;
use super::scatter::scatter;
use super::settle::{settle, untouched};
use super::side_world::SideWorld;
use super::squeeze::start_squeeze;
use super::table::fill_table;
use super::turns::turn_knobs;
use super::verdict::{Oracle, Violation};
use super::world::World;
use forebay_base::Span;
use forebay_base::sync::{Mutex, lock};
use forebay_engine::lab::LabCache;
use forebay_engine::{Counter, File, Mark};
use forebay_rt::{Virtual, VirtualSettings};
use forebay_store::ObjectId;
use serde::Serialize;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The object that all clients share, and the one that holds swap.
const SHARED: ObjectId = ObjectId(1_000);
const SWAP: ObjectId = ObjectId(2_000);
/// The object whose pages are hoarded.
const HOARD: ObjectId = ObjectId(3_002);
/// Bytes of one client's region; its borders lie inside pages.
const REGION_BYTES: u64 = 40 * PAGE + 1_234;
/// Stores misbehave for at most this long.
const PHASE_ONE: Span = Span::from_secs(900);
/// Everything that began has to end within this time once the stores behave.
const PHASE_TWO: Span = Span::from_secs(20_000);

/// What one run did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// The first promise that was broken.
    pub violation: Option<Violation>,
    /// Simulated time, ms.
    pub simulated_ms: u64,
    /// Calls of the cache.
    pub calls: u64,
    /// Calls whose future was dropped.
    pub abandoned: u64,
    /// Calls that ended with an error.
    pub refused: u64,
    /// Syncs.
    pub syncs: u64,
    /// Whether it ended with a loss of power.
    pub crashed: bool,
    /// Pages that were read from and written to stores.
    pub pages_moved: u64,
    /// What went wrong, by the kind of fault: mostly requests that a fault struck.
    pub faults: BTreeMap<&'static str, u64>,
    /// Error arms of the engine that were taken.
    pub marks: Vec<&'static str>,
    /// A hash of all that happened.
    pub trace: u64,
}

impl Outcome {
    /// Whether it found something.
    pub fn is_broken(&self) -> bool {
        self.violation.is_some()
    }
}

/// All clients that have ended, to be judged.
pub(super) type Ended = Arc<Mutex<Vec<Client>>>;

/// Runs `seed`, without what `reduction` leaves out.
///
/// ```
/// use forebay_lab::swarm::{Reduction, run_seed};
/// let reduction = Reduction { operations: Some(20), ..Reduction::default() };
/// assert_eq!(run_seed(1, &reduction).violation, None);
/// ```
pub fn run_seed(seed: u64, reduction: &Reduction) -> Outcome {
    caught(|| {
        let mut outcome = run(&Plan::draw(seed, reduction));
        outcome.violation = outcome.violation.or_else(|| SideWorld::judge_all_of(seed));
        outcome
    })
}

/// Plays only the side worlds of `seed`, or only `alone`, whether the seed has it or not. In a
/// search for their findings the run itself would take most of the time.
pub fn run_side_worlds(seed: u64, alone: Option<&SideWorld>) -> Outcome {
    caught(|| Outcome {
        violation: match alone {
            Some(world) => world.judge(seed),
            None => SideWorld::judge_all_of(seed),
        },
        ..Outcome::default()
    })
}

/// What `run` finds. A panic is a finding too.
fn caught(run: impl FnOnce() -> Outcome) -> Outcome {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(outcome) => outcome,
        Err(panic) => Outcome {
            violation: Some(Violation {
                oracle: Oracle::Panic,
                what: text_of(&*panic),
            }),
            ..Outcome::default()
        },
    }
}

/// Runs `seed` twice and compares.
pub fn run_twin(seed: u64, reduction: &Reduction) -> Outcome {
    let first = run_seed(seed, reduction);
    if first.violation.is_some() {
        return first;
    }
    // Side worlds leave nothing to compare.
    let second = caught(|| run(&Plan::draw(seed, reduction)));
    if first == second {
        return first;
    }
    let what = format!("two runs differ: {first:?} and {second:?}");
    let violation = Some(Violation {
        oracle: Oracle::Twin,
        what,
    });
    Outcome { violation, ..first }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = forebay_rt::panic_text(panic);
    text.unwrap_or("a panic without a text").replace('\n', "; ")
}

fn run(plan: &Plan) -> Outcome {
    let machine = Virtual::new(VirtualSettings {
        seed: plan.seed,
        ..VirtualSettings::default()
    });
    let world = World::furnish(plan, machine.rt(), Vec::new());
    world.print(|| format!("{plan:?}"));
    let ended: Ended = Arc::new(Mutex::new(Vec::new()));
    let _end = EndOfStores(&world);
    let ledgers = start(&world, &ended);
    if plan.has(Part::Jumps) {
        world.spawn("jumper", roles::jump(world.clone(), machine.clock()));
    }
    machine.run(play(&world, &ended));
    let mut outcome = outcome(&world, machine.now().as_millis());
    outcome.trace = world.trace() ^ machine.trace_hash();
    if world.switch.has_crashed() && outcome.violation.is_none() {
        outcome.violation = judge_images(plan, &world.switch.take_images(), &ledgers);
    }
    lock(&ended).clear();
    outcome
}

/// Requests in flight at the end hold the cache, which holds the stores. They end here.
struct EndOfStores<'a>(&'a Arc<World>);

impl Drop for EndOfStores<'_> {
    fn drop(&mut self) {
        self.0.stores.iter().for_each(|(store, _)| store.end());
    }
}

fn outcome(world: &World, simulated_ms: u64) -> Outcome {
    let deeds = world.deeds();
    let statistics = world.cache.statistics();
    let mut faults = BTreeMap::new();
    for (store, _) in &world.stores {
        for (name, count) in store.tally().struck {
            *faults.entry(name).or_default() += count;
        }
    }
    // Faults that belong to no store.
    let others = [
        ("budget changed", deeds.budgets),
        ("call dropped", deeds.abandoned),
        ("clock jumped", deeds.jumps),
        ("guard held for long", deeds.held),
        ("knobs turned", deeds.turns),
    ];
    faults.extend(others.into_iter().filter(|&(_, count)| count > 0));
    Outcome {
        violation: world.verdict.take(),
        simulated_ms,
        calls: deeds.calls,
        abandoned: deeds.abandoned,
        refused: deeds.refused,
        syncs: deeds.syncs,
        crashed: world.switch.has_crashed(),
        pages_moved: statistics.get(Counter::Pgpgin) + statistics.get(Counter::Pgpgout),
        faults,
        marks: Mark::ALL
            .iter()
            .filter(|mark| world.cache.times_reached(**mark) > 0)
            .map(|mark| mark.name())
            .collect(),
        trace: 0,
    }
}

/// Starts every task of the plan.
fn start(world: &Arc<World>, ended: &Ended) -> Vec<Promised> {
    let plan = &world.plan;
    let mut promised = Vec::new();
    for number in 0..plan.clients {
        let store = number as usize % world.stores.len();
        let file = open(world, store, ObjectId(number + 1));
        let ledger = Ledger::of_object(number + 1, world.switch.crashed());
        let place = (store, ObjectId(number + 1));
        let name = ClientName::of("client", number);
        let client = add(world, file, ledger, Some(place), name);
        promised.push(Promised {
            ledger: client.ledger.clone(),
            store: place.0,
            object: place.1,
        });
        surround(world, ended, &client, number);
        write(world, ended, client, plan.operations);
        if plan.has(Part::Shared) {
            let start = number * REGION_BYTES;
            let region = start..start + REGION_BYTES;
            let ledger = Ledger::of_region(100 + number, region, world.switch.crashed());
            let file = open(world, 0, SHARED);
            let name = ClientName::of("region", number);
            let client = add(world, file, ledger, Some((0, SHARED)), name);
            promised.push(Promised {
                ledger: client.ledger.clone(),
                store: 0,
                object: SHARED,
            });
            write(world, ended, client, plan.operations / 2);
        }
    }
    if let Some((pages, swap_pages)) = plan.anonymous {
        start_anonymous(world, ended, pages, swap_pages);
        world.spawn("brief memory", roles::use_briefly(world.clone()));
    }
    if plan.has(Part::Memory) {
        world.spawn("budgets", change_memory(world.clone()));
    }
    if plan.has(Part::Crowd) {
        start_crowd(world);
    }
    if plan.has(Part::Turns) {
        world.spawn("turns", turn_knobs(world.clone()));
    }
    if plan.has(Part::Table) {
        start_table(world);
    }
    if plan.has(Part::Scatter) {
        world.spawn("scatter", scatter(world.clone()));
    }
    if plan.has(Part::Pinners) && world.chance("hoards", 0).chance(1, 4) {
        let length_bytes = plan.settings.memory_bytes;
        let opened = world.cache.open(&world.stores[0].1, HOARD, length_bytes);
        let file = opened.expect("there is room for the objects of a plan");
        world.spawn("hoard", roles::hoard(world.clone(), file));
    }
    if plan.has(Part::Squeeze) {
        start_squeeze(world);
    }
    if plan.has(Part::Syncers) {
        world.spawn("sync all", roles::sync_all(world.clone()));
    }
    promised
}

fn open(world: &World, store: usize, object: ObjectId) -> File {
    let opened = world.cache.open(&world.stores[store].1, object, 0);
    opened.expect("there is room for the objects of a plan")
}

fn add(
    world: &Arc<World>,
    file: File,
    ledger: Ledger,
    place: Option<(usize, ObjectId)>,
    name: ClientName<'_>,
) -> Client {
    Client::new(world, file, Arc::new(Mutex::new(ledger)), place, name)
}

fn write(world: &Arc<World>, ended: &Ended, client: Client, operations: u64) {
    let ended = ended.clone();
    world.writer_begins();
    let of = world.clone();
    world.spawn("writer", async move {
        let client = roles::write_and_read(client, operations).await;
        of.writer_ends();
        lock(&ended).push(client);
    });
}

/// Starts the tasks that read, sync and pin what `client` writes.
fn surround(world: &Arc<World>, ended: &Ended, client: &Client, number: u64) {
    let plan = &world.plan;
    let keep = |ended: &Ended| {
        let ended = ended.clone();
        move |client: Client| lock(&ended).push(client)
    };
    if plan.has(Part::Readers) {
        let (beside, keep) = (client.beside("reader", number), keep(ended));
        world.spawn(
            "reader",
            async move { keep(roles::read_beside(beside).await) },
        );
    }
    if plan.has(Part::Syncers) {
        let (beside, keep) = (client.beside("syncer", number), keep(ended));
        world.spawn(
            "syncer",
            async move { keep(roles::sync_beside(beside).await) },
        );
    }
    if plan.has(Part::Pinners) {
        let (beside, keep) = (client.beside("pinner", number), keep(ended));
        world.spawn(
            "pinner",
            async move { keep(roles::pin_beside(beside).await) },
        );
    }
}

/// Starts the task that fills the table. The objects of all other tasks stay in the table.
fn start_table(world: &Arc<World>) {
    world.keep_open(untouched(world));
    for store in 0..world.stores.len() {
        let file = read_only(world, store);
        world.keep_open(file.expect("there is room for the objects of a plan"));
    }
    world.spawn("table", fill_table(world.clone()));
}

fn start_anonymous(world: &Arc<World>, ended: &Ended, pages: u64, swap_pages: u64) {
    let (_, attached) = world.stores.last().expect("there is a store");
    let set = world.cache.set_swap(attached, SWAP, swap_pages * PAGE);
    set.expect("a plan's swap is large enough");
    let memory = world.cache.anonymous(pages * PAGE);
    let memory = memory.expect("a plan's anonymous memory fits its swap");
    let ledger = Ledger::of_region(200, 0..pages * PAGE, world.switch.crashed());
    let client = add(world, memory, ledger, None, ClientName::of("anonymous", 0));
    write(world, ended, client, world.plan.operations);
}

async fn play(world: &Arc<World>, ended: &Ended) {
    let done = world.wait_until(PHASE_ONE, World::writers_have_ended).await;
    if !done && world.is_over() {
        return;
    }
    world.stores.iter().for_each(|(store, _)| store.calm());
    if !world.tasks_end(PHASE_TWO).await {
        if !world.is_over() {
            world.broken(
                Oracle::Stuck,
                "tasks go on though no store misbehaves any more",
            );
        }
        return;
    }
    let clients = std::mem::take(&mut *lock(ended));
    settle(world, clients).await;
}

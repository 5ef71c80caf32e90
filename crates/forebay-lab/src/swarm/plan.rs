//! The plan: everything that a seed decides, before anything runs.

use super::fault::{Effect, Fault};
use super::part::{Part, StorePlan};
use super::store::Pace;
use forebay_base::{PAGE_BYTES, Prng, Span};
use forebay_engine::SyncError;
use forebay_engine::kernel::ReclaimWrites;
use forebay_engine::settings::ZoneSettings;
use forebay_engine::settings::{BackingSettings, DirtyKnobs, NodeSettings};
use forebay_engine::{AccessError, Settings};
use forebay_kernels::Policy;
use forebay_kernels::policy::{Choice, Eviction, KswapdBalance, KswapdSleep};
use forebay_store::{Durability, Failure, Geometry, IoKind};
use std::collections::BTreeSet;

/// Most objects that are open at once. A block for each frame of the largest memory that a plan
/// draws would be more than enough.
pub(super) const OBJECTS_LIMIT: u32 = 2_048;

/// Places in the table for all other objects, which are open all the time: those of clients and
/// regions, memory, held pages, and the file that is never touched.
pub(super) const OTHERS: u32 = 16;

/// What is left out of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reduction {
    /// Operations of each client, if fewer than planned.
    pub operations: Option<u64>,
    /// Left out altogether.
    pub without: Vec<Part>,
    /// Prints each call and each request on standard error.
    pub is_loud: bool,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) settings: Settings,
    pub(super) stores: Vec<StorePlan>,
    pub(super) clients: u64,
    pub(super) policy: Policy,
    /// Operations of each client.
    pub(super) operations: u64,
    /// Longest file, bytes.
    pub(super) longest_bytes: u64,
    /// Operations in a hundred whose future is dropped.
    pub(super) abandoned_percent: u64,
    /// Those parts that a run has or has not, without any further setting.
    parts: BTreeSet<Part>,
    /// Pages of anonymous memory and of swap.
    pub(super) anonymous: Option<(u64, u64)>,
    /// The power fails at this event of the stores; 0 for never.
    pub(super) crash_after: u64,
    /// At the end dirty pages have to drain without a sync.
    pub(super) drains_alone: bool,
    /// Each call and each request is printed on standard error.
    pub(super) is_loud: bool,
}

impl Plan {
    /// What `seed` decides, without what `reduction` leaves out.
    pub(super) fn draw(seed: u64, reduction: &Reduction) -> Plan {
        let root = Prng::from_seed(seed).child("swarm");
        let mut chance = root.child("plan");
        let crashes = chance.chance(2, 5);
        let (mut settings, mut policy) = settings(&mut root.child("settings"));
        let store_count = 1 + chance.below(5) / 3;
        let mut of_stores = root.child("stores");
        let mut stores: Vec<StorePlan> = (0..store_count)
            .map(|_| StorePlan::draw(&mut of_stores, crashes))
            .collect();
        draw_policy(&root, &mut policy);
        draw_units(&root, &mut policy, &mut stores);
        let frames = settings.memory_bytes / PAGE_BYTES as u64;
        let anonymous_pages = 16 + chance.below(frames);
        let swap_pages = if chance.chance(1, 3) {
            // Memory has to hold what swap does not, and a quarter of memory can.
            (anonymous_pages - chance.below(anonymous_pages.min(frames / 4))).max(2)
        } else {
            anonymous_pages + 2 + chance.below(frames)
        };
        let odds = [
            (Part::Readers, 2),
            (Part::Syncers, 3),
            (Part::Pinners, 4),
            (Part::Shared, 2),
            (Part::Jumps, 8),
            (Part::Scatter, 6),
        ];
        let parts = odds
            .into_iter()
            .filter(|&(_, one_in)| chance.chance(1, one_in));
        let parts = parts.map(|(part, _)| part).collect();
        let mut plan = Plan {
            seed,
            stores,
            clients: 1 + chance.below(3),
            operations: 20 + chance.below(100),
            longest_bytes: (4 + chance.below(frames)) * PAGE_BYTES as u64,
            abandoned_percent: [0, 0, 5, 30][chance.below(4) as usize],
            parts,
            anonymous: chance.chance(1, 3).then_some((anonymous_pages, swap_pages)),
            crash_after: if crashes { 1 + chance.below(1_500) } else { 0 },
            drains_alone: chance.chance(1, 2) && settings.writeback_interval != Span::ZERO,
            settings: Settings::default(),
            policy,
            is_loud: reduction.is_loud,
        };
        if plan.anonymous.is_some() && plan.swap_is_forgetful() {
            plan.anonymous = None;
        }
        plan.parts.extend(draw_parts(&root));
        let mut of_table = root.child("table");
        if of_table.chance(1, 6) && !plan.has(Part::Scatter) {
            plan.parts.insert(Part::Table);
            settings.objects_limit = objects_limit(&mut of_table);
        }
        if plan.has(Part::Scatter) {
            // Otherwise pauses keep its pages far fewer than the blocks of the index.
            settings.dirty.dirty_ratio_percent = 80;
            settings.dirty.dirty_bytes = 0;
        }
        std::mem::swap(&mut plan.settings, &mut settings);
        plan.squeeze(&mut root.child("squeeze"));
        plan.reduce(reduction);
        plan
    }

    /// Makes some runs use up their memory. Those often have a swap with so few slots that each
    /// slot is wanted again as soon as it is free.
    fn squeeze(&mut self, chance: &mut Prng) {
        // Up to 4.7 kswapd never rests while a zone is below its min mark and frees a page now and
        // then. That takes for ever where work takes no time.
        let rests = self.policy.kswapd_balance == KswapdBalance::Node;
        if !chance.chance(1, 5) || !rests || self.swap_refuses() {
            return;
        }
        self.parts.insert(Part::Squeeze);
        if self.swap_is_forgetful() {
            return;
        }
        let frames = self.settings.memory_bytes / PAGE_BYTES as u64;
        let swap_pages = if chance.chance(1, 2) {
            24 + chance.below(64)
        } else {
            frames * 2 + chance.below(frames * 2)
        };
        self.anonymous = Some((16 + chance.below(16), swap_pages));
        let last = self.stores.last_mut().expect("there is a store");
        last.geometry.stable_pages = chance.chance(1, 4);
    }

    /// Leaves out what `reduction` names.
    pub(super) fn reduce(&mut self, reduction: &Reduction) {
        if let Some(operations) = reduction.operations {
            self.operations = self.operations.min(operations);
        }
        for part in &reduction.without {
            match part {
                Part::Crash => self.crash_after = 0,
                Part::Faults => self
                    .stores
                    .iter_mut()
                    .for_each(|store| store.faults.clear()),
                Part::Abandon => self.abandoned_percent = 0,
                Part::Readers
                | Part::Syncers
                | Part::Pinners
                | Part::Shared
                | Part::Jumps
                | Part::Scatter
                | Part::Memory
                | Part::Squeeze
                | Part::Turns
                | Part::Crowd => {
                    self.parts.remove(part);
                }
                Part::Table => {
                    self.parts.remove(part);
                    self.settings.objects_limit = OBJECTS_LIMIT;
                }
                Part::Anonymous => self.anonymous = None,
                Part::Stores => {
                    self.stores.truncate(1);
                    if self.swap_is_forgetful() {
                        self.anonymous = None;
                    }
                }
                Part::Clients => self.clients = 1,
                Part::Zones => self.settings.nodes = vec![NodeSettings::default()],
                Part::Knobs => {
                    self.settings = Settings {
                        memory_bytes: self.settings.memory_bytes,
                        nodes: self.settings.nodes.clone(),
                        prefault: false,
                        ..Settings::default()
                    }
                }
            }
        }
    }

    /// Whether it has one of the parts that a run may have or not.
    pub(super) fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    /// Whether the store with swap, the last one, may forget writes. Such a store is refused as
    /// swap, because memory is nowhere else.
    fn swap_is_forgetful(&self) -> bool {
        let last = self.stores.last().expect("there is a store");
        last.geometry.durability == Durability::Unstable
    }

    /// Whether the store with swap refuses every write or commit until faults end. Then memory that
    /// is used up stays so, and a caller that needs a frame looks through all of it until it gets
    /// an error.
    fn swap_refuses(&self) -> bool {
        self.swap_fails_by(|fault| {
            fault.kind != Some(IoKind::Read)
                && fault.one_in == 1
                && fault.most == u64::MAX
                && fault.effect.fails()
        })
    }

    fn swap_fails_by(&self, is_it: impl Fn(&Fault) -> bool) -> bool {
        let last = self.stores.last().expect("there is a store");
        last.faults.iter().any(is_it)
    }

    fn effects(&self) -> impl Iterator<Item = Effect> {
        let faults = self.stores.iter().flat_map(|store| &store.faults);
        faults.map(|fault| fault.effect)
    }

    /// Whether requests may fail.
    pub(super) fn may_fail(&self) -> bool {
        self.effects().any(Effect::fails)
    }

    /// Whether bytes may land in wrong places.
    pub(super) fn may_misdirect(&self) -> bool {
        let mut effects = self.effects();
        effects.any(|effect| matches!(effect, Effect::Misdirected(_)))
    }

    /// Whether requests may take longer than callers wait.
    pub(super) fn may_hang(&self) -> bool {
        let is_slow = |store: &StorePlan| match store.pace {
            Pace::Serial {
                bytes_per_s,
                seek_us,
            } => bytes_per_s < 8 << 20 || seek_us > 5_000,
            Pace::Instant | Pace::Parallel { .. } => false,
        };
        self.effects().any(Effect::delays)
            || self.stores.iter().any(is_slow)
            || self.has(Part::Jumps)
    }

    /// Whether a call may end with this error.
    pub(super) fn allows(&self, error: &AccessError) -> bool {
        match error {
            AccessError::Store(_) | AccessError::TooManyFailed { .. } => self.may_fail(),
            AccessError::NotAnswering { .. } => self.may_hang() || self.may_fail(),
            // A reader holds a guard for less time than the engine waits, if the clock does not
            // jump.
            AccessError::Held { .. } => {
                self.may_be_held() || (self.may_jump() && self.has(Part::Readers))
            }
            AccessError::NoFrames { .. } => {
                // With a swap that is too small, memory held the rest. A smaller memory has no room
                // for that.
                let is_short = self.has(Part::Memory) && self.anonymous.is_some();
                self.may_hang() || self.may_fail() || self.may_be_held() || is_short
            }
            _ => false,
        }
    }

    /// Whether guards may be held for a long time.
    pub(super) fn may_be_held(&self) -> bool {
        self.has(Part::Pinners) || self.has(Part::Squeeze)
    }

    /// Whether the clock may jump.
    pub(super) fn may_jump(&self) -> bool {
        self.has(Part::Jumps)
    }

    /// Whether a sync may end with this error. What failed is judged elsewhere.
    pub(super) fn allows_of_sync(&self, error: &SyncError) -> bool {
        match error {
            // No handle reports what a store forgot, because it is written again.
            SyncError::Store(error) => self.may_fail() && error.failure != Failure::Forgotten,
            SyncError::NotAnswering { .. } => {
                self.may_hang() || self.may_fail() || self.may_be_held()
            }
            _ => false,
        }
    }
}

impl StorePlan {
    fn draw(chance: &mut Prng, crashes: bool) -> StorePlan {
        let durability = match chance.below(4) {
            0 => Durability::OnCommit,
            1 => Durability::Unstable,
            _ => Durability::OnFinish,
        };
        let fault_count = [0, 0, 1, 1, 2, 4][chance.below(6) as usize];
        let may_restart = durability == Durability::Unstable;
        let min_ratio_percent = [0, 0, 10][chance.below(3) as usize];
        let geometry = Geometry {
            block_bytes: 512,
            max_io_pages: [1, 8, 64, 256][chance.below(4) as usize],
            write_unit_pages: 1,
            queue_depth: [1, 4, 32][chance.below(3) as usize],
            durability,
            stable_pages: chance.chance(2, 3),
        };
        let pace = match chance.below(6) {
            0 => Pace::Instant,
            1 | 2 => Pace::Parallel {
                most_us: [100, 2_000, 20_000][chance.below(3) as usize],
            },
            _ => Pace::Serial {
                bytes_per_s: [2 << 20, 20 << 20, 200 << 20][chance.below(3) as usize],
                seek_us: [50, 1_000, 9_000][chance.below(3) as usize],
            },
        };
        let can_discard = chance.chance(4, 5);
        let max_ratio_percent = [100, 100, 30][chance.below(3) as usize];
        let strict_limit = chance.chance(1, 5);
        let reclaim_writes = [
            ReclaimWrites::Always,
            ReclaimWrites::KswapdOnly,
            ReclaimWrites::Allocated,
            ReclaimWrites::Never,
        ][chance.below(4) as usize];
        StorePlan {
            geometry,
            pace,
            can_discard,
            reclaim_writes,
            backing: BackingSettings {
                min_ratio_percent,
                max_ratio_percent,
                strict_limit,
                drain: None,
                queue_requests: [2, 128][chance.below(2) as usize],
            },
            faults: (0..fault_count)
                .map(|_| Fault::draw(chance, crashes, may_restart))
                .collect(),
        }
    }
}

/// Parts that a run has by a stream of chance of their own.
fn draw_parts(root: &Prng) -> impl Iterator<Item = Part> {
    let odds = [
        (Part::Memory, "memory", 4),
        (Part::Turns, "turns", 2),
        (Part::Crowd, "crowd", 2),
    ];
    let drawn = odds
        .into_iter()
        .filter(|&(_, name, one_in)| root.child(name).chance(1, one_in));
    drawn.map(|(part, ..)| part)
}

/// Gives half of the runs today's policy, because that is the one with promises.
fn draw_policy(root: &Prng, policy: &mut Policy) {
    if root.child("policy").chance(1, 2) {
        *policy = Policy::default();
    }
}

/// Draws another rule of eviction for a third of the runs, and write units of several pages for a
/// third of their stores. Some units are longer than the longest request of their store.
fn draw_units(root: &Prng, policy: &mut Policy, stores: &mut [StorePlan]) {
    let mut chance = root.child("units");
    if chance.chance(1, 3) {
        let all = Eviction::ALL.iter().copied();
        let others: Vec<Eviction> = all.filter(|&it| it != Eviction::default()).collect();
        let other = root.child("eviction").below(others.len() as u64);
        policy.eviction = others[other as usize];
    }
    for store in stores {
        if chance.chance(1, 3) {
            store.geometry.write_unit_pages = [2, 3, 16, 64][chance.below(4) as usize];
        }
    }
}

fn settings(chance: &mut Prng) -> (Settings, Policy) {
    let nodes = nodes(chance);
    let zones: u64 = nodes.iter().map(|node| node.zones.len() as u64).sum();
    let least_mib = if zones > 2 { 4 } else { 1 + zones };
    let policies = Policy::presets();
    // Half of the runs use the first of them and so the oldest. `draw_policy` gives half of all
    // runs today's policy instead.
    let policy = policies[(chance.below(2) * chance.below(policies.len() as u64)) as usize];
    let pick = |chance: &mut Prng, of: &[u64]| of[chance.below(of.len() as u64) as usize];
    let (dirty, background) =
        [(20, 10), (20, 10), (40, 5), (5, 2), (80, 60)][chance.below(5) as usize];
    let settings = Settings {
        memory_bytes: (least_mib + chance.below(3)) << 20,
        nodes,
        dirty: DirtyKnobs {
            dirty_ratio_percent: dirty,
            background_ratio_percent: background,
            dirty_bytes: if chance.chance(1, 6) {
                8192 << chance.below(8)
            } else {
                0
            },
            background_bytes: 0,
        },
        writeback_interval: Span::from_millis(pick(chance, &[0, 200, 5_000, 5_000])),
        dirty_expire: Span::from_millis(pick(chance, &[50, 1_000, 30_000])),
        readahead_pages: pick(chance, &[0, 4, 32, 32, 100]),
        swappiness: pick(chance, &[0, 60, 60, 200]),
        watermark_scale_factor: pick(chance, &[10, 10, 100, 500]),
        min_free_kib: pick(chance, &[0, 0, 64]),
        tick: Span::from_millis(pick(chance, &[1, 4, 10])),
        answer_timeout: Span::from_secs(pick(chance, &[5, 30])),
        held_timeout: Span::from_millis(pick(chance, &[200, 5_000])),
        objects_limit: OBJECTS_LIMIT,
        prefault: false,
        ..Settings::default()
    };
    (settings, without_endless_runs(policy))
}

/// The policy called `name`. From 4.8 to 4.11 kswapd never gave up: while it cannot reclaim, it
/// runs in circles without a wait. That takes for ever where work takes no time.
fn without_endless_runs(name: &str) -> Policy {
    let policy = Policy::preset(name).expect("a preset that is listed exists");
    let goes_round = [
        KswapdSleep::ForClassZero,
        KswapdSleep::AnyZone,
        KswapdSleep::Clear,
    ];
    if !goes_round.contains(&policy.kswapd_sleep) {
        return policy;
    }
    Policy {
        kswapd_sleep: KswapdSleep::default(),
        ..policy
    }
}

/// A zone with this weight and reserve.
pub(super) fn zone(name: &str, weight: u64, lowmem_reserve_ratio: u64) -> ZoneSettings {
    ZoneSettings {
        name: name.into(),
        weight,
        lowmem_reserve_ratio,
        ..ZoneSettings::default()
    }
}

fn nodes(chance: &mut Prng) -> Vec<NodeSettings> {
    match chance.below(6) {
        0 => vec![NodeSettings {
            zones: vec![zone("DMA32", 1, 32), zone("Normal", 2, 0)],
        }],
        1 => vec![NodeSettings::default(), NodeSettings::default()],
        2 => vec![
            NodeSettings {
                zones: vec![zone("DMA", 1, 256), zone("Normal", 3, 0)],
            },
            NodeSettings {
                zones: vec![zone("Normal", 2, 0)],
            },
        ],
        _ => vec![NodeSettings::default()],
    }
}

/// Objects for which the table has room.
fn objects_limit(chance: &mut Prng) -> u32 {
    OTHERS + 1 + chance.below(10) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_runs_have_todays_policy() {
        let today = Policy::default();
        let has_it = |seed: &u64| {
            let policy = Plan::draw(*seed, &Reduction::default()).policy;
            let eviction = today.eviction;
            Policy { eviction, ..policy } == today
        };
        let count = (0..100).filter(has_it).count();
        assert!((40..=65).contains(&count), "{count}");
    }

    #[test]
    fn runs_draw_an_eviction_and_write_units_independently() {
        let drawn = |seed| {
            let plan = Plan::draw(seed, &Reduction::default());
            let has_unit = |store: &StorePlan| store.geometry.write_unit_pages > 1;
            let is_s3_fifo = plan.policy.eviction == Eviction::S3Fifo;
            (is_s3_fifo, plan.stores.iter().any(has_unit))
        };
        let all: BTreeSet<(bool, bool)> = (0..100).map(drawn).collect();
        assert_eq!(all.len(), 4);
    }
}

//! A machine is switched on, work runs on it, and what is left is recorded.

use crate::outcome::{Outcome, Setting};
use crate::plan::{Ending, Plan, Ready, RunError};
use crate::workload;
use crate::world::{self, Booted, Platform, World, WorldError};
use forebay_rt::block_on;
use forebay_rt::thread::Stopwatch;
use std::path::Path;

/// Switches the machine of `plan` on, which `ready` has looked up, runs `body` on it as its only
/// foreground work, and returns the outcome.
///
/// # Errors
/// [`RunError`].
pub fn launch(
    plan: &Plan,
    ready: &Ready,
    body: impl FnOnce(World) -> workload::Work,
) -> Result<Outcome, RunError> {
    let stopwatch = Stopwatch::start();
    let with_bytes = match &plan.platform {
        Platform::Simulated => false,
        Platform::SimulatedWithBytes => true,
        Platform::Real(folder) => return on_real_files(plan, ready, folder, body),
    };
    let faulty = plan.scenario.as_ref().map(|it| it.faulty.as_slice());
    let faulty = faulty.unwrap_or_default();
    let Booted {
        machine: runtime,
        world,
    } = world::simulate(&ready.machine, ready.policy, plan.seed, with_bytes, faulty)?;
    // A scenario samples itself, as often as its text says.
    let monitored = plan.scenario.is_none();
    runtime.run(foreground(&world, monitored, body(world.clone())))?;
    look(plan, &world);
    let synced = match plan.ending {
        Ending::Synced => runtime.run(final_sync(&world)),
        Ending::AtOnce => {
            world.end();
            None
        }
    };
    let mut outcome = world.outcome();
    outcome.figures.extend(synced);
    outcome.setting = setting(plan);
    outcome.trace_hash = runtime.trace_hash();
    outcome.cost.real_s = stopwatch.elapsed().as_secs_f64();
    Ok(outcome)
}

fn on_real_files(
    plan: &Plan,
    ready: &Ready,
    folder: &Path,
    body: impl FnOnce(World) -> workload::Work,
) -> Result<Outcome, RunError> {
    let (world, scratch) = world::on_folder(&ready.machine, ready.policy, folder)?;
    let monitor = world.rt().spawn("monitor", world.clone().watch());
    let result = block_on(foreground(&world, false, body(world.clone())));
    look(plan, &world);
    block_on(world.end_of_all());
    block_on(monitor.join());
    let mut outcome = world.outcome();
    // The engine first: it has files of the folder open.
    drop(world);
    drop(scratch);
    result?;
    outcome.in_real_time = true;
    outcome.cost.real_s = outcome.elapsed_s;
    outcome.setting = setting(plan);
    Ok(outcome)
}

/// Lets the plan's look see the cache.
fn look(plan: &Plan, world: &World) {
    if let Some(look) = &plan.look {
        look.at(world.cache());
    }
}

/// The workload and, if it is wanted, the monitor, to the end of the workload.
async fn foreground(
    world: &World,
    monitored: bool,
    work: workload::Work,
) -> Result<(), WorldError> {
    if monitored {
        let monitor = world.clone().watch();
        drop(world.rt().spawn("monitor", monitor));
    }
    world.open_window();
    work.await?;
    world.close_window();
    Ok(())
}

/// How long it takes to write what was left dirty; no workload waits for that.
async fn final_sync(world: &World) -> Option<(String, f64)> {
    let began = world.now();
    let synced = world.cache().sync().await;
    world.end();
    let spent_s = (world.now() - began).as_secs_f64();
    // A store that a workload has broken cannot be synced, and has no figure.
    synced.ok().map(|()| ("final_sync".to_owned(), spent_s))
}

/// The part of an outcome that comes from its plan.
fn setting(plan: &Plan) -> Setting {
    Setting {
        workload: plan.workload.clone(),
        machine: plan.machine.name.clone(),
        policy: plan.policy.clone(),
        seed: plan.seed,
        knobs: plan.knobs.clone(),
    }
}

//! How many wake-ups a second the virtual runtime handles: `cargo run --release -p forebay-rt
//! --example wakeups`. The lab's speed rests on the first two lines that this prints.

use forebay_base::Span;
use forebay_rt::thread::Stopwatch;
use forebay_rt::{Rt, Virtual, VirtualSettings, Work, block_on};

const WAKEUPS: u64 = 4_000_000;

fn main() {
    for tasks in [1, 16, 1_000, 10_000] {
        report(&format!("sleep, {tasks} tasks"), tasks, sleeper);
    }
    for tasks in [1, 16, 1_000] {
        report(&format!("charge, {tasks} tasks"), tasks, worker);
    }
    report("yield, 16 tasks", 16, yielder);
    let rt = Rt::real();
    let stopwatch = Stopwatch::start();
    block_on(yielder(rt, WAKEUPS, 0));
    show("yield in block_on, real", WAKEUPS, stopwatch.elapsed());
}

fn report<F>(what: &str, tasks: u64, body: fn(Rt, u64, u64) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let machine = Virtual::new(VirtualSettings {
        processors: 2,
        ..VirtualSettings::default()
    });
    let rounds = WAKEUPS / tasks;
    for number in 0..tasks {
        machine
            .rt()
            .spawn("waker", body(machine.rt(), rounds, number));
    }
    let stopwatch = Stopwatch::start();
    machine.run_for(Span::from_secs(3600));
    assert!(machine.tasks().is_empty(), "an hour is enough for all");
    show(what, tasks * rounds, stopwatch.elapsed());
}

fn show(what: &str, wakeups: u64, elapsed: Span) {
    let millions = wakeups as f64 / elapsed.as_secs_f64() / 1e6;
    println!("{what:<26} {millions:6.2} million wake-ups/s");
}

async fn sleeper(rt: Rt, rounds: u64, number: u64) {
    for round in 0..rounds {
        rt.sleep(Span::from_nanos(100 + (number * 7 + round * 13) % 101))
            .await;
    }
}

async fn worker(rt: Rt, rounds: u64, number: u64) {
    for round in 0..rounds {
        let cost = Span::from_nanos(100 + (number * 7 + round * 13) % 101);
        rt.charge(Work::Spend(cost)).await;
    }
}

async fn yielder(rt: Rt, rounds: u64, _number: u64) {
    for _ in 0..rounds {
        rt.yield_now().await;
    }
}

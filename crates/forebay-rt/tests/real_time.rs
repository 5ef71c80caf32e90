//! What only the real body promises: its threads and its tasks end with its last handle.

use forebay_base::Span;
use forebay_rt::wait::Slot;
use forebay_rt::{Rt, block_on};
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Records that it is dropped.
struct Farewell(Arc<Slot<()>>);

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.set(());
    }
}

#[test]
fn tasks_end_with_the_last_handle() {
    let rt = Rt::real();
    let (started, gone) = (Arc::new(Slot::new()), Arc::new(Slot::new()));
    let (start, farewell) = (Arc::clone(&started), Farewell(Arc::clone(&gone)));
    let task = rt.spawn("daemon", async move {
        let _farewell = farewell;
        start.set(());
        pending::<()>().await;
    });
    block_on(started.take());
    assert!(
        !task.is_finished(),
        "nothing wakes it, and it stays all the same"
    );
    drop(rt);
    block_on(gone.take());
    let join = catch_unwind(|| block_on(task.join()));
    assert!(join.is_err());
}

#[test]
fn a_task_may_drop_the_last_handle() {
    let rt = Rt::real();
    let (go, gone) = (Arc::new(Slot::new()), Arc::new(Slot::new()));
    let (wait, farewell, own) = (Arc::clone(&go), Farewell(Arc::clone(&gone)), rt.clone());
    drop(rt.spawn("last", async move {
        let _farewell = farewell;
        wait.take().await;
        drop(own);
        pending::<()>().await;
    }));
    drop(rt);
    go.set(());
    block_on(gone.take());
}

#[test]
fn a_sleep_works_without_tasks() {
    let rt = Rt::real();
    let sleep = rt.sleep(Span::from_millis(1));
    let deadline = sleep.deadline();
    block_on(sleep);
    assert!(rt.now() >= deadline);
}

const CHILD: &str = "FOREBAY_TEST_PANICS_WHERE_NOBODY_READS";
/// More than there are threads for them: each of them would be lost with one panic.
const PANICS: usize = 200;
/// Joins that take so long do not end.
const PATIENCE: Span = Span::from_secs(30);

/// A service whose standard error is a pipe that nobody reads any more.
#[test]
fn a_panic_is_reported_to_who_joins_where_nobody_reads_what_is_said() {
    if std::env::var_os(CHILD).is_some() {
        join_panics();
        return;
    }
    let program = std::env::current_exe().expect("the test knows its program");
    let mut child = Command::new(program)
        .args([
            "--exact",
            "a_panic_is_reported_to_who_joins_where_nobody_reads_what_is_said",
            "--nocapture",
        ])
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts again");
    drop(child.stderr.take());
    // The end of its input is the sign to begin.
    drop(child.stdin.take());
    let status = child.wait().expect("it ends");
    assert!(status.success(), "{status}");
}

fn join_panics() {
    std::io::read_to_string(std::io::stdin()).expect("the input ends");
    let rt = Rt::real();
    let tasks: Vec<_> = (0..PANICS)
        .map(|_| rt.spawn("panics", async { panic!("on purpose") }))
        .collect();
    for task in tasks {
        let join = AssertUnwindSafe(|| block_on(rt.timeout(PATIENCE, task.join())));
        assert!(catch_unwind(join).is_err(), "the join does not end");
    }
}

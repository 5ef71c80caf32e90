//! What only the real body promises: its threads and its tasks end with its last handle.

use forebay_base::Span;
use forebay_rt::wait::Slot;
use forebay_rt::{Rt, block_on};
use std::future::pending;
use std::sync::Arc;

/// Says that it is dropped.
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
    let join = std::panic::catch_unwind(|| block_on(task.join()));
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

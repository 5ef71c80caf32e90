//! What another thread may do between two steps of a store's answer. Here the future that the first
//! step wakes does it, before the second step.

use crate::support::{Bench, OfSize, page_of, simulate, write_pages};
use forebay_base::Span;
use forebay_base::sync::{Mutex, lock};
use forebay_engine::Settings;
use forebay_rt::Rt;
use forebay_store::{Durability, Failure, Geometry, Io, IoKind, MemoryStore, Store};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// A store that keeps requests of one kind until the test answers them.
struct Desk {
    memory: Arc<MemoryStore>,
    geometry: Geometry,
    keeps: Mutex<Option<IoKind>>,
    kept: Mutex<Vec<Io>>,
}

impl Desk {
    fn keep(&self, kind: IoKind) {
        *lock(&self.keeps) = Some(kind);
    }

    /// Keeps nothing more, and passes on what was kept.
    fn pass_on(&self) {
        *lock(&self.keeps) = None;
        let kept: Vec<Io> = lock(&self.kept).drain(..).collect();
        for io in kept {
            self.memory.submit(io);
        }
    }

    fn fail_kept(&self) {
        let kept: Vec<Io> = lock(&self.kept).drain(..).collect();
        assert!(!kept.is_empty(), "somebody has asked");
        for io in kept {
            io.fail(Failure::Device(5));
        }
    }
}

impl Store for Desk {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&self, io: Io) {
        if *lock(&self.keeps) == Some(io.request().kind) {
            lock(&self.kept).push(io);
        } else {
            self.memory.submit(io);
        }
    }
}

fn bench(rt: Rt, geometry: Geometry) -> (Bench, Arc<Desk>) {
    let memory = Arc::new(MemoryStore::with(geometry));
    let desk = Arc::new(Desk {
        memory: memory.clone(),
        geometry,
        keeps: Mutex::new(None),
        kept: Mutex::new(Vec::new()),
    });
    let settings = Settings::of_mib(8);
    (Bench::around(rt, settings, memory, desk.clone()), desk)
}

/// A future that is polled at once when it is woken, inside the step that woke it.
struct Inline<T> {
    state: Mutex<State<T>>,
}

enum State<T> {
    Polled(Pin<Box<dyn Future<Output = T> + Send>>),
    /// It is being polled, or its output was taken.
    Away,
    Ended(T),
}

impl<T: Send + 'static> Inline<T> {
    fn new(future: impl Future<Output = T> + Send + 'static) -> Arc<Inline<T>> {
        Arc::new(Inline {
            state: Mutex::new(State::Polled(Box::pin(future))),
        })
    }

    fn poll(self: &Arc<Self>) {
        let found = std::mem::replace(&mut *lock(&self.state), State::Away);
        let State::Polled(mut future) = found else {
            *lock(&self.state) = found;
            return;
        };
        let waker = Waker::from(self.clone());
        let after = match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => State::Ended(output),
            Poll::Pending => State::Polled(future),
        };
        *lock(&self.state) = after;
    }

    fn output(&self) -> Option<T> {
        let found = std::mem::replace(&mut *lock(&self.state), State::Away);
        match found {
            State::Ended(output) => Some(output),
            other => {
                *lock(&self.state) = other;
                None
            }
        }
    }
}

impl<T: Send + 'static> Wake for Inline<T> {
    fn wake(self: Arc<Self>) {
        self.poll();
    }
}

/// When a commit fails, its pages are dirty again before the failure is reported: a sync that
/// begins in between finds the pages or reports the failure.
#[test]
fn a_sync_that_begins_while_a_failed_commit_is_settled_does_not_pass_over_its_pages() {
    simulate(1, |rt| async move {
        let geometry = Geometry {
            durability: Durability::Unstable,
            ..MemoryStore::new().geometry()
        };
        let (bench, desk) = bench(rt.clone(), geometry);
        // One handle for both: a failure is reported to it once.
        let file = Arc::new(bench.open(0));
        write_pages(&file, 0..2).await.expect("memory takes it");
        desk.keep(IoKind::Commit);
        let first = Inline::new({
            let file = file.clone();
            async move { file.sync().await }
        });
        first.poll();
        rt.sleep(Span::from_secs(1)).await;
        let second = Inline::new({
            let file = file.clone();
            async move { file.sync().await }
        });
        // Waits for page 0, which is handled first, and starts the other sync at each change.
        let guard = file.page(0).await.expect("it is there");
        let is_failed = Arc::new(AtomicBool::new(false));
        let between = Inline::new({
            let (file, second, is_failed) = (file.clone(), second.clone(), is_failed.clone());
            async move {
                let page = page_of(7);
                let mut write = pin!(file.write_at(&page, 0));
                poll_fn(|context| {
                    if is_failed.swap(false, Ordering::Relaxed) {
                        second.poll();
                    }
                    write.as_mut().poll(context)
                })
                .await
            }
        });
        between.poll();
        is_failed.store(true, Ordering::Relaxed);
        desk.fail_kept();
        rt.sleep(Span::from_millis(1)).await;
        assert!(between.output().is_none(), "the guard is there");
        drop(guard);
        desk.pass_on();
        rt.sleep(Span::from_secs(60)).await;
        assert!(first.output().expect("it was answered").is_err());
        assert!(second.output().expect("it was answered").is_err());
        bench.assert_consistent();
    });
}

//! What `std::thread` and `std::time` are to the crate elsewhere: threads that the explorer runs,
//! and a clock that goes on when all of them wait.
//!
//! All threads of the explorer are coroutines of one thread of the system and change only inside
//! its own locks, atomics and parks. So what is kept here in a cell changes in one step.
//!
//! invariant J1: `up` is the number of threads that were started, have not ended and do not wait in
//! `lie_down`.

use super::Clock;
use forebay_base::{Prng, Span};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

thread_local! {
    static MACHINE: RefCell<Machine> = const { RefCell::new(Machine::new()) };
}

/// Threads that wait, and the time.
struct Machine {
    order: u64,
    now_ns: u64,
    up: usize,
    seats: BTreeMap<usize, Seat>,
    jumps: Option<(Prng, u64)>,
}

/// A thread as those see it that wake it.
#[derive(Default)]
struct Seat {
    /// It waits, with its handle.
    lies: Option<shuttle::thread::Thread>,
    /// It was woken before it waited.
    has_token: bool,
    deadline_ns: Option<u64>,
}

impl Machine {
    const fn new() -> Machine {
        Machine {
            order: 0,
            now_ns: 0,
            up: 1,
            seats: BTreeMap::new(),
            jumps: None,
        }
    }

    /// Lets a thread wait, unless it has a token. Returns threads to be woken in its place.
    fn lie_down(&mut self, thread: shuttle::thread::Thread, deadline_ns: Option<u64>) -> Woken {
        let seat = self.seats.entry(thread.id().into()).or_default();
        if std::mem::take(&mut seat.has_token) {
            return Woken::new();
        }
        seat.lies = Some(thread);
        seat.deadline_ns = deadline_ns;
        self.goes()
    }

    /// A thread waits or has ended.
    fn goes(&mut self) -> Woken {
        self.up -= 1;
        if self.up > 0 {
            return Woken::new();
        }
        match self.next_deadline_ns() {
            Some(deadline_ns) => self.pass_to(deadline_ns),
            // The explorer finds that nothing is left to run, and reports who waits.
            None => Woken::new(),
        }
    }

    fn next_deadline_ns(&self) -> Option<u64> {
        let waiting = self.seats.values().filter(|seat| seat.lies.is_some());
        waiting.filter_map(|seat| seat.deadline_ns).min()
    }

    /// Moves the clock, and takes those up whose time has come.
    fn pass_to(&mut self, now_ns: u64) -> Woken {
        self.now_ns = self.now_ns.max(now_ns);
        let now_ns = self.now_ns;
        let is_due = |seat: &&mut Seat| seat.deadline_ns.is_some_and(|at_ns| at_ns <= now_ns);
        let due = self.seats.values_mut().filter(is_due);
        let woken: Woken = due.filter_map(|seat| seat.lies.take()).collect();
        self.up += woken.len();
        woken
    }

    /// Takes a thread up, or leaves it a token.
    fn take_up(&mut self, thread: usize) -> bool {
        let seat = self.seats.entry(thread).or_default();
        let lay = seat.lies.take().is_some();
        seat.has_token |= !lay;
        self.up += usize::from(lay);
        lay
    }

    /// Moves the clock by chance, if it jumps.
    fn jump(&mut self) -> Woken {
        let next_ns = self.next_deadline_ns();
        let (Some((chance, span_ns)), Some(next_ns)) = (&mut self.jumps, next_ns) else {
            return Woken::new();
        };
        let is_near = next_ns.saturating_sub(self.now_ns) <= *span_ns;
        if !is_near || !chance.chance(1, 8) {
            return Woken::new();
        }
        self.pass_to(next_ns)
    }
}

type Woken = Vec<shuttle::thread::Thread>;

fn wake(woken: Woken) {
    for thread in woken {
        thread.unpark();
    }
}

/// A new order begins, with the thread that calls the body of the test.
pub(super) fn begin(order: u64, clock: Clock, chance: Prng) {
    let jumps = match clock {
        Clock::Waits => None,
        Clock::Jumps(span) => Some((chance, span.as_nanos())),
    };
    let machine = Machine {
        order,
        jumps,
        ..Machine::new()
    };
    MACHINE.set(machine);
}

/// The number of the order that runs.
pub(super) fn order() -> u64 {
    MACHINE.with_borrow(|machine| machine.order)
}

/// The calling thread ends.
pub(super) fn leave() {
    wake(MACHINE.with_borrow_mut(Machine::goes));
}

fn now_ns() -> u64 {
    wake(MACHINE.with_borrow_mut(Machine::jump));
    MACHINE.with_borrow(|machine| machine.now_ns)
}

fn lie_down(deadline_ns: Option<u64>) {
    let this = shuttle::thread::current();
    let id = this.id().into();
    wake(MACHINE.with_borrow_mut(|machine| machine.lie_down(this, deadline_ns)));
    let lies = |machine: &Machine| machine.seats.get(&id).is_some_and(|of| of.lies.is_some());
    while MACHINE.with_borrow(lies) {
        shuttle::thread::park();
    }
}

/// As `std::thread::park`.
pub(crate) fn park() {
    lie_down(None);
}

/// As `std::thread::park_timeout`.
pub(crate) fn park_timeout(span: Duration) {
    let span_ns = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    lie_down(now_ns().checked_add(span_ns));
}

/// As `std::thread::sleep`.
pub(crate) fn sleep(span: Duration) {
    let started = Instant::now();
    while let Some(left) = span.checked_sub(started.elapsed()) {
        if left.is_zero() {
            return;
        }
        park_timeout(left);
    }
}

/// A handle to a thread, as in `std::thread`.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    inner: shuttle::thread::Thread,
}

impl Thread {
    pub(crate) fn unpark(&self) {
        let id = self.inner.id().into();
        if MACHINE.with_borrow_mut(|machine| machine.take_up(id)) {
            self.inner.unpark();
        }
    }
}

/// The thread that calls.
pub(crate) fn current() -> Thread {
    Thread {
        inner: shuttle::thread::current(),
    }
}

/// As `std::thread::Builder`.
pub(crate) struct Builder {
    inner: shuttle::thread::Builder,
}

impl Builder {
    pub(crate) fn new() -> Builder {
        Builder {
            inner: shuttle::thread::Builder::new(),
        }
    }

    pub(crate) fn name(self, name: String) -> Builder {
        Builder {
            inner: self.inner.name(name),
        }
    }

    /// The explorer's threads all have the same stack.
    pub(crate) fn stack_size(self, _bytes: usize) -> Builder {
        self
    }

    pub(crate) fn spawn(self, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
        MACHINE.with_borrow_mut(|machine| machine.up += 1);
        let end = Arc::new(Mutex::new(End::default()));
        let own = Arc::clone(&end);
        let inner = self.inner.spawn(move || {
            body();
            let joiner = with_end(&own, |end| {
                end.is_over = true;
                end.joiner.take()
            });
            if let Some(joiner) = joiner {
                joiner.unpark();
            }
            leave();
        })?;
        let thread = Thread {
            inner: inner.thread().clone(),
        };
        Ok(JoinHandle { inner, thread, end })
    }
}

#[derive(Debug, Default)]
struct End {
    is_over: bool,
    joiner: Option<Thread>,
}

fn with_end<T>(end: &Mutex<End>, act: impl FnOnce(&mut End) -> T) -> T {
    act(&mut end.lock().unwrap_or_else(PoisonError::into_inner))
}

/// As `std::thread::JoinHandle`.
#[derive(Debug)]
pub(crate) struct JoinHandle<T> {
    inner: shuttle::thread::JoinHandle<T>,
    thread: Thread,
    end: Arc<Mutex<End>>,
}

impl<T> JoinHandle<T> {
    pub(crate) fn join(self) -> std::thread::Result<T> {
        while !self.is_finished() {
            with_end(&self.end, |end| end.joiner = Some(current()));
            park();
        }
        self.inner.join()
    }

    pub(crate) fn is_finished(&self) -> bool {
        with_end(&self.end, |end| end.is_over)
    }

    pub(crate) fn thread(&self) -> &Thread {
        &self.thread
    }
}

/// As `std::time::Instant`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instant {
    at_ns: u64,
}

impl Instant {
    pub(crate) fn now() -> Instant {
        Instant { at_ns: now_ns() }
    }

    pub(crate) fn elapsed(self) -> Duration {
        let elapsed = Span::from_nanos(now_ns() - self.at_ns);
        Duration::from_nanos(elapsed.as_nanos())
    }
}

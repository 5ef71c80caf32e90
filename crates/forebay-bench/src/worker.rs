//! Contenders as processes: the bench sends orders to their standard input, one JSON object on each
//! line, and reads one line of answer for each. As a separate process each contender has its own
//! memory and the kernel's contender has its cgroup, and the bench can end one that never answers.

use crate::contender::{Contender, Preparation, Sample, Step, Who};
use crate::contenders::{Floor, Forebay, Kernel};
use crate::error::BenchError;
use crate::layout::Layout;
use crate::memory_group::MemoryGroup;
use forebay_base::Span;
use forebay_host::Interrupts;
use forebay_host::{Process, end_with_parent};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Stdio};

/// The longest time that a contender may take beyond the time of its order. A minute is enough to
/// write a budget of dirty pages to a disk of a few MB/s.
const PATIENCE: Span = Span::from_secs(60);

/// How much longer than planned a load may take before its slow disk is freed.
const GRACE: Span = Span::from_millis(250);

/// The first argument of a contender's process. The process runs this program again.
pub const CONTENDER_COMMAND: &str = "bench-contender";

/// The first line to a contender: which one it is.
#[derive(Debug, Serialize, Deserialize)]
struct Introduction {
    who: Who,
    folder: PathBuf,
    memory_bytes: u64,
    seed: u64,
}

#[derive(Debug, Serialize, Deserialize)]
enum Order {
    Prepare(Preparation),
    Run(Step),
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Ready(Vec<String>),
    Measured(Vec<Sample>),
    Failed(String),
}

/// A contender's process, as the bench sees it. Dropping it ends the process.
pub(crate) struct Worker {
    who: Who,
    process: Process,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    interrupts: Interrupts,
}

/// The setting for every contender of a bench.
pub(crate) struct Setting<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) folder: &'a Path,
    pub(crate) seed: u64,
    pub(crate) interrupts: &'a Interrupts,
}

impl Worker {
    /// Starts `who`, inside `group` if there is one.
    pub(crate) fn start(
        who: Who,
        setting: &Setting<'_>,
        group: Option<&MemoryGroup>,
    ) -> Result<Worker, BenchError> {
        let mut command = Process::ourselves()?;
        command.arg(CONTENDER_COMMAND);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::start(who.name(), &mut command, setting.interrupts)?;
        let orders = process.take_input().expect("it was asked to be piped");
        let answers = process.take_output().expect("it was asked to be piped");
        let mut worker = Worker {
            who,
            process,
            orders,
            answers: BufReader::new(answers),
            interrupts: setting.interrupts.clone(),
        };
        if let Some(group) = group {
            group
                .add(worker.process.id())
                .map_err(BenchError::system("put a process into its cgroup"))?;
        }
        worker.send(&Introduction {
            who,
            folder: setting.folder.to_owned(),
            memory_bytes: setting.layout.memory_bytes(),
            seed: setting.seed,
        })?;
        Ok(worker)
    }

    /// Brings the contender into the state of a phase; returns its remarks.
    pub(crate) fn prepare(&mut self, preparation: &Preparation) -> Result<Vec<String>, BenchError> {
        self.send(&Order::Prepare(preparation.clone()))?;
        match self.hear(PATIENCE)? {
            Answer::Ready(remarks) => Ok(remarks),
            other => Err(self.unexpected(other)),
        }
    }

    /// Makes the contender run one load. `overdue` is called if it takes longer than planned: a
    /// contender that a slow disk holds up cannot free itself.
    pub(crate) fn run(
        &mut self,
        step: &Step,
        overdue: impl FnOnce() -> Result<(), BenchError>,
    ) -> Result<Vec<Sample>, BenchError> {
        self.send(&Order::Run(*step))?;
        if !self.answers_within(Span::from_millis(step.settle_ms + step.span_ms) + GRACE)? {
            overdue()?;
        }
        match self.hear(PATIENCE)? {
            Answer::Measured(samples) => Ok(samples),
            other => Err(self.unexpected(other)),
        }
    }

    fn send(&mut self, words: &impl Serialize) -> Result<(), BenchError> {
        let sent = send(&mut self.orders, words);
        sent.map_err(|refused| self.lost(&refused.to_string()))
    }

    fn hear(&mut self, within: Span) -> Result<Answer, BenchError> {
        if !self.answers_within(within)? {
            return Err(self.lost(&format!("no answer within {within}")));
        }
        match receive(&mut self.answers) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(self.ended()),
            Err(refused) => Err(self.lost(&refused.to_string())),
        }
    }

    fn answers_within(&self, within: Span) -> Result<bool, BenchError> {
        // Each order has one line of answer, so no byte of this one can be buffered already.
        becomes_readable(self.answers.get_ref(), within)
            .map_err(BenchError::system("wait for an answer"))
    }

    fn unexpected(&self, answer: Answer) -> BenchError {
        match answer {
            Answer::Failed(reason) => self.lost(&reason),
            other => self.lost(&format!("it answered another order: {other:?}")),
        }
    }

    /// The error of a contender that cannot go on.
    fn lost(&self, reason: &str) -> BenchError {
        self.unless_interrupted(BenchError::Contender {
            contender: self.who.name(),
            reason: reason.to_owned(),
        })
    }

    fn ended(&self) -> BenchError {
        self.unless_interrupted(BenchError::Ended {
            contender: self.who.name(),
        })
    }

    /// If a signal has come, it is the reason why a contender cannot go on.
    fn unless_interrupted(&self, error: BenchError) -> BenchError {
        self.interrupts.check().err().map_or(error, Into::into)
    }

    /// Waits for the end of a process that is known to end. Returns whether it was killed, which
    /// the kernel does if it finds no memory in the cgroup.
    pub(crate) fn was_killed(&mut self) -> Result<bool, BenchError> {
        let status = self.process.wait()?;
        Ok(status.signal() == Some(Signal::KILL.as_raw()))
    }
}

/// Runs one contender of a bench that another process controls, until standard input ends. A
/// program that runs a bench must call this for [`CONTENDER_COMMAND`].
///
/// # Errors
/// If orders cannot be read or answers cannot be sent. A failure of an order is part of its answer.
///
/// # Examples
/// ```no_run
/// use forebay_bench::{CONTENDER_COMMAND, serve_contender};
///
/// // At the start of a program that calls `forebay_bench::run`.
/// if std::env::args().nth(1).as_deref() == Some(CONTENDER_COMMAND) {
///     serve_contender()?;
/// }
/// # Ok::<(), forebay_bench::BenchError>(())
/// ```
pub fn serve_contender() -> Result<(), BenchError> {
    let failed = || BenchError::system("read the orders of the bench");
    end_with_parent()?;
    let mut orders = io::stdin().lock();
    let mut answers = io::stdout().lock();
    let Some(introduction) = receive::<Introduction>(&mut orders).map_err(failed())? else {
        return Ok(());
    };
    let mut contender = introduction.contender();
    while let Some(order) = receive(&mut orders).map_err(failed())? {
        let answer = obey(contender.as_mut(), &order);
        send(&mut answers, &answer).map_err(failed())?;
    }
    Ok(())
}

impl Introduction {
    fn contender(self) -> Box<dyn Contender> {
        let layout = Layout::new(&self.folder, self.memory_bytes);
        match self.who {
            Who::Forebay => Box::new(Forebay::new(layout, self.seed)),
            Who::Kernel => Box::new(Kernel::new(layout, self.seed)),
            Who::Floor => Box::new(Floor::new(layout, self.seed)),
            other => unreachable!(
                "{} has no process in the bench of the library",
                other.name()
            ),
        }
    }
}

fn obey(contender: &mut dyn Contender, order: &Order) -> Answer {
    let outcome = match order {
        Order::Prepare(preparation) => contender.prepare(preparation).map(Answer::Ready),
        Order::Run(step) => contender.run(step).map(Answer::Measured),
    };
    outcome.unwrap_or_else(|error| Answer::Failed(error.to_string()))
}

fn send(to: &mut impl Write, words: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(words)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// The words of the next line; `None` at the end.
fn receive<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line)?))
}

/// Whether there is something to read, or the end, before `within` has passed.
fn becomes_readable(pipe: &ChildStdout, within: Span) -> io::Result<bool> {
    let timeout = Timespec {
        tv_sec: (within.as_nanos() / 1_000_000_000) as i64,
        tv_nsec: (within.as_nanos() % 1_000_000_000) as i64,
    };
    let mut watched = [PollFd::new(pipe, PollFlags::IN)];
    loop {
        match poll(&mut watched, Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            // A signal that concerns only the listener's thread.
            Err(rustix::io::Errno::INTR) => {}
            Err(refused) => return Err(refused.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::Phase;
    use forebay_host::HostError;

    #[test]
    fn what_is_sent_is_received_line_by_line() {
        let mut pipe = Vec::new();
        let preparation = Preparation {
            phase: Phase::Mix,
            set_files: 2,
            growth_bytes: 8 << 20,
            slow_device: None,
        };
        send(&mut pipe, &Order::Prepare(preparation)).unwrap();
        let sample = Sample::plain("rate", "MB/s", 1.5);
        send(&mut pipe, &Answer::Measured(vec![sample.clone()])).unwrap();
        let mut lines = pipe.as_slice();
        let order: Order = receive(&mut lines).unwrap().unwrap();
        assert!(matches!(order, Order::Prepare(prepared) if prepared.set_files == 2));
        let answer: Answer = receive(&mut lines).unwrap().unwrap();
        assert!(matches!(answer, Answer::Measured(samples) if samples == [sample]));
        assert!(receive::<Answer>(&mut lines).unwrap().is_none());
    }

    #[test]
    fn a_failing_contender_says_why() {
        struct Failing;
        impl Contender for Failing {
            fn prepare(&mut self, _: &Preparation) -> Result<Vec<String>, BenchError> {
                Err(BenchError::Host(HostError::Interrupted { signal: 2 }))
            }
            fn run(&mut self, _: &Step) -> Result<Vec<Sample>, BenchError> {
                Ok(Vec::new())
            }
        }
        let preparation = Preparation {
            phase: Phase::Hit,
            set_files: 1,
            growth_bytes: 8 << 20,
            slow_device: None,
        };
        let answer = obey(&mut Failing, &Order::Prepare(preparation));
        assert!(matches!(answer, Answer::Failed(reason) if reason.contains("interrupted")));
    }
}

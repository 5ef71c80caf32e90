//! A contender seen from the program that starts it.

use super::CONTENDER_COMMAND;
use super::board::{Board, TICK_MS};
use super::tick::{Assignment, Ended, Kind, Summary, Tick};
use crate::error::DemoError;
use forebay_base::Span;
use forebay_host::{Interrupts, Process};
use forebay_rt::thread::pause_current;
use std::io::Read;
use std::process::Stdio;

/// A contender in its process. Dropping it ends the process.
pub(super) struct Contender {
    pub(super) kind: Kind,
    process: Process,
    board: Board,
    interrupts: Interrupts,
    pub(super) ticks: Vec<Tick>,
}

impl Contender {
    pub(super) fn start(
        assignment: &Assignment,
        interrupts: &Interrupts,
    ) -> Result<Contender, DemoError> {
        let failed = || DemoError::system("start a contender's process");
        let text = serde_json::to_string(assignment).map_err(|e| failed()(e.into()))?;
        let board = Board::new(assignment.end().as_millis() / TICK_MS)?;
        let mut command = Process::ourselves()?;
        command.args([CONTENDER_COMMAND, &text]);
        command.stdin(board.to_give()?).stdout(Stdio::piped());
        let kind = assignment.kind;
        Ok(Contender {
            kind,
            process: Process::start(kind.name(), &mut command, interrupts)?,
            board,
            interrupts: interrupts.clone(),
            ticks: Vec::new(),
        })
    }

    /// Waits until its cache is warm.
    pub(super) fn expect_ready(&mut self) -> Result<(), DemoError> {
        while !self.board.is_ready().map_err(unreadable())? {
            self.expect_running()?;
            pause_current(Span::from_millis(2));
        }
        Ok(())
    }

    /// Lets the load begin.
    pub(super) fn begin(&self) -> Result<(), DemoError> {
        let written = self.board.start();
        written.map_err(DemoError::system("write shared memory"))
    }

    /// Adds what it did in tick `number`.
    pub(super) fn see(&mut self, number: u64) -> Result<(), DemoError> {
        let shown = self.board.read(number).map_err(unreadable())?;
        self.ticks.push(Tick::new(number, shown, TICK_MS));
        Ok(())
    }

    /// A process that ends before its time reports the reason, unless it was killed.
    pub(super) fn expect_running(&mut self) -> Result<(), DemoError> {
        self.interrupts.check()?;
        if self.process.has_ended()? {
            self.summary()?;
            return Err(self.ended());
        }
        Ok(())
    }

    /// The contender's summary, once it has ended.
    pub(super) fn summary(&mut self) -> Result<Summary, DemoError> {
        let mut said = String::new();
        if let Some(mut answers) = self.process.take_output() {
            let read = answers.read_to_string(&mut said);
            read.map_err(DemoError::system("read what a contender reports"))?;
        }
        self.interrupts.check()?;
        let contender = self.kind.name();
        match serde_json::from_str(&said) {
            Ok(Ended::Well(summary)) => Ok(summary),
            Ok(Ended::Failed(reason)) => Err(DemoError::Contender { contender, reason }),
            Err(_) => Err(self.ended()),
        }
    }

    fn ended(&self) -> DemoError {
        DemoError::Ended {
            contender: self.kind.name(),
        }
    }
}

fn unreadable() -> impl FnOnce(std::io::Error) -> DemoError {
    DemoError::system("read shared memory")
}

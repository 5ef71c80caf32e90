//! A solid-state drive: a latency that requests pay side by side, behind a pipe that they pass one
//! after the other (spec/workloads.md 5.4, 5.5).
//!
//! A request holds the pipe for the longer of its bytes at the drive's rate and its turn at the
//! drive's requests a second, and ends a constant time after that, chosen so that a single small
//! request takes the drive's latency.

use super::drive::{Command, Drive, span_of};
use super::settings::SolidSettings;
use super::transfer::TransferKind;
use forebay_base::{Instant, Span};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A solid-state drive.
#[derive(Debug)]
pub(crate) struct Solid {
    settings: SolidSettings,
    /// When the pipe is free.
    free_at: Instant,
    under_way: BinaryHeap<Reverse<(Instant, u32)>>,
}

impl Solid {
    pub(crate) fn new(settings: SolidSettings) -> Solid {
        Solid {
            settings,
            free_at: Instant::ZERO,
            under_way: BinaryHeap::new(),
        }
    }

    /// How long the command holds the pipe, and how long it takes after that.
    fn spans(&self, command: &Command) -> (Span, Span) {
        let settings = &self.settings;
        let (rate, requests, latency_us) = match command.kind {
            TransferKind::Read => (
                settings.read_bytes_per_s,
                settings.reads_per_s,
                settings.read_latency_us,
            ),
            TransferKind::Write => (
                settings.write_bytes_per_s,
                settings.writes_per_s,
                settings.write_latency_us,
            ),
            TransferKind::Flush => return (Span::from_micros(settings.flush_us), Span::ZERO),
        };
        let turn = span_of(1, requests);
        let pipe = turn.max(span_of(command.length_bytes, rate));
        (pipe, Span::from_micros(latency_us).saturating_sub(turn))
    }
}

impl Drive for Solid {
    fn depth(&self) -> usize {
        self.settings.depth as usize
    }

    fn accept(&mut self, command: Command, now: Instant) {
        let (pipe, besides) = self.spans(&command);
        self.free_at = self.free_at.max(now) + pipe;
        self.under_way
            .push(Reverse((self.free_at + besides, command.tag)));
    }

    fn next_event(&self) -> Instant {
        let next = self.under_way.peek();
        next.map_or(Instant::NEVER, |Reverse((until, _))| *until)
    }

    fn advance(&mut self, now: Instant, ended: &mut Vec<u32>) {
        while let Some(&Reverse((until, tag))) = self.under_way.peek()
            && until <= now
        {
            self.under_way.pop();
            ended.push(tag);
        }
    }
}

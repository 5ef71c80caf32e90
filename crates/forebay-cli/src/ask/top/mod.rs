//! `forebay top`: a running server on one screen, once a second.

mod bar;
mod draw;
mod keys;
mod model;
mod tables;

use super::arguments::TopArguments;
use super::http::{get, socket_of};
use super::why::read;
use crate::error::CommandError;
use forebay_base::Span;
use forebay_control::state::State;
use forebay_host::output;
use forebay_rt::thread::Stopwatch;
use forebay_rt::{Rt, block_on};
use keys::Wish;
use model::Model;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::terminal;
use ratatui::{DefaultTerminal, Terminal};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;

/// How often the server is asked.
const INTERVAL: Span = Span::from_secs(1);
/// The size of a printed screen if there is no terminal.
const PRINTED: (u16, u16) = (80, 24);

/// Shows the server until the user quits.
pub(crate) fn run(arguments: &TopArguments) -> Result<(), CommandError> {
    let socket = socket_of(arguments.socket.as_deref())?;
    if arguments.json {
        return Ok(output::print(&get(&socket, "/state")?.ok(&socket)?)?);
    }
    let mut model = Model::new(state(&socket)?);
    if arguments.once {
        block_on(Rt::real().sleep(INTERVAL));
        model.note(state(&socket)?);
        return Ok(output::print(&printed(&model)?)?);
    }
    if !io::stdout().is_terminal() {
        let text = "forebay top needs a terminal; --once prints one screen, --json its numbers";
        return Err(CommandError::BadCall(text.into()));
    }
    let mut terminal = ratatui::try_init().map_err(CommandError::system("use the terminal"))?;
    let shown = show(&mut terminal, &socket, &mut model);
    let restored = ratatui::try_restore().map_err(CommandError::system("restore the terminal"));
    shown.and(restored)
}

fn state(socket: &Path) -> Result<State, CommandError> {
    read(socket, &get(socket, "/state")?.ok(socket)?)
}

fn show(
    terminal: &mut DefaultTerminal,
    socket: &Path,
    model: &mut Model,
) -> Result<(), CommandError> {
    let failed = || CommandError::system("use the terminal");
    let (watch, mut next) = (Stopwatch::start(), INTERVAL);
    loop {
        terminal
            .draw(|frame| draw::screen(frame, model))
            .map_err(failed())?;
        let left = next.saturating_sub(watch.elapsed());
        if event::poll(Duration::from_nanos(left.as_nanos())).map_err(failed())? {
            let heard = event::read().map_err(failed())?;
            if let Event::Key(key) = heard
                && key.kind == KeyEventKind::Press
                && keys::press(model, key) == Wish::Leave
            {
                return Ok(());
            }
            continue;
        }
        next = watch.elapsed() + INTERVAL;
        if !model.is_paused {
            model.note(state(socket)?);
        }
    }
}

/// A screen as text.
fn printed(model: &Model) -> Result<String, CommandError> {
    // If standard output is no terminal, the size of another one would mean nothing.
    let size = if io::stdout().is_terminal() {
        terminal::size().ok()
    } else {
        None
    };
    let (width, height) = size.unwrap_or(PRINTED);
    let failed = |error| CommandError::Served(format!("cannot draw a screen: {error}"));
    let mut terminal = Terminal::new(TestBackend::new(width, height)).map_err(failed)?;
    terminal
        .draw(|frame| draw::screen(frame, model))
        .map_err(failed)?;
    Ok(text_of(terminal.backend().buffer()))
}

fn text_of(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width.max(1));
    let lines = buffer.content.chunks(width);
    let line = |cells: &[ratatui::buffer::Cell]| {
        let text: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        text.trim_end().to_owned() + "\n"
    };
    lines.map(line).collect()
}

#[cfg(test)]
mod tests;

//! What the keys of `forebay top` do.

use super::model::Model;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Each key and what it does.
pub(super) const HELP: [(&str, &str); 5] = [
    ("q", "quit"),
    ("s", "sort"),
    ("Tab", "store"),
    ("p", "pause"),
    ("?", "help"),
];

/// What a key causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Stay,
    Leave,
}

pub(super) fn press(model: &mut Model, key: KeyEvent) -> Wish {
    // In raw mode the terminal does not turn it into a signal.
    if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
        return Wish::Leave;
    }
    match key.code {
        KeyCode::Char('q') => return Wish::Leave,
        KeyCode::Esc if !model.shows_help => return Wish::Leave,
        KeyCode::Esc => model.shows_help = false,
        KeyCode::Char('s') => model.order = model.order.next(),
        KeyCode::Char('p') => model.is_paused = !model.is_paused,
        KeyCode::Char('?' | 'h') => model.shows_help = !model.shows_help,
        KeyCode::Tab => model.next_store(),
        _ => {}
    }
    Wish::Stay
}

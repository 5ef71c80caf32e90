//! A line for each store, and one for each caller.

use super::model::{CallerRow, Model};
use forebay_base::units::show_bytes;
use forebay_control::state::StoreWords;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Row, Table};

/// Terminals of at least this many columns show the longest wait of each caller.
const WIDE: u16 = 90;

pub(super) fn stores(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let names = [
        "store",
        "dirty",
        "writing",
        "queue",
        "writes/s",
        "can write",
        "drained",
        "oldest",
        "paused",
    ];
    let widths = [5, 9, 9, 5, 9, 11, 7, 7, 6].map(Constraint::Length);
    let rows = model.now.stores.iter().enumerate().map(|(number, store)| {
        let row = Row::new(store_cells(model, number, store).map(right));
        match model.store {
            Some(chosen) if chosen == number => row.reversed(),
            _ => row,
        }
    });
    let table = Table::new(rows, widths)
        .header(Row::new(names.map(|name| right(name.into()))).style(Style::new().bold()))
        .block(Block::bordered().title(" stores "));
    frame.render_widget(table, area);
}

fn store_cells(model: &Model, number: usize, store: &StoreWords) -> [String; 9] {
    let written = model.store_rate(number, |store| store.written_bytes);
    let throttled_us = model.store_rate(number, |store| store.throttled_us);
    let silent_s = store.silent_us / 1_000_000;
    [
        number.to_string(),
        show_bytes(store.dirty_bytes),
        show_bytes(store.writeback_bytes),
        store.writes_in_flight.to_string(),
        show_bytes(written),
        match store.refuses.first() {
            _ if silent_s > 0 => format!("silent {silent_s} s"),
            Some(trouble) => format!("fails {} s", trouble.lasted_us / 1_000_000),
            None => show_rate(store.rate_bytes_per_s),
        },
        drain_time(store),
        store.oldest_dirty_us.map_or_else(|| "-".into(), show_s),
        // The part of each second in which at least one writer is paused.
        format!("{} %", (throttled_us / 10_000).min(100)),
    ]
}

/// How long it takes until everything is written, at the measured rate of the store.
fn drain_time(store: &StoreWords) -> String {
    let left = store.dirty_bytes + store.writeback_bytes;
    let us = u128::from(left) * 1_000_000 / u128::from(store.rate_bytes_per_s.max(1));
    match (left, store.rate_bytes_per_s) {
        (0, _) => "0 s".into(),
        _ if store.refuses.iter().any(|it| it.kind == "write") => "?".into(),
        (_, 0) => "?".into(),
        _ => show_s(u64::try_from(us).unwrap_or(u64::MAX)),
    }
}

/// Seconds with one digit; minutes if they are many.
fn show_s(us: u64) -> String {
    let s = us / 1_000_000;
    match s {
        0..1_000 => format!("{s}.{} s", us % 1_000_000 / 100_000),
        _ => format!("{} min", s / 60),
    }
}

pub(super) fn callers(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let of_store = model
        .store
        .map_or_else(String::new, |it| format!(" for store {it}"));
    let title = format!(" callers{of_store}, by {} ", model.order.name());
    // The last column is the first to go: a narrow terminal has no room for it.
    let names = ["waits/s", "waited", "dirty", "writes/s", "longest"];
    let count = if area.width < WIDE { 4 } else { 5 };
    let names = &names[..count];
    let header = ["caller", "main cause"].map(Cell::from);
    let header = header
        .into_iter()
        .chain(names.iter().map(|name| right((*name).into())));
    let widths = [Constraint::Fill(1), Constraint::Fill(1)];
    let lengths = [8, 8, 9, 9, 8].map(Constraint::Length);
    let widths = widths.into_iter().chain(lengths.into_iter().take(count));
    let rows = model.callers();
    let table = Table::new(rows.iter().map(|row| caller_row(row, count)), widths)
        .header(Row::new(header).style(Style::new().bold()))
        .block(Block::bordered().title(title));
    frame.render_widget(table, area);
}

/// A caller, with the first `count` of its numbers.
fn caller_row<'r>(row: &CallerRow<'r>, count: usize) -> Row<'r> {
    let sums = row.sums;
    let left = [&*sums.caller.text, &*sums.cause].map(Cell::from);
    let numbers = [
        format!("{} ms", row.waits_ms_per_s),
        show_us(sums.waited_us),
        show_bytes(sums.dirty_bytes),
        show_bytes(row.dirtied_bytes_per_s),
        show_us(sums.longest_us),
    ];
    let cell = |text| -> Cell<'r> { right(text) };
    let numbers = numbers.into_iter().take(count).map(cell);
    Row::new(left.into_iter().chain(numbers))
}

fn show_us(us: u64) -> String {
    match us {
        0..1_000_000 => format!("{}.{} ms", us / 1_000, us % 1_000 / 100),
        _ => format!("{}.{} s", us / 1_000_000, us % 1_000_000 / 100_000),
    }
}

fn show_rate(bytes_per_s: u64) -> String {
    format!("{}/s", show_bytes(bytes_per_s))
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).right_aligned())
}

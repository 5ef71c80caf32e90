//! The screen of `forebay top`.

use super::keys::HELP;
use super::model::Model;
use super::{bar, tables};
use forebay_base::units::show_bytes;
use forebay_control::state::ElasticWords;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Stylize;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

/// A smaller screen has no room for a line of each kind.
pub(super) const LEAST: (u16, u16) = (78, 18);

/// Troubles of stores that have a line; `forebay why` has them all.
const TROUBLES: usize = 2;

pub(super) fn screen(frame: &mut Frame<'_>, model: &Model) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!(
            "forebay top needs {} columns and {} lines; this terminal has {} and {} (q quits)",
            LEAST.0, LEAST.1, area.width, area.height
        );
        let text = Paragraph::new(text).wrap(ratatui::widgets::Wrap { trim: true });
        return frame.render_widget(text, area);
    }
    // Callers get the rest: at least one line.
    let stores = (model.now.stores.len() as u16 + 3).min(area.height.saturating_sub(14).max(4));
    let head = head_lines(model);
    let rows = [
        Constraint::Length(head.len() as u16),
        Constraint::Length(if area.height < 24 { 5 } else { 7 }),
        Constraint::Length(stores),
        Constraint::Min(4),
        Constraint::Length(2),
        Constraint::Length(1),
    ];
    let [top, levels, of_stores, of_callers, reclaim, keys] = Layout::vertical(rows).areas(area);
    frame.render_widget(Paragraph::new(head), top);
    bar::draw(frame, levels, model);
    tables::stores(frame, of_stores, model);
    tables::callers(frame, of_callers, model);
    frame.render_widget(Paragraph::new(reclaim_lines(model)), reclaim);
    frame.render_widget(Paragraph::new(keys_line(model)), keys);
    if model.shows_help {
        help(frame, area);
    }
}

fn head_lines(model: &Model) -> Vec<Line<'static>> {
    let (now, memory) = (&model.now, &model.now.memory);
    let up_s = now.now_us / 1_000_000;
    let clients = match now.connections {
        Some(1) => ", 1 client".to_owned(),
        Some(count) => format!(", {count} clients"),
        None => String::new(),
    };
    let clean = memory
        .frames_bytes
        .saturating_sub(memory.free_bytes + model.level());
    let mut lines = vec![
        Line::from(vec![
            Span::raw("forebay ").bold(),
            Span::raw(format!(
                "{} (process {}){clients}, up {}:{:02}:{:02}",
                now.served,
                now.process,
                up_s / 3_600,
                up_s / 60 % 60,
                up_s % 60
            )),
        ]),
        Line::from(format!(
            "memory {}: {} clean, {} dirty, {} free, {} for files",
            show_bytes(memory.memory_bytes),
            show_bytes(clean),
            show_bytes(model.level()),
            show_bytes(memory.free_bytes),
            show_bytes(memory.object_bytes),
        )),
    ];
    lines.extend(memory.elastic.as_ref().map(elastic_line));
    let stores = now.stores.iter();
    let troubles = stores.flat_map(|store| &store.refuses);
    let troubles = troubles
        .take(TROUBLES)
        .map(|it| Line::from(it.text.clone()).bold());
    lines.extend(troubles);
    lines
}

/// How far the budget gives way, and what it did last.
fn elastic_line(elastic: &ElasticWords) -> Line<'static> {
    let (floor, ceiling) = (
        show_bytes(elastic.floor_bytes),
        show_bytes(elastic.ceiling_bytes),
    );
    let last = match &elastic.last {
        Some((ago_us, text)) => format!("; {} s ago {text}", ago_us / 1_000_000),
        None => String::new(),
    };
    Line::from(format!(
        "budget {} of {floor}..{ceiling}{last}",
        show_bytes(elastic.target_bytes)
    ))
}

fn reclaim_lines(model: &Model) -> Vec<Line<'static>> {
    let rate = |name| model.rate(|state| state.counter(name));
    let total = |name| model.now.counter(name);
    vec![
        Line::from(format!(
            "reclaim  kswapd {} pages/s, callers {} pages/s, {} ms/s, {} times",
            rate("pgsteal_kswapd"),
            rate("pgsteal_direct"),
            rate("allocstall_us") / 1_000,
            total("allocstall"),
        )),
        Line::from(format!(
            "pages    in {}/s, out {}/s; {} could not be written, {} waits took too long",
            rate("pgpgin"),
            rate("pgpgout"),
            total("nr_write_failed"),
            total("waits_overdue"),
        )),
    ]
}

fn keys_line(model: &Model) -> Line<'static> {
    let keys = HELP
        .iter()
        .flat_map(|(key, does)| [Span::raw(*key).reversed(), Span::raw(format!(" {does}  "))]);
    let paused = model.is_paused.then(|| Span::raw("paused").bold());
    keys.chain(paused).collect()
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let lines = [
        "full: dirty; grey: under writeback; below the bar its limits",
        "writes/s: what a store wrote; can write: as measured",
        "queue: write requests that the store has now",
        "drained: how long it takes to write what is dirty",
        "oldest: the age of the oldest dirty page",
        "paused: part of the time in which a writer paused",
        "waits/s: time waited in each second, all calls together",
        "dirty: about how many of the dirty pages are a caller's",
        "",
        "q quit   s sort callers   Tab choose a store   p pause",
    ];
    let (width, height) = (area.width.min(64), area.height.min(lines.len() as u16 + 2));
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, place);
    let lines: Vec<Line<'_>> = lines.into_iter().map(Line::from).collect();
    let text = Paragraph::new(lines).block(Block::bordered().title(" help "));
    frame.render_widget(text, place);
}

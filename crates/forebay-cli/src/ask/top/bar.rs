//! The level of dirty pages against the limits: a bar with marks, and a minute of history.

use super::model::Model;
use forebay_base::units::show_bytes;
use forebay_control::state::DirtyWords;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Sparkline};

/// A block of a bar that is full, half dense, and empty.
const FULL: &str = "\u{2588}";
const DENSE: &str = "\u{2592}";
const EMPTY: &str = "\u{00b7}";

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let dirty = &model.now.dirty;
    let title = format!(
        " dirty {} of {} allowed, setpoint {}, background {} ",
        show_bytes(model.level()),
        show_bytes(dirty.limit_bytes),
        show_bytes(dirty.setpoint_bytes),
        show_bytes(dirty.background_bytes),
    );
    let block = Block::bordered().title(title);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let rows = [
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(1),
    ];
    let [level, marks, history] = Layout::vertical(rows).areas(inner);
    frame.render_widget(Paragraph::new(level_line(dirty, level.width)), level);
    frame.render_widget(Paragraph::new(marks_line(dirty, marks.width)).dim(), marks);
    let seconds = usize::from(history.width);
    let latest = model.levels.len().saturating_sub(seconds);
    let levels: Vec<u64> = model.levels.iter().skip(latest).copied().collect();
    let history_line = Sparkline::default()
        .data(levels)
        .max(scale_bytes(dirty))
        .style(Style::new().fg(color(dirty)));
    frame.render_widget(history_line, history);
}

/// The bytes that the whole width stands for.
fn scale_bytes(dirty: &DirtyWords) -> u64 {
    let level = dirty.dirty_bytes + dirty.writeback_bytes;
    dirty.limit_bytes.max(level).max(1)
}

/// The column of a width at which `bytes` are.
fn column(bytes: u64, scale: u64, width: u16) -> usize {
    let columns = u128::from(bytes) * u128::from(width) / u128::from(scale);
    usize::try_from(columns)
        .unwrap_or(usize::MAX)
        .min(usize::from(width))
}

fn color(dirty: &DirtyWords) -> Color {
    let level = dirty.dirty_bytes + dirty.writeback_bytes;
    if level >= dirty.limit_bytes / 20 * 19 {
        Color::Red
    } else if level >= dirty.setpoint_bytes {
        Color::Yellow
    } else {
        Color::Green
    }
}

fn level_line(dirty: &DirtyWords, width: u16) -> Line<'static> {
    let at = |bytes| column(bytes, scale_bytes(dirty), width);
    let dirty_end = at(dirty.dirty_bytes);
    let level_end = at(dirty.dirty_bytes + dirty.writeback_bytes);
    Line::from(vec![
        Span::raw(FULL.repeat(dirty_end)).fg(color(dirty)),
        Span::raw(DENSE.repeat(level_end - dirty_end)).fg(color(dirty)),
        Span::raw(EMPTY.repeat(usize::from(width) - level_end)).dim(),
    ])
}

/// Where the limits are; a mark that has no room is left out.
fn marks_line(dirty: &DirtyWords, width: u16) -> String {
    let mut line = vec![' '; usize::from(width)];
    let marks = [
        (dirty.limit_bytes, "limit|"),
        (dirty.setpoint_bytes, "setpoint|"),
        (dirty.background_bytes, "background|"),
    ];
    for (bytes, text) in marks {
        let end = column(bytes, scale_bytes(dirty), width);
        let Some(start) = end.checked_sub(text.len()) else {
            continue;
        };
        let has_room = line[start..]
            .iter()
            .take(text.len() + 1)
            .all(|&it| it == ' ');
        if has_room {
            line.splice(start..end, text.chars());
        }
    }
    line.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_do_not_cover_each_other_and_stay_in_the_line() {
        let mut dirty = DirtyWords {
            background_bytes: 50,
            setpoint_bytes: 75,
            limit_bytes: 100,
            ..DirtyWords::default()
        };
        let line = marks_line(&dirty, 40);
        assert_eq!(line, "         background| setpoint|    limit|");
        dirty.setpoint_bytes = 99;
        assert_eq!(
            marks_line(&dirty, 40),
            "         background|              limit|"
        );
        for width in 0..40 {
            assert_eq!(
                marks_line(&dirty, width).chars().count(),
                usize::from(width)
            );
        }
    }

    #[test]
    fn a_level_above_the_limit_fills_the_bar() {
        let dirty = DirtyWords {
            dirty_bytes: 300,
            limit_bytes: 100,
            ..DirtyWords::default()
        };
        assert_eq!(level_line(&dirty, 10).spans[0].content, FULL.repeat(10));
        assert_eq!(
            level_line(&DirtyWords::default(), 3).spans[2].content,
            EMPTY.repeat(3)
        );
    }
}

//! The frame of a picture: where the plot is, its axes, grid and titles.

use super::axis::{Axis, short};
use super::{Chart, Scale};
use crate::escape;
use std::fmt::Write;

/// Width of a picture, in pixels of its own.
pub(super) const WIDTH_PX: f64 = 720.0;
const PLOT_HEIGHT_PX: f64 = 250.0;
const LEFT_PX: f64 = 70.0;
const RIGHT_PX: f64 = 18.0;
const TITLE_PX: f64 = 30.0;
const NOTE_PX: f64 = 17.0;
const BELOW_PX: f64 = 50.0;

/// The smallest and largest values of each axis, its own bounds included.
#[derive(Clone, Copy)]
pub(super) struct Ranges {
    pub(super) x: (f64, f64),
    pub(super) y: (f64, f64),
}

/// The values that an axis goes over.
struct Span {
    scale: Scale,
    ends: (f64, f64),
}

/// The rectangle of the plot and the ends of its axes.
pub(super) struct Frame {
    /// Left edge of the plot.
    pub(super) left: f64,
    /// Right edge.
    pub(super) right: f64,
    /// Upper edge.
    pub(super) top: f64,
    /// Lower edge.
    pub(super) bottom: f64,
    /// Upper edge of the legend.
    pub(super) legend_top: f64,
    x: Span,
    y: Span,
}

impl Frame {
    /// The frame of `chart`, whose values have `ranges`, with room for a legend.
    pub(super) fn new(chart: &Chart, ranges: Ranges, legend_height_px: f64) -> Frame {
        let note = if chart.note.is_empty() { 0.0 } else { NOTE_PX };
        let legend_top = TITLE_PX + note;
        let top = legend_top + legend_height_px + 8.0;
        let (least, most) = ranges.y;
        // Air above the highest value, so that a line at the top is seen as one.
        let most = match chart.y.scale {
            Scale::Linear => most + (most - least) * 0.04,
            _ => most * 1.3,
        };
        Frame {
            left: LEFT_PX,
            right: WIDTH_PX - RIGHT_PX,
            top,
            bottom: top + PLOT_HEIGHT_PX,
            legend_top,
            x: Span {
                scale: chart.x.scale,
                ends: ranges.x,
            },
            y: Span {
                scale: chart.y.scale,
                ends: (least, most),
            },
        }
    }

    /// The x coordinate of `value`.
    pub(super) fn x(&self, value: f64) -> f64 {
        self.left + self.x.share(value) * (self.right - self.left)
    }

    /// The y coordinate of `value`.
    pub(super) fn y(&self, value: f64) -> f64 {
        self.bottom - self.y.share(value) * (self.bottom - self.top)
    }

    /// Whether both values have a place.
    pub(super) fn has(&self, point: (f64, f64)) -> bool {
        self.x.scale.has(point.0) && self.y.scale.has(point.1)
    }

    /// The height of the whole picture.
    pub(super) fn height(&self) -> f64 {
        self.bottom + BELOW_PX
    }

    /// The opening of the element.
    pub(super) fn open(&self, title: &str) -> String {
        let height = self.height();
        let title = escape(title);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH_PX} {height:.0}\" \
             role=\"img\" aria-label=\"{title}\">\n\
             <text class=\"title\" x=\"{LEFT_PX}\" y=\"19\">{title}</text>\n"
        )
    }

    /// Grid, numbers, titles of the axes and the note.
    pub(super) fn axes(&self, chart: &Chart) -> String {
        let mut text = String::new();
        if !chart.note.is_empty() {
            let note = escape(&chart.note);
            push(
                &mut text,
                &format!("<text class=\"note\" x=\"{LEFT_PX}\" y=\"36\">{note}</text>"),
            );
        }
        self.horizontal_grid(&mut text, &chart.y);
        self.vertical_grid(&mut text, &chart.x);
        let (middle_x, middle_y) = (
            f64::midpoint(self.left, self.right),
            f64::midpoint(self.top, self.bottom),
        );
        let below = self.bottom + 40.0;
        let x_title = escape(&chart.x.title);
        let y_title = escape(&chart.y.title);
        push(
            &mut text,
            &format!(
                "<text class=\"axis m\" x=\"{middle_x:.1}\" y=\"{below:.1}\">{x_title}</text>"
            ),
        );
        push(
            &mut text,
            &format!(
                "<text class=\"axis m\" transform=\"translate(15 {middle_y:.1}) rotate(-90)\">\
                 {y_title}</text>"
            ),
        );
        text
    }

    fn horizontal_grid(&self, text: &mut String, axis: &Axis) {
        for tick in axis.ticks(self.y.ends, 6) {
            let y = self.y(tick);
            let (left, right) = (self.left, self.right);
            push(
                text,
                &format!("<path class=\"grid\" d=\"M{left:.1} {y:.1}H{right:.1}\"/>"),
            );
            let (beside, lower, label) = (left - 7.0, y + 4.0, short(tick));
            push(
                text,
                &format!(
                    "<text class=\"tick e\" x=\"{beside:.1}\" y=\"{lower:.1}\">{label}</text>"
                ),
            );
        }
    }

    fn vertical_grid(&self, text: &mut String, axis: &Axis) {
        for tick in axis.ticks(self.x.ends, 10) {
            let x = self.x(tick);
            let (top, bottom) = (self.top, self.bottom);
            push(
                text,
                &format!("<path class=\"grid\" d=\"M{x:.1} {top:.1}V{bottom:.1}\"/>"),
            );
            let (below, label) = (bottom + 18.0, short(tick));
            push(
                text,
                &format!("<text class=\"tick m\" x=\"{x:.1}\" y=\"{below:.1}\">{label}</text>"),
            );
        }
    }
}

impl Span {
    /// Which part of the axis lies before `value`, 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let (from, to) = (self.scale.even(self.ends.0), self.scale.even(self.ends.1));
        ((self.scale.even(value) - from) / (to - from)).clamp(0.0, 1.0)
    }
}

fn push(text: &mut String, line: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{line}");
}

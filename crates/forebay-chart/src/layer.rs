//! What is drawn into a frame: lines, steps, bars, dots, and the legend that names them.

use super::envelope::{Bucket, envelope};
use super::frame::{Frame, WIDTH_PX};
use crate::escape;
use std::fmt::Write;

/// More points than this are drawn as bands: about one for each pixel column.
const COLUMNS: usize = 600;
const LEGEND_ROW_PX: f64 = 18.0;
/// Width of a letter of the legend, on the generous side.
const LETTER_PX: f64 = 6.9;

/// Something drawn, with a name and a colour.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Its name in the legend; empty for none.
    pub name: String,
    /// 0 to 7.
    pub colour: usize,
    /// What is drawn.
    pub shape: Shape,
}

/// What is drawn; points are (x, y).
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A line through the points, which are sorted by x.
    Line(Vec<(f64, f64)>),
    /// The same, dashed: a limit or a target rather than something measured.
    Dashed(Vec<(f64, f64)>),
    /// Each value holds until the next.
    Steps(Vec<(f64, f64)>),
    /// One bar a bucket; the bars of several layers stand side by side.
    Bars(Vec<Bar>),
    /// A dot a point.
    Dots(Vec<(f64, f64)>),
    /// A vertical line from each (x, least) to (x, most).
    Spans(Vec<(f64, f64, f64)>),
}

/// One bar over a stretch of the x axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// Left end.
    pub from: f64,
    /// Right end.
    pub to: f64,
    /// How high.
    pub height: f64,
}

impl Layer {
    /// A layer.
    pub fn new(name: &str, colour: usize, shape: Shape) -> Layer {
        Layer {
            name: name.into(),
            colour: colour % 8,
            shape,
        }
    }

    pub(super) fn is_bars(&self) -> bool {
        matches!(self.shape, Shape::Bars(_))
    }

    pub(super) fn is_empty(&self) -> bool {
        match &self.shape {
            Shape::Bars(bars) => bars.is_empty(),
            Shape::Spans(spans) => spans.is_empty(),
            Shape::Line(points)
            | Shape::Dashed(points)
            | Shape::Steps(points)
            | Shape::Dots(points) => points.is_empty(),
        }
    }

    pub(super) fn x_values(&self) -> Vec<f64> {
        match &self.shape {
            Shape::Bars(bars) => bars.iter().flat_map(|bar| [bar.from, bar.to]).collect(),
            Shape::Spans(spans) => spans.iter().map(|span| span.0).collect(),
            Shape::Line(points)
            | Shape::Dashed(points)
            | Shape::Steps(points)
            | Shape::Dots(points) => points.iter().map(|point| point.0).collect(),
        }
    }

    pub(super) fn y_values(&self) -> Vec<f64> {
        match &self.shape {
            Shape::Bars(bars) => bars.iter().map(|bar| bar.height).collect(),
            Shape::Spans(spans) => spans.iter().flat_map(|span| [span.1, span.2]).collect(),
            Shape::Line(points)
            | Shape::Dashed(points)
            | Shape::Steps(points)
            | Shape::Dots(points) => points.iter().map(|point| point.1).collect(),
        }
    }
}

/// `layer` inside `frame`; `place` is its number among the layers of bars, and how many there are.
pub(super) fn draw(layer: &Layer, frame: &Frame, place: (usize, usize)) -> String {
    let colour = layer.colour;
    match &layer.shape {
        Shape::Line(points) => line(points, frame, colour),
        Shape::Dashed(points) => path(&joined(points, frame), &format!("line dash c{colour}")),
        Shape::Steps(points) => path(&stepped(points, frame), &format!("line c{colour}")),
        Shape::Bars(bars) => {
            let rectangle = |bar| rectangle(bar, frame, place, colour);
            bars.iter().map(rectangle).collect()
        }
        Shape::Dots(points) => {
            let placed = points.iter().filter(|point| frame.has(**point));
            concatenated(placed, |(x, y)| {
                let (x, y) = (frame.x(*x), frame.y(*y));
                format!("<circle class=\"dot f{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.2\"/>\n")
            })
        }
        Shape::Spans(spans) => {
            let strokes = concatenated(spans.iter(), |(at, least, most)| {
                let (x, low, high) = (frame.x(*at), frame.y(*least), frame.y(*most));
                format!("M{x:.1} {low:.1}V{high:.1}")
            });
            path(&strokes, &format!("span c{colour}"))
        }
    }
}

/// What `text` makes of each, one after the other.
fn concatenated<T>(each: impl Iterator<Item = T>, text: impl Fn(T) -> String) -> String {
    each.map(text).collect::<Vec<String>>().concat()
}

fn line(points: &[(f64, f64)], frame: &Frame, colour: usize) -> String {
    let placed: Vec<(f64, f64)> = points.iter().copied().filter(|p| frame.has(*p)).collect();
    if placed.len() <= COLUMNS {
        return path(&joined(&placed, frame), &format!("line c{colour}"));
    }
    let buckets = envelope(&placed, COLUMNS);
    let means: Vec<(f64, f64)> = buckets
        .iter()
        .map(|bucket| (bucket.at, bucket.mean))
        .collect();
    let band = path(&outline(&buckets, frame), &format!("band f{colour}"));
    band + &path(&joined(&means, frame), &format!("line c{colour}"))
}

/// Along the largest values and back along the smallest.
fn outline(buckets: &[Bucket], frame: &Frame) -> String {
    let there = buckets.iter().map(|bucket| (bucket.at, bucket.most));
    let back = buckets.iter().rev().map(|bucket| (bucket.at, bucket.least));
    let around: Vec<(f64, f64)> = there.chain(back).collect();
    joined(&around, frame) + "Z"
}

fn joined(points: &[(f64, f64)], frame: &Frame) -> String {
    let mut text = String::new();
    for point in points.iter().filter(|point| frame.has(**point)) {
        let letter = if text.is_empty() { 'M' } else { 'L' };
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "{letter}{:.1} {:.1}",
            frame.x(point.0),
            frame.y(point.1)
        );
    }
    // A round end makes a line of length 0 a dot.
    if !text.contains('L') && !text.is_empty() {
        text.push_str("h0");
    }
    text
}

fn stepped(points: &[(f64, f64)], frame: &Frame) -> String {
    let mut text = String::new();
    for point in points.iter().filter(|point| frame.has(**point)) {
        let (x, y) = (frame.x(point.0), frame.y(point.1));
        let step = if text.is_empty() {
            format!("M{x:.1} {y:.1}")
        } else {
            format!("H{x:.1}V{y:.1}")
        };
        text.push_str(&step);
    }
    text
}

/// A bar takes its layer's share of its bucket, so that no layer hides another.
fn rectangle(bar: &Bar, frame: &Frame, place: (usize, usize), colour: usize) -> String {
    if !frame.has((bar.to, bar.height)) {
        return String::new();
    }
    let (from, to) = (frame.x(bar.from), frame.x(bar.to));
    let share = (to - from) / place.1.max(1) as f64;
    let (left, width) = (from + share * place.0 as f64, (share * 0.9).max(0.8));
    let top = frame.y(bar.height);
    let height = (frame.bottom - top).max(0.8);
    let top = frame.bottom - height;
    format!(
        "<rect class=\"bar f{colour}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
         height=\"{height:.1}\"/>\n"
    )
}

fn path(data: &str, classes: &str) -> String {
    if data.is_empty() {
        return String::new();
    }
    format!("<path class=\"{classes}\" d=\"{data}\"/>\n")
}

/// The names of the layers in rows, before it is known where.
pub(super) struct Legend {
    /// Height of its rows.
    pub(super) height_px: f64,
    /// Distance from its upper left corner, and the layer.
    entries: Vec<(f64, f64, Layer)>,
}

/// The legend of `layers`; empty if there is one layer or none.
pub(super) fn legend(layers: &[Layer]) -> Legend {
    let named: Vec<&Layer> = layers
        .iter()
        .filter(|layer| !layer.name.is_empty())
        .collect();
    let (mut x, mut y) = (0.0, 0.0);
    let mut entries = Vec::new();
    for layer in named {
        let width = 34.0 + layer.name.chars().count() as f64 * LETTER_PX;
        if x > 0.0 && x + width > WIDTH_PX - 90.0 {
            (x, y) = (0.0, y + LEGEND_ROW_PX);
        }
        entries.push((x, y, layer.clone()));
        x += width;
    }
    let rows = if entries.is_empty() {
        0.0
    } else {
        y + LEGEND_ROW_PX
    };
    Legend {
        height_px: rows,
        entries,
    }
}

impl Legend {
    /// The legend inside of `frame`.
    pub(super) fn at(&self, frame: &Frame) -> String {
        let entry = |(x, y, layer): &(f64, f64, Layer)| {
            let (x, y) = (frame.left + x, frame.legend_top + y + 9.0);
            let (colour, name) = (layer.colour, escape(&layer.name));
            let sample = match layer.shape {
                Shape::Bars(_) | Shape::Dots(_) => {
                    format!(
                        "<rect class=\"bar f{colour}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"16\" \
                             height=\"9\"/>",
                        y - 5.0
                    )
                }
                Shape::Dashed(_) => {
                    format!("<path class=\"line dash c{colour}\" d=\"M{x:.1} {y:.1}h18\"/>")
                }
                _ => format!("<path class=\"line c{colour}\" d=\"M{x:.1} {y:.1}h18\"/>"),
            };
            let (beside, lower) = (x + 22.0, y + 4.0);
            format!(
                "{sample}<text class=\"key\" x=\"{beside:.1}\" y=\"{lower:.1}\">{name}</text>\n"
            )
        };
        concatenated(self.entries.iter(), entry)
    }
}

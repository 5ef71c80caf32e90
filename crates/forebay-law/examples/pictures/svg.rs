//! Curves as a small drawing with axes. Only the four operations are used on fractions, so that
//! every machine draws the same bytes.

use std::fmt::Write as _;

/// A curve and the name at its end.
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<(u64, u64)>,
}

/// An axis: what is on it, where it ends, and where it is marked.
pub(crate) struct Axis {
    pub(crate) label: &'static str,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) ticks: Vec<(u64, String)>,
}

/// A line across the picture at one place of an axis, with the name of the variable.
pub(crate) struct Knee {
    pub(crate) name: &'static str,
    pub(crate) at: u64,
}

/// Everything on one picture.
pub(crate) struct Picture {
    pub(crate) title: &'static str,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) curves: Vec<Curve>,
    /// Vertical lines.
    pub(crate) knees: Vec<Knee>,
    /// Horizontal lines.
    pub(crate) levels: Vec<Knee>,
}

impl Axis {
    /// An axis from `first` to `last`, marked at every `step`; the numbers are divided by `unit`.
    pub(crate) fn even(label: &'static str, first: u64, last: u64, step: u64, unit: u64) -> Axis {
        let ticks = (0..=(last - first) / step)
            .map(|tick| first + tick * step)
            .map(|at| (at, grouped(at / unit)))
            .collect();
        Axis {
            label,
            first,
            last,
            ticks,
        }
    }

    /// An axis of powers of two: place `n` stands for `2^n`.
    pub(crate) fn doubling(label: &'static str, last: u64) -> Axis {
        let ticks = (0..=last).map(|at| (at, grouped(1 << at))).collect();
        Axis {
            label,
            first: 0,
            last,
            ticks,
        }
    }

    /// Where `value` is, from 0 at the start of the axis to 1 at its end.
    fn place(&self, value: u64) -> f64 {
        let value = value.clamp(self.first, self.last);
        (value - self.first) as f64 / (self.last - self.first) as f64
    }
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 84.0;
const BOTTOM: f64 = 62.0;

/// Ink that stays apart for people who do not see all colours.
const INKS: [&str; 3] = ["#0b61a4", "#c2410c", "#2f7d32"];

/// The drawing as text.
pub(crate) fn drawn(picture: &Picture) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"13\" fill=\"#333\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fdfdfb\"/>\n\
         <text x=\"{LEFT}\" y=\"26\" font-size=\"16\" fill=\"#111\">{}</text>\n",
        picture.title
    );
    axes(&mut svg, picture);
    knees(&mut svg, picture);
    curves(&mut svg, picture);
    svg.push_str("</svg>\n");
    svg
}

fn across(picture: &Picture, value: u64) -> f64 {
    LEFT + picture.x.place(value) * (WIDTH - LEFT - RIGHT)
}

fn down(picture: &Picture, value: u64) -> f64 {
    HEIGHT - BOTTOM - picture.y.place(value) * (HEIGHT - TOP - BOTTOM)
}

fn line(svg: &mut String, from: (f64, f64), to: (f64, f64), style: &str) {
    let ((x1, y1), (x2, y2)) = (from, to);
    push(
        svg,
        format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {style}/>\n"
        ),
    );
}

fn label(svg: &mut String, at: (f64, f64), style: &str, text: &str) {
    let (x, y) = at;
    push(
        svg,
        format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{text}</text>\n"),
    );
}

fn axes(svg: &mut String, picture: &Picture) {
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    for (at, text) in &picture.y.ticks {
        let y = down(picture, *at);
        line(svg, (LEFT, y), (right, y), "stroke=\"#e4e4de\"");
        label(svg, (LEFT - 8.0, y + 4.0), "text-anchor=\"end\"", text);
    }
    for (at, text) in &picture.x.ticks {
        let x = across(picture, *at);
        line(svg, (x, bottom), (x, bottom + 5.0), "stroke=\"#555\"");
        label(svg, (x, bottom + 20.0), "text-anchor=\"middle\"", text);
    }
    line(svg, (LEFT, bottom), (right, bottom), "stroke=\"#555\"");
    line(svg, (LEFT, TOP), (LEFT, bottom), "stroke=\"#555\"");
    let middle = f64::midpoint(LEFT, right);
    label(
        svg,
        (middle, HEIGHT - 16.0),
        "text-anchor=\"middle\"",
        picture.x.label,
    );
    label(
        svg,
        (LEFT, TOP - 30.0),
        "text-anchor=\"start\"",
        picture.y.label,
    );
}

fn knees(svg: &mut String, picture: &Picture) {
    const DASHED: &str = "stroke=\"#777\" stroke-dasharray=\"4 4\"";
    for knee in &picture.knees {
        let x = across(picture, knee.at);
        line(svg, (x, TOP), (x, HEIGHT - BOTTOM), DASHED);
        let style = "text-anchor=\"middle\" font-style=\"italic\"";
        label(svg, (x, TOP - 8.0), style, knee.name);
    }
    for level in &picture.levels {
        let y = down(picture, level.at);
        line(svg, (LEFT, y), (WIDTH - RIGHT, y), DASHED);
        let style = "text-anchor=\"end\" font-style=\"italic\"";
        label(svg, (WIDTH - RIGHT - 6.0, y + 16.0), style, level.name);
    }
}

fn curves(svg: &mut String, picture: &Picture) {
    for (curve, ink) in picture.curves.iter().zip(INKS) {
        let mut points = String::new();
        for &(x, y) in &curve.points {
            push(
                &mut points,
                format_args!("{:.1},{:.1} ", across(picture, x), down(picture, y)),
            );
        }
        push(
            svg,
            format_args!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{ink}\" stroke-width=\"2.2\"/>\n",
                points.trim_end()
            ),
        );
    }
    names(svg, picture);
}

/// The name of each curve at its end, moved down where the one above is too near.
fn names(svg: &mut String, picture: &Picture) {
    const APART: f64 = 17.0;
    let mut ends: Vec<(u64, u64, &str, &str)> = picture
        .curves
        .iter()
        .zip(INKS)
        .filter_map(|(curve, ink)| {
            let &(x, y) = curve.points.last()?;
            Some((y, x, curve.name.as_str(), ink))
        })
        .collect();
    ends.sort_by_key(|&(y, ..)| std::cmp::Reverse(y));
    let mut above = f64::MIN;
    for (y, x, name, ink) in ends {
        let place = (down(picture, y) + 4.0).max(above + APART);
        above = place;
        let at = (across(picture, x) + 8.0, place);
        label(svg, at, &format!("fill=\"{ink}\""), name);
    }
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments)
        .expect("a string takes all that is written to it");
}

/// A number with its thousands apart.
fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

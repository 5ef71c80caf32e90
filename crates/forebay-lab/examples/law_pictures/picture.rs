//! A law's picture in whole numbers, as a chart of the lab.

use forebay_chart::{Axis as ChartAxis, Chart, Layer, Scale, Shape};

/// A curve and its name.
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<(u64, u64)>,
}

/// An axis: its variable, its ends, and the unit by which its values are divided.
pub(crate) struct Axis {
    label: &'static str,
    ends: (u64, u64),
    unit: u64,
    scale: Scale,
}

/// A line across the picture at one value of an axis, with a name.
pub(crate) enum Mark {
    Upright(&'static str, u64),
    Level(&'static str, u64),
}

/// Everything on one picture.
pub(crate) struct Picture {
    pub(crate) title: &'static str,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) curves: Vec<Curve>,
    pub(crate) marks: Vec<Mark>,
}

impl Axis {
    /// A linear axis over `ends`; the labels on it are divided by `unit`.
    pub(crate) fn even(label: &'static str, ends: (u64, u64), unit: u64) -> Axis {
        Axis {
            label,
            ends,
            unit,
            scale: Scale::Linear,
        }
    }

    /// A logarithmic axis over `ends`.
    pub(crate) fn log(label: &'static str, ends: (u64, u64)) -> Axis {
        Axis {
            label,
            ends,
            unit: 1,
            scale: Scale::Log,
        }
    }

    /// `value`, limited to the ends, in the unit of the axis.
    fn shown(&self, value: u64) -> f64 {
        value.clamp(self.ends.0, self.ends.1) as f64 / self.unit as f64
    }

    fn drawn(&self) -> ChartAxis {
        ChartAxis {
            title: self.label.into(),
            scale: self.scale,
            bounds: Some((self.shown(self.ends.0), self.shown(self.ends.1))),
        }
    }
}

/// Colours of the lines that mark a value; the curves take those before them.
const MARK_COLOURS: [usize; 4] = [7, 3, 4, 6];

/// `picture` as a file of its own.
pub(crate) fn drawn(picture: &Picture) -> String {
    let (x, y) = (&picture.x, &picture.y);
    let mut chart = Chart::new(picture.title, x.drawn(), y.drawn());
    let line = |mark: &Mark| {
        let (name, ends) = match *mark {
            Mark::Upright(name, at) => (name, [(at, y.ends.0), (at, y.ends.1)]),
            Mark::Level(name, at) => (name, [(x.ends.0, at), (x.ends.1, at)]),
        };
        let points = ends.map(|(across, up)| (x.shown(across), y.shown(up)));
        (name, points.to_vec())
    };
    for (colour, curve) in picture.curves.iter().enumerate() {
        let points = curve.points.iter();
        let points = points.map(|&(across, up)| (x.shown(across), y.shown(up)));
        chart.add(Layer::new(
            &curve.name,
            colour,
            Shape::Line(points.collect()),
        ));
    }
    for ((name, points), colour) in picture.marks.iter().map(line).zip(MARK_COLOURS) {
        chart.add(Layer::new(name, colour, Shape::Dashed(points)));
    }
    chart.standalone()
}

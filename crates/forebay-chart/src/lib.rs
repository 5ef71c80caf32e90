//! Charts: pictures as SVG, drawn only from numbers, and the page around them.
//!
//! Colours are classes (`c0` to `c7` for lines, `f0` to `f7` for areas), for which the page's style
//! has a light and a dark colour. A line with more points than the picture has columns is drawn as
//! the mean of each column over a band from the smallest to the largest value in it, so that
//! nothing that was measured is hidden.
//!
//! ```
//! use forebay_chart::{Axis, Chart, Layer, Shape};
//! let mut chart = Chart::new("Dirty pages", Axis::linear("time (s)"), Axis::linear("pages"));
//! chart.add(Layer::new("dirty", 0, Shape::Line(vec![(0.0, 10.0), (1.0, 40.0)])));
//! assert!(chart.render().starts_with("<svg"));
//! ```

mod axis;
mod envelope;
mod frame;
mod layer;
mod page;
mod standalone;
mod table;

pub use axis::{Axis, Scale};
pub use envelope::{Bucket, envelope};
pub use layer::{Bar, Layer, Shape};
pub use page::{document, escape};
pub use standalone::sheet;
pub use table::{table, table_of_markup};

use frame::{Frame, Ranges};
use layer::{draw, legend};

/// One picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// What must be known to read it; empty for nothing.
    pub note: String,
    /// From left to right.
    pub x: Axis,
    /// From the bottom to the top.
    pub y: Axis,
    /// Drawn in this order, the last on top.
    pub layers: Vec<Layer>,
}

impl Chart {
    /// An empty picture.
    pub fn new(title: &str, x: Axis, y: Axis) -> Chart {
        Chart {
            title: title.into(),
            note: String::new(),
            x,
            y,
            layers: Vec::new(),
        }
    }

    /// Puts `layer` on top, unless there is nothing in it.
    pub fn add(&mut self, layer: Layer) {
        if !layer.is_empty() {
            self.layers.push(layer);
        }
    }

    /// Whether nothing is drawn.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// The smallest and largest values on the y axis, the axis's own bounds included.
    pub fn y_range(&self) -> (f64, f64) {
        self.y
            .range_over(self.layers.iter().flat_map(Layer::y_values))
    }

    /// The same on the x axis.
    pub fn x_range(&self) -> (f64, f64) {
        self.x
            .range_over(self.layers.iter().flat_map(Layer::x_values))
    }

    /// The picture as an `svg` element.
    pub fn render(&self) -> String {
        self.drawn().1
    }

    /// The height of the picture in pixels of its own, and the picture.
    fn drawn(&self) -> (f64, String) {
        let legend = legend(&self.layers);
        let ranges = Ranges {
            x: self.x_range(),
            y: self.y_range(),
        };
        let frame = Frame::new(self, ranges, legend.height_px);
        let mut parts = vec![frame.open(&self.title), frame.axes(self)];
        let bars = self.layers.iter().filter(|layer| layer.is_bars()).count();
        let mut bars_before = 0;
        for layer in &self.layers {
            parts.push(draw(layer, &frame, (bars_before, bars)));
            bars_before += usize::from(layer.is_bars());
        }
        parts.push(legend.at(&frame));
        parts.push("</svg>\n".into());
        (frame.height(), parts.concat())
    }
}

/// Gives pictures that are read side by side the same axes.
pub fn share_axes(charts: &mut [Chart]) {
    let over = |ranges: Vec<(f64, f64)>| {
        let least = ranges
            .iter()
            .map(|range| range.0)
            .fold(f64::INFINITY, f64::min);
        let most = ranges
            .iter()
            .map(|range| range.1)
            .fold(f64::NEG_INFINITY, f64::max);
        (least, most)
    };
    let x = over(charts.iter().map(Chart::x_range).collect());
    let y = over(charts.iter().map(Chart::y_range).collect());
    for chart in charts {
        chart.x.bounds = Some(x);
        chart.y.bounds = Some(y);
    }
}

#[cfg(test)]
#[path = "chart_tests.rs"]
mod tests;

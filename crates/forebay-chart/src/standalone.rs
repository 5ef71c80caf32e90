//! A picture as a file of its own, outside of a page.

use super::Chart;
use super::frame::WIDTH_PX;
use crate::escape;

const STYLE: &str = include_str!("chart.css");

/// The colours of light paper. A viewer of files may support neither variables nor colour schemes,
/// so they are written out.
const PAPER: [(&str, &str); 12] = [
    ("paper", "#ffffff"),
    ("ink", "#1b1f24"),
    ("soft", "#5b6570"),
    ("rule", "#d5dae0"),
    ("c0", "#0063b1"),
    ("c1", "#c84a00"),
    ("c2", "#00805a"),
    ("c3", "#a8327f"),
    ("c4", "#9a6a00"),
    ("c5", "#2f9bd6"),
    ("c6", "#6b4fc4"),
    ("c7", "#5b6570"),
];

impl Chart {
    /// The picture as the content of a file, with its style and its paper inside.
    pub fn standalone(&self) -> String {
        dressed(&self.render())
    }
}

/// Pictures one below the other as the content of one file, as [`Chart::standalone`].
pub fn sheet(charts: &[Chart]) -> String {
    let (mut height, mut pictures) = (0.0, String::new());
    for chart in charts {
        let (own_height, picture) = chart.drawn();
        let placed = format!("<svg y=\"{height:.0}\" height=\"{own_height:.0}\"");
        pictures += &picture.replacen("<svg", &placed, 1);
        height += own_height;
    }
    let title = charts.first().map_or("", |chart| &chart.title);
    dressed(&format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH_PX} {height:.0}\" \
         role=\"img\" aria-label=\"{}\">\n{pictures}</svg>\n",
        escape(title)
    ))
}

/// A rendered picture with its style and its paper.
fn dressed(svg: &str) -> String {
    let (open, rest) = svg
        .split_once('>')
        .expect("a rendered chart begins with its element");
    let paper = "<rect width=\"100%\" height=\"100%\" fill=\"var(--paper)\"/>";
    let mut picture =
        format!("{open} style=\"font: 12px sans-serif\">\n<style>\n{STYLE}</style>\n{paper}{rest}");
    for (name, colour) in PAPER {
        picture = picture.replace(&format!("var(--{name})"), colour);
    }
    picture
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Layer, Shape};
    use super::*;

    #[test]
    fn a_file_needs_no_variable_and_has_no_empty_line() {
        let mut chart = Chart::new("Dirty", Axis::linear("s"), Axis::linear("pages"));
        chart.add(Layer::new(
            "dirty",
            0,
            Shape::Line(vec![(0.0, 1.0), (1.0, 4.0)]),
        ));
        let picture = chart.standalone();
        assert!(picture.contains("stroke: #0063b1"));
        assert!(!picture.contains("var("), "{picture}");
        // An empty line ends an HTML block of Markdown, and the rest of the picture would be text.
        assert!(!picture.trim_end().contains("\n\n"), "{picture}");
    }
}

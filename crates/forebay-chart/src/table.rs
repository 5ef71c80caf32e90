//! Tables: the numbers of a page, and those behind a picture.

use super::axis::short;
use super::envelope::envelope;
use super::{Chart, Layer, Shape};
use crate::escape;

/// A longer series is merged into this many rows.
const ROWS: usize = 20;

/// A table of texts under a head of texts; the first `left` columns are words.
pub fn table(head: &[String], rows: &[Vec<String>], left: usize) -> String {
    let escaped = |text: &String| escape(text).into_owned();
    let head: Vec<String> = head.iter().map(escaped).collect();
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(escaped).collect())
        .collect();
    table_of_markup(&head, &rows, left)
}

/// The same with cells that are markup already.
pub fn table_of_markup(head: &[String], rows: &[Vec<String>], left: usize) -> String {
    let cell = |(column, markup): (usize, &String), tag: &str| {
        let class = if column < left { "" } else { " class=\"n\"" };
        format!("<{tag}{class}>{markup}</{tag}>")
    };
    let line = |row: &[String], tag: &str| {
        let cells: String = row.iter().enumerate().map(|each| cell(each, tag)).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let body: String = rows.iter().map(|row| line(row, "td")).collect();
    format!(
        "<div class=\"wide\"><table>\n<thead>{}</thead>\n<tbody>\n{body}</tbody>\n</table></div>\n",
        line(head, "th")
    )
}

impl Chart {
    /// The picture with its numbers behind it, as a `figure` element.
    pub fn figure(&self) -> String {
        let head = ["", &self.x.title, "least", "mean", "most"].map(str::to_owned);
        let rows: Vec<Vec<String>> = self.layers.iter().flat_map(rows_of).collect();
        format!(
            "<figure>{}<details><summary>Numbers</summary>\n{}</details></figure>\n",
            self.render(),
            table(&head, &rows, 1)
        )
    }
}

fn rows_of(layer: &Layer) -> Vec<Vec<String>> {
    let row = |x: String, y: [f64; 3]| {
        let [least, mean, most] = y.map(short);
        vec![layer.name.clone(), x, least, mean, most]
    };
    match &layer.shape {
        Shape::Bars(bars) => bars
            .iter()
            .map(|bar| {
                let range = format!("{} to {}", short(bar.from), short(bar.to));
                row(range, [bar.height; 3])
            })
            .collect(),
        Shape::Spans(spans) => spans
            .iter()
            .map(|&(x, least, most)| row(short(x), [least, f64::midpoint(least, most), most]))
            .collect(),
        Shape::Line(points)
        | Shape::Dashed(points)
        | Shape::Steps(points)
        | Shape::Dots(points) => envelope(points, ROWS)
            .iter()
            .map(|bucket| row(short(bucket.at), [bucket.least, bucket.mean, bucket.most]))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Axis;

    #[test]
    fn a_figure_has_the_numbers_of_its_picture() {
        let mut chart = Chart::new("Dirty", Axis::linear("time, s"), Axis::linear("pages"));
        let points = (0..100).map(|tenth| (f64::from(tenth), f64::from(tenth % 5)));
        chart.add(Layer::new("dirty", 0, Shape::Line(points.collect())));
        let limit = vec![(0.0, 7.0), (99.0, 7.0)];
        chart.add(Layer::new("limit", 1, Shape::Dashed(limit)));
        let figure = chart.figure();
        assert_eq!(figure.matches("<tr>").count(), 1 + ROWS + 2);
        assert!(figure.contains("<th class=\"n\">time, s</th>"), "{figure}");
        let first = "<td>dirty</td><td class=\"n\">2</td><td class=\"n\">0</td>\
                     <td class=\"n\">2</td><td class=\"n\">4</td>";
        assert!(figure.contains(first), "{figure}");
    }
}

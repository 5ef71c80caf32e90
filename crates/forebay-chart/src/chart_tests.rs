//! Pictures of made-up numbers.

use super::*;

fn line(points: Vec<(f64, f64)>) -> Chart {
    let mut chart = Chart::new("a < b", Axis::linear("time (s)"), Axis::linear("pages"));
    chart.add(Layer::new("dirty", 0, Shape::Line(points)));
    chart
}

/// Every number of the attribute `name` in `svg`.
fn numbers(svg: &str, name: &str) -> Vec<f64> {
    let start = format!(" {name}=\"");
    let texts = svg.split(&start).skip(1);
    texts
        .filter_map(|text| text.split('"').next()?.parse().ok())
        .collect()
}

#[test]
fn a_picture_has_its_titles_and_its_legend() {
    let svg = line(vec![(0.0, 0.0), (10.0, 400.0)]).render();
    for part in [
        "a &lt; b",
        "time (s)",
        "pages",
        ">dirty<",
        "class=\"line c0\"",
    ] {
        assert!(svg.contains(part), "{part} in {svg}");
    }
}

#[test]
fn a_long_line_is_a_band_with_a_mean() {
    let long = (0..5000)
        .map(|n| (f64::from(n), f64::from(n % 7)))
        .collect();
    let svg = line(long).render();
    assert!(svg.contains("class=\"band f0\""));
    assert!(svg.len() < 60_000, "{} bytes", svg.len());
}

#[test]
fn bars_of_two_layers_stand_beside_each_other_inside_the_frame() {
    let bar = |from: f64, height| Bar {
        from,
        to: from + 4.0,
        height,
    };
    let mut chart = Chart::new("", Axis::linear("ms"), Axis::log("events"));
    chart.add(Layer::new(
        "a",
        0,
        Shape::Bars(vec![bar(0.0, 10.0), bar(4.0, 1.0)]),
    ));
    chart.add(Layer::new("b", 1, Shape::Bars(vec![bar(0.0, 20.0)])));
    let svg = chart.render();
    let rectangles = svg.split("<rect").skip(1);
    let plots: Vec<&str> = rectangles
        .filter_map(|text| text.split("/>").next())
        .collect();
    let (lefts, widths) = (numbers(&plots.join(" "), "x"), numbers(&svg, "width"));
    assert_eq!(lefts.len(), 5, "three bars and two keys of the legend");
    assert!(
        lefts.iter().all(|left| (70.0..=702.0).contains(left)),
        "{lefts:?}"
    );
    assert!(widths.iter().all(|width| *width > 0.0));
    assert!(numbers(&svg, "height").iter().all(|height| *height > 0.0));
}

#[test]
fn shared_axes_hold_both_pictures() {
    let mut both = [line(vec![(0.0, 1.0)]), line(vec![(60.0, 9.0)])];
    share_axes(&mut both);
    assert_eq!(both[0].x_range(), (0.0, 60.0));
    assert_eq!(both[0].y_range(), both[1].y_range());
}

#[test]
fn a_single_sample_is_a_dot() {
    let svg = line(vec![(1.0, 5.0)]).render();
    let path = svg.split("class=\"line c0\" d=\"").nth(1).unwrap();
    assert!(path.split('"').next().unwrap().ends_with("h0"), "{path}");
}

#[test]
fn layers_without_points_are_left_out() {
    assert!(line(Vec::new()).is_empty());
}

#[test]
fn long_legends_take_several_rows() {
    let mut chart = line(vec![(0.0, 1.0), (1.0, 1.0)]);
    for number in 0..12 {
        let name = format!("a rather long name {number}");
        chart.add(Layer::new(&name, number, Shape::Line(vec![(0.0, 1.0)])));
    }
    let rows: std::collections::BTreeSet<u64> = chart
        .render()
        .split("class=\"key\"")
        .skip(1)
        .flat_map(|text| numbers(text, "y").into_iter().take(1))
        .map(|y| y as u64)
        .collect();
    assert!(rows.len() >= 3, "{rows:?}");
}

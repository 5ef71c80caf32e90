//! Rates of events: pages scanned, freed and written by reclaim, heads moved.

use super::points::{note, points};
use super::{Gallery, Policy};
use crate::outcome::{Column, Series};
use forebay_chart::{Axis, Chart, Layer, Shape, share_axes};

/// Pages looked at and freed. They differ by powers of ten, hence the logarithmic axis.
pub(super) fn scan_and_steal(policies: &[Policy<'_>]) -> Gallery {
    let shown = |column: &&Column| {
        let is_rate = column.name.starts_with("pgscan") || column.name.starts_with("pgsteal");
        is_rate && !column.name.contains('@')
    };
    let chart = |policy: &Policy<'_>| {
        let run = policy.runs[0];
        let title = format!("Scan and steal: {}", policy.label);
        let mut chart = Chart::new(&title, Axis::linear("time (s)"), Axis::log("pages/s"));
        for (colour, column) in run.series.columns.iter().filter(shown).enumerate() {
            let line = Shape::Line(where_any(&run.series, column));
            chart.add(Layer::new(&column.name, colour, line));
        }
        chart.note = note(run);
        chart
    };
    let charts = policies.iter().map(chart);
    let mut charts: Vec<Chart> = charts.filter(|chart| !chart.is_empty()).collect();
    share_axes(&mut charts);
    Gallery {
        heading: "Reclaim".into(),
        text: "Pages looked at and pages freed a second, on a logarithmic axis; the distance \
               between the two is work for nothing. A second without any has no point."
            .into(),
        charts,
    }
}

/// The points of a column that a logarithmic axis can show.
fn where_any(series: &Series, column: &Column) -> Vec<(f64, f64)> {
    let points = points(series, column).into_iter();
    points.filter(|(_, rate)| *rate > 0.0).collect()
}

/// Pages that reclaim wrote, the policies in one picture.
pub(super) fn writes(policies: &[Policy<'_>]) -> Gallery {
    let is_written = |name: &str| name == "nr_vmscan_write";
    Gallery {
        heading: "Writes by reclaim".into(),
        text: "Pages that kswapd and callers in need of memory wrote themselves, to files and to \
               swap."
            .into(),
        charts: in_one(policies, "Pages written by reclaim", "pages/s", is_written),
    }
}

/// Seeks of each device, the policies in one picture.
pub(super) fn seeks(policies: &[Policy<'_>]) -> Gallery {
    let is_of_device = |name: &str| name.starts_with("seeks@");
    Gallery {
        heading: "Seeks".into(),
        text:
            "How often a disk moved its heads to another place, or a stick closed a unit to open \
               another."
                .into(),
        charts: in_one(policies, "Seeks", "times a second", is_of_device),
    }
}

/// How often kswapd was kept from its sleep.
pub(super) fn wakefulness(policies: &[Policy<'_>]) -> Gallery {
    let is_kept_awake = |name: &str| name == "kswapd_high_wmark_hit_quickly";
    Gallery {
        heading: "Sleep of kswapd".into(),
        text: "How often it wanted to sleep and found that it has more to do.".into(),
        charts: in_one(
            policies,
            "kswapd that may not sleep",
            "times a second",
            is_kept_awake,
        ),
    }
}

/// One picture for each column that is `wanted` and not always 0, with a line for each policy.
fn in_one(
    policies: &[Policy<'_>],
    title: &str,
    y_title: &str,
    wanted: impl Fn(&str) -> bool,
) -> Vec<Chart> {
    let columns = policies
        .first()
        .map(|policy| &policy.runs[0].series.columns);
    let columns = columns.into_iter().flatten();
    let names = columns.map(|column| column.name.as_str());
    let chart = |name: &str| {
        let title = match name.split_once('@') {
            Some((_, place)) => format!("{title}: {place}"),
            None => title.to_owned(),
        };
        let mut chart = Chart::new(&title, Axis::linear("time (s)"), Axis::linear(y_title));
        let mut is_any = false;
        for policy in policies {
            let series = &policy.runs[0].series;
            let Some(column) = series.column(name) else {
                continue;
            };
            is_any |= column.values.iter().any(|rate| *rate > 0.0);
            let line = Shape::Line(points(series, column));
            chart.add(Layer::new(&policy.label, policy.colour, line));
        }
        is_any.then_some(chart)
    };
    names
        .filter(|name| wanted(name))
        .filter_map(chart)
        .collect()
}

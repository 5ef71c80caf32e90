//! A scene in real time compared with the same scene in virtual time.

use super::super::super::verdict::Violation;
use super::measured::{CrewRates, Measured, SiteRates};
use crate::report::table::{grid, number};
use serde::Serialize;
use std::fmt::Write as _;

/// How far rates, levels, shares and syncs may be apart, in percent of the virtual figure.
const MOST_PERCENT: f64 = 10.0;
/// How far idle times may be apart. They are percents of a run and are subtracted.
const MOST_IDLE_POINTS: f64 = 1.0;

/// The kind of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FigureKind {
    /// Pages that a store takes in a second.
    Rate,
    /// Dirty pages and pages under writeback.
    Level,
    /// Pages that a writer writes in a second, on average over its crew.
    Share,
    /// The same for the slowest or the fastest writer of a crew.
    Extreme,
    /// Syncs that end in a second.
    Syncs,
    /// Time in which a store has nothing to do while a writer is in a call, in percent.
    Idle,
}

/// One figure in both worlds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Its kind.
    pub kind: FigureKind,
    /// Its name.
    pub name: String,
    /// In virtual time.
    pub in_virtual: f64,
    /// In real time.
    pub in_real: f64,
}

impl Figure {
    /// How far the real figure is from the virtual one: in percent of the virtual one, and for idle
    /// times in percent of the run.
    pub fn difference(&self) -> f64 {
        let apart = self.in_real - self.in_virtual;
        match self.kind {
            FigureKind::Idle => apart,
            _ if apart.abs() < f64::EPSILON => 0.0,
            _ => 100.0 * apart / self.in_virtual,
        }
    }

    /// Whether the two are near enough to each other.
    pub fn is_near(&self) -> bool {
        let most = match self.kind {
            FigureKind::Idle => MOST_IDLE_POINTS,
            _ => MOST_PERCENT,
        };
        self.difference().abs() <= most
    }
}

/// One scene in both worlds.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Its name.
    pub scene: String,
    /// Its figures.
    pub figures: Vec<Figure>,
    /// The findings of oracles: in virtual time, then in real time.
    pub found: Vec<Violation>,
}

impl Comparison {
    pub(super) fn new(scene: &str, in_virtual: Measured, in_real: Measured) -> Comparison {
        let mut figures = Vec::new();
        let mut figure = |kind, name: &str, in_virtual, in_real| {
            figures.push(Figure {
                kind,
                name: name.to_owned(),
                in_virtual,
                in_real,
            });
        };
        let levels = (in_virtual.level_pages, in_real.level_pages);
        figure(FigureKind::Level, "dirty pages", levels.0, levels.1);
        for (of_virtual, of_real) in in_virtual.sites.iter().zip(&in_real.sites) {
            compare_sites(&mut figure, of_virtual, of_real);
        }
        let found = [in_virtual.found, in_real.found];
        Comparison {
            scene: scene.to_owned(),
            figures,
            found: found.into_iter().flatten().collect(),
        }
    }

    /// The figures that are further apart than they should be.
    pub fn differing(&self) -> impl Iterator<Item = &Figure> {
        self.figures.iter().filter(|figure| !figure.is_near())
    }

    /// All of it as text.
    pub fn render(&self) -> String {
        let head = ["", "virtual", "real", "apart", ""].map(str::to_owned);
        let row = |figure: &Figure| {
            let unit = match figure.kind {
                FigureKind::Idle => "of the run",
                _ => "",
            };
            let note = if figure.is_near() { "" } else { "DIFFERS" };
            [
                figure.name.clone(),
                number(figure.in_virtual),
                number(figure.in_real),
                format!("{:+.1} % {unit}", figure.difference())
                    .trim()
                    .to_owned(),
                note.to_owned(),
            ]
        };
        let rows = std::iter::once(head).chain(self.figures.iter().map(row));
        let rows: Vec<Vec<String>> = rows.map(Vec::from).collect();
        let mut text = format!("{}\n{}", self.scene, grid(&rows, 1));
        for found in &self.found {
            let _ = writeln!(text, "BROKEN {}: {}", found.oracle, found.what);
        }
        text
    }
}

fn compare_sites(
    figure: &mut impl FnMut(FigureKind, &str, f64, f64),
    of_virtual: &SiteRates,
    of_real: &SiteRates,
) {
    let site = of_virtual.name;
    let rates = (of_virtual.pages_per_s, of_real.pages_per_s);
    figure(
        FigureKind::Rate,
        &format!("{site}, pages/s"),
        rates.0,
        rates.1,
    );
    let idle = (of_virtual.idle_percent, of_real.idle_percent);
    figure(FigureKind::Idle, &format!("{site}, idle %"), idle.0, idle.1);
    for (crew, in_real) in of_virtual.crews.iter().zip(&of_real.crews) {
        let mut share = |kind, which: &str, of: fn(&CrewRates) -> f64| {
            let name = format!("{site}, {} {which}pages/s", crew.name);
            figure(kind, &name, of(crew), of(in_real));
        };
        share(FigureKind::Share, "", |crew| crew.mean);
        if crew.writers > 1 {
            share(FigureKind::Extreme, "(slowest) ", |crew| crew.least);
            share(FigureKind::Extreme, "(fastest) ", |crew| crew.most);
        }
        if let (Some(syncs), Some(in_real)) = (crew.syncs_per_s, in_real.syncs_per_s) {
            let name = format!("{site}, {} syncs/s", crew.name);
            figure(FigureKind::Syncs, &name, syncs, in_real);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(kind: FigureKind, in_virtual: f64, in_real: f64) -> Figure {
        Figure {
            kind,
            name: "a".into(),
            in_virtual,
            in_real,
        }
    }

    #[test]
    fn figures_differ_by_parts_and_idle_times_by_parts_of_the_run() {
        for kind in [FigureKind::Rate, FigureKind::Level, FigureKind::Share] {
            assert!(figure(kind, 100.0, 91.0).is_near());
            assert!(figure(kind, 100.0, 109.0).is_near());
            assert!(!figure(kind, 100.0, 89.0).is_near());
            assert!(!figure(kind, 100.0, 111.0).is_near());
            assert!(figure(kind, 0.0, 0.0).is_near());
            assert!(!figure(kind, 0.0, 1.0).is_near());
        }
        assert!(figure(FigureKind::Idle, 0.0, 0.9).is_near());
        assert!(!figure(FigureKind::Idle, 0.0, 1.1).is_near());
        assert!(!figure(FigureKind::Idle, 5.0, 3.5).is_near());
    }

    #[test]
    fn what_differs_and_what_is_broken_is_marked() {
        let comparison = Comparison {
            scene: "one".into(),
            figures: vec![
                figure(FigureKind::Rate, 100.0, 101.0),
                figure(FigureKind::Level, 100.0, 150.0),
            ],
            found: Vec::new(),
        };
        assert_eq!(comparison.differing().count(), 1);
        let text = comparison.render();
        let marked: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("DIFFERS"))
            .collect();
        assert_eq!(marked.len(), 1, "{text}");
        assert!(marked[0].contains("+50.0 %"), "{text}");
    }
}

//! Axes: where a value is drawn, and which values are written beside the axis.

/// An axis with its title, which names the unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What is on it, with the unit.
    pub title: String,
    /// How values become places.
    pub scale: Scale,
    /// The ends, if the data does not determine them; data can only widen them.
    pub bounds: Option<(f64, f64)>,
}

/// How values become places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences have equal distances.
    Linear,
    /// Equal ratios have equal distances; only values above 0 have a place.
    Log,
    /// Percentiles: 90, 99 and 99.9 have equal distances.
    Nines,
}

impl Axis {
    /// A linear axis that starts at 0.
    pub fn linear(title: &str) -> Axis {
        Axis::of(title, Scale::Linear)
    }

    /// A logarithmic axis.
    pub fn log(title: &str) -> Axis {
        Axis::of(title, Scale::Log)
    }

    /// An axis of percentiles.
    pub fn nines(title: &str) -> Axis {
        Axis::of(title, Scale::Nines)
    }

    fn of(title: &str, scale: Scale) -> Axis {
        Axis {
            title: title.into(),
            scale,
            bounds: None,
        }
    }

    /// The ends over all `values`.
    pub(super) fn range_over(&self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        let start = match (self.bounds, self.scale) {
            (Some(bounds), _) => bounds,
            (None, Scale::Linear | Scale::Nines) => (0.0, 0.0),
            (None, Scale::Log) => (f64::INFINITY, f64::NEG_INFINITY),
        };
        let placed = values.filter(|value| self.scale.has(*value));
        let (least, most) = placed.fold(start, |(a, b), value| (a.min(value), b.max(value)));
        match self.scale {
            _ if least > most => (1.0, 10.0),
            Scale::Log if most < least * 2.0 => (least / 2.0, most * 2.0),
            Scale::Linear if most - least <= 0.0 => (least, least + 1.0),
            Scale::Nines => (0.0, most.max(99.0)),
            _ => (least, most),
        }
    }

    /// The values that are written beside the axis between `ends`, at most about `wanted`.
    pub(super) fn ticks(&self, ends: (f64, f64), wanted: usize) -> Vec<f64> {
        let inside = |value: &f64| *value >= ends.0 * 0.999_999 && *value <= ends.1 * 1.000_001;
        match self.scale {
            Scale::Linear => linear_ticks(ends, wanted),
            Scale::Log => log_ticks(ends, wanted),
            Scale::Nines => [0.0, 50.0, 90.0, 99.0, 99.9, 99.99]
                .into_iter()
                .filter(inside)
                .collect(),
        }
    }
}

impl Scale {
    /// Whether `value` has a place.
    pub(super) fn has(self, value: f64) -> bool {
        value.is_finite() && (self != Scale::Log || value > 0.0)
    }

    /// The value on a scale on which equal differences have equal distances.
    pub(super) fn even(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).log10(),
            // The largest value of a run is drawn at 99.99 and not at infinity.
            Scale::Nines => -(1.0 - value.min(99.99) / 100.0).log10(),
        }
    }
}

/// Multiples of 1, 2 or 5 times a power of ten.
fn linear_ticks(ends: (f64, f64), wanted: usize) -> Vec<f64> {
    let rough = (ends.1 - ends.0) / wanted as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(rough);
    let first = (ends.0 / step).ceil() as i64;
    let last = (ends.1 / step + 1e-9).floor() as i64;
    (first..=last).map(|number| number as f64 * step).collect()
}

/// Powers of ten: every n-th if there are many, and also 2 and 5 times them if there are few.
fn log_ticks(ends: (f64, f64), wanted: usize) -> Vec<f64> {
    let (first, last) = (ends.0.log10().floor() as i32, ends.1.log10().ceil() as i32);
    let decades = (last - first).max(1) as usize;
    let factors: &[f64] = if decades * 3 <= wanted {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0]
    };
    let each = decades.div_ceil(wanted.max(1)).max(1);
    (first..=last)
        .step_by(each)
        .flat_map(|power| {
            factors
                .iter()
                .map(move |factor| factor * 10_f64.powi(power))
        })
        .filter(|value| *value >= ends.0 * 0.999_999 && *value <= ends.1 * 1.000_001)
        .collect()
}

/// A number beside an axis: short, with k, M, G for thousands.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    let (divided, letter) = match size {
        _ if size >= 1e9 => (value / 1e9, "G"),
        _ if size >= 1e6 => (value / 1e6, "M"),
        _ if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = match divided.abs() {
        rest if rest >= 100.0 => format!("{divided:.0}"),
        rest if rest >= 0.01 || rest == 0.0 => format!("{divided:.2}"),
        _ => format!("{divided:.5}"),
    };
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    text.to_owned() + letter
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "small whole numbers are exact")]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let axis = Axis::linear("s");
        assert_eq!(
            axis.ticks((0.0, 60.0), 6),
            [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]
        );
        assert_eq!(axis.ticks((0.0, 0.37), 5), [0.0, 0.1, 0.2, 3.0 * 0.1]);
        assert_eq!(
            Axis::log("us").ticks((1.0, 30.0), 8),
            [1.0, 2.0, 5.0, 10.0, 20.0]
        );
        assert_eq!(
            Axis::log("us").ticks((1.0, 1e8), 5),
            [1.0, 100.0, 1e4, 1e6, 1e8]
        );
        assert_eq!(
            Axis::nines("%").ticks((0.0, 99.9), 5),
            [0.0, 50.0, 90.0, 99.0, 99.9]
        );
    }

    #[test]
    fn short_numbers_keep_what_matters() {
        let shown = [0.0, 0.25, 1500.0, 25_000.0, 2.5e6, 3e9, 0.0005, 200.0].map(short);
        assert_eq!(
            shown,
            ["0", "0.25", "1500", "25k", "2.5M", "3G", "0.0005", "200"]
        );
    }

    #[test]
    fn ends_hold_every_value_that_has_a_place() {
        let values = || [3.0, 0.0, 40.0, f64::NAN].into_iter();
        assert_eq!(Axis::linear("").range_over(values()), (0.0, 40.0));
        assert_eq!(Axis::log("").range_over(values()), (3.0, 40.0));
        assert_eq!(Axis::log("").range_over([].into_iter()), (1.0, 10.0));
        assert_eq!(Axis::linear("").range_over([].into_iter()), (0.0, 1.0));
    }
}

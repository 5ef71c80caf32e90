//! The variants of `forebay-lab reproduce --perturb`: each changes one thing of every machine, or
//! the seed.
//!
//! A test that holds only at one point says little: the machines of the authors are known roughly.
//! Disks and memory are a fifth away from what the texts say, and the costs of processors, which
//! are estimates, three tenths.

use super::judge::Verdict;
use super::table::Findings;
use crate::machine::MachineError;
use crate::report::table::grid;
use crate::run::Plan;
use serde::Serialize;

/// One variant of all runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Machines as they are, with the first seed.
    AsIs,
    /// Another seed.
    Seed(u64),
    /// Devices of this speed, percent of what they are.
    Devices(u64),
    /// Zones of this size, percent of what they are; `DMA` stays.
    Memory(u64),
    /// Work that takes this long, percent of what it takes.
    Costs(u64),
}

impl Variant {
    /// All of them, in the order of the table.
    pub const ALL: [Variant; 9] = [
        Variant::AsIs,
        Variant::Seed(2),
        Variant::Seed(3),
        Variant::Devices(80),
        Variant::Devices(120),
        Variant::Memory(80),
        Variant::Memory(120),
        Variant::Costs(70),
        Variant::Costs(130),
    ];

    /// As the table says it.
    ///
    /// ```
    /// use forebay_lab::reproduction::perturb::Variant;
    /// assert_eq!(Variant::Memory(120).name(), "memory +20%");
    /// assert_eq!(Variant::Seed(2).name(), "seed 2");
    /// ```
    pub fn name(self) -> String {
        let changed = |what: &str, percent: u64| {
            let by = percent.cast_signed() - 100;
            format!("{what} {by:+}%")
        };
        match self {
            Variant::AsIs => "as it is".into(),
            Variant::Seed(seed) => format!("seed {seed}"),
            Variant::Devices(percent) => changed("disks", percent),
            Variant::Memory(percent) => changed("memory", percent),
            Variant::Costs(percent) => changed("costs", percent),
        }
    }

    /// `plan` in this variant.
    ///
    /// # Errors
    /// A machine that is impossible with so little memory.
    pub fn of(self, mut plan: Plan) -> Result<Plan, MachineError> {
        match self {
            Variant::AsIs => {}
            Variant::Seed(seed) => plan.seed = seed,
            Variant::Devices(percent) => plan.machine = plan.machine.with_device_speed(percent),
            Variant::Memory(percent) => plan.machine = plan.machine.with_memory(percent)?,
            Variant::Costs(percent) => plan.machine.costs_percent = percent,
        }
        Ok(plan)
    }
}

/// A test, and what it was in each variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The test.
    pub test: String,
    /// Whether a reproduction must show it.
    pub required: bool,
    /// In the order of [`Variant::ALL`].
    pub verdicts: Vec<Verdict>,
}

impl Row {
    /// In how many variants it holds.
    pub fn holds(&self) -> usize {
        let verdicts = self.verdicts.iter();
        verdicts
            .filter(|verdict| **verdict == Verdict::Holds)
            .count()
    }
}

/// The tests with what each was in `findings`, which are those of [`Variant::ALL`] in order.
pub fn rows(findings: &[Findings]) -> Vec<Row> {
    let first = findings.first().map_or(&[][..], |first| &first.judgements);
    let row = |(at, judgement): (usize, &super::judge::Judgement)| Row {
        test: judgement.target.test.clone(),
        required: judgement.target.required,
        verdicts: findings
            .iter()
            .filter_map(|findings| findings.judgements.get(at))
            .map(|judgement| judgement.verdict)
            .collect(),
    };
    first.iter().enumerate().map(row).collect()
}

/// The rows as text: in how many variants each test holds, and where it does not.
pub fn render(rows: &[Row]) -> String {
    let mut lines = vec![
        ["test", "holds in", "does not", "not tested", ""]
            .map(String::from)
            .to_vec(),
    ];
    for row in rows {
        let where_it = |wanted: Verdict| {
            let pairs = Variant::ALL.iter().zip(&row.verdicts);
            let names = pairs.filter(|(_, verdict)| **verdict == wanted);
            let names: Vec<String> = names.map(|(variant, _)| variant.name()).collect();
            names.join(", ")
        };
        let star = if row.required { "*" } else { "" };
        let remark = if row.holds() == 1 {
            "at one point only"
        } else {
            ""
        };
        lines.push(vec![
            format!("{}{star}", row.test),
            format!("{} of {}", row.holds(), row.verdicts.len()),
            where_it(Verdict::Fails),
            where_it(Verdict::NotTested),
            remark.into(),
        ]);
    }
    let mean = |rows: &mut dyn Iterator<Item = &Row>| {
        let (sum, count) = rows.fold((0, 0_usize), |(sum, count), row| {
            (sum + row.holds(), count + 1)
        });
        sum as f64 / count.max(1) as f64
    };
    let all = mean(&mut rows.iter());
    let required = mean(&mut rows.iter().filter(|row| row.required));
    format!(
        "{}\nof {} variants a test holds in {all:.1} on average, a required one in {required:.1}\n",
        grid(&lines, usize::MAX),
        Variant::ALL.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceSettings;
    use crate::machine::DeviceKind;
    use std::collections::BTreeSet;

    fn varied(variant: Variant) -> Plan {
        let plan = Plan::new("simple-wb", "amd4-512m").expect("both ship");
        variant.of(plan).expect("the machine is possible")
    }

    /// The speed of its first device, in percent.
    fn speed(plan: &Plan) -> u64 {
        match &plan.machine.storage.devices[0].kind {
            DeviceKind::Local(DeviceSettings::Stripe(stripe)) => stripe.speed_percent,
            other => panic!("{other:?} is no stripe"),
        }
    }

    #[test]
    fn a_row_says_where_its_test_holds() {
        let of = |test: &str, held: usize| Row {
            test: test.into(),
            required: test == "C1.2",
            verdicts: (0..9)
                .map(|at| {
                    if at < held {
                        Verdict::Holds
                    } else {
                        Verdict::Fails
                    }
                })
                .collect(),
        };
        let text = render(&[of("C1.2", 8), of("A1.1", 1)]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[1].contains("C1.2*") && lines[1].contains("8 of 9"),
            "{text}"
        );
        assert!(
            lines[1].contains("costs +30%") && !lines[1].contains("costs -30%"),
            "{text}"
        );
        assert!(
            lines[2].contains("1 of 9") && lines[2].contains("at one point only"),
            "{text}"
        );
        assert!(
            text.ends_with("4.5 on average, a required one in 8.0\n"),
            "{text}"
        );
    }

    #[test]
    fn each_variant_changes_one_thing() {
        let usual = varied(Variant::AsIs);
        let names: BTreeSet<String> = Variant::ALL.map(Variant::name).into();
        assert_eq!(names.len(), Variant::ALL.len());
        let memory = |plan: &Plan| {
            let zones = plan.machine.memory.zones();
            zones.map(|zone| zone.bytes).collect::<Vec<_>>()
        };
        let all = |plan: &Plan| {
            let costs = plan.machine.costs.work_costs(plan.machine.costs_percent);
            (plan.seed, speed(plan), memory(plan), costs.call_ns)
        };
        let (seed, usual_speed, zones, call_ns) = all(&usual);
        assert_eq!(usual_speed, 100);
        let slower = all(&varied(Variant::Devices(80)));
        assert_eq!(slower, (seed, 80, zones.clone(), call_ns));
        assert_eq!(
            all(&varied(Variant::Seed(3))),
            (3, 100, zones.clone(), call_ns)
        );
        let dearer = all(&varied(Variant::Costs(130)));
        assert_eq!(dearer, (seed, 100, zones.clone(), call_ns * 130 / 100));
        let larger = all(&varied(Variant::Memory(120)));
        // The first is DMA.
        assert_eq!((larger.2[0], larger.2[1]), (zones[0], zones[1] * 120 / 100));
    }
}

//! The parts in which mutants can be tried, and the tests that have to notice them.

/// A part of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Laws,
    State,
    Flows,
    /// State and flows.
    Engine,
    Stores,
}

impl Part {
    const ALL: [Part; 5] = [
        Part::Laws,
        Part::State,
        Part::Flows,
        Part::Engine,
        Part::Stores,
    ];

    pub(super) fn named(name: &str) -> Option<Part> {
        Part::ALL.into_iter().find(|part| part.name() == name)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Part::Laws => "laws",
            Part::State => "state",
            Part::Flows => "flows",
            Part::Engine => "engine",
            Part::Stores => "stores",
        }
    }

    pub(super) fn package(self) -> &'static str {
        match self {
            Part::Laws => "forebay-law",
            Part::State | Part::Flows | Part::Engine => "forebay",
            Part::Stores => "forebay-store",
        }
    }

    /// The folder of the package, from the root of the repository.
    pub(super) fn folder(self) -> &'static str {
        match self {
            Part::Laws => "crates/forebay-law",
            Part::State | Part::Flows | Part::Engine => "crates/forebay",
            Part::Stores => "crates/forebay-store",
        }
    }

    /// The files that are changed.
    pub(super) fn files(self) -> &'static [&'static str] {
        match self {
            Part::Laws => &["crates/forebay-law/src/**"],
            Part::State => &[
                "crates/forebay/src/state/**",
                "crates/forebay/src/lists/**",
                "crates/forebay/src/memory/**",
                "crates/forebay/src/books/**",
            ],
            Part::Flows => &["crates/forebay/src/flow/**"],
            Part::Engine => &[
                "crates/forebay/src/state/**",
                "crates/forebay/src/lists/**",
                "crates/forebay/src/memory/**",
                "crates/forebay/src/books/**",
                "crates/forebay/src/flow/**",
            ],
            Part::Stores => &["crates/forebay-store/src/**"],
        }
    }

    /// The tests that are run, one program after the other until one fails: the unit tests first,
    /// then the others, those that take least time first, and a program that has modules by these.
    /// Of the engine's, those on real threads (`stress`, `stress_files`, `kills`, `dropped_cuts`)
    /// and the explored schedules are left out: they take longest.
    pub(super) fn tests(self) -> &'static [&'static str] {
        match self {
            Part::Laws => &["--lib"],
            Part::State | Part::Flows | Part::Engine => &[
                "--lib",
                "--test=virtual_time",
                "--test=commits",
                "--test=read_many",
                "--test=memory_returned",
                "--test=object_memory",
                "--test=flush_allocations",
            ],
            Part::Stores => &[
                "--lib",
                "--test=contract",
                "--test=failures",
                "--test=wrappers",
                "--test=volumes",
                "--test=registered",
                "--test=own_rings",
                "--test=refused_ring",
                "--test=devices",
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_by_their_names() {
        for part in Part::ALL {
            assert_eq!(Part::named(part.name()), Some(part));
        }
        assert_eq!(Part::named("law"), None);
    }
}

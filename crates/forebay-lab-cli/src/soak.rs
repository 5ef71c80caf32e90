//! `forebay-lab soak`: the loads of the loops on real threads, after scenes in both worlds.

use crate::error::CommandError;
use crate::span::campaign_time;
use clap::Args;
use forebay_base::{Instant, Span};
use forebay_host::HostError;
use forebay_host::output::{expect_writable, print, write};
use forebay_lab::swarm::{Comparison, LoadRun, Scene, Violation, run_load};
use forebay_rt::Rt;
use serde::Serialize;
use std::io;
use std::path::PathBuf;

/// A scene settles for the first time, and is measured for the second.
const WARM_UP: Span = Span::from_secs(5);
const WINDOW: Span = Span::from_secs(20);

/// What was typed.
#[derive(Args)]
pub(crate) struct TypedSoak {
    /// Start no load after this time; the scenes in both worlds take two minutes of it
    #[arg(long, alias = "minutes", value_name = "TIME", default_value = "10min",
          value_parser = campaign_time)]
    time: Span,
    /// Seed of the first load; later loads use the next ones
    #[arg(long, value_name = "N", default_value = "0")]
    seed: u64,
    /// Also write the figures of both worlds to FILE as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A checked call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SoakArguments {
    span: Span,
    seed: u64,
    json_file: Option<PathBuf>,
}

impl TypedSoak {
    /// The call that was typed.
    pub(crate) fn checked(self) -> SoakArguments {
        SoakArguments {
            span: self.time,
            seed: self.seed,
            json_file: self.json,
        }
    }
}

/// The content of the JSON file.
#[derive(Serialize)]
struct Figures<'a> {
    scenes: &'a [Comparison],
    loads: u64,
    broken: &'a [Violation],
}

/// Soaks and reports.
pub(crate) fn run(arguments: &SoakArguments) -> Result<(), CommandError> {
    expect_writable(&[arguments.json_file.as_deref()])?;
    let rt = Rt::real();
    let until = rt.now() + arguments.span;
    let mut broken: Vec<Violation> = Vec::new();
    let scenes = compare(&rt, &mut broken)?;
    let loads = run_loads(&rt, arguments.seed, until, &mut broken)?;
    if let Some(path) = &arguments.json_file {
        let figures = Figures {
            scenes: &scenes,
            loads,
            broken: &broken,
        };
        let text = serde_json::to_string_pretty(&figures).map_err(|error| {
            CommandError::Lab(format!("the figures cannot be written: {error}"))
        })?;
        write(path, &text)?;
    }
    print(&summary(&scenes, loads))?;
    match broken.len() {
        0 => Ok(()),
        count => Err(CommandError::Lab(format!(
            "{count} broken promises on real threads or in virtual time"
        ))),
    }
}

fn no_threads(source: io::Error) -> CommandError {
    HostError::system("start the threads of writers")(source).into()
}

fn compare(rt: &Rt, broken: &mut Vec<Violation>) -> Result<Vec<Comparison>, CommandError> {
    let mut compared = Vec::new();
    for scene in Scene::compared(WARM_UP, WINDOW) {
        let comparison = scene.compare(rt).map_err(no_threads)?;
        print(&format!("{}\n", comparison.render()))?;
        broken.extend(comparison.found.iter().cloned());
        compared.push(comparison);
    }
    Ok(compared)
}

/// Runs loads until the time is up, and returns how many.
fn run_loads(
    rt: &Rt,
    first: u64,
    until: Instant,
    broken: &mut Vec<Violation>,
) -> Result<u64, CommandError> {
    let mut loads = 0;
    while rt.now() < until {
        let ran = run_load(rt, first + loads).map_err(no_threads)?;
        loads += 1;
        print(&line(&ran))?;
        broken.extend(ran.found);
    }
    Ok(loads)
}

fn line(ran: &LoadRun) -> String {
    let LoadRun {
        seed,
        seconds,
        pages,
        idle_percent,
        found,
    } = ran;
    let verdict = match found {
        None => "ok".to_owned(),
        Some(found) => format!("BROKEN {}: {}", found.oracle, found.what),
    };
    format!(
        "load {seed}: {seconds:.0} s, {pages:.0} pages, a store idle for {idle_percent:.1} % \
         while a writer was in a call; {verdict}\n"
    )
}

fn summary(scenes: &[Comparison], loads: u64) -> String {
    let figures: usize = scenes.iter().map(|scene| scene.figures.len()).sum();
    let differing: Vec<String> = scenes
        .iter()
        .flat_map(|scene| {
            let names = scene.differing().map(|figure| &figure.name);
            names.map(|name| format!("{}: {name}", scene.scene))
        })
        .collect();
    let names = if differing.is_empty() {
        String::new()
    } else {
        format!(" ({})", differing.join("; "))
    };
    format!(
        "\n{} scenes in both worlds: {} of {figures} figures differ{names}\n{loads} loads on real \
         threads\n",
        scenes.len(),
        differing.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_lab::swarm::{Figure, FigureKind, Oracle};

    #[test]
    fn what_differs_is_named_at_the_end() {
        let figure = |name: &str, in_real| Figure {
            kind: FigureKind::Rate,
            name: name.into(),
            in_virtual: 100.0,
            in_real,
        };
        let scene = Comparison {
            scene: "streams".into(),
            figures: vec![figure("near", 105.0), figure("far", 120.0)],
            found: Vec::new(),
        };
        let text = summary(&[scene], 7);
        let expected = "\n1 scenes in both worlds: 1 of 2 figures differ (streams: far)\n\
                        7 loads on real threads\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_load_that_broke_something_says_what() {
        let found = Violation {
            oracle: Oracle::Sync,
            what: "page 3".into(),
        };
        let ran = LoadRun {
            seed: 4,
            seconds: 2.0,
            pages: 100.0,
            idle_percent: 0.5,
            found: Some(found),
        };
        assert!(line(&ran).contains("BROKEN sync: page 3"), "{}", line(&ran));
    }
}

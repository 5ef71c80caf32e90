//! Calls and what they mean.

use super::*;

fn typed(words: &[&str]) -> Result<Command, clap::Error> {
    let words = [&["forebay-lab"], words].concat();
    Typed::try_parse_from(words)?.command.checked()
}

#[test]
fn the_manuals_are_those_of_the_command_line() {
    crate::manuals::check(Typed::command(), &[&[], &["bench"]]);
}

#[test]
fn each_command_has_examples_that_it_accepts_and_help_for_80_columns() {
    let count = crate::examples::check(&Typed::command(), &|words| {
        Typed::try_parse_from(words)?.command.checked().map(drop)
    });
    assert!(count > 10, "{count}");
}

#[test]
fn a_bare_bench_has_the_documented_defaults() {
    let expected = BenchArguments {
        memory_bytes: 256 << 20,
        parent_folder: ".".into(),
        quick: false,
        rounds: None,
        phases: Vec::new(),
        growth_bytes: 64 << 20,
        fronts: false,
        json_file: None,
    };
    assert_eq!(typed(&["bench"]).unwrap(), Command::Bench(expected));
}

#[test]
fn every_flag_arrives() {
    let words = [
        "bench",
        "--cache-memory",
        "65M",
        "--dir",
        "/x",
        "--quick",
        "--fronts",
        "--json",
        "r",
    ];
    let expected = BenchArguments {
        memory_bytes: 64 << 20,
        parent_folder: "/x".into(),
        quick: true,
        rounds: None,
        phases: Vec::new(),
        growth_bytes: 64 << 20,
        fronts: true,
        json_file: Some("r".into()),
    };
    assert_eq!(typed(&words).unwrap(), Command::Bench(expected));
}

#[test]
fn rounds_are_a_small_number_and_not_for_the_quick_bench() {
    let Command::Bench(arguments) = typed(&["bench", "--rounds", "5"]).unwrap() else {
        panic!("a bench was asked for");
    };
    assert_eq!(arguments.rounds, Some(5));
    for words in [
        &["bench", "--rounds", "0"][..],
        &["bench", "--rounds", "101"],
        &["bench", "--quick", "--rounds", "3"],
    ] {
        let error = typed(words).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{words:?}");
    }
}

#[test]
fn phases_are_those_that_exist() {
    let words = [
        "bench", "--phase", "miss", "--phase", "growth", "--growth", "8G",
    ];
    let Command::Bench(arguments) = typed(&words).unwrap() else {
        panic!("a bench was asked for");
    };
    assert_eq!(arguments.phases, ["miss", "growth"]);
    assert_eq!(arguments.growth_bytes, 8 << 30);
    let error = typed(&["bench", "--phase", "misses"]).unwrap_err();
    assert_eq!(error.exit_code(), 2);
}

#[test]
fn sizes_out_of_range_are_bad_calls() {
    for size in ["1M", "0", "fast", "999999T"] {
        for flag in ["--cache-memory", "--memory"] {
            let error = typed(&["bench", flag, size]).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{flag} {size}");
        }
    }
}

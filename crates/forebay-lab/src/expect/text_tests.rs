use crate::scenario::Scenario;

/// A scenario on a machine that ships, with one expectation.
fn expecting(expectation: &str) -> Result<Scenario, String> {
    let text = format!(
        "name = \"test\"\nsummary = \"a test\"\nmachine = \"amd4-512m\"\nlength_s = 5\n\
         [[processes]]\nname = \"log\"\nwrites = {{ rate = \"1M\" }}\n[[expect]]\n{expectation}\n"
    );
    Scenario::parse(&text).map_err(|error| error.to_string())
}

/// Checks that it is refused in its line, with these words.
fn assert_refused(expectation: &str, words: &str) {
    let error = expecting(expectation).unwrap_err();
    assert!(error.contains("line 8") && error.contains(words), "{error}");
}

fn reported(expectation: &str) -> String {
    let scenario = expecting(expectation).unwrap();
    scenario.expectations[0].to_string()
}

#[test]
fn a_size_is_reported_in_the_unit_of_the_column() {
    let pages = reported("never_above = { of = \"dirty + writeback\", limit = \"10M\" }");
    assert!(pages.contains("never above 2560,"), "{pages}");
    let pages = reported("mean = { of = \"pgscan_direct\", at_most = \"4K\" }");
    assert!(pages.contains("at most 1,"), "{pages}");
    let bytes = reported("mean = { of = \"rate@log\", at_least = \"1K\" }");
    assert!(bytes.contains("at least 1024,"), "{bytes}");
    let number = reported("never_above = { of = \"dirty\", limit = \"2560\" }");
    assert!(number.contains("never above 2560,"), "{number}");
    for of in ["kswapd_high_wmark_hit_quickly", "dirty + rate@log"] {
        let expectation = format!("never_above = {{ of = \"{of}\", limit = \"10M\" }}");
        assert_refused(&expectation, "a number is allowed");
    }
}

#[test]
fn bounds_between_which_nothing_lies_are_refused() {
    for expectation in [
        "mean = { of = \"rate@log\", at_least = \"9G\", at_most = \"1K\" }",
        "figure = { of = \"elapsed\", at_least = 2, at_most = 1.5 }",
        "latency = { of = \"pause\", percentile = 99, at_least_ms = 2, at_most_ms = 1 }",
    ] {
        assert_refused(expectation, "up to at_most");
    }
    let one = "mean = { of = \"rate@log\", at_least = \"1K\", at_most = 1024 }";
    assert!(expecting(one).is_ok());
    let unknown = "mean = { of = \"dirty\", at_least = \"thresh\", at_most = 1 }";
    assert!(expecting(unknown).is_ok(), "a level shows in the run alone");
}

#[test]
fn what_is_no_number_bounds_nothing() {
    for expectation in [
        "never_above = { of = \"dirty\", limit = nan }",
        "never_below = { of = \"dirty\", limit = -inf }",
        "mean = { of = \"rate@log\", at_least = nan }",
        "figure = { of = \"elapsed\", at_most = inf }",
        "latency = { of = \"pause\", percentile = 99, at_most_ms = nan }",
    ] {
        assert_refused(expectation, "finite");
    }
}

#[test]
fn a_figure_that_no_run_has_is_refused() {
    for name in [
        "bogus",
        "bytes_per_s@bogus",
        "bytes_per_s",
        "elapsed@nonsense",
        "pswpout@data",
        "seek_count@bogus",
        "longest_pause_s",
        "longest_pause_s@bogus",
        "dirty_of_inactive@bogus",
        "stall_events_total;direct",
        "stall_events_total;direct;BOGUS",
        "stall_events_total@direct",
    ] {
        let expectation = format!("figure = {{ of = \"{name}\", at_most = 1 }}");
        assert_refused(&expectation, "there are: ");
    }
    for name in [
        "pswpout",
        "bytes_per_s@log",
        "longest_pause_s@data",
        "final_sync",
        "seek_count",
        "seek_count@data",
        "dirty_of_inactive@DMA32",
        "stall_share_zero;direct;WRITEBACK",
        "stall_events_total;congestion_wait",
        "task_clock_msecs@kswapd",
    ] {
        let expectation = format!("figure = {{ of = \"{name}\", at_most = 1 }}");
        assert!(expecting(&expectation).is_ok(), "{name}");
    }
}

#[test]
fn what_is_compared_has_one_unit() {
    for expectation in [
        "never_above = { of = \"dirty\", limit = \"rate@log\" }",
        "mean = { of = \"nr_dirtied\", at_most = \"dirty\" }",
        "settles = { of = \"dirty + rate@log\", near = \"thresh\", within_percent = 5, by_s = 1 }",
        "overshoots = { of = \"dirty\", over = \"thresh + rate@log\", at_most_percent = 5 }",
    ] {
        assert_refused(expectation, "one unit");
    }
    let pages = "never_above = { of = \"dirty + writeback\", limit = \"thresh + free\" }";
    assert!(expecting(pages).is_ok());
}

/// A scenario with everything that the page names: two nodes, swap, readers, writers and maps.
fn on_two_nodes(expectation: &str) -> Result<Scenario, String> {
    const TEXT: &str = r#"
name = "test"
summary = "a test"
length_s = 5
[machine]
name = "two"
processors = 2
costs = "2021"
[[machine.nodes]]
[[machine.nodes.zones]]
name = "Normal"
size = "64M"
[[machine.nodes]]
[[machine.nodes.zones]]
name = "Normal"
size = "64M"
[[machine.devices]]
name = "disk"
rated = { bytes_per_s = 20_000_000 }
[[machine.file_systems]]
name = "data"
device = "disk"
kind = "xfs"
[machine.swap]
device = "disk"
size = "64M"
[[processes]]
name = "log"
writes = {}
[[processes]]
name = "scan"
reads = { size = "1M" }
[[processes]]
name = "probe"
maps = { size = "1M" }
"#;
    let scenario = Scenario::parse(&format!("{TEXT}[[expect]]\n{expectation}\n"));
    scenario.map_err(|error| error.to_string())
}

/// The names that the page's paragraph with this beginning gives for that machine.
fn names_of_the_page(beginning: &str) -> Vec<String> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/scenarios.md"
    );
    let page = std::fs::read_to_string(path).unwrap();
    let mut paragraphs = page.split("\n\n");
    let paragraph = paragraphs.find(|it| it.starts_with(beginning)).unwrap();
    let names = paragraph.split('`').skip(1).step_by(2);
    let placed = names.map(|name| {
        name.replace("ZONE", "Normal")
            .replace("FILE_SYSTEM", "data")
            .replace("DEVICE", "disk")
            .replace("PROCESS", "log")
            .replace("CONTEXT", "kswapd")
            .replace("REASON", "NOPROGRESS")
    });
    placed.collect()
}

#[test]
fn the_page_gives_names_that_may_be_used() {
    let refused = |names: Vec<String>, expectation: &dyn Fn(&str) -> String| {
        assert!(names.len() > 3, "{names:?}");
        let answers = names
            .into_iter()
            .map(|name| on_two_nodes(&expectation(&name)));
        answers.filter_map(Result::err).collect::<Vec<String>>()
    };
    let columns = refused(names_of_the_page("Columns:"), &|name| {
        format!("never_above = {{ of = \"{name}\", limit = 1 }}")
    });
    let figures = refused(names_of_the_page("Figures:"), &|name| {
        format!("figure = {{ of = \"{name}\", at_most = 1 }}")
    });
    let latencies = refused(names_of_the_page("Latencies:"), &|name| {
        format!("latency = {{ of = \"{name}\", percentile = 99.9, at_most_ms = 1 }}")
    });
    let refused = [columns, figures, latencies].concat();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

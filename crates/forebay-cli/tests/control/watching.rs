//! What watches a server from outside: the dashboard, the alerts, the status page.

use super::*;
use std::collections::BTreeSet;

#[test]
fn the_status_page_has_stores_and_causes_and_no_callers() {
    let mut server = Controlled::start(&["--metrics", "localhost:0"]);
    let address = server.served.metrics_address();
    server.write("heavy.img", 4);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let (status, page) = reply(&mut stream);
    assert_eq!(status, 200);
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
    let (_, metrics) = server.get("/metrics");
    let named = metrics.lines().find_map(|line| {
        let labels = line.strip_prefix("forebay_bdi_info{")?;
        Some(labels.split_once("name=\"")?.1.split_once('"')?.0)
    });
    let name = named.expect("a store has a name");
    assert!(page.contains(&format!("<td>{name}</td>")), "{name}: {page}");
    assert!(page.contains("Waiting now"), "{page}");
    assert!(
        !page.contains("(heavy.img)") && !page.contains("client "),
        "{page}"
    );
    let elsewhere = ["http://", "https://", "<script", "src="];
    let found = elsewhere.iter().find(|it| {
        page.replace("http://www.w3.org/2000/svg", "")
            .contains(**it)
    });
    assert_eq!(found, None);
}

/// Every name that begins with `forebay_` in `text`.
fn metric_names(text: &str) -> BTreeSet<&str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|letter: char| !is_part(letter));
    words.filter(|word| word.starts_with("forebay_")).collect()
}

/// The names of `text` for which `metrics` declare nothing.
fn undeclared<'t>(text: &'t str, metrics: &str) -> Vec<&'t str> {
    let mut declared = BTreeSet::new();
    for line in metrics.lines() {
        let Some((name, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|it| it.split_once(' '))
        else {
            continue;
        };
        let ends: &[&str] = match kind {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        declared.extend(ends.iter().map(|end| format!("{name}{end}")));
    }
    let names = metric_names(text).into_iter();
    names.filter(|name| !declared.contains(*name)).collect()
}

#[test]
fn the_dashboard_names_only_metrics_that_there_are() {
    let contrib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib");
    let dashboard = std::fs::read_to_string(contrib.join("grafana/forebay.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut expressions: Vec<&str> = targets.map(|it| it["expr"].as_str().unwrap()).collect();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    expressions.extend(variables.iter().filter_map(|it| it["definition"].as_str()));
    let text = expressions.join("\n");
    assert!(metric_names(&text).len() > 20, "{text}");
    let server = Controlled::start(&[]);
    let (_, metrics) = server.get("/metrics");
    assert_eq!(undeclared(&text, &metrics), Vec::<&str>::new());
    let wrong = "rate(forebay_nr_dirtied[1m]) + forebay_no_total + forebay_wait_seconds_bucket";
    let found = undeclared(wrong, &metrics);
    assert_eq!(found, ["forebay_no_total", "forebay_nr_dirtied"]);
}

/// The expressions of the alerts.
fn alerts() -> String {
    let contrib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib");
    let alerts = std::fs::read_to_string(contrib.join("prometheus/alerts.yml"));
    let alerts = alerts.expect("it is there");
    let lines = alerts.lines().map(str::trim_start);
    let expressions = lines.filter_map(|line| line.strip_prefix("expr: "));
    expressions.map(|line| line.to_owned() + "\n").collect()
}

#[test]
fn alerts_name_only_metrics_that_there_are() {
    let volume = tempfile::tempdir().unwrap();
    let volume = format!("folder://{}", volume.path().join("volume").display());
    let server = Controlled::start(&[
        &volume,
        "--chunk",
        "64K",
        "--drain",
        "2s",
        "--at-risk",
        "2s",
    ]);
    let (_, mut metrics) = server.get("/metrics");
    let mut text = alerts();
    assert!(metric_names(&text).len() > 10, "{text}");
    if is_left_out() {
        text = text.replace("forebay_source_full", "");
    } else {
        let folder = Mounted::folders();
        let control = folder.path().join("c");
        let mut call = forebay(&["mount", "--memory", "32M", "--foreground", "--control"]);
        call.arg(&control);
        call.args(["source", "mount"].map(|name| folder.path().join(name)));
        let mut mounted = Mounted::started(folder, call);
        metrics += &get(&control, "/metrics").1;
        mounted.end();
    }
    assert_eq!(undeclared(&text, &metrics), Vec::<&str>::new());
}

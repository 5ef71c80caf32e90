//! Rows for programs: one JSON object on each line, with one number.

use crate::arguments::BenchArguments;
use crate::contender::Percentiles;
use crate::error::BenchError;
use crate::results::{Figure, Results};
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// One row. A value that was not measured is `null`.
#[derive(Serialize)]
struct Row<'a> {
    phase: &'a str,
    metric: &'a str,
    unit: &'a str,
    contender: &'a str,
    threads: u32,
    depth: u32,
    /// The median over the rounds.
    value: f64,
    /// Half the difference between the extreme rounds, in percent of the median.
    spread_percent: f64,
    rounds: usize,
    p50: Option<f64>,
    p99: Option<f64>,
    p999: Option<f64>,
    max: Option<f64>,
}

/// A file for rows. It is made before the bench runs, so that a path that cannot be written is
/// reported at once and not after minutes.
pub(crate) struct RowFile {
    path: PathBuf,
    file: File,
}

impl RowFile {
    /// The file that `arguments` name, if they name one.
    pub(crate) fn asked(arguments: &BenchArguments) -> Result<Option<RowFile>, BenchError> {
        arguments
            .json_file
            .as_deref()
            .map(RowFile::create)
            .transpose()
    }

    fn create(path: &Path) -> Result<RowFile, BenchError> {
        let file = File::create(path).map_err(BenchError::at("make", path))?;
        Ok(RowFile {
            path: path.to_owned(),
            file,
        })
    }

    /// Writes a row for each number, on its own line.
    pub(crate) fn write(self, results: &Results) -> Result<(), BenchError> {
        write_rows(BufWriter::new(self.file), results).map_err(BenchError::at("write", &self.path))
    }
}

fn write_rows(mut to: impl Write, results: &Results) -> io::Result<()> {
    for figure in results.figures() {
        serde_json::to_writer(&mut to, &row(&figure))?;
        to.write_all(b"\n")?;
    }
    to.flush()
}

fn row(figure: &Figure) -> Row<'_> {
    let part = |of: fn(&Percentiles) -> f64| figure.percentiles.as_ref().map(of);
    Row {
        phase: figure.name.phase.name(),
        metric: &figure.name.metric,
        unit: &figure.unit,
        contender: figure.who.name(),
        threads: figure.name.load.threads,
        depth: figure.name.load.depth,
        value: figure.value,
        spread_percent: figure.spread_percent,
        rounds: figure.rounds,
        p50: part(|p| p.p50),
        p99: part(|p| p.p99),
        p999: part(|p| p.p999),
        max: part(|p| p.max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::{Concurrency, Phase, Sample, Who};

    fn results() -> Results {
        let mut results = Results::default();
        let samples = vec![Sample::plain("rate", "MB/s", 29.5)];
        results.add(Phase::Slow, Concurrency::new(4, 4), Who::Floor, samples);
        results
    }

    #[test]
    fn a_row_has_every_column() {
        let mut written = Vec::new();
        write_rows(&mut written, &results()).unwrap();
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "{\"phase\":\"slow disk\",\"metric\":\"rate\",\"unit\":\"MB/s\",\
             \"contender\":\"floor\",\"threads\":4,\"depth\":4,\"value\":29.5,\
             \"spread_percent\":0.0,\"rounds\":1,\
             \"p50\":null,\"p99\":null,\"p999\":null,\"max\":null}\n"
        );
    }

    #[test]
    fn a_full_disk_is_an_error_that_names_the_file() {
        let full = RowFile::create(Path::new("/dev/full")).unwrap();
        let error = full.write(&results()).unwrap_err().to_string();
        assert!(error.contains("/dev/full"), "{error}");
    }
}

//! Rows for programs: one JSON object on each line, with one number.

use crate::arguments::BenchArguments;
use crate::contender::Percentiles;
use crate::error::BenchError;
use crate::results::Figure;
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// One row. A value that was not measured is `null`.
#[derive(Serialize)]
pub(crate) struct Row<'a> {
    pub(crate) phase: &'a str,
    pub(crate) metric: &'a str,
    pub(crate) unit: &'a str,
    pub(crate) contender: &'a str,
    pub(crate) threads: u32,
    pub(crate) depth: u32,
    /// The median over the rounds.
    pub(crate) value: f64,
    /// Half the difference between the extreme rounds, in percent of the median.
    pub(crate) spread_percent: f64,
    pub(crate) rounds: usize,
    #[serde(flatten)]
    pub(crate) distribution: Distribution,
}

/// The columns of a row for the distribution of its number.
#[derive(Serialize)]
pub(crate) struct Distribution {
    p50: Option<f64>,
    p99: Option<f64>,
    p999: Option<f64>,
    max: Option<f64>,
}

impl From<Option<Percentiles>> for Distribution {
    fn from(percentiles: Option<Percentiles>) -> Distribution {
        Distribution {
            p50: percentiles.map(|p| p.p50),
            p99: percentiles.map(|p| p.p99),
            p999: percentiles.map(|p| p.p999),
            max: percentiles.map(|p| p.max),
        }
    }
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

    /// Writes each row on its own line.
    pub(crate) fn write<'r>(self, rows: impl Iterator<Item = Row<'r>>) -> Result<(), BenchError> {
        write_rows(BufWriter::new(self.file), rows).map_err(BenchError::at("write", &self.path))
    }
}

fn write_rows<'r>(mut to: impl Write, rows: impl Iterator<Item = Row<'r>>) -> io::Result<()> {
    for row in rows {
        serde_json::to_writer(&mut to, &row)?;
        to.write_all(b"\n")?;
    }
    to.flush()
}

/// The row of one number.
pub(crate) fn row(figure: &Figure) -> Row<'_> {
    Row {
        phase: figure.phase.name(),
        metric: &figure.metric,
        unit: &figure.unit,
        contender: figure.who.name(),
        threads: figure.threads,
        depth: figure.depth,
        value: figure.value,
        spread_percent: figure.spread_percent,
        rounds: figure.rounds,
        distribution: figure.percentiles.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::{Load, Phase, Sample, Who};
    use crate::results::Results;
    use crate::results::tests::named_step;

    #[test]
    fn a_row_has_every_column() {
        let mut results = Results::default();
        let step = named_step(Phase::Slow, Load::WriteSlowly, 4, 4);
        let sample = Sample::plain("rate", "MB/s", 29.5);
        results.add(&step, Who::Floor, vec![sample]);
        let mut written = Vec::new();
        write_rows(&mut written, results.figures().iter().map(row)).unwrap();
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
        let mut results = Results::default();
        let step = named_step(Phase::Hit, Load::ReadByCopy, 1, 1);
        let sample = Sample::plain("copy", "ns a page", 1.0);
        results.add(&step, Who::Floor, vec![sample]);
        let full = RowFile::create(Path::new("/dev/full")).unwrap();
        let error = full
            .write(results.figures().iter().map(row))
            .unwrap_err()
            .to_string();
        assert!(error.contains("/dev/full"), "{error}");
    }
}

//! fio, the client of both fronts: the jobs that it runs, and the report that it writes.

use crate::contender::{Percentiles, Sample};
use crate::error::BenchError;
use forebay_host::{Interrupts, Process};
use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The interval for which fio adds up operations in one line of its log.
const LOG_INTERVAL_MS: u64 = 100;

/// A job of fio as shipped with this crate. Values that differ between runs come from the
/// environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Script {
    name: &'static str,
    text: &'static str,
    side: Side,
}

/// The kind of operation, as fio's report calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Read,
    Write,
}

macro_rules! script {
    ($side:ident, $name:literal) => {
        Script {
            name: $name,
            text: include_str!(concat!("../../jobs/", $name, ".fio")),
            side: Side::$side,
        }
    };
}

pub(super) const NBD_READ: Script = script!(Read, "nbd-read");
pub(super) const NBD_WRITE: Script = script!(Write, "nbd-write");
pub(super) const NBD_FLUSH: Script = script!(Write, "nbd-flush");
pub(super) const NBD_FILL: Script = script!(Write, "nbd-fill");
pub(super) const FILE_READ: Script = script!(Read, "file-read");
pub(super) const FILE_WRITE: Script = script!(Write, "file-write");
pub(super) const DEVICE_WRITE: Script = script!(Write, "device-write");

/// A script with the values of one run.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) script: Script,
    /// The unix socket of an export, or the path of a file.
    pub(super) target: PathBuf,
    /// The range of each process, in bytes.
    pub(super) range_bytes: u64,
    /// Processes at once.
    pub(super) jobs: u32,
    pub(super) depth: u32,
    /// Length of a timed measurement; `None` for a job that does all of it once.
    pub(super) span_ms: u64,
    /// Time before the measurement, so that the start is not counted.
    pub(super) settle_ms: u64,
}

impl Job {
    /// The environment of a run, with the names that the scripts use.
    fn variables(&self) -> [(&'static str, OsString); 6] {
        [
            ("TARGET", self.target.clone().into()),
            ("SIZE", self.range_bytes.to_string().into()),
            ("JOBS", self.jobs.to_string().into()),
            ("DEPTH", self.depth.to_string().into()),
            ("SPAN_MS", self.span_ms.to_string().into()),
            ("SETTLE_MS", self.settle_ms.to_string().into()),
        ]
    }
}

/// The result of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Outcome {
    /// Operations a second.
    pub(super) operations: f64,
    /// Bytes a second.
    pub(super) bytes: f64,
    /// Time of an operation, in us.
    pub(super) latency_us: Percentiles,
    /// Longest time without an operation, in ms, to a tenth of a second.
    pub(super) longest_gap_ms: f64,
}

impl Outcome {
    /// The operations a second, with the distribution of their times.
    pub(super) fn rate(&self, metric: &str) -> Sample {
        Sample {
            percentiles: Some(self.latency_us),
            ..Sample::plain(metric, "IOPS", self.operations)
        }
    }
}

/// Runs jobs in a folder of their own.
pub(super) struct Fio<'a> {
    folder: &'a Path,
    interrupts: &'a Interrupts,
}

impl<'a> Fio<'a> {
    pub(super) fn new(folder: &'a Path, interrupts: &'a Interrupts) -> Fio<'a> {
        Fio { folder, interrupts }
    }

    /// Checks that there is a fio that speaks NBD; otherwise returns what is missing.
    pub(super) fn missing() -> Option<&'static str> {
        let listed = Command::new("fio").arg("--enghelp").output();
        match listed {
            Err(_) => Some("fio is not installed"),
            Ok(output) => {
                let text = String::from_utf8_lossy(&output.stdout);
                let speaks = text.split_ascii_whitespace().any(|engine| engine == "nbd");
                (!speaks).then_some("this fio was built without its nbd engine")
            }
        }
    }

    /// Runs `job` to its end.
    pub(super) fn run(&self, job: &Job) -> Result<Outcome, BenchError> {
        self.interrupts.check()?;
        let script = self.folder.join(job.script.name).with_extension("fio");
        fs::write(&script, job.script.text).map_err(BenchError::in_scratch("write", &script))?;
        let report = self.folder.join("fio.json");
        let log = self.folder.join("fio");
        let mut command = Command::new("fio");
        command
            .arg("--output-format=json")
            .arg(format!("--output={}", report.display()))
            .arg(format!("--write_iops_log={}", log.display()))
            .arg(format!("--log_avg_msec={LOG_INTERVAL_MS}"))
            .arg(&script)
            .envs(job.variables())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .current_dir(self.folder);
        let status = Process::start("fio", &mut command, self.interrupts)?.wait()?;
        self.interrupts.check()?;
        let text = fs::read_to_string(&report).unwrap_or_default();
        let outcome = status.success().then(|| parse(&text, job.script.side));
        let mut outcome = outcome.flatten().ok_or_else(|| {
            let first = text.lines().next().unwrap_or("");
            BenchError::program(format!("fio ended with {status}: {first}"))
        })?;
        outcome.longest_gap_ms = self.longest_gap_ms(job);
        Ok(outcome)
    }

    /// The longest time without an operation in any of the logs. The logs are removed.
    fn longest_gap_ms(&self, job: &Job) -> f64 {
        let mut longest: f64 = 0.0;
        for number in 1..=job.jobs {
            let path = self.folder.join(format!("fio_iops.{number}.log"));
            let text = fs::read_to_string(&path).unwrap_or_default();
            longest = longest.max(gap_ms(&text));
            // The next job writes it again; the last one is removed with the scratch folder.
            let _ = fs::remove_file(&path);
        }
        longest
    }
}

/// The values in fio's report of a single job.
fn parse(text: &str, side: Side) -> Option<Outcome> {
    let report: Value = serde_json::from_str(text).ok()?;
    let side = match side {
        Side::Read => "read",
        Side::Write => "write",
    };
    let numbers = report.get("jobs")?.get(0)?.get(side)?;
    let latency = numbers.get("clat_ns")?;
    let at = |percent: &str| {
        let nanos = latency.get("percentile")?.get(percent)?.as_f64()?;
        Some(nanos / 1e3)
    };
    Some(Outcome {
        operations: numbers.get("iops")?.as_f64()?,
        bytes: numbers.get("bw_bytes")?.as_f64()?,
        latency_us: Percentiles {
            p50: at("50.000000")?,
            p99: at("99.000000")?,
            p999: at("99.900000")?,
            max: latency.get("max")?.as_f64()? / 1e3,
        },
        longest_gap_ms: 0.0,
    })
}

/// The longest time between two lines of a log with operations, beyond the interval of the lines.
/// Each line is `time in ms, operations, ...`.
fn gap_ms(log: &str) -> f64 {
    let mut last: Option<f64> = None;
    let mut longest: f64 = 0.0;
    for line in log.lines() {
        let mut fields = line.split(',').map(|field| field.trim().parse::<f64>());
        let (Some(Ok(at_ms)), Some(Ok(done))) = (fields.next(), fields.next()) else {
            continue;
        };
        if done > 0.0 {
            let since = last.map_or(0.0, |last| at_ms - last);
            longest = longest.max(since - LOG_INTERVAL_MS as f64);
            last = Some(at_ms);
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_fio_3_33_is_read() {
        let text = r#"{"jobs": [{"jobname": "front", "read": {"iops": 110255.744,
            "bw_bytes": 451738469, "clat_ns": {"min": 1, "max": 2000000, "percentile": {
            "50.000000": 280000, "99.000000": 500000, "99.900000": 1500000}}}}]}"#;
        let outcome = parse(text, Side::Read).unwrap();
        assert!((outcome.operations - 110_255.744).abs() < 1e-6);
        assert!((outcome.latency_us.p999 - 1_500.0).abs() < 1e-9);
        assert!((outcome.latency_us.max - 2_000.0).abs() < 1e-9);
        assert!(parse(text, Side::Write).is_none());
        assert!(parse("fio: no such file", Side::Read).is_none());
    }

    #[test]
    fn scripts_take_from_the_environment_only_what_a_job_gives() {
        let scripts = [
            NBD_READ,
            NBD_WRITE,
            NBD_FLUSH,
            NBD_FILL,
            FILE_READ,
            FILE_WRITE,
            DEVICE_WRITE,
        ];
        for script in scripts {
            let job = Job {
                script,
                target: "/x".into(),
                range_bytes: 4_096,
                jobs: 1,
                depth: 1,
                span_ms: 1,
                settle_ms: 1,
            };
            let (head, options) = script.text.split_once("[front]").unwrap();
            let mut taken: Vec<&str> = options
                .split("${")
                .skip(1)
                .map(|rest| rest.split_once('}').unwrap().0)
                .collect();
            taken.sort_unstable();
            let variables = job.variables();
            let mut said: Vec<&str> = variables.iter().map(|(name, _)| *name).collect();
            said.retain(|name| head.contains(name));
            said.sort_unstable();
            assert_eq!(
                taken, said,
                "{} says at its head what it takes",
                script.name
            );
            let is_read = options.contains("rw=randread");
            assert_eq!(is_read, script.side == Side::Read, "{}", script.name);
        }
    }

    #[test]
    fn the_longest_time_without_an_operation_is_found() {
        let log = "100, 50, 0, 0, 0\n200, 0, 0, 0, 0\n300, 0, 0\n400, 7, 0\n500, 9, 0\n";
        assert!((gap_ms(log) - 200.0).abs() < 1e-9);
        assert!(gap_ms("").abs() < 1e-9);
        assert!((gap_ms("100, 5\n1700, 5\n") - 1_500.0).abs() < 1e-9);
    }
}

//! fio, the client of both fronts: one job a run, and what it says of it.

use crate::bench::contender::Percentiles;
use crate::bench::interrupt::Interrupts;
use crate::error::CommandError;
use rustix::process::Pid;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Time over which fio counts what was done before it writes a line of its log.
const LOG_INTERVAL_MS: u64 = 100;

/// What fio does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    RandomRead,
    RandomWrite,
    /// All of it once, with an fsync counted in.
    WriteAndSync,
}

/// What a job reads or writes.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// An export, by its unix socket.
    Export(PathBuf),
    /// A file, by calls that return when they are done.
    File(PathBuf),
    /// A file past the kernel's cache, with as many calls under way as the depth says.
    Direct(PathBuf),
}

/// One job.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) target: Target,
    pub(super) work: Work,
    /// The range of each of the processes, bytes.
    pub(super) range_bytes: u64,
    /// Processes at once.
    pub(super) jobs: u32,
    pub(super) depth: u32,
    /// Length of a measurement by time; a job that does all of it once has none.
    pub(super) span_ms: u64,
    /// Before it, so that what begins is not counted.
    pub(super) settle_ms: u64,
}

/// What came of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Outcome {
    /// Operations in a second.
    pub(super) operations: f64,
    /// Bytes in a second.
    pub(super) bytes: f64,
    /// Time of an operation, us.
    pub(super) latency_us: Percentiles,
    /// Longest time in which nothing was done, ms, to a tenth of a second.
    pub(super) longest_gap_ms: f64,
}

/// Runs jobs in a folder of its own.
pub(super) struct Fio<'a> {
    folder: &'a Path,
    interrupts: &'a Interrupts,
}

impl<'a> Fio<'a> {
    pub(super) fn new(folder: &'a Path, interrupts: &'a Interrupts) -> Fio<'a> {
        Fio { folder, interrupts }
    }

    /// Whether there is a fio that speaks NBD; else what is missing.
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
    pub(super) fn run(&self, job: &Job) -> Result<Outcome, CommandError> {
        self.interrupts.check()?;
        let report = self.folder.join("fio.json");
        let log = self.folder.join("fio");
        let mut child = Command::new("fio")
            .args(arguments(job))
            .arg(format!("--output={}", report.display()))
            .arg(format!("--write_iops_log={}", log.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .current_dir(self.folder)
            .spawn()
            .map_err(CommandError::system("start fio"))?;
        let pid = Pid::from_child(&child);
        self.interrupts.add_child(pid);
        let status = child.wait().map_err(CommandError::system("wait for fio"));
        self.interrupts.remove_child(pid);
        let status = status?;
        self.interrupts.check()?;
        let text = fs::read_to_string(&report).unwrap_or_default();
        let mut outcome = status
            .success()
            .then(|| parse(&text, job.work))
            .flatten()
            .ok_or_else(|| CommandError::Client {
                reason: format!(
                    "fio ended with {status}: {}",
                    text.lines().next().unwrap_or("")
                ),
            })?;
        outcome.longest_gap_ms = self.longest_gap_ms(job);
        Ok(outcome)
    }

    /// The longest time without an operation in any of the logs, which are removed.
    fn longest_gap_ms(&self, job: &Job) -> f64 {
        let mut longest: f64 = 0.0;
        for number in 1..=job.jobs {
            let path = self.folder.join(format!("fio_iops.{number}.log"));
            let text = fs::read_to_string(&path).unwrap_or_default();
            longest = longest.max(gap_ms(&text));
            // The next job writes it anew; one that stays is removed with the scratch folder.
            let _ = fs::remove_file(&path);
        }
        longest
    }
}

fn arguments(job: &Job) -> Vec<String> {
    let mut words = vec![
        "--name=front".to_owned(),
        "--output-format=json".to_owned(),
        "--randrepeat=1".to_owned(),
        "--group_reporting".to_owned(),
        format!("--log_avg_msec={LOG_INTERVAL_MS}"),
        format!("--numjobs={}", job.jobs),
        format!("--size={}", job.range_bytes),
        format!("--iodepth={}", job.depth),
    ];
    words.extend(match &job.target {
        Target::Export(socket) => vec![
            "--ioengine=nbd".to_owned(),
            format!("--uri=nbd+unix:///?socket={}", socket.display()),
        ],
        Target::File(path) => vec![
            "--ioengine=psync".to_owned(),
            format!("--filename={}", path.display()),
        ],
        Target::Direct(path) => vec![
            "--ioengine=libaio".to_owned(),
            "--direct=1".to_owned(),
            format!("--filename={}", path.display()),
        ],
    });
    words.extend(match job.work {
        Work::RandomRead => vec!["--rw=randread".to_owned(), "--bs=4k".to_owned()],
        Work::RandomWrite => vec!["--rw=randwrite".to_owned(), "--bs=4k".to_owned()],
        Work::WriteAndSync => vec![
            "--rw=write".to_owned(),
            "--bs=1M".to_owned(),
            "--end_fsync=1".to_owned(),
        ],
    });
    if job.span_ms > 0 {
        words.extend([
            "--time_based".to_owned(),
            format!("--runtime={}ms", job.span_ms),
            format!("--ramp_time={}ms", job.settle_ms),
            "--norandommap".to_owned(),
        ]);
    }
    words
}

/// What fio's report says of the one job in it.
fn parse(text: &str, work: Work) -> Option<Outcome> {
    let report: Value = serde_json::from_str(text).ok()?;
    let side = match work {
        Work::RandomRead => "read",
        Work::RandomWrite | Work::WriteAndSync => "write",
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

/// The longest time between two lines of a log in which something was done, beyond the interval
/// in which it writes them: `time in ms, operations, ...` each.
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
        let outcome = parse(text, Work::RandomRead).unwrap();
        assert!((outcome.operations - 110_255.744).abs() < 1e-6);
        assert!((outcome.latency_us.p999 - 1_500.0).abs() < 1e-9);
        assert!((outcome.latency_us.max - 2_000.0).abs() < 1e-9);
        assert!(parse(text, Work::RandomWrite).is_none());
        assert!(parse("fio: no such file", Work::RandomRead).is_none());
    }

    #[test]
    fn the_longest_time_without_an_operation_is_found() {
        let log = "100, 50, 0, 0, 0\n200, 0, 0, 0, 0\n300, 0, 0\n400, 7, 0\n500, 9, 0\n";
        assert!((gap_ms(log) - 200.0).abs() < 1e-9);
        assert!(gap_ms("").abs() < 1e-9);
        assert!((gap_ms("100, 5\n1700, 5\n") - 1_500.0).abs() < 1e-9);
    }
}

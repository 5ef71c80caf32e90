//! Why callers waited: the answer of [`crate::Cache::why`].

use crate::caller::{Caller, CallerKey};
use crate::retune::Changes;
use crate::statistics::{DrainStatistics, ElasticStatistics};
use crate::trouble::{Seconds, StoreTrouble};
use forebay_base::Span;
use forebay_base::units::{byte_of, show_bytes};
pub use forebay_law::blame::{BlameInputs, Cause, Savings, Suspect, Verdict};
use std::fmt;

/// How long a caller waited for one store and one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitRow {
    /// The caller that waited.
    pub caller: CallerKey,
    /// The store that it waited for, if there was one.
    pub bdi: Option<usize>,
    /// What it waited for.
    pub cause: Cause,
    /// Calls that waited for this, with those that wait now.
    pub calls: u64,
    /// The sum of their waits.
    pub waited: Span,
    /// The longest wait of one call.
    pub longest: Span,
}

/// A wait that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenWait {
    /// The caller that waits.
    pub caller: CallerKey,
    /// The store that it waits for, if there is one.
    pub bdi: Option<usize>,
    /// What it waits for.
    pub cause: Cause,
    /// For how long it has waited without a pause.
    pub waited: Span,
}

/// How many pages a caller made dirty in one store. A write to a page that is dirty already does
/// not count, nor do a few pages that an open handle has dirtied since it was last checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtiedRow {
    /// The caller that wrote.
    pub caller: CallerKey,
    /// The store whose pages these are. None for callers that had to make room for others.
    pub bdi: Option<usize>,
    /// Pages of 4 KiB.
    pub pages: u64,
}

/// One caller and one store: how long it waited, for what, and who is to blame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhyLine {
    /// The caller that waited.
    pub caller: Caller,
    /// The store that it waited for, if there was one.
    pub bdi: Option<usize>,
    /// How long it waited in all.
    pub waited: Span,
    /// Its waits by cause, the longest first.
    pub rows: Vec<WaitRow>,
    /// Pages that it made dirty in that store in the same time.
    pub dirtied_pages: u64,
    /// Who or what is to blame.
    pub verdict: Verdict,
    /// The other caller that is to blame, if the verdict accuses one.
    pub culprit: Option<Caller>,
    /// The inputs of the verdict.
    pub inputs: BlameInputs,
    /// What would have helped.
    pub savings: Savings,
    /// The promise in seconds that its store keeps, if it has one: a limit of its own.
    pub drain: Option<DrainStatistics>,
    /// For how long it has been waiting, if it waits now: the oldest of its waits that go on.
    pub waits_now: Option<Span>,
    /// The age of the oldest dirty page of its store now, if there is one.
    pub oldest_dirty: Option<Span>,
    /// The knobs that would help, if there are any.
    pub advice: Option<Advice>,
}

/// Knobs that would help a caller that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// How they would help.
    pub reason: AdviceReason,
    /// What to give to [`crate::Cache::retune`].
    pub changes: Changes,
}

/// How knobs would help a caller that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdviceReason {
    /// They turn back a limit on dirty pages that was turned down.
    TurnBack {
        /// How long ago it was turned down.
        ago: Span,
    },
    /// They double the limit that holds the caller.
    HigherLimit,
    /// They double the time in which its store has to be written.
    LongerPromise,
    /// They leave another caller less of the limit.
    HoldBack {
        /// The other caller's store.
        bdi: usize,
    },
    /// They leave half as much to be written by a sync.
    ShorterSync,
}

impl fmt::Display for AdviceReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            AdviceReason::TurnBack { ago } => {
                let ago = Seconds(ago);
                write!(
                    f,
                    "the limit was turned down {ago} ago, and can be turned back"
                )
            }
            AdviceReason::HigherLimit => write!(f, "twice the limit would help"),
            AdviceReason::LongerPromise => write!(f, "twice the time to write it would help"),
            AdviceReason::HoldBack { bdi } => {
                write!(
                    f,
                    "less of store {bdi} could be dirty, and more of this one"
                )
            }
            AdviceReason::ShorterSync => {
                write!(
                    f,
                    "with less dirty before it, a sync would take half as long"
                )
            }
        }
    }
}

/// Who waited, for what, and who is to blame, the longest wait first. Its text is for people.
///
/// ```
/// # use forebay_engine as forebay;
/// # use forebay::{Cache, Settings};
/// let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
/// assert!(cache.why(None).to_string().starts_with("no caller has waited"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// The length of the time that it covers, which ends now.
    pub window: Span,
    /// How long all callers waited together.
    pub waited: Span,
    /// A line for each caller and store.
    pub lines: Vec<WhyLine>,
    /// The budget, if it gives way to other programs.
    pub elastic: Option<ElasticStatistics>,
    /// The stores that are silent now, or refuse something. They are named first: what waits for
    /// them waits for nothing else.
    pub troubles: Vec<StoreTrouble>,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(|_| String::new()))
    }
}

impl Why {
    /// The text, in which `command` follows each advice: it says how to turn the knobs.
    ///
    /// ```
    /// # use forebay_engine as forebay;
    /// # use forebay::{Cache, Settings};
    /// # let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
    /// let text = cache.why(None).text(|advice| format!("{:?}", advice.changes));
    /// assert!(text.starts_with("no caller has waited"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn text(&self, command: impl Fn(&Advice) -> String) -> String {
        let window = Seconds(self.window);
        let troubles = self.troubles.iter().flat_map(StoreTrouble::lines);
        let troubles: String = troubles.map(|line| line + "\n").collect();
        if self.lines.is_empty() {
            let none = format!("no caller has waited in the last {window}\n");
            return troubles + &none + &self.elastic_text();
        }
        let (count, waited) = (self.lines.len(), Seconds(self.waited));
        let callers = if count == 1 { "caller" } else { "callers" };
        let head = format!("in the last {window}, {count} {callers} waited {waited} in all\n");
        let lines = self.lines.iter().enumerate().map(|(at, line)| {
            let advice = line.advice.as_ref().map(|advice| {
                let reason = advice.reason;
                match &*command(advice) {
                    "" => format!("   {reason}\n"),
                    command => format!("   {reason}: {command}\n"),
                }
            });
            format!("{:<2} {line}{}", at + 1, advice.unwrap_or_default())
        });
        troubles + &head + &lines.collect::<String>() + &self.elastic_text()
    }

    /// What the memory of the machine took from the cache, if it took some.
    fn elastic_text(&self) -> String {
        let taken = |it: &ElasticStatistics| it.ceiling_bytes.saturating_sub(it.target_bytes);
        let Some(elastic) = self.elastic.filter(|it| taken(it) > 0) else {
            return String::new();
        };
        let (target, ceiling) = (elastic.target_bytes, elastic.ceiling_bytes);
        let (target, ceiling) = (show_bytes(target), show_bytes(ceiling));
        let last = elastic
            .last
            .map(|(ago, step)| format!("; {} ago {step}", Seconds(ago)));
        let last = last.unwrap_or_default();
        format!("elastic memory: the budget is {target} of {ceiling}{last}\n")
    }
}

impl fmt::Display for WhyLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (caller, waited) = (self.caller.to_string(), Seconds(self.waited).to_string());
        write!(f, "{caller:<24} {waited:>9}  {}", self.accusation())?;
        if let Some(row) = self.rows.first() {
            let longest = Seconds(row.longest);
            let (cause, calls) = (row.cause.name(), row.calls);
            write!(
                f,
                "; main cause: {cause} ({calls} times, at most {longest})"
            )?;
        }
        writeln!(f)?;
        if let Some(waited) = self.waits_now {
            writeln!(f, "   it waits now, for {} so far", Seconds(waited))?;
        }
        self.fmt_dirtied(f)?;
        if let Some(bdi) = self.bdi {
            self.fmt_store(f, bdi)?;
        }
        self.fmt_help(f)
    }
}

impl WhyLine {
    /// Who is to blame, in words.
    pub fn accusation(&self) -> String {
        let Verdict { first, second, .. } = self.verdict;
        if !self.verdict.is_clear() {
            return format!("unclear: {} or {}", first.name(), second.name());
        }
        match (&self.culprit, self.bdi) {
            (Some(culprit), _) => format!("{}: {culprit}", first.name()),
            (None, Some(bdi)) if first == Suspect::Store => format!("slow store {bdi}"),
            (None, _) => first.name().to_owned(),
        }
    }

    fn fmt_dirtied(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elapsed_us = u128::from(self.inputs.elapsed_us.max(1));
        let bytes = byte_of(self.dirtied_pages);
        let per_s = u128::from(bytes) * 1_000_000 / elapsed_us;
        if bytes == 0 {
            return Ok(());
        }
        let rate = show_bytes(u64::try_from(per_s).unwrap_or(u64::MAX));
        writeln!(
            f,
            "   it made {} dirty, {rate} per second",
            show_bytes(bytes)
        )
    }

    fn fmt_store(&self, f: &mut fmt::Formatter<'_>, bdi: usize) -> fmt::Result {
        let BlameInputs {
            store_pages_per_s: now,
            store_pages_per_s_before: before,
            limit_pages,
            ..
        } = self.inputs;
        if now == 0 {
            return Ok(());
        }
        let rate = |pages| show_bytes(byte_of(pages));
        write!(f, "   store {bdi} takes {} per second", rate(now))?;
        if self.verdict.first == Suspect::Store {
            write!(f, ", and took {} a minute ago", rate(before))?;
        }
        let Some(drain) = self.drain.filter(|drain| !drain.is_idle) else {
            write!(f, "; {} may be dirty", rate(limit_pages))?;
            return self.fmt_oldest(f);
        };
        let (limit, promise) = (rate(drain.limit), Seconds(drain.promise));
        write!(
            f,
            "; to be written in {promise}, {limit} of it may be dirty"
        )?;
        self.fmt_oldest(f)?;
        if drain.cost_percent > 0 {
            let percent = drain.cost_percent;
            writeln!(
                f,
                "   keeping {promise} costs it about {percent} % of its rate"
            )?;
        }
        Ok(())
    }

    fn fmt_oldest(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.oldest_dirty {
            Some(age) => writeln!(f, "; the oldest dirty page is {} old", Seconds(age)),
            None => writeln!(f),
        }
    }

    fn fmt_help(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (memory, store) = (self.savings.memory_helps(), self.savings.store_helps());
        let text = match (memory, store) {
            (true, true) => "more memory would help, and so would a faster store or fewer writes",
            (true, false) => "more memory would help",
            // The advice says which limit, and memory is not it.
            (false, true) if self.advice.is_some() => "a faster store or fewer writes would help",
            (false, true) => "more memory would not help; a faster store or fewer writes would",
            (false, false) => return Ok(()),
        };
        writeln!(f, "   {text}")
    }
}

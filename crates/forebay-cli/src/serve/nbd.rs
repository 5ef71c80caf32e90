//! `forebay serve nbd`: images, served through a cache over a socket.

use super::arguments::{ListenAddress, ServeArguments};
use super::images;
use super::listening::{self, listen};
use super::losses::Losses;
use super::memory::{Plan, code_bytes, stores, stores_bytes, threads};
use super::notices::Notices;
use crate::daemon::control::{self, Feed, Source};
use crate::daemon::ending::{Ending, reporting, write_all};
use crate::daemon::history::History;
use crate::daemon::left::Left;
use crate::daemon::looks::Looks;
use crate::daemon::metrics::Beside;
use crate::daemon::patience::answer_timeout;
use crate::daemon::promises::report_promises;
use crate::daemon::say::{say, say_ready};
use crate::daemon::store::{cache_of, usable};
use crate::daemon::troubles::report_troubles;
use crate::daemon::{heap, limits, machine, memory, pressure};
use crate::error::CommandError;
use forebay::settings::Elastic;
use forebay::{Cache, Settings};
use forebay_base::Span;
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_base::units::show_bytes;
use forebay_fuse::raise_descriptor_limit;
use forebay_nbd::{Export, Notice, Server, ServerSettings};
use forebay_rt::{Rt, block_on};
use std::path::PathBuf;

/// What a client has open: its socket twice, and a bell.
const CLIENT_DESCRIPTORS: u64 = 3;
/// What an image has open, wherever it is.
const IMAGE_DESCRIPTORS: u64 = 16;
/// What the server has open beside them.
const OWN_DESCRIPTORS: u64 = 64;

/// A client that does not read the answers to its last requests for this long is cut off.
const DRAIN_PATIENCE: Span = Span::from_secs(10);

/// Refuses what a start would refuse before it takes anything.
pub(crate) fn check(arguments: &ServeArguments) -> Result<(), CommandError> {
    let planned = planned(arguments);
    planned
        .map(drop)
        .map_err(|error| arguments.tuning.located(error))
}

/// Serves until a signal ends it.
pub(crate) fn run(arguments: &ServeArguments) -> Result<(), CommandError> {
    let (plan, settings) = planned(arguments).map_err(|error| arguments.tuning.located(error))?;
    limits::survive_file_size_limit()?;
    // Before any thread: each would reserve address space of its own, which RLIMIT_AS counts.
    heap::bound();
    limits::check_threads(threads())?;
    let unmarked = memory::become_flusher();
    let listener = listen(&arguments.listen)?;
    let uri = listener.uri();
    let rt = Rt::real();
    let feed = Arc::new(Feed::default());
    let (cache, exports, losses) = build(arguments, settings, &rt, feed.clone())?;
    let unlocked = memory::lock_what_is_used();
    let is_written = Arc::new(Mutex::new(false));
    let unsettled = losses.clone();
    let before_exit = move || unsettled.say_unsettled();
    let ending = Ending::listen(&cache, is_written.clone(), before_exit)?;
    announce(arguments, &exports, &plan);
    for refused in [unmarked, unlocked].into_iter().flatten() {
        say(refused);
    }
    losses.name_stores(&cache);
    let history = History::default();
    let looks = Looks::default().with(report_troubles(&cache));
    let looks = looks.with(history.record(&rt, arguments.flags.metrics.is_some()));
    let looks = looks.with(report_promises()).with(losses.report_harm());
    looks
        .with(losses.end_if_fenced(ending.gate()))
        .begin(&cache, &rt);
    let (for_clients, notices) = (losses.clone(), Notices::default());
    let settings = ServerSettings {
        connections_limit: plan.clients as usize,
        shared_bytes: plan.shared_bytes as usize,
        notify: Arc::new(move |notice| match notice {
            Notice::Connected { connections: 1 } => for_clients.begin_anew(),
            notice => notices.say(&notice),
        }),
        ..ServerSettings::default()
    };
    let server = Server::start(listener, exports, settings)
        .map_err(|error| CommandError::Served(error.to_string()))?;
    let server = Arc::new(server);
    let source = |socket| Source {
        cache: cache.clone(),
        rt: rt.clone(),
        feed: feed.clone(),
        history: history.clone(),
        served: uri.clone(),
        socket,
        beside: beside(&server, &losses),
    };
    if let Some(address) = &arguments.flags.metrics {
        control::start_metrics(address, source(PathBuf::new()))?;
    }
    let control = control::start(arguments.flags.control.as_deref(), source)?;
    // The process that started us takes this line as the sign that clients may come.
    say_ready(uri);
    block_on(async {
        ending.asked().await;
        end(&server, &cache, &losses, &rt).await;
    });
    drop(control);
    *lock(&is_written) = true;
    losses.conclude()?;
    say("everything is written");
    Ok(())
}

/// What `server` knows beside its cache.
fn beside(server: &Arc<Server>, losses: &Losses) -> Box<dyn Fn() -> Beside + Send + Sync> {
    let (server, losses) = (server.clone(), losses.clone());
    Box::new(move || Beside {
        connections: Some(server.connections()),
        errors: vec![(String::new(), server.errors())],
        figures: losses.figures(),
        troubles: Vec::new(),
    })
}

/// How the memory is divided and the settings of the cache, if this machine can have them.
fn planned(arguments: &ServeArguments) -> Result<(Plan, Settings), CommandError> {
    machine::check_memory(arguments.memory_bytes, arguments.floor_bytes)?;
    listening::check(&arguments.listen)?;
    let plan = plan(arguments)?;
    check_descriptors(arguments, &plan)?;
    let (tuning, stores) = (&arguments.tuning, stores(arguments));
    tuning.expect_stores(stores)?;
    for bdi in 0..stores {
        tuning.of_store(bdi, arguments.flags.promises.backing())?;
    }
    // What the cache does not have stays the same whatever the cache gives.
    let beside_bytes = arguments.memory_bytes - plan.cache_bytes;
    let settings = Settings {
        memory_bytes: plan.cache_bytes,
        answer_timeout: answer_timeout(arguments.flags.answer_timeout),
        at_risk: arguments.flags.promises.at_risk,
        elastic: arguments.floor_bytes.map(|floor_bytes| Elastic {
            floor_bytes: floor_bytes.saturating_sub(beside_bytes),
        }),
        // Memory that may be given back is not taken before it is needed.
        prefault: arguments.floor_bytes.is_none(),
        ..Settings::default()
    };
    Ok((plan, usable(&settings, beside_bytes, tuning)?))
}

fn plan(arguments: &ServeArguments) -> Result<Plan, CommandError> {
    let has_tls = matches!(
        arguments.listen,
        ListenAddress::Tls(..) | ListenAddress::Given(Some(_))
    );
    Plan::new(
        arguments.memory_bytes,
        arguments.clients,
        has_tls,
        threads() as u64,
        stores_bytes(arguments),
    )
}

/// Refuses counts that the system does not allow.
fn check_descriptors(arguments: &ServeArguments, plan: &Plan) -> Result<(), CommandError> {
    let granted = raise_descriptor_limit();
    let beside = OWN_DESCRIPTORS + IMAGE_DESCRIPTORS * arguments.images.len() as u64;
    let clients = granted.saturating_sub(beside) / CLIENT_DESCRIPTORS;
    if clients < plan.clients {
        let or_fewer = match clients {
            0 => String::new(),
            _ => format!(", or give --clients {clients} or fewer images"),
        };
        let text = format!(
            "{} clients and {} images need {} files open at once, and this process may open \
             {granted} (ulimit -n): raise that{or_fewer}",
            plan.clients,
            arguments.images.len(),
            beside + plan.clients * CLIENT_DESCRIPTORS,
        );
        return Err(CommandError::setting("nbd.clients", &text));
    }
    Ok(())
}

/// The cache and the images that it serves.
fn build(
    arguments: &ServeArguments,
    settings: Settings,
    rt: &Rt,
    feed: Arc<Feed>,
) -> Result<(Cache, Vec<Export>, Losses), CommandError> {
    let cache = cache_of(settings, rt, feed)?;
    pressure::watch(&cache)?;
    let (exports, served) = images::open(arguments, &cache)?;
    Ok((cache, exports, Losses::new(served)))
}

fn announce(arguments: &ServeArguments, exports: &[Export], plan: &Plan) {
    for (export, image) in exports.iter().zip(&arguments.images) {
        let name = match export.name() {
            "" => String::new(),
            name => format!(" as '{name}'"),
        };
        let length = show_bytes(export.length_bytes());
        let only = if arguments.read_only {
            ", read-only"
        } else {
            ""
        };
        say(format_args!(
            "serving {}{name}: {length}{only}",
            image.path.display()
        ));
    }
    say(format_args!(
        "{} of memory in all: {} of cache, {} for each of at most {} clients, {} that they share, \
         {} for the program itself",
        show_bytes(arguments.memory_bytes),
        show_bytes(plan.cache_bytes),
        show_bytes(plan.client_bytes),
        plan.clients,
        show_bytes(plan.shared_bytes),
        show_bytes(plan.program_bytes),
    ));
    // If the system does not show it, nothing is reported.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    say(format_args!(
        "in addition, at most {} of program code",
        show_bytes(code_bytes(&maps))
    ));
}

/// Answers pending requests, then writes what is dirty. An answer may wait for the store for as
/// long as that takes; the server does not wait only for clients that do not read their answers.
async fn end(server: &Server, cache: &Cache, losses: &Losses, rt: &Rt) {
    server.drain();
    let mut left = Left::new(cache, rt);
    let report = || {
        let cut = server.cut_stalled(DRAIN_PATIENCE);
        if cut > 0 {
            say(format_args!(
                "{cut} clients do not read their answers and are disconnected"
            ));
        }
        say(format_args!(
            "{} clients wait for answers, {}",
            server.connections(),
            left.show()
        ));
    };
    reporting(rt, server.ended(), report).await;
    write_all(cache, rt, &mut left, async || losses.give_up().await).await;
    losses.settle(rt).await;
}

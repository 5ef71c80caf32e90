//! The parts of `--memory`: the cache gets what the clients and the program itself leave.

use super::arguments::{ImageArguments, ServeArguments};
use crate::error::CommandError;
use forebay_base::units::show_bytes;
use forebay_nbd::client::SERVER_BYTES;
use forebay_nbd::{CONNECTION_BYTES, REQUESTS_BYTES, STRANGERS_BYTES, TLS_BYTES};
use forebay_rt::thread::SMALL_STACK_BYTES;
use std::num::NonZero;

/// All small allocations while a server runs: tables of objects, of statistics, texts.
const HEAP_BYTES: u64 = 2 << 20;
/// Threads beside one for each processor of the runtime: its timer, the store's threads, those that
/// answer for metrics and control, and those that accept, listen for signals, and wait for the end.
const THREADS: u64 = 1 + 8 + 2 + 3;
/// The smallest useful cache.
const LEAST_CACHE_BYTES: u64 = 2 << 20;
/// One part in this many of the memory is buffers that the clients share.
const SHARED_PART: u64 = 16;
/// The fewest shared buffers that still help.
const LEAST_SHARED_BYTES: u64 = 512 << 10;
/// By default the clients get one part in this many of the memory.
const CLIENTS_PART: u64 = 4;
const USUAL_CLIENTS: u64 = 16;
/// Volumes in buckets get one part in this many of the memory together.
const BUCKETS_PART: u64 = 4;
/// The most that helps one of them.
const MOST_BUCKET_BYTES: u64 = 256 << 20;

/// How the memory of a server is divided, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Clients at once.
    pub(super) clients: u64,
    /// Memory for each of them.
    pub(super) client_bytes: u64,
    /// Buffers that they share.
    pub(super) shared_bytes: u64,
    /// The program's own memory: stacks, heap, connections that have yet to show a certificate.
    pub(super) program_bytes: u64,
    /// Pages and the records about them.
    pub(super) cache_bytes: u64,
}

impl Plan {
    /// Divides `memory_bytes` for a server with `threads`; the stores of volumes that lie elsewhere
    /// have `stores_bytes` of it.
    ///
    /// # Errors
    /// A bad call if it is too little, with the least that is enough.
    pub(super) fn new(
        memory_bytes: u64,
        clients: Option<u64>,
        has_tls: bool,
        threads: u64,
        stores_bytes: u64,
    ) -> Result<Plan, CommandError> {
        let stack_bytes = SMALL_STACK_BYTES as u64;
        let mut program_bytes = HEAP_BYTES + threads * stack_bytes + stores_bytes;
        let mut client_bytes = CONNECTION_BYTES as u64;
        if has_tls {
            program_bytes += STRANGERS_BYTES as u64;
            client_bytes += TLS_BYTES as u64;
        }
        let usual = (memory_bytes / CLIENTS_PART / client_bytes).clamp(1, USUAL_CLIENTS);
        let clients = clients.unwrap_or(usual);
        let most_shared = clients * REQUESTS_BYTES as u64;
        let shared_bytes = (memory_bytes / SHARED_PART).clamp(LEAST_SHARED_BYTES, most_shared);
        let needed = |shared: u64| program_bytes + clients * client_bytes + shared;
        let Some(cache_bytes) = memory_bytes
            .checked_sub(needed(shared_bytes))
            .filter(|&bytes| bytes >= LEAST_CACHE_BYTES)
        else {
            // With more memory the shared part grows too: 15 parts of 16 are for the rest.
            let rest = needed(0) + LEAST_CACHE_BYTES;
            let least = (rest * SHARED_PART).div_ceil(SHARED_PART - 1);
            let least = least
                .max(rest + LEAST_SHARED_BYTES)
                .next_multiple_of(1 << 20);
            let text = format!(
                "--memory {} is too little for {clients} clients at once and a cache: give {} at \
                 least, or fewer --clients",
                show_bytes(memory_bytes),
                show_bytes(least),
            );
            return Err(CommandError::setting("memory", &text));
        };
        Ok(Plan {
            clients,
            client_bytes,
            shared_bytes,
            program_bytes,
            cache_bytes,
        })
    }
}

/// Threads of the server itself: clients have others, and so have stores elsewhere.
pub(super) fn threads() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    processors.max(2) + THREADS as usize
}

/// How many of the images lie in another server.
fn in_servers(arguments: &ServeArguments) -> u64 {
    count_of(arguments, &forebay_nbd::client::SCHEMES)
}

/// How many of the images are volumes in buckets.
pub(super) fn in_buckets(arguments: &ServeArguments) -> u64 {
    count_of(arguments, &forebay_bucket::SCHEMES)
}

fn count_of(arguments: &ServeArguments, schemes: &[&str]) -> u64 {
    let begins = |image: &&ImageArguments| {
        let address = image.path.as_os_str().as_encoded_bytes();
        let has = |scheme: &&str| {
            let rest = address.strip_prefix(scheme.as_bytes());
            rest.is_some_and(|rest| rest.starts_with(b"://"))
        };
        schemes.iter().any(has)
    };
    arguments.images.iter().filter(begins).count() as u64
}

/// How many stores the images are in: all files and devices are in one.
pub(super) fn stores(arguments: &ServeArguments) -> usize {
    let elsewhere = in_servers(arguments) + in_buckets(arguments);
    let has_files = elsewhere < arguments.images.len() as u64;
    elsewhere as usize + usize::from(has_files)
}

/// Memory for each volume in a bucket, of `memory_bytes` in all.
pub(super) fn bucket_bytes(memory_bytes: u64, buckets: u64) -> u64 {
    (memory_bytes / BUCKETS_PART / buckets.max(1)).min(MOST_BUCKET_BYTES)
}

/// What the stores of volumes that lie elsewhere take.
pub(super) fn stores_bytes(arguments: &ServeArguments) -> u64 {
    let buckets = in_buckets(arguments);
    in_servers(arguments) * SERVER_BYTES as u64
        + buckets * bucket_bytes(arguments.memory_bytes, buckets)
}

/// Bytes of the files that this process has mapped, which are its code: an upper bound of the code
/// in memory. `maps` is the text of `/proc/self/maps`.
pub(super) fn code_bytes(maps: &str) -> u64 {
    let mapped = maps.lines().filter(|line| line.contains(" /"));
    let bytes_of = |line: &str| {
        let (start, rest) = line.split_once('-')?;
        let end = rest.split(' ').next()?;
        let [start, end] = [start, end].map(|hex| u64::from_str_radix(hex, 16).ok());
        end?.checked_sub(start?)
    };
    mapped.filter_map(bytes_of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn sum(plan: &Plan) -> u64 {
        plan.clients * plan.client_bytes + plan.shared_bytes + plan.program_bytes + plan.cache_bytes
    }

    #[test]
    fn every_byte_has_an_owner() {
        for (mib, clients, has_tls) in [(64, None, false), (64, Some(4), true), (4096, None, true)]
        {
            let plan = Plan::new(mib * MIB, clients, has_tls, 2 + THREADS, 0).unwrap();
            assert_eq!(sum(&plan), mib * MIB);
            assert!(plan.cache_bytes > mib * MIB / 2, "{plan:?}");
        }
    }

    #[test]
    fn what_the_clients_of_other_servers_take_is_counted() {
        let [without, with] = [0, 2].map(|servers| {
            Plan::new(
                64 * MIB,
                None,
                false,
                2 + THREADS,
                servers * SERVER_BYTES as u64,
            )
        });
        let (without, with) = (without.unwrap(), with.unwrap());
        assert_eq!(
            with.program_bytes - without.program_bytes,
            2 * SERVER_BYTES as u64
        );
        assert_eq!(sum(&with), 64 * MIB);
    }

    #[test]
    fn little_memory_means_fewer_clients_unless_their_number_is_given() {
        let plan = Plan::new(64 * MIB, None, false, 2 + THREADS, 0).unwrap();
        assert_eq!(plan.clients, 16);
        let plan = Plan::new(16 * MIB, None, false, 2 + THREADS, 0).unwrap();
        assert!((1..16).contains(&plan.clients), "{plan:?}");
        assert_eq!(
            Plan::new(64 * MIB, Some(20), false, 2 + THREADS, 0)
                .unwrap()
                .clients,
            20
        );
    }

    #[test]
    fn too_little_is_refused_with_the_least_that_is_enough() {
        for (clients, has_tls, processors) in [(16, false, 2), (16, true, 2), (1000, true, 64)] {
            let plan =
                |mib: u64| Plan::new(mib * MIB, Some(clients), has_tls, processors + THREADS, 0);
            let least = (1..100_000).find(|&mib| plan(mib).is_ok()).unwrap();
            let text = plan(least - 1).unwrap_err().to_string();
            let reported = format!("give {} at least", show_bytes(least * MIB));
            assert!(text.contains(&reported), "{least}: {text}");
        }
    }

    #[test]
    fn only_mapped_files_are_counted() {
        let maps = "1000-3000 r-xp 00000000 fe:00 99 /usr/bin/forebay\n\
                    3000-9000 rw-p 00000000 00:00 0 \n\
                    9000-a000 rw-p 00000000 00:00 0 [heap]\n\
                    a000-b000 r--p 00000000 fe:00 98 /usr/lib/libc.so.6\n";
        assert_eq!(code_bytes(maps), 0x3000);
    }
}

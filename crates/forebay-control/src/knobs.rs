//! The knobs of a running cache, by the names that users type: one table for reading and setting.

use super::time::{self, parse_time, show_time};
use forebay::{Changes, StoreChanges, StoreKey};
use forebay_base::Span;
use forebay_base::units::parse_size;
use serde_json::{Map, Value};

/// The place of a knob in the changes, and the kind of its values.
enum Slot<'c> {
    Count(&'c mut Option<u64>),
    Bytes(&'c mut Option<u64>),
    Time(&'c mut Option<Span>),
    Flag(&'c mut Option<bool>),
    /// A time, or none.
    #[expect(
        clippy::option_option,
        reason = "a change is given or not, and what it sets is a time or none"
    )]
    Promise(&'c mut Option<Option<Span>>),
}

/// A knob: its name, what it does, its allowed values, and its place.
struct Knob<T> {
    name: &'static str,
    about: &'static str,
    allowed: &'static str,
    slot: fn(&mut T) -> Slot<'_>,
}

const PERCENT: &str = "a percentage from 0 to 100";
const PROMISE: &str = "off, or a time of at least 100ms with its unit: 500ms, 2s or 5min";
const AT_RISK: &str = "off, or a time of at least 400ms with its unit: 500ms, 2s or 5min";
const OFF: &str = "off";
const BYTES: &str = "bytes, or a size such as 64M or 2G";

/// The memory of a running cache. It has no place in a file of settings: there `memory` says how
/// much the whole server takes.
pub const CACHE_MEMORY: &str = "cache_memory";
/// What [`CACHE_MEMORY`] was called before version 0.2.
pub const OLD_MEMORY: &str = "memory";

const KNOBS: &[Knob<Changes>] = &[
    Knob {
        name: "dirty_ratio",
        about: "Limit of dirty data, in percent of the memory",
        allowed: PERCENT,
        slot: |it| Slot::Count(&mut it.dirty_ratio_percent),
    },
    Knob {
        name: "dirty_bytes",
        about: "The same in bytes; 0 uses the percentage",
        allowed: "0, or a size of at least 8192 bytes",
        slot: |it| Slot::Bytes(&mut it.dirty_bytes),
    },
    Knob {
        name: "background_ratio",
        about: "Dirty data at which background writeback starts, in percent of the memory",
        allowed: PERCENT,
        slot: |it| Slot::Count(&mut it.background_ratio_percent),
    },
    Knob {
        name: "background_bytes",
        about: "The same in bytes; 0 uses the percentage",
        allowed: BYTES,
        slot: |it| Slot::Bytes(&mut it.background_bytes),
    },
    Knob {
        name: "dirty_expire",
        about: "Age at which dirty pages are written back",
        allowed: time::ALLOWED,
        slot: |it| Slot::Time(&mut it.dirty_expire),
    },
    Knob {
        name: "writeback_interval",
        about: "How often the server looks for old dirty pages, at least 1ms; 0 for never",
        allowed: time::ALLOWED,
        slot: |it| Slot::Time(&mut it.writeback_interval),
    },
    Knob {
        name: "readahead_pages",
        about: "Maximum number of pages to read ahead",
        allowed: "0 to 1048576",
        slot: |it| Slot::Count(&mut it.readahead_pages),
    },
    Knob {
        name: CACHE_MEMORY,
        about: "Memory of the cache, which is a part of --memory",
        allowed: "a size, at most what the cache got at the start",
        slot: |it| Slot::Bytes(&mut it.memory_bytes),
    },
    Knob {
        name: "stall_threshold",
        about: "A call that waits longer is recorded as a stall",
        allowed: time::ALLOWED,
        slot: |it| Slot::Time(&mut it.stall_threshold),
    },
    Knob {
        name: "at_risk",
        about: "Maximum age of data that is not yet durable",
        allowed: AT_RISK,
        slot: |it| Slot::Promise(&mut it.at_risk),
    },
];

const STORE_KNOBS: &[Knob<StoreChanges>] = &[
    Knob {
        name: "min_ratio",
        about: "Share of the dirty limit that a store always has, in percent",
        allowed: PERCENT,
        slot: |it| Slot::Count(&mut it.min_ratio_percent),
    },
    Knob {
        name: "max_ratio",
        about: "Share of the dirty limit that a store may never exceed, in percent",
        allowed: PERCENT,
        slot: |it| Slot::Count(&mut it.max_ratio_percent),
    },
    Knob {
        name: "strict_limit",
        about: "Whether a store's writers are limited by its own share alone",
        allowed: "true or false",
        slot: |it| Slot::Flag(&mut it.strict_limit),
    },
    Knob {
        name: "drain",
        about: "Limit a store's dirty data to what it can write in this time",
        allowed: PROMISE,
        slot: |it| Slot::Promise(&mut it.drain),
    },
];

/// Why a change is refused: which knob, what was given, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub knob: String,
    pub given: String,
    pub allowed: String,
}

impl Slot<'_> {
    /// Reads a number, a boolean, or a text as people type it. Returns whether it was understood.
    fn set(self, given: &Value) -> bool {
        let count = || match given {
            Value::String(text) => text.parse().ok(),
            _ => given.as_u64(),
        };
        match self {
            Slot::Count(slot) => put(slot, count()),
            Slot::Bytes(slot) => {
                let sized = given.as_str().and_then(|text| parse_size(text).ok());
                put(slot, count().or(sized))
            }
            Slot::Time(slot) => {
                let typed = given.as_str().and_then(|text| parse_time(text).ok());
                put(slot, typed)
            }
            Slot::Promise(slot) => {
                let typed = given.as_str().and_then(|text| match text {
                    OFF => Some(None),
                    text => parse_time(text).ok().map(Some),
                });
                put(slot, typed)
            }
            Slot::Flag(slot) => {
                let typed = given.as_str().and_then(|text| text.parse().ok());
                put(slot, given.as_bool().or(typed))
            }
        }
    }

    fn value(self) -> Option<Value> {
        match self {
            Slot::Count(slot) | Slot::Bytes(slot) => slot.map(Value::from),
            Slot::Time(slot) => slot.map(|time| show_time(time).into()),
            Slot::Flag(slot) => slot.map(Value::from),
            Slot::Promise(slot) => slot.map(|time| time.map_or(OFF.into(), show_time).into()),
        }
    }
}

fn put<T>(slot: &mut Option<T>, value: Option<T>) -> bool {
    let is_understood = value.is_some();
    *slot = value.or(slot.take());
    is_understood
}

/// What `given`, a JSON object of knobs, asks to change.
///
/// # Errors
/// The first knob or value that is refused, with the values that it takes.
pub fn changes(given: &Map<String, Value>) -> Result<Changes, Refused> {
    let mut changes = Changes::default();
    for (name, value) in given {
        let (is_understood, allowed) = set_one(&mut changes, name, value);
        if !is_understood {
            return Err(Refused {
                knob: name.clone(),
                given: value.to_string(),
                allowed,
            });
        }
    }
    Ok(changes)
}

/// Puts the knob `name` into `changes`. Returns whether its value was understood, and what is
/// allowed.
pub fn set_one(changes: &mut Changes, name: &str, value: &Value) -> (bool, String) {
    let name = if name == OLD_MEMORY {
        CACHE_MEMORY
    } else {
        name
    };
    if let Some(knob) = KNOBS.iter().find(|knob| knob.name == name) {
        return ((knob.slot)(changes).set(value), knob.allowed.into());
    }
    let Some((number, knob)) = store_knob(name) else {
        return (false, format!("one of {}", names().join(", ")));
    };
    let known = changes
        .stores
        .iter()
        .position(|of| of.store.number() == number);
    let at = known.unwrap_or(changes.stores.len());
    if known.is_none() {
        let store = StoreKey::numbered(number);
        changes.stores.push(StoreChanges::of_store(store));
    }
    (
        (knob.slot)(&mut changes.stores[at]).set(value),
        knob.allowed.into(),
    )
}

/// The store and the knob that `store.N.NAME` means.
fn store_knob(name: &str) -> Option<(usize, &'static Knob<StoreChanges>)> {
    let (number, name) = name.strip_prefix("store.")?.split_once('.')?;
    let knob = STORE_KNOBS.iter().find(|knob| knob.name == name)?;
    Some((number.parse().ok()?, knob))
}

/// The knobs that `changes` has, with their values as [`changes`] reads them.
pub fn values(mut changes: Changes) -> Map<String, Value> {
    let mut values = Map::new();
    let mut stores = std::mem::take(&mut changes.stores);
    for knob in KNOBS {
        let value = (knob.slot)(&mut changes).value();
        values.extend(value.map(|value| (knob.name.to_owned(), value)));
    }
    for store in &mut stores {
        for knob in STORE_KNOBS {
            let name = format!("store.{}.{}", store.store.number(), knob.name);
            let value = (knob.slot)(store).value();
            values.extend(value.map(|value| (name, value)));
        }
    }
    values
}

/// A value as people type it.
pub fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Every name; that of a store's knob has N for the number of the store.
pub fn names() -> Vec<String> {
    let of_stores = STORE_KNOBS
        .iter()
        .map(|knob| format!("store.N.{}", knob.name));
    let names = KNOBS.iter().map(|knob| knob.name.to_owned());
    names.chain(of_stores).collect()
}

/// Every name with what the knob does and its allowed values.
pub fn described() -> Vec<(String, String)> {
    let knobs = KNOBS.iter().map(|knob| (knob.about, knob.allowed));
    let of_stores = STORE_KNOBS.iter().map(|knob| (knob.about, knob.allowed));
    let texts = knobs.chain(of_stores);
    let texts = texts.map(|(about, allowed)| format!("{about} ({allowed})"));
    names().into_iter().zip(texts).collect()
}

/// For each knob, its name, what it does, and its allowed values, in lines of 80 columns.
pub fn help() -> String {
    let knobs = KNOBS.iter().map(|knob| (knob.about, knob.allowed));
    let of_stores = STORE_KNOBS.iter().map(|knob| (knob.about, knob.allowed));
    let texts = knobs.chain(of_stores);
    let entry = |(name, (about, allowed))| format!("  {name}\n      {about}:\n      {allowed}\n");
    names().into_iter().zip(texts).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(given: Value) -> Result<Changes, Refused> {
        let Value::Object(given) = given else {
            panic!("an object");
        };
        changes(&given)
    }

    #[test]
    fn numbers_and_typed_texts_are_the_same_and_come_back() {
        let typed = json!({
            "dirty_ratio": "10", "cache_memory": "64M", "dirty_expire": "30s",
            "store.1.max_ratio": "50",
            "store.1.strict_limit": "true", "store.0.drain": "2s", "store.1.drain": "off",
        });
        let numbers = json!({
            "dirty_ratio": 10, "cache_memory": 67_108_864, "dirty_expire": "30s",
            "store.1.max_ratio": 50,
            "store.1.strict_limit": true, "store.0.drain": "2s", "store.1.drain": "off",
        });
        let changes = read(typed).unwrap();
        assert_eq!(changes, read(numbers.clone()).unwrap());
        assert_eq!(changes.stores.len(), 2);
        assert_eq!(Value::Object(values(changes)), numbers);
    }

    #[test]
    fn the_old_name_of_the_memory_is_taken_and_has_the_new_one() {
        let old = read(json!({ OLD_MEMORY: "64M" })).unwrap();
        assert_eq!(old, read(json!({ CACHE_MEMORY: "64M" })).unwrap());
        assert!(values(old).contains_key(CACHE_MEMORY));
        assert!(!names().contains(&OLD_MEMORY.to_owned()));
    }

    #[test]
    fn help_fits_a_terminal_of_80_columns() {
        for line in help().lines() {
            assert!(line.len() <= 80, "{line}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_with_what_is_allowed() {
        for (given, allowed) in [
            (json!({ "dirty_ratio": -1 }), PERCENT),
            (json!({ "dirty_ratio": [1] }), PERCENT),
            (json!({ "dirty_expire": 30 }), time::ALLOWED),
            (json!({ "store.0.strict_limit": "maybe" }), "true or false"),
            (json!({ "store.0.drain": 5 }), PROMISE),
            (json!({ "store.0.drain": "5" }), PROMISE),
            (
                json!({ "memory": "much" }),
                "a size, at most what the cache got at the start",
            ),
        ] {
            assert_eq!(read(given.clone()).unwrap_err().allowed, allowed, "{given}");
        }
        for unknown in [
            "speed",
            "store.max_ratio",
            "store.x.max_ratio",
            "store.0.speed",
        ] {
            let refused = read(json!({ unknown: 1 })).unwrap_err();
            assert!(refused.allowed.contains("store.N.max_ratio"), "{refused:?}");
        }
    }
}

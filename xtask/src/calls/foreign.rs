//! The result types of the methods of the standard library, for types that connect ours.

use super::types::Ty;

/// Names that unknown foreign types have too: they are not followed if the type is unknown.
pub(crate) const COMMON: &[&str] = &[
    "add",
    "all",
    "and",
    "and_then",
    "any",
    "append",
    "args",
    "as_bytes",
    "as_mut",
    "as_ptr",
    "as_ref",
    "as_slice",
    "as_str",
    "borrow",
    "borrow_mut",
    "bytes",
    "ceil",
    "chain",
    "chars",
    "clear",
    "clone",
    "cloned",
    "cmp",
    "collect",
    "contains",
    "contains_key",
    "copied",
    "count",
    "default",
    "drain",
    "drop",
    "end",
    "entry",
    "enumerate",
    "eq",
    "expect",
    "extend",
    "fill",
    "filter",
    "find",
    "first",
    "flush",
    "fmt",
    "fold",
    "for_each",
    "from",
    "get",
    "get_mut",
    "get_or_init",
    "hash",
    "index",
    "insert",
    "into",
    "into_inner",
    "into_iter",
    "is_alive",
    "is_empty",
    "is_err",
    "is_none",
    "is_ok",
    "is_some",
    "iter",
    "iter_mut",
    "join",
    "keys",
    "kind",
    "last",
    "len",
    "lines",
    "load",
    "lock",
    "map",
    "map_err",
    "max",
    "merge",
    "min",
    "name",
    "names",
    "ne",
    "new",
    "next",
    "next_back",
    "not",
    "offset",
    "ok",
    "open",
    "or",
    "or_default",
    "or_else",
    "parse",
    "partial_cmp",
    "path",
    "peek",
    "poll",
    "pop",
    "pop_front",
    "position",
    "powf",
    "push",
    "push_back",
    "push_front",
    "push_str",
    "read",
    "read_at",
    "read_exact",
    "read_to_end",
    "read_to_string",
    "remove",
    "replace",
    "reserve",
    "resize",
    "retain",
    "rev",
    "round",
    "run",
    "send",
    "set",
    "size",
    "skip",
    "sort",
    "split",
    "spawn",
    "start",
    "store",
    "sum",
    "swap",
    "sync",
    "sync_all",
    "take",
    "to_owned",
    "to_string",
    "trim",
    "truncate",
    "try_from",
    "try_into",
    "try_lock",
    "unwrap",
    "unwrap_or",
    "unwrap_or_else",
    "update",
    "values",
    "wait",
    "wake",
    "with",
    "with_capacity",
    "write",
    "write_all",
    "write_at",
    "write_str",
    "zip",
];

/// The type of the elements of `ty`, if it is a sequence.
pub(crate) fn element(ty: &Ty) -> Ty {
    match ty {
        Ty::Foreign(name, _) => match name.as_str() {
            "Vec" | "Iter" | "Option" | "Range" | "RangeInclusive" | "IntoIter" => ty.argument(0),
            "BTreeMap" => Ty::Tuple(vec![ty.argument(0), ty.argument(1)]),
            _ => Ty::Unknown,
        },
        _ => Ty::Unknown,
    }
}

/// The argument of a closure that is passed to method `name` of `ty`.
pub(crate) fn closure_parameters(ty: &Ty, name: &str) -> Vec<Ty> {
    let Ty::Foreign(head, _) = ty else {
        return Vec::new();
    };
    match (head.as_str(), name) {
        ("Result", "map_err" | "unwrap_or_else" | "or_else" | "inspect_err") => {
            vec![ty.argument(1)]
        }
        ("Option" | "Result", "unwrap_or_else" | "or_else" | "ok_or_else") => Vec::new(),
        ("Option" | "Result", _) => vec![ty.argument(0)],
        ("Iter" | "Vec" | "BTreeMap" | "Range", "fold" | "try_fold" | "scan") => {
            vec![Ty::Unknown, element(ty)]
        }
        ("Iter" | "Vec" | "BTreeMap" | "Range", "reduce" | "sort_by" | "max_by" | "min_by") => {
            vec![element(ty), element(ty)]
        }
        ("BTreeMap", "retain") => vec![ty.argument(0), ty.argument(1)],
        ("Iter" | "Vec" | "BTreeMap" | "Range" | "RangeInclusive", _) => vec![element(ty)],
        _ => Vec::new(),
    }
}

/// The result of method `name` of the foreign type `ty`; `closure` is the result of its closure.
pub(crate) fn method(ty: &Ty, name: &str, closure: Option<&Ty>) -> Ty {
    if matches!(
        name,
        "clone" | "to_owned" | "as_ref" | "as_mut" | "by_ref" | "deref" | "borrow"
    ) {
        let Ty::Foreign(head, _) = ty else {
            return ty.clone();
        };
        return if head == "Mutex" {
            ty.argument(0)
        } else {
            ty.clone()
        };
    }
    let Ty::Foreign(head, _) = ty else {
        let is_same = matches!(name, "min" | "max" | "clamp");
        return if is_same { ty.clone() } else { Ty::Unknown };
    };
    match head.as_str() {
        "Option" | "Result" => of_option(ty, head, name, closure),
        "Vec" => of_sequence(ty, name),
        "BTreeMap" => of_map(ty, name),
        "Iter" | "Range" | "RangeInclusive" => of_iterator(ty, name, closure),
        "Mutex" => match name {
            "lock" | "borrow_mut" | "read" | "write" | "get_mut" | "into_inner" | "replace"
            | "take" => ty.argument(0),
            "try_lock" => Ty::of("Option", ty.argument(0)),
            _ => Ty::Unknown,
        },
        "OnceLock" | "OnceCell" => match name {
            "get" | "get_mut" | "into_inner" | "take" => Ty::of("Option", ty.argument(0)),
            "get_or_init" => ty.argument(0),
            _ => Ty::Unknown,
        },
        "Weak" if name == "upgrade" => Ty::of("Option", ty.argument(0)),
        "Cell" | "Entry" => ty.argument(0),
        _ => Ty::Unknown,
    }
}

fn of_option(ty: &Ty, head: &str, name: &str, closure: Option<&Ty>) -> Ty {
    let given = || closure.cloned().unwrap_or(Ty::Unknown);
    match name {
        "unwrap" | "expect" | "unwrap_or" | "unwrap_or_else" | "unwrap_or_default" | "insert"
        | "get_or_insert_with" | "get_or_insert" | "into_inner" => ty.argument(0),
        "ok" | "as_deref" | "as_deref_mut" | "cloned" | "copied" | "take" | "filter" | "or"
        | "or_else" | "replace" | "flatten" | "xor" => Ty::of("Option", ty.argument(0)),
        "map_err" | "ok_or" | "ok_or_else" | "inspect" | "inspect_err" => {
            Ty::of("Result", ty.argument(0))
        }
        "err" => Ty::of("Option", ty.argument(1)),
        "map" => Ty::of(head, given()),
        "and_then" | "map_or" | "map_or_else" => given(),
        "iter" | "iter_mut" | "into_iter" => Ty::of("Iter", ty.argument(0)),
        _ => Ty::Unknown,
    }
}

fn of_sequence(ty: &Ty, name: &str) -> Ty {
    match name {
        "iter" | "iter_mut" | "into_iter" | "drain" | "range" => Ty::of("Iter", ty.argument(0)),
        "first" | "last" | "get" | "get_mut" | "pop" | "pop_front" | "pop_back" | "front"
        | "back" | "first_mut" | "last_mut" | "front_mut" | "back_mut" | "pop_first"
        | "pop_last" | "peek" => Ty::of("Option", ty.argument(0)),
        "remove" | "swap_remove" => ty.argument(0),
        "as_slice" | "as_mut_slice" | "to_vec" | "into_boxed_slice" | "split_off" => ty.clone(),
        "chunks" | "windows" | "split" | "chunks_exact" | "chunks_mut" => {
            Ty::of("Iter", ty.clone())
        }
        _ => Ty::Unknown,
    }
}

fn of_map(ty: &Ty, name: &str) -> Ty {
    let pair = || Ty::Tuple(vec![ty.argument(0), ty.argument(1)]);
    match name {
        "get" | "get_mut" | "remove" | "insert" => Ty::of("Option", ty.argument(1)),
        "iter" | "iter_mut" | "into_iter" | "range" | "range_mut" => Ty::of("Iter", pair()),
        "first_key_value" | "last_key_value" | "pop_first" | "pop_last" => Ty::of("Option", pair()),
        "values" | "values_mut" | "into_values" => Ty::of("Iter", ty.argument(1)),
        "keys" | "into_keys" => Ty::of("Iter", ty.argument(0)),
        "entry" => Ty::of("Entry", ty.argument(1)),
        _ => Ty::Unknown,
    }
}

fn of_iterator(ty: &Ty, name: &str, closure: Option<&Ty>) -> Ty {
    let given = || closure.cloned().unwrap_or(Ty::Unknown);
    let one = || element(ty);
    match name {
        "next" | "next_back" | "find" | "last" | "nth" | "min" | "max" | "min_by_key"
        | "max_by_key" | "min_by" | "max_by" | "reduce" | "peek" => Ty::of("Option", one()),
        "filter" | "rev" | "skip" | "take" | "chain" | "peekable" | "step_by" | "take_while"
        | "skip_while" | "inspect" | "copied" | "cloned" | "fuse" | "into_iter" | "cycle" => {
            Ty::of("Iter", one())
        }
        "map" => Ty::of("Iter", given()),
        "filter_map" | "flat_map" | "map_while" => Ty::of("Iter", element(&given())),
        "flatten" => Ty::of("Iter", element(&one())),
        "find_map" => given(),
        "enumerate" => Ty::of("Iter", Ty::Tuple(vec![Ty::Unknown, one()])),
        "zip" => Ty::of("Iter", Ty::Tuple(vec![one(), Ty::Unknown])),
        "collect" => Ty::of("Vec", one()),
        _ => Ty::Unknown,
    }
}

/// The result of a call of a foreign function.
pub(crate) fn call(names: &[String], given: Vec<Ty>) -> Ty {
    let first = given.into_iter().next().unwrap_or(Ty::Unknown);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match names.as_slice() {
        [.., "Some"] => Ty::of("Option", first),
        ["Ok"] => Ty::of("Result", first),
        ["Err"] => Ty::Foreign("Result".to_owned(), vec![Ty::Unknown, first]),
        [.., "Arc" | "Rc", "downgrade"] => Ty::of("Weak", first),
        [.., "Arc" | "Rc" | "Box" | "Pin", _] | [.., "mem", "take" | "replace"] => first,
        [.., head @ ("Mutex" | "RefCell" | "Cell" | "RwLock"), "new"] => Ty::of(head, first),
        [.., "iter", "once" | "repeat"] => Ty::of("Iter", first),
        [.., "from_fn" | "successors"] => Ty::of("Iter", Ty::Unknown),
        [
            ..,
            head @ ("Vec" | "VecDeque" | "String" | "BTreeMap" | "BTreeSet"),
            _,
        ] => Ty::foreign(head, Vec::new()),
        _ => Ty::Unknown,
    }
}

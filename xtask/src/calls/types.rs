//! Types, as far as the calls need them: a method is looked up in a type.
//!
//! References, `Arc`, `Box` and guards are not distinguished from their targets: a method is looked
//! up in the same place either way.

/// The known type of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ty {
    /// Unknown.
    Unknown,
    /// A type of ours, by its full path, and its arguments.
    Ours(String, Vec<Ty>),
    /// Any type that implements these traits of ours.
    Trait(Vec<String>),
    /// A foreign type, by its last name, and its arguments.
    Foreign(String, Vec<Ty>),
    /// Several values.
    Tuple(Vec<Ty>),
    /// A parameter of the function or the type.
    Param(String),
}

/// What only leads to another type.
const POINTERS: &[&str] = &[
    "Arc",
    "Rc",
    "Box",
    "Pin",
    "Cow",
    "MutexGuard",
    "RwLockReadGuard",
    "RwLockWriteGuard",
    "Ref",
    "RefMut",
    "ManuallyDrop",
    "Reverse",
    "AssertUnwindSafe",
    "NonNull",
];

impl Ty {
    /// The foreign type `name` of `arguments`; what a pointer leads to if it is one.
    pub(crate) fn foreign(name: &str, mut arguments: Vec<Ty>) -> Ty {
        if POINTERS.contains(&name) {
            return arguments.pop().unwrap_or(Ty::Unknown);
        }
        // The known facts about these types are the same.
        let name = match name {
            "VecDeque" | "BTreeSet" | "BinaryHeap" | "SmallVec" => "Vec",
            "RwLock" | "RefCell" => "Mutex",
            "HashMap" => "BTreeMap",
            "LazyLock" => return arguments.into_iter().next().unwrap_or(Ty::Unknown),
            name => name,
        };
        Ty::Foreign(name.to_owned(), arguments)
    }

    /// A foreign type of one argument.
    pub(crate) fn of(name: &str, argument: Ty) -> Ty {
        Ty::foreign(name, vec![argument])
    }

    /// Argument `index`, or nothing known.
    pub(crate) fn argument(&self, index: usize) -> Ty {
        let (Ty::Ours(_, arguments) | Ty::Foreign(_, arguments) | Ty::Tuple(arguments)) = self
        else {
            return Ty::Unknown;
        };
        arguments.get(index).cloned().unwrap_or(Ty::Unknown)
    }

    /// The name under which its methods are filed.
    pub(crate) fn head(&self) -> Option<String> {
        match self {
            Ty::Ours(path, _) => Some(path.clone()),
            Ty::Trait(paths) => paths.first().cloned(),
            Ty::Foreign(name, _) => Some(format!("std {name}")),
            Ty::Tuple(_) => Some("std tuple".to_owned()),
            Ty::Unknown | Ty::Param(_) => None,
        }
    }

    /// This type with each parameter replaced by its value in `known`.
    pub(crate) fn with(&self, known: &[(String, Ty)]) -> Ty {
        let all = |types: &[Ty]| types.iter().map(|ty| ty.with(known)).collect();
        match self {
            Ty::Param(name) => {
                let found = known.iter().find(|(param, _)| param == name);
                found.map_or(Ty::Unknown, |(_, ty)| ty.clone())
            }
            Ty::Ours(path, arguments) => Ty::Ours(path.clone(), all(arguments)),
            Ty::Foreign(name, arguments) => Ty::Foreign(name.clone(), all(arguments)),
            Ty::Tuple(parts) => Ty::Tuple(all(parts)),
            Ty::Unknown | Ty::Trait(_) => self.clone(),
        }
    }
}

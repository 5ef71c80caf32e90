//! What the crates define: modules, types, traits and functions, and where each is.

use super::types::Ty;
use std::collections::{BTreeMap, BTreeSet};

/// A file of sources.
pub(crate) struct CodeFile {
    /// Its path from the root of the repository.
    pub(crate) path: String,
    /// The crate that it belongs to.
    pub(crate) krate: String,
}

/// A module: its names, by what they stand for.
#[derive(Default)]
pub(crate) struct Module {
    /// The file that its text is in.
    pub(crate) file: usize,
    /// What `use` brings in: the name here and the path there.
    pub(crate) imports: Vec<(String, Vec<String>)>,
    /// The paths of which `use` brings in everything.
    pub(crate) globs: Vec<Vec<String>>,
}

/// A struct, an enum or a union.
#[derive(Default)]
pub(crate) struct TypeDef {
    /// The names of its parameters.
    pub(crate) parameters: Vec<String>,
    /// Its fields and those of its variants, the latter as `Variant.field`.
    pub(crate) fields: BTreeMap<String, Ty>,
    /// The names of its variants.
    pub(crate) variants: BTreeSet<String>,
}

/// What the parameters of a function or an `impl` are bound to.
pub(crate) type Bounds = BTreeMap<String, Vec<Ty>>;

/// Where a name is read: its module, what `Self` is, and the parameters.
#[derive(Clone, Default)]
pub(crate) struct Scope {
    pub(crate) module: String,
    pub(crate) self_ty: Option<Ty>,
    pub(crate) bounds: Bounds,
}

/// A function, a method, or a constant whose value is computed.
pub(crate) struct Function {
    /// `Type::name` or `module::name`, without the crate.
    pub(crate) name: String,
    /// The file that defines it.
    pub(crate) file: usize,
    /// Where its names are read.
    pub(crate) scope: Scope,
    /// What its arguments are, `self` aside.
    pub(crate) inputs: Vec<(syn::Pat, Ty)>,
    /// What it gives when it is called.
    pub(crate) output: Ty,
    /// What it does; a method that a trait only demands does nothing.
    pub(crate) body: Vec<syn::Stmt>,
}

/// Everything that the crates define.
#[derive(Default)]
pub(crate) struct Definitions {
    pub(crate) files: Vec<CodeFile>,
    /// By path; a crate's own is its name.
    pub(crate) modules: BTreeMap<String, Module>,
    pub(crate) types: BTreeMap<String, TypeDef>,
    /// Types under another name, with their parameters.
    pub(crate) aliases: BTreeMap<String, (Vec<String>, Ty)>,
    /// Traits, by path, and those that each builds on.
    pub(crate) traits: BTreeMap<String, Vec<String>>,
    /// Constants and statics, by path: what each is, and the function that computes it.
    pub(crate) constants: BTreeMap<String, (Ty, usize)>,
    /// Functions outside of types, by path.
    pub(crate) free: BTreeMap<String, usize>,
    /// Methods by what they belong to and their name.
    pub(crate) methods: BTreeMap<(String, String), usize>,
    /// The heads that have a method of this name.
    pub(crate) owners: BTreeMap<String, BTreeSet<String>>,
    /// The traits of ours that a type implements.
    pub(crate) implements: BTreeMap<String, Vec<String>>,
    /// The types that an `impl` names, `Target` or `Output`, by the type that it is for.
    pub(crate) associated: BTreeMap<(String, String), Ty>,
    /// Names of functions that macros write, with the crate: nobody knows for which types.
    pub(crate) from_macros: BTreeSet<String>,
    /// The crates that a crate may name, by their names in paths; itself among them.
    pub(crate) sees: BTreeMap<String, BTreeSet<String>>,
    pub(crate) functions: Vec<Function>,
}

impl Definitions {
    /// The crate that a path leads into, by its name in paths.
    pub(crate) fn crate_of(path: &str) -> &str {
        path.split("::").next().unwrap_or(path)
    }

    /// The crate of function `index`.
    pub(crate) fn krate(&self, index: usize) -> &str {
        &self.files[self.functions[index].file].krate
    }
}

//! The definitions of the crates: modules, types, traits and functions, and the file of each.

use super::types::Ty;
use std::collections::{BTreeMap, BTreeSet};

/// A file of sources.
pub(crate) struct CodeFile {
    /// Its path from the root of the repository.
    pub(crate) path: String,
    /// The crate of the file.
    pub(crate) krate: String,
}

/// A module and its names.
#[derive(Default)]
pub(crate) struct Module {
    /// The file that contains its text.
    pub(crate) file: usize,
    /// Imports by `use`: the local name and the path.
    pub(crate) imports: Vec<(String, Vec<String>)>,
    /// Paths that are imported with `*`.
    pub(crate) globs: Vec<Vec<String>>,
}

/// A struct, an enum or a union.
#[derive(Default)]
pub(crate) struct TypeDef {
    /// The names of its parameters.
    pub(crate) parameters: Vec<String>,
    /// Its fields, and those of its variants as `Variant.field`.
    pub(crate) fields: BTreeMap<String, Ty>,
    /// The names of its variants.
    pub(crate) variants: BTreeSet<String>,
}

/// The bounds on the parameters of a function or an `impl`.
pub(crate) type Bounds = BTreeMap<String, Vec<Ty>>;

/// The scope in which a name is read: its module, the meaning of `Self`, and the parameters.
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
    /// The scope in which its names are read.
    pub(crate) scope: Scope,
    /// The types of its arguments, without `self`.
    pub(crate) inputs: Vec<(syn::Pat, Ty)>,
    /// The type that it returns.
    pub(crate) output: Ty,
    /// Its body; empty for a method that a trait only declares.
    pub(crate) body: Vec<syn::Stmt>,
}

/// Everything that the crates define.
#[derive(Default)]
pub(crate) struct Definitions {
    pub(crate) files: Vec<CodeFile>,
    /// By path; the root module of a crate has the crate's name as its path.
    pub(crate) modules: BTreeMap<String, Module>,
    pub(crate) types: BTreeMap<String, TypeDef>,
    /// Types under another name, with their parameters.
    pub(crate) aliases: BTreeMap<String, (Vec<String>, Ty)>,
    /// Traits by path, with their supertraits.
    pub(crate) traits: BTreeMap<String, Vec<String>>,
    /// Constants and statics by path: the type, and the function that computes the value.
    pub(crate) constants: BTreeMap<String, (Ty, usize)>,
    /// Functions outside of types, by path.
    pub(crate) free: BTreeMap<String, usize>,
    /// Methods by the type or trait that they belong to, and their name.
    pub(crate) methods: BTreeMap<(String, String), usize>,
    /// The types and traits that have a method with this name.
    pub(crate) owners: BTreeMap<String, BTreeSet<String>>,
    /// The traits of this workspace that a type implements.
    pub(crate) implements: BTreeMap<String, Vec<String>>,
    /// The associated types of an `impl`, such as `Target` or `Output`, by the type that it is for.
    pub(crate) associated: BTreeMap<(String, String), Ty>,
    /// Names of functions that macros generate, with the crate: their types are unknown.
    pub(crate) from_macros: BTreeSet<String>,
    /// The crates that a crate may name, itself included, by their names in paths.
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

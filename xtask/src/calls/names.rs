//! The meaning of a path in its scope: `use`, modules, our types and foreign ones.

use super::definitions::{Definitions, Scope};
use super::types::Ty;
use syn::punctuated::Punctuated;

/// The most imports of imports that are followed; more would be a circle.
const DEPTH: usize = 12;

/// The target of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Module(String),
    Type(String),
    Alias(String),
    Trait(String),
    Function(usize),
    Constant(String),
    /// A variant of the type.
    Variant(String, String),
    /// A method, and the type that its `Self` is.
    Method(usize, Ty),
    /// Something foreign, by its last name.
    Foreign(String),
}

/// The kind of item that a name stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A module, a type or a trait.
    Space,
    /// A function, a constant, or a constructor of a value.
    Value,
}

impl Definitions {
    /// What `names` leads to from `scope`.
    pub(crate) fn find(&self, scope: &Scope, names: &[String], kind: Kind) -> Option<Item> {
        if names.first().is_some_and(|first| first == "Self") {
            let own = scope.self_ty.clone()?;
            return match names {
                [_] => match own {
                    Ty::Ours(path, _) => Some(Item::Type(path)),
                    Ty::Trait(paths) => paths.first().cloned().map(Item::Trait),
                    _ => None,
                },
                [_, name] => self.member(&own, name),
                _ => None,
            };
        }
        if let [param, name] = names
            && let Some(bounds) = scope.bounds.get(param)
        {
            return bounds.iter().find_map(|bound| self.member(bound, name));
        }
        self.resolve(&scope.module, names, kind, DEPTH)
    }

    fn resolve(&self, module: &str, names: &[String], kind: Kind, depth: usize) -> Option<Item> {
        let depth = depth.checked_sub(1)?;
        let (first, rest) = names.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Item::Module(Definitions::crate_of(module).to_owned()),
            "self" => Item::Module(module.to_owned()),
            "super" => Item::Module(parent(module)),
            name => {
                let wanted = if rest.is_empty() { kind } else { Kind::Space };
                match self.declared(module, name, wanted, depth) {
                    Some(item) => item,
                    None if self.sees(module, name) => Item::Module(name.to_owned()),
                    None => return names.last().cloned().map(Item::Foreign),
                }
            }
        };
        for (index, name) in rest.iter().enumerate() {
            let wanted = if index + 1 == rest.len() {
                kind
            } else {
                Kind::Space
            };
            at = match &at {
                Item::Module(path) if name == "super" => Item::Module(parent(path)),
                Item::Module(path) => self.declared(path, name, wanted, depth)?,
                Item::Type(path) => self.member(&Ty::Ours(path.clone(), Vec::new()), name)?,
                Item::Alias(path) => self.member(&self.aliases.get(path)?.1, name)?,
                Item::Trait(path) => self.member(&Ty::Trait(vec![path.clone()]), name)?,
                Item::Foreign(head) => {
                    let head = Ty::foreign(head, Vec::new());
                    let found = self.member(&head, name);
                    found.unwrap_or_else(|| Item::Foreign(names[names.len() - 1].clone()))
                }
                _ => return None,
            };
        }
        Some(at)
    }

    fn sees(&self, module: &str, name: &str) -> bool {
        let own = Definitions::crate_of(module);
        self.sees.get(own).is_some_and(|seen| seen.contains(name))
    }

    /// The meaning of `name` in `module`, by definition or by `use`.
    fn declared(&self, module: &str, name: &str, kind: Kind, depth: usize) -> Option<Item> {
        let path = format!("{module}::{name}");
        if let Some(item) = self.own(&path, kind) {
            return Some(item);
        }
        let here = self.modules.get(module)?;
        let depth = depth.checked_sub(1)?;
        for (_, target) in here.imports.iter().filter(|(local, _)| local == name) {
            // `use x::y` in a module that contains a `y` does not lead to itself.
            match self.resolve(module, target, kind, depth) {
                Some(item) if fits(&item, kind) => return Some(item),
                _ => {}
            }
        }
        here.globs.iter().find_map(
            |glob| match self.resolve(module, glob, Kind::Space, depth)? {
                Item::Module(path) if path != module => self.declared(&path, name, kind, depth),
                Item::Type(path) => self.member(&Ty::Ours(path, Vec::new()), name),
                _ => None,
            },
        )
    }

    fn own(&self, path: &str, kind: Kind) -> Option<Item> {
        if kind == Kind::Value {
            if let Some(&index) = self.free.get(path) {
                return Some(Item::Function(index));
            }
            if self.constants.contains_key(path) {
                return Some(Item::Constant(path.to_owned()));
            }
        }
        let path = path.to_owned();
        if self.types.contains_key(&path) {
            Some(Item::Type(path))
        } else if self.aliases.contains_key(&path) {
            Some(Item::Alias(path))
        } else if self.traits.contains_key(&path) {
            Some(Item::Trait(path))
        } else if kind == Kind::Space && self.modules.contains_key(&path) {
            Some(Item::Module(path))
        } else {
            None
        }
    }

    /// What `name` is of the type `ty`: a variant or a method.
    pub(crate) fn member(&self, ty: &Ty, name: &str) -> Option<Item> {
        if let Ty::Ours(path, _) = ty
            && self
                .types
                .get(path)
                .is_some_and(|def| def.variants.contains(name))
        {
            return Some(Item::Variant(path.clone(), name.to_owned()));
        }
        let index = self.method(ty, name)?;
        Some(Item::Method(index, ty.clone()))
    }

    /// Method `name` of `ty`: its own, that of a trait of ours, or that of what it leads to.
    pub(crate) fn method(&self, ty: &Ty, name: &str) -> Option<usize> {
        let heads = match ty {
            Ty::Trait(paths) => paths.clone(),
            _ => vec![ty.head()?],
        };
        for head in &heads {
            if let Some(&index) = self.methods.get(&(head.clone(), name.to_owned())) {
                return Some(index);
            }
            for path in self.implements.get(head).into_iter().flatten() {
                if let Some(index) = self.of_trait(path, name) {
                    return Some(index);
                }
            }
            if let Some(index) = self.of_trait(head, name) {
                return Some(index);
            }
            if let Some(target) = self.associated.get(&(head.clone(), "Target".to_owned()))
                && let Some(index) = self.method(target, name)
            {
                return Some(index);
            }
        }
        None
    }

    fn of_trait(&self, path: &str, name: &str) -> Option<usize> {
        let supers = self.traits.get(path)?;
        let own = self.methods.get(&(path.to_owned(), name.to_owned()));
        own.copied()
            .or_else(|| supers.iter().find_map(|upper| self.of_trait(upper, name)))
    }

    /// The type `ty` as read in `scope`.
    pub(crate) fn convert(&self, scope: &Scope, ty: &syn::Type) -> Ty {
        match ty {
            syn::Type::Reference(inner) => self.convert(scope, &inner.elem),
            syn::Type::Ptr(inner) => self.convert(scope, &inner.elem),
            syn::Type::Paren(inner) => self.convert(scope, &inner.elem),
            syn::Type::Group(inner) => self.convert(scope, &inner.elem),
            syn::Type::Slice(inner) => Ty::of("Vec", self.convert(scope, &inner.elem)),
            syn::Type::Array(inner) => Ty::of("Vec", self.convert(scope, &inner.elem)),
            syn::Type::Tuple(parts) => Ty::Tuple(
                parts
                    .elems
                    .iter()
                    .map(|part| self.convert(scope, part))
                    .collect(),
            ),
            syn::Type::BareFn(function) => {
                Ty::of("Closure", self.returned(scope, &function.output))
            }
            syn::Type::TraitObject(object) => one_of(&self.bounds(scope, &object.bounds)),
            syn::Type::ImplTrait(object) => one_of(&self.bounds(scope, &object.bounds)),
            syn::Type::Path(path) if path.qself.is_none() => self.named(scope, &path.path),
            _ => Ty::Unknown,
        }
    }

    /// The type that a function with `output` returns.
    pub(crate) fn returned(&self, scope: &Scope, output: &syn::ReturnType) -> Ty {
        match output {
            syn::ReturnType::Default => Ty::Tuple(Vec::new()),
            syn::ReturnType::Type(_, ty) => self.convert(scope, ty),
        }
    }

    /// The traits that something is bound to, those that say nothing left out.
    pub(crate) fn bounds<P>(
        &self,
        scope: &Scope,
        bounds: &Punctuated<syn::TypeParamBound, P>,
    ) -> Vec<Ty> {
        let paths = bounds.iter().filter_map(|bound| match bound {
            syn::TypeParamBound::Trait(bound) => Some(&bound.path),
            _ => None,
        });
        paths
            .map(|path| self.named(scope, path))
            .filter(|ty| !matches!(ty, Ty::Foreign(name, _) if is_silent(name)))
            .collect()
    }

    fn named(&self, scope: &Scope, path: &syn::Path) -> Ty {
        let names = names(path);
        let Some(last) = path.segments.last() else {
            return Ty::Unknown;
        };
        if names == ["Self"] {
            return scope.self_ty.clone().unwrap_or(Ty::Unknown);
        }
        if let [name] = names.as_slice()
            && scope.bounds.contains_key(name)
        {
            return Ty::Param(name.clone());
        }
        if let [first, name] = names.as_slice()
            && first == "Self"
        {
            let head = scope.self_ty.as_ref().and_then(Ty::head);
            let found = head.and_then(|head| self.associated.get(&(head, name.clone())));
            return found.cloned().unwrap_or(Ty::Unknown);
        }
        let arguments = self.arguments(scope, &last.arguments);
        match self.find(scope, &names, Kind::Space) {
            Some(Item::Type(path)) => Ty::Ours(path, arguments),
            Some(Item::Trait(path)) => Ty::Trait(vec![path]),
            Some(Item::Alias(path)) => match self.aliases.get(&path) {
                Some((parameters, ty)) => {
                    let known: Vec<_> = parameters.iter().cloned().zip(arguments).collect();
                    ty.with(&known)
                }
                None => Ty::Unknown,
            },
            Some(Item::Foreign(name)) => match name.as_str() {
                "Fn" | "FnMut" | "FnOnce" => Ty::of("Closure", self.given(scope, last)),
                "Future" => Ty::of(
                    "Future",
                    arguments.into_iter().next().unwrap_or(Ty::Unknown),
                ),
                "Iterator" | "IntoIterator" | "DoubleEndedIterator" | "ExactSizeIterator" => {
                    Ty::of("Iter", arguments.into_iter().next().unwrap_or(Ty::Unknown))
                }
                name => Ty::foreign(name, arguments),
            },
            _ => Ty::Unknown,
        }
    }

    fn given(&self, scope: &Scope, segment: &syn::PathSegment) -> Ty {
        match &segment.arguments {
            syn::PathArguments::Parenthesized(signature) => self.returned(scope, &signature.output),
            _ => Ty::Unknown,
        }
    }

    fn arguments(&self, scope: &Scope, arguments: &syn::PathArguments) -> Vec<Ty> {
        let syn::PathArguments::AngleBracketed(arguments) = arguments else {
            return Vec::new();
        };
        let types = arguments.args.iter().filter_map(|argument| match argument {
            syn::GenericArgument::Type(ty) => Some(ty),
            syn::GenericArgument::AssocType(named) => Some(&named.ty),
            _ => None,
        });
        types.map(|ty| self.convert(scope, ty)).collect()
    }
}

/// The names of a path.
pub(crate) fn names(path: &syn::Path) -> Vec<String> {
    path.segments
        .iter()
        .map(|segment| segment.ident.to_string())
        .collect()
}

/// A type that satisfies all of `bounds`.
fn one_of(bounds: &[Ty]) -> Ty {
    let ours = bounds.iter().filter_map(|bound| match bound {
        Ty::Trait(paths) => Some(paths.clone()),
        _ => None,
    });
    let ours: Vec<String> = ours.flatten().collect();
    if ours.is_empty() {
        bounds.first().cloned().unwrap_or(Ty::Unknown)
    } else {
        Ty::Trait(ours)
    }
}

fn parent(module: &str) -> String {
    let upper = module.rsplit_once("::").map(|(upper, _)| upper);
    upper.unwrap_or(module).to_owned()
}

fn fits(item: &Item, kind: Kind) -> bool {
    match kind {
        Kind::Space => !matches!(
            item,
            Item::Function(_) | Item::Constant(_) | Item::Method(..)
        ),
        Kind::Value => !matches!(item, Item::Module(_)),
    }
}

fn is_silent(name: &str) -> bool {
    matches!(
        name,
        "Send" | "Sync" | "Sized" | "Clone" | "Copy" | "Debug" | "Unpin" | "Default" | "Display"
    )
}

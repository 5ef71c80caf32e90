//! Resolves the definitions that were read: names, types, methods.

use super::definitions::{Bounds, Definitions, Function, Scope, TypeDef};
use super::names::{Item, Kind, names};
use super::types::Ty;
use crate::rust_text::closing;
use std::collections::BTreeMap;

/// Definitions that wait until every name is known.
#[derive(Default)]
pub(super) struct Read {
    // Each with its module and, if it has one, its path.
    pub(super) structs: Vec<(String, String, syn::ItemStruct)>,
    pub(super) enums: Vec<(String, String, syn::ItemEnum)>,
    pub(super) aliases: Vec<(String, String, syn::ItemType)>,
    pub(super) traits: Vec<(String, String, syn::ItemTrait)>,
    pub(super) functions: Vec<(String, String, syn::ItemFn)>,
    pub(super) constants: Vec<(String, String, syn::Type, syn::Expr)>,
    pub(super) impls: Vec<(String, syn::ItemImpl)>,
}

/// Resolves all names, in the order of their dependencies.
pub(super) fn define(mut definitions: Definitions, read: &Read) -> Definitions {
    for (_, path, item) in &read.structs {
        definitions
            .types
            .insert(path.clone(), empty(&item.generics));
    }
    for (_, path, item) in &read.enums {
        let mut def = empty(&item.generics);
        def.variants = item.variants.iter().map(|v| v.ident.to_string()).collect();
        definitions.types.insert(path.clone(), def);
    }
    for (_, path, _) in &read.traits {
        definitions.traits.insert(path.clone(), Vec::new());
    }
    for (_, path, item) in &read.aliases {
        let parameters = parameters(&item.generics);
        definitions
            .aliases
            .insert(path.clone(), (parameters, Ty::Unknown));
    }
    // An alias of an alias needs a second pass.
    for _ in 0..2 {
        for (module, path, item) in &read.aliases {
            let ty = definitions.convert(
                &scope(&definitions, module, None, &[&item.generics]),
                &item.ty,
            );
            definitions
                .aliases
                .insert(path.clone(), (parameters(&item.generics), ty));
        }
    }
    fields(&mut definitions, read);
    for (module, item) in &read.impls {
        heading(&mut definitions, module, item);
    }
    for (module, path, item) in &read.traits {
        define_trait(&mut definitions, module, path, item);
    }
    for (module, item) in &read.impls {
        define_impl(&mut definitions, module, item);
    }
    for (module, path, item) in &read.functions {
        let scope = scope(&definitions, module, None, &[&item.sig.generics]);
        let index = add(&mut definitions, path, &item.sig, &item.block.stmts, scope);
        definitions.free.insert(path.clone(), index);
    }
    for (module, path, ty, value) in &read.constants {
        let scope = scope(&definitions, module, None, &[]);
        let ty = definitions.convert(&scope, ty);
        let index = definitions.functions.len();
        definitions.constants.insert(path.clone(), (ty, index));
        let file = definitions.modules[module].file;
        definitions.functions.push(Function {
            name: short(path),
            file,
            scope,
            inputs: Vec::new(),
            output: Ty::Unknown,
            body: vec![syn::Stmt::Expr(value.clone(), None)],
        });
    }
    definitions
}

fn empty(generics: &syn::Generics) -> TypeDef {
    TypeDef {
        parameters: parameters(generics),
        ..TypeDef::default()
    }
}

fn parameters(generics: &syn::Generics) -> Vec<String> {
    generics
        .type_params()
        .map(|param| param.ident.to_string())
        .collect()
}

/// Where names are read in `module`, with the parameters of `generics`.
fn scope(
    definitions: &Definitions,
    module: &str,
    self_ty: Option<Ty>,
    generics: &[&syn::Generics],
) -> Scope {
    let mut scope = Scope {
        module: module.to_owned(),
        self_ty,
        bounds: Bounds::new(),
    };
    for generics in generics {
        for name in parameters(generics) {
            scope.bounds.insert(name, Vec::new());
        }
        for param in generics.type_params() {
            let bounds = definitions.bounds(&scope, &param.bounds);
            scope.bounds.insert(param.ident.to_string(), bounds);
        }
        let clauses = generics.where_clause.iter().flat_map(|c| &c.predicates);
        for clause in clauses {
            if let syn::WherePredicate::Type(clause) = clause
                && let Ty::Param(name) = definitions.convert(&scope, &clause.bounded_ty)
            {
                let bounds = definitions.bounds(&scope, &clause.bounds);
                scope.bounds.entry(name).or_default().extend(bounds);
            }
        }
    }
    scope
}

fn fields(definitions: &mut Definitions, read: &Read) {
    for (module, path, item) in &read.structs {
        let scope = scope(definitions, module, None, &[&item.generics]);
        let found = fields_of(definitions, &scope, "", &item.fields);
        if let Some(def) = definitions.types.get_mut(path) {
            def.fields = found;
        }
    }
    for (module, path, item) in &read.enums {
        let scope = scope(definitions, module, None, &[&item.generics]);
        let all = item.variants.iter().flat_map(|variant| {
            fields_of(
                definitions,
                &scope,
                &format!("{}.", variant.ident),
                &variant.fields,
            )
        });
        let all = all.collect();
        if let Some(def) = definitions.types.get_mut(path) {
            def.fields = all;
        }
    }
}

fn fields_of(
    definitions: &Definitions,
    scope: &Scope,
    before: &str,
    fields: &syn::Fields,
) -> BTreeMap<String, Ty> {
    let named = fields.iter().enumerate().map(|(index, field)| {
        let name = field
            .ident
            .as_ref()
            .map_or(index.to_string(), ToString::to_string);
        (
            format!("{before}{name}"),
            definitions.convert(scope, &field.ty),
        )
    });
    named.collect()
}

/// The facts of an `impl` apart from its methods: the trait of the type, and its associated types.
fn heading(definitions: &mut Definitions, module: &str, item: &syn::ItemImpl) {
    let mut scope = scope(definitions, module, None, &[&item.generics]);
    let self_ty = definitions.convert(&scope, &item.self_ty);
    let Some(head) = self_ty.head() else { return };
    scope.self_ty = Some(self_ty);
    if let Some((_, path, _)) = &item.trait_
        && let Some(Item::Trait(path)) = definitions.find(&scope, &names(path), Kind::Space)
    {
        definitions
            .implements
            .entry(head.clone())
            .or_default()
            .push(path);
    }
    for member in &item.items {
        if let syn::ImplItem::Type(named) = member {
            let ty = definitions.convert(&scope, &named.ty);
            definitions
                .associated
                .insert((head.clone(), named.ident.to_string()), ty);
        }
    }
}

fn define_trait(definitions: &mut Definitions, module: &str, path: &str, item: &syn::ItemTrait) {
    let own = Some(Ty::Trait(vec![path.to_owned()]));
    let outer = scope(definitions, module, own.clone(), &[&item.generics]);
    let supers = definitions.bounds(&outer, &item.supertraits);
    let supers = supers.into_iter().filter_map(|ty| match ty {
        Ty::Trait(mut paths) => paths.pop(),
        _ => None,
    });
    let supers = supers.collect();
    definitions.traits.insert(path.to_owned(), supers);
    for member in &item.items {
        if let syn::TraitItem::Fn(method) = member {
            let generics = [&item.generics, &method.sig.generics];
            let scope = scope(definitions, module, own.clone(), &generics);
            let body = method.default.as_ref().map_or(&[][..], |body| &body.stmts);
            let name = format!("{path}::{}", method.sig.ident);
            let index = add(definitions, &name, &method.sig, body, scope);
            file_method(definitions, path, &method.sig.ident, index);
        }
    }
}

fn define_impl(definitions: &mut Definitions, module: &str, item: &syn::ItemImpl) {
    let own = definitions.convert(
        &scope(definitions, module, None, &[&item.generics]),
        &item.self_ty,
    );
    let head = own.head();
    let shown = head.clone().unwrap_or_else(|| format!("{module}::blanket"));
    for member in &item.items {
        let syn::ImplItem::Fn(method) = member else {
            continue;
        };
        if is_test(&method.attrs) {
            continue;
        }
        let generics = [&item.generics, &method.sig.generics];
        let scope = scope(definitions, module, Some(own.clone()), &generics);
        let name = format!("{shown}::{}", method.sig.ident);
        let index = add(definitions, &name, &method.sig, &method.block.stmts, scope);
        if let Some(head) = &head {
            let key = (head.clone(), method.sig.ident.to_string());
            // A type's own method takes precedence over one of a trait.
            if item.trait_.is_none() || !definitions.methods.contains_key(&key) {
                file_method(definitions, head, &method.sig.ident, index);
            }
        }
    }
}

fn file_method(definitions: &mut Definitions, head: &str, name: &syn::Ident, index: usize) {
    let name = name.to_string();
    let owners = definitions.owners.entry(name.clone()).or_default();
    owners.insert(head.to_owned());
    definitions.methods.insert((head.to_owned(), name), index);
}

fn add(
    definitions: &mut Definitions,
    path: &str,
    signature: &syn::Signature,
    body: &[syn::Stmt],
    scope: Scope,
) -> usize {
    let typed = signature.inputs.iter().filter_map(|input| match input {
        syn::FnArg::Typed(typed) => Some(typed),
        syn::FnArg::Receiver(_) => None,
    });
    let inputs = typed.map(|typed| ((*typed.pat).clone(), definitions.convert(&scope, &typed.ty)));
    let inputs = inputs.collect();
    let mut output = definitions.returned(&scope, &signature.output);
    if signature.asyncness.is_some() {
        output = Ty::of("Future", output);
    }
    definitions.functions.push(Function {
        name: short(path),
        file: definitions.modules[&scope.module].file,
        scope,
        inputs,
        output,
        body: body.to_vec(),
    });
    definitions.functions.len() - 1
}

/// The last two names of a path: `Type::method`, `module::function`.
fn short(path: &str) -> String {
    let mut names = path.rsplit("::");
    let last = names.next().unwrap_or_default();
    match names.next() {
        Some(before) => format!("{before}::{last}"),
        None => last.to_owned(),
    }
}

/// Whether attributes restrict an item to tests or to a schedule explorer.
pub(super) fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let asked = without_denied(&list.tokens.to_string());
            ["test", "loom", "shuttle"]
                .iter()
                .any(|word| asked.contains(word))
        }
        _ => false,
    })
}

/// A condition without the parts inside `not(..)`.
fn without_denied(condition: &str) -> String {
    let condition = condition.replace("not (", "not(");
    let Some(at) = condition.find("not(") else {
        return condition;
    };
    let opening = at + "not".len();
    let end = closing(&condition, opening).unwrap_or(condition.len());
    without_denied(&format!("{}{}", &condition[..at], &condition[end..]))
}

//! Reads the files of the crates into a [`World`]: tests are left out.

use super::names::names;
use super::types::Ty;
use super::world::{Bounds, CodeFile, Function, Module, Scope, TypeDef, World};
use std::collections::{BTreeMap, BTreeSet};

/// The sources of one crate.
pub(crate) struct Crate {
    /// Its name, as in its manifest.
    pub(crate) name: String,
    /// The crates of ours that it uses.
    pub(crate) uses: Vec<String>,
    /// The path of the file that it begins with.
    pub(crate) root: String,
}

/// What was read and waits until every name is known.
#[derive(Default)]
struct Read {
    structs: Vec<(String, String, syn::ItemStruct)>,
    enums: Vec<(String, String, syn::ItemEnum)>,
    aliases: Vec<(String, String, syn::ItemType)>,
    traits: Vec<(String, String, syn::ItemTrait)>,
    functions: Vec<(String, String, syn::ItemFn)>,
    constants: Vec<(String, String, syn::Type, syn::Expr)>,
    impls: Vec<(String, syn::ItemImpl)>,
}

/// What the crates define, given the text of each file; the error says which is no Rust.
pub(crate) fn collect(
    crates: &[Crate],
    texts: &BTreeMap<String, String>,
) -> Result<World, String> {
    let mut reader = Reader {
        texts,
        world: World::default(),
        read: Read::default(),
    };
    for krate in crates {
        let own = krate.name.replace('-', "_");
        let mut sees: BTreeSet<String> = krate.uses.iter().map(|n| n.replace('-', "_")).collect();
        sees.insert(own.clone());
        reader.world.sees.insert(own.clone(), sees);
        reader.file(&krate.name, &own, &krate.root)?;
    }
    let Reader { world, read, .. } = reader;
    Ok(define(world, &read))
}

struct Reader<'a> {
    texts: &'a BTreeMap<String, String>,
    world: World,
    read: Read,
}

impl Reader<'_> {
    fn file(&mut self, krate: &str, module: &str, path: &str) -> Result<(), String> {
        let Some(text) = self.texts.get(path) else {
            return Err(format!("{path} is missing: it is module {module}"));
        };
        let parsed = syn::parse_file(text).map_err(|error| format!("{path}: {error}"))?;
        self.world.files.push(CodeFile {
            path: path.to_owned(),
            krate: krate.to_owned(),
        });
        let file = self.world.files.len() - 1;
        self.module(file, module, parsed.items)
    }

    fn module(&mut self, file: usize, module: &str, items: Vec<syn::Item>) -> Result<(), String> {
        let new = Module {
            file,
            ..Module::default()
        };
        self.world.modules.insert(module.to_owned(), new);
        for item in items {
            self.item(file, module, item)?;
        }
        Ok(())
    }

    fn item(&mut self, file: usize, module: &str, item: syn::Item) -> Result<(), String> {
        let own = module.to_owned();
        let path = |ident: &syn::Ident| format!("{module}::{ident}");
        match item {
            syn::Item::Mod(item) if !is_test(&item.attrs) => return self.inner(file, module, item),
            syn::Item::Use(item) => self.imports(module, &item.tree),
            syn::Item::Struct(item) => self.read.structs.push((own, path(&item.ident), item)),
            syn::Item::Enum(item) => self.read.enums.push((own, path(&item.ident), item)),
            syn::Item::Type(item) => self.read.aliases.push((own, path(&item.ident), item)),
            syn::Item::Trait(item) => self.read.traits.push((own, path(&item.ident), item)),
            syn::Item::Fn(item) if !is_test(&item.attrs) => {
                for statement in &item.block.stmts {
                    self.inside(module, statement);
                }
                self.read.functions.push((own, path(&item.sig.ident), item));
            }
            syn::Item::Const(item) => {
                let path = path(&item.ident);
                self.read.constants.push((own, path, *item.ty, *item.expr));
            }
            syn::Item::Static(item) => {
                let path = path(&item.ident);
                self.read.constants.push((own, path, *item.ty, *item.expr));
            }
            syn::Item::Impl(item) if !is_test(&item.attrs) => {
                for member in &item.items {
                    if let syn::ImplItem::Fn(method) = member {
                        for statement in &method.block.stmts {
                            self.inside(module, statement);
                        }
                    }
                }
                self.read.impls.push((own, item));
            }
            syn::Item::Macro(item) => {
                let text = item.mac.tokens.to_string();
                let words: Vec<&str> = text.split_whitespace().collect();
                for pair in words.windows(2).filter(|pair| pair[0] == "fn") {
                    let name = pair[1].split('(').next().unwrap_or_default();
                    let krate = World::crate_of(module);
                    self.world.from_macros.insert(format!("{krate} {name}"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// What a function brings into scope for itself is taken as the module's.
    fn inside(&mut self, module: &str, statement: &syn::Stmt) {
        if let syn::Stmt::Item(syn::Item::Use(item)) = statement {
            self.imports(module, &item.tree);
        }
    }

    fn inner(&mut self, file: usize, module: &str, item: syn::ItemMod) -> Result<(), String> {
        let name = item.ident.to_string();
        let path = format!("{module}::{name}");
        if let Some((_, items)) = item.content {
            return self.module(file, &path, items);
        }
        let own = &self.world.files[file];
        let (krate, here) = (own.krate.clone(), own.path.clone());
        let (folder, stem) = here.rsplit_once('/').unwrap_or(("", &here));
        if let Some(named) = named_path(&item.attrs) {
            return self.file(&krate, &path, &format!("{folder}/{named}"));
        }
        let below = match stem {
            "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
            stem => format!("{folder}/{}", stem.trim_end_matches(".rs")),
        };
        let flat = format!("{below}/{name}.rs");
        let nested = format!("{below}/{name}/mod.rs");
        let is_flat = self.texts.contains_key(&flat);
        self.file(&krate, &path, if is_flat { &flat } else { &nested })
    }

    fn imports(&mut self, module: &str, tree: &syn::UseTree) {
        let mut found = Vec::new();
        flatten(tree, &mut Vec::new(), &mut found);
        let Some(module) = self.world.modules.get_mut(module) else {
            return;
        };
        for (name, path) in found {
            match name {
                Some(name) => module.imports.push((name, path)),
                None => module.globs.push(path),
            }
        }
    }
}

fn flatten(
    tree: &syn::UseTree,
    before: &mut Vec<String>,
    found: &mut Vec<(Option<String>, Vec<String>)>,
) {
    let with = |before: &[String], name: &syn::Ident| {
        let mut path = before.to_vec();
        if name != "self" || path.is_empty() {
            path.push(name.to_string());
        }
        path
    };
    match tree {
        syn::UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, found);
            before.pop();
        }
        syn::UseTree::Name(name) => {
            let path = with(before, &name.ident);
            found.push((path.last().cloned(), path));
        }
        syn::UseTree::Rename(rename) => {
            let path = with(before, &rename.ident);
            found.push((Some(rename.rename.to_string()), path));
        }
        syn::UseTree::Glob(_) => found.push((None, before.clone())),
        syn::UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, before, found);
            }
        }
    }
}

/// Whether attributes say that something is for tests or for the schedule explorer alone.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let text = list.tokens.to_string();
            let bare = text.replace("not (", "not(");
            let has = |word: &str| bare.contains(word) && !bare.contains(&format!("not({word}"));
            has("test") || has("loom")
        }
        _ => false,
    })
}

fn named_path(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit {
                lit: syn::Lit::Str(text),
                ..
            }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

/// Gives every name its meaning, in the order in which they need each other.
fn define(mut world: World, read: &Read) -> World {
    for (_, path, item) in &read.structs {
        world.types.insert(path.clone(), empty(&item.generics));
    }
    for (_, path, item) in &read.enums {
        let mut def = empty(&item.generics);
        def.variants = item.variants.iter().map(|v| v.ident.to_string()).collect();
        world.types.insert(path.clone(), def);
    }
    for (_, path, _) in &read.traits {
        world.traits.insert(path.clone(), Vec::new());
    }
    for (_, path, item) in &read.aliases {
        let parameters = parameters(&item.generics);
        world.aliases.insert(path.clone(), (parameters, Ty::Unknown));
    }
    // An alias of an alias needs a second look.
    for _ in 0..2 {
        for (module, path, item) in &read.aliases {
            let ty = world.convert(&scope(&world, module, None, &[&item.generics]), &item.ty);
            world.aliases.insert(path.clone(), (parameters(&item.generics), ty));
        }
    }
    fields(&mut world, read);
    for (module, item) in &read.impls {
        heading(&mut world, module, item);
    }
    for (module, path, item) in &read.traits {
        define_trait(&mut world, module, path, item);
    }
    for (module, item) in &read.impls {
        define_impl(&mut world, module, item);
    }
    for (module, path, item) in &read.functions {
        let scope = scope(&world, module, None, &[&item.sig.generics]);
        let index = add(&mut world, path, &item.sig, &item.block.stmts, scope);
        world.free.insert(path.clone(), index);
    }
    for (module, path, ty, value) in &read.constants {
        let scope = scope(&world, module, None, &[]);
        let ty = world.convert(&scope, ty);
        let index = world.functions.len();
        world.constants.insert(path.clone(), (ty, index));
        let file = world.modules[module].file;
        world.functions.push(Function {
            name: short(path),
            file,
            scope,
            inputs: Vec::new(),
            output: Ty::Unknown,
            body: vec![syn::Stmt::Expr(value.clone(), None)],
        });
    }
    world
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
    world: &World,
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
            let bounds = world.bounds(&scope, &param.bounds);
            scope.bounds.insert(param.ident.to_string(), bounds);
        }
        let clauses = generics.where_clause.iter().flat_map(|c| &c.predicates);
        for clause in clauses {
            if let syn::WherePredicate::Type(clause) = clause
                && let Ty::Param(name) = world.convert(&scope, &clause.bounded_ty)
            {
                let bounds = world.bounds(&scope, &clause.bounds);
                scope.bounds.entry(name).or_default().extend(bounds);
            }
        }
    }
    scope
}

fn fields(world: &mut World, read: &Read) {
    for (module, path, item) in &read.structs {
        let scope = scope(world, module, None, &[&item.generics]);
        let found = fields_of(world, &scope, "", &item.fields);
        if let Some(def) = world.types.get_mut(path) {
            def.fields = found;
        }
    }
    for (module, path, item) in &read.enums {
        let scope = scope(world, module, None, &[&item.generics]);
        let all = item.variants.iter().flat_map(|variant| {
            fields_of(world, &scope, &format!("{}.", variant.ident), &variant.fields)
        });
        let all = all.collect();
        if let Some(def) = world.types.get_mut(path) {
            def.fields = all;
        }
    }
}

fn fields_of(
    world: &World,
    scope: &Scope,
    before: &str,
    fields: &syn::Fields,
) -> BTreeMap<String, Ty> {
    let named = fields.iter().enumerate().map(|(index, field)| {
        let name = field.ident.as_ref().map_or(index.to_string(), ToString::to_string);
        (format!("{before}{name}"), world.convert(scope, &field.ty))
    });
    named.collect()
}

/// What an `impl` says apart from its methods: which trait a type has, and what it names.
fn heading(world: &mut World, module: &str, item: &syn::ItemImpl) {
    let mut scope = scope(world, module, None, &[&item.generics]);
    let self_ty = world.convert(&scope, &item.self_ty);
    let Some(head) = self_ty.head() else { return };
    scope.self_ty = Some(self_ty);
    if let Some((_, path, _)) = &item.trait_
        && let Some(super::names::Item::Trait(path)) =
            world.find(&scope, &names(path), super::names::Kind::Space)
    {
        world.implements.entry(head.clone()).or_default().push(path);
    }
    for member in &item.items {
        if let syn::ImplItem::Type(named) = member {
            let ty = world.convert(&scope, &named.ty);
            world.associated.insert((head.clone(), named.ident.to_string()), ty);
        }
    }
}

fn define_trait(world: &mut World, module: &str, path: &str, item: &syn::ItemTrait) {
    let own = Some(Ty::Trait(vec![path.to_owned()]));
    let outer = scope(world, module, own.clone(), &[&item.generics]);
    let supers = world.bounds(&outer, &item.supertraits);
    let supers = supers.into_iter().filter_map(|ty| match ty {
        Ty::Trait(mut paths) => paths.pop(),
        _ => None,
    });
    let supers = supers.collect();
    world.traits.insert(path.to_owned(), supers);
    for member in &item.items {
        if let syn::TraitItem::Fn(method) = member {
            let generics = [&item.generics, &method.sig.generics];
            let scope = scope(world, module, own.clone(), &generics);
            let body = method.default.as_ref().map_or(&[][..], |body| &body.stmts);
            let name = format!("{path}::{}", method.sig.ident);
            let index = add(world, &name, &method.sig, body, scope);
            file_method(world, path, &method.sig.ident, index);
        }
    }
}

fn define_impl(world: &mut World, module: &str, item: &syn::ItemImpl) {
    let own = world.convert(&scope(world, module, None, &[&item.generics]), &item.self_ty);
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
        let scope = scope(world, module, Some(own.clone()), &generics);
        let name = format!("{shown}::{}", method.sig.ident);
        let index = add(world, &name, &method.sig, &method.block.stmts, scope);
        if let Some(head) = &head {
            let key = (head.clone(), method.sig.ident.to_string());
            // What a type says itself goes before what it says for a trait.
            if item.trait_.is_none() || !world.methods.contains_key(&key) {
                file_method(world, head, &method.sig.ident, index);
            }
        }
    }
}

fn file_method(world: &mut World, head: &str, name: &syn::Ident, index: usize) {
    let name = name.to_string();
    let owners = world.owners.entry(name.clone()).or_default();
    owners.insert(head.to_owned());
    world.methods.insert((head.to_owned(), name), index);
}

fn add(
    world: &mut World,
    path: &str,
    signature: &syn::Signature,
    body: &[syn::Stmt],
    scope: Scope,
) -> usize {
    let typed = signature.inputs.iter().filter_map(|input| match input {
        syn::FnArg::Typed(typed) => Some(typed),
        syn::FnArg::Receiver(_) => None,
    });
    let inputs = typed.map(|typed| ((*typed.pat).clone(), world.convert(&scope, &typed.ty)));
    let inputs = inputs.collect();
    let mut output = world.returned(&scope, &signature.output);
    if signature.asyncness.is_some() {
        output = Ty::of("Future", output);
    }
    world.functions.push(Function {
        name: short(path),
        file: world.modules[&scope.module].file,
        scope,
        inputs,
        output,
        body: body.to_vec(),
    });
    world.functions.len() - 1
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

//! Reads the files of the crates into [`Definitions`]. Tests are left out.

use super::define::{Read, define, is_test};
use super::definitions::{CodeFile, Definitions, Module};
use std::collections::{BTreeMap, BTreeSet};

/// The sources of one crate.
pub(crate) struct Crate {
    /// Its name, as in its manifest.
    pub(crate) name: String,
    /// The crates of this workspace that it uses.
    pub(crate) uses: Vec<String>,
    /// The path of its root file.
    pub(crate) root: String,
}

/// The definitions of the crates, from the text of each file; the error names the file that is not
/// valid Rust.
pub(crate) fn collect(
    crates: &[Crate],
    texts: &BTreeMap<String, String>,
) -> Result<Definitions, String> {
    let mut reader = Reader {
        texts,
        definitions: Definitions::default(),
        read: Read::default(),
    };
    for krate in crates {
        let own = krate.name.replace('-', "_");
        let mut sees: BTreeSet<String> = krate.uses.iter().map(|n| n.replace('-', "_")).collect();
        sees.insert(own.clone());
        reader.definitions.sees.insert(own.clone(), sees);
        reader.file(&krate.name, &own, &krate.root)?;
    }
    let Reader {
        definitions, read, ..
    } = reader;
    Ok(define(definitions, &read))
}

struct Reader<'a> {
    texts: &'a BTreeMap<String, String>,
    definitions: Definitions,
    read: Read,
}

impl Reader<'_> {
    fn file(&mut self, krate: &str, module: &str, path: &str) -> Result<(), String> {
        let Some(text) = self.texts.get(path) else {
            return Err(format!("{path} is missing: it is module {module}"));
        };
        let parsed = syn::parse_file(text).map_err(|error| format!("{path}: {error}"))?;
        self.definitions.files.push(CodeFile {
            path: path.to_owned(),
            krate: krate.to_owned(),
        });
        let file = self.definitions.files.len() - 1;
        self.module(file, module, parsed.items)
    }

    fn module(&mut self, file: usize, module: &str, items: Vec<syn::Item>) -> Result<(), String> {
        let new = Module {
            file,
            ..Module::default()
        };
        self.definitions.modules.insert(module.to_owned(), new);
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
                    let krate = Definitions::crate_of(module);
                    self.definitions
                        .from_macros
                        .insert(format!("{krate} {name}"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// An import inside a function counts as an import of its module.
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
        let own = &self.definitions.files[file];
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
        let Some(module) = self.definitions.modules.get_mut(module) else {
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

fn named_path(attributes: &[syn::Attribute]) -> Option<String> {
    attributes
        .iter()
        .find_map(|attribute| match &attribute.meta {
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

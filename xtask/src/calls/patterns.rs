//! The variables that a pattern makes, with their types.

use super::names::{Item, Kind, names};
use super::types::Ty;
use super::walk::Walker;

impl Walker<'_> {
    /// Makes the variables of `pattern`, which is given a `ty`.
    pub(super) fn bind(&mut self, pattern: &syn::Pat, ty: &Ty) {
        match pattern {
            syn::Pat::Ident(ident) => {
                self.variables.push((ident.ident.to_string(), ty.clone()));
                if let Some((_, inner)) = &ident.subpat {
                    self.bind(inner, ty);
                }
            }
            syn::Pat::Type(typed) => {
                let declared = self.definitions.convert(self.scope, &typed.ty);
                let ty = if is_partial(&declared) { ty } else { &declared };
                self.bind(&typed.pat, ty);
            }
            syn::Pat::Reference(inner) => self.bind(&inner.pat, ty),
            syn::Pat::Paren(inner) => self.bind(&inner.pat, ty),
            syn::Pat::Or(cases) => {
                for case in &cases.cases {
                    self.bind(case, ty);
                }
            }
            syn::Pat::Tuple(tuple) => {
                let mut known = true;
                for (index, part) in tuple.elems.iter().enumerate() {
                    known &= !matches!(part, syn::Pat::Rest(_));
                    let one = if known {
                        ty.argument(index)
                    } else {
                        Ty::Unknown
                    };
                    self.bind(part, &one);
                }
            }
            syn::Pat::Slice(slice) => {
                for part in &slice.elems {
                    self.bind(part, &ty.argument(0));
                }
            }
            syn::Pat::TupleStruct(tuple) => {
                let name = self.variant(&tuple.path);
                for (index, part) in tuple.elems.iter().enumerate() {
                    let one = self.part(&tuple.path, ty, name.as_ref(), &index.to_string());
                    self.bind(part, &one);
                }
            }
            syn::Pat::Struct(inner) => {
                let name = self.variant(&inner.path);
                for field in &inner.fields {
                    let member = match &field.member {
                        syn::Member::Named(name) => name.to_string(),
                        syn::Member::Unnamed(index) => index.index.to_string(),
                    };
                    let one = self.part(&inner.path, ty, name.as_ref(), &member);
                    self.bind(&field.pat, &one);
                }
            }
            _ => {}
        }
    }

    /// The type that a pattern names, and what stands before the names of its fields.
    fn variant(&self, path: &syn::Path) -> Option<(String, String)> {
        match self
            .definitions
            .find(self.scope, &names(path), Kind::Space)?
        {
            Item::Type(path) => Some((path, String::new())),
            Item::Variant(path, variant) => Some((path, format!("{variant}."))),
            _ => None,
        }
    }

    fn part(&self, path: &syn::Path, ty: &Ty, of: Option<&(String, String)>, member: &str) -> Ty {
        if let Some((named, before)) = of {
            let base = match ty {
                Ty::Ours(own, _) if own == named => ty.clone(),
                _ => Ty::Ours(named.clone(), Vec::new()),
            };
            return self
                .definitions
                .field_of(&base, &format!("{before}{member}"));
        }
        match names(path).last().map(String::as_str) {
            Some("Some" | "Ok" | "Ready" | "Break") => ty.argument(0),
            Some("Err") => ty.argument(1),
            _ => Ty::Unknown,
        }
    }
}

/// Whether a declared type leaves to the value what it is of: `Vec<_>`.
fn is_partial(ty: &Ty) -> bool {
    match ty {
        Ty::Unknown => true,
        Ty::Foreign(_, arguments) => arguments.iter().any(is_partial),
        _ => false,
    }
}

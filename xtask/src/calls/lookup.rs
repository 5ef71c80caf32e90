//! The types of fields, methods and elements of a type.

use super::definitions::{Definitions, Scope};
use super::foreign;
use super::types::Ty;

/// The result of a lookup of a method.
pub(crate) enum Found {
    /// This function, of this type.
    One(usize, Ty),
    /// Nothing in this workspace.
    None,
    /// A method that several types have.
    Several,
}

impl Definitions {
    /// Method `name` of `ty`, called in `scope`.
    pub(crate) fn method_in(&self, scope: &Scope, ty: &Ty, name: &str) -> Found {
        let found = |on: &Ty| Some((self.method(on, name)?, on.clone()));
        let found = match ty {
            Ty::Param(param) => {
                let mut bounds = scope.bounds.get(param).into_iter().flatten();
                bounds.find_map(found)
            }
            Ty::Unknown => return self.by_name(scope, name),
            _ => found(ty),
        };
        found.map_or(Found::None, |(index, on)| Found::One(index, on))
    }

    /// The method `name` of the only type of ours that has one.
    fn by_name(&self, scope: &Scope, name: &str) -> Found {
        if foreign::COMMON.contains(&name) {
            return Found::None;
        }
        let own = Definitions::crate_of(&scope.module);
        let (Some(seen), Some(all)) = (self.sees.get(own), self.owners.get(name)) else {
            return Found::None;
        };
        let owners = all
            .iter()
            .filter(|head| seen.contains(Definitions::crate_of(head)));
        let owners: Vec<&String> = owners.collect();
        let from_macro = self.from_macros.contains(&format!("{own} {name}"));
        match owners.as_slice() {
            [] => Found::None,
            [head] if !from_macro => {
                let index = self.methods[&((*head).clone(), name.to_owned())];
                Found::One(index, Ty::Unknown)
            }
            _ => Found::Several,
        }
    }

    /// The type of a field of `base`, or of the type that it dereferences to.
    pub(crate) fn field_of(&self, base: &Ty, name: &str) -> Ty {
        match base {
            Ty::Tuple(parts) => {
                let index: Option<usize> = name.parse().ok();
                let part = index.and_then(|index| parts.get(index));
                part.cloned().unwrap_or(Ty::Unknown)
            }
            Ty::Ours(path, arguments) => {
                let Some(def) = self.types.get(path) else {
                    return Ty::Unknown;
                };
                if let Some(ty) = def.fields.get(name) {
                    let all = def.parameters.iter().cloned();
                    // Within the type itself its parameters stay as they are.
                    let known: Vec<_> = all.zip(arguments.iter().cloned()).collect();
                    return ty.with(&known);
                }
                let target = self.associated.get(&(path.clone(), "Target".to_owned()));
                target.map_or(Ty::Unknown, |target| self.field_of(target, name))
            }
            _ => Ty::Unknown,
        }
    }

    /// The result of function `index` when it is called on `ty` with the arguments `given`.
    pub(crate) fn output(&self, index: usize, ty: &Ty, given: &[Ty]) -> Ty {
        let function = &self.functions[index];
        let mut known: Vec<(String, Ty)> = Vec::new();
        // `impl<T> List<T>` on a `List<Page>`: T is Page.
        if let (Some(Ty::Ours(own, parameters)), Ty::Ours(path, arguments)) =
            (&function.scope.self_ty, ty)
            && own == path
        {
            for (parameter, argument) in parameters.iter().zip(arguments) {
                if let Ty::Param(name) = parameter {
                    known.push((name.clone(), argument.clone()));
                }
            }
        }
        let skipped = given.len().saturating_sub(function.inputs.len());
        for ((_, wanted), given) in function.inputs.iter().zip(&given[skipped..]) {
            learn(wanted, given, &mut known);
        }
        for (name, bounds) in &function.scope.bounds {
            let known_before = known.iter().any(|(param, _)| param == name);
            if let (false, Some(bound @ Ty::Trait(_))) = (known_before, bounds.first()) {
                known.push((name.clone(), bound.clone()));
            }
        }
        function.output.with(&known)
    }

    /// The type of the elements of `ty`, if it is a sequence.
    pub(crate) fn element(&self, ty: &Ty) -> Ty {
        let Some(head) = ty.head() else {
            return Ty::Unknown;
        };
        let items = self.associated.get(&(head, "Item".to_owned()));
        items.cloned().unwrap_or_else(|| foreign::element(ty))
    }

    /// The standard type that a type of ours also acts as: an iterator, or its `Deref` target.
    pub(crate) fn acts_as(&self, ty: &Ty) -> Ty {
        let Ty::Ours(path, _) = ty else {
            return ty.clone();
        };
        let named = |name: &str| self.associated.get(&(path.clone(), name.to_owned()));
        if let Some(one) = named("Item") {
            return Ty::of("Iter", one.clone());
        }
        named("Target").unwrap_or(ty).clone()
    }
}

/// The values of a type's parameters, inferred from the types of arguments.
fn learn(wanted: &Ty, given: &Ty, known: &mut Vec<(String, Ty)>) {
    match (wanted, given) {
        (_, Ty::Unknown) => {}
        (Ty::Param(name), given) => known.push((name.clone(), given.clone())),
        (Ty::Ours(one, wanted), Ty::Ours(other, given))
        | (Ty::Foreign(one, wanted), Ty::Foreign(other, given))
            if one == other =>
        {
            for (wanted, given) in wanted.iter().zip(given) {
                learn(wanted, given, known);
            }
        }
        _ => {}
    }
}

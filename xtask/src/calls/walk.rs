//! Reads the bodies of functions to find the calls in them, as far as the types can be inferred.

use super::definitions::{Definitions, Function, Scope};
use super::foreign;
use super::lookup::Found;
use super::names::{Item, Kind, names};
use super::types::Ty;
use syn::parse::{Parse as _, Parser as _};
use syn::punctuated::Punctuated;

/// The calls of one function.
#[derive(Default)]
pub(crate) struct Calls {
    /// The functions that it calls, once for each call.
    pub(crate) known: Vec<usize>,
    /// Methods that several types of ours have.
    pub(crate) unknown: Vec<String>,
    /// The constants that it reads, as the functions that compute them.
    constants: Vec<usize>,
    /// It uses a function or a closure as a value.
    holds: bool,
}

/// The calls of every function of the definitions, in their order.
pub(crate) fn calls(definitions: &Definitions) -> Vec<Calls> {
    let of = |function| {
        let mut walker = Walker::new(definitions, function);
        walker.block(&function.body);
        walker.calls
    };
    let mut all: Vec<Calls> = definitions.functions.iter().map(of).collect();
    call_tables(&mut all);
    all
}

/// Reading a constant that contains functions, such as a table, counts as a call of it.
fn call_tables(all: &mut [Calls]) {
    // A table of tables holds what they hold.
    loop {
        let holds = |calls: &Calls| calls.constants.iter().any(|&constant| all[constant].holds);
        let more = |calls: &&Calls| !calls.holds && holds(calls);
        let found: Vec<usize> = (0..all.len()).filter(|&index| more(&&all[index])).collect();
        if found.is_empty() {
            break;
        }
        for index in found {
            all[index].holds = true;
        }
    }
    for index in 0..all.len() {
        let read = all[index].constants.clone();
        let tables = read.into_iter().filter(|&constant| all[constant].holds);
        let tables: Vec<usize> = tables.collect();
        all[index].known.extend(tables);
    }
}

/// The function that is being read.
pub(super) struct Walker<'w> {
    pub(super) definitions: &'w Definitions,
    pub(super) scope: &'w Scope,
    /// The variables, the latest one last.
    pub(super) variables: Vec<(String, Ty)>,
    calls: Calls,
}

impl<'w> Walker<'w> {
    fn new(definitions: &'w Definitions, function: &'w Function) -> Walker<'w> {
        let mut walker = Walker {
            definitions,
            scope: &function.scope,
            variables: Vec::new(),
            calls: Calls::default(),
        };
        if let Some(own) = &function.scope.self_ty {
            walker.variables.push(("self".to_owned(), own.clone()));
        }
        for (pattern, ty) in &function.inputs {
            walker.bind(pattern, ty);
        }
        walker
    }

    /// The type of a block's value.
    fn block(&mut self, statements: &[syn::Stmt]) -> Ty {
        let before = self.variables.len();
        let mut last = Ty::Tuple(Vec::new());
        for statement in statements {
            last = match statement {
                syn::Stmt::Local(local) => {
                    self.local(local);
                    Ty::Unknown
                }
                syn::Stmt::Expr(expression, _) => self.ty(expression),
                syn::Stmt::Macro(statement) => self.of_macro(&statement.mac),
                syn::Stmt::Item(syn::Item::Fn(inner)) => self.block(&inner.block.stmts),
                syn::Stmt::Item(_) => Ty::Unknown,
            };
        }
        self.variables.truncate(before);
        last
    }

    fn local(&mut self, local: &syn::Local) {
        let mut given = Ty::Unknown;
        if let Some(init) = &local.init {
            given = self.ty(&init.expr);
            if let Some((_, otherwise)) = &init.diverge {
                self.ty(otherwise);
            }
        }
        self.bind(&local.pat, &given);
    }

    /// The type of an expression; the calls in it are recorded on the way.
    fn ty(&mut self, expression: &syn::Expr) -> Ty {
        match expression {
            syn::Expr::Path(path) => self.path(path),
            syn::Expr::Call(call) => self.call(call),
            syn::Expr::MethodCall(call) => self.method_call(call),
            syn::Expr::Field(field) => self.field(field),
            syn::Expr::Reference(inner) => self.ty(&inner.expr),
            syn::Expr::RawAddr(inner) => self.ty(&inner.expr),
            syn::Expr::Paren(inner) => self.ty(&inner.expr),
            syn::Expr::Group(inner) => self.ty(&inner.expr),
            syn::Expr::Unary(inner) => self.ty(&inner.expr),
            syn::Expr::Try(inner) => self.ty(&inner.expr).argument(0),
            syn::Expr::Await(inner) => {
                let awaited = self.ty(&inner.base);
                self.awaited(&awaited)
            }
            syn::Expr::Cast(inner) => {
                self.ty(&inner.expr);
                self.definitions.convert(self.scope, &inner.ty)
            }
            syn::Expr::Closure(closure) => Ty::of("Closure", self.closure(closure, &[])),
            syn::Expr::Struct(inner) => self.literal(inner),
            syn::Expr::Index(inner) => self.indexed(inner),
            syn::Expr::Binary(inner) => {
                let left = self.ty(&inner.left);
                self.ty(&inner.right);
                if is_arithmetic(inner.op) {
                    left
                } else {
                    Ty::foreign("bool", Vec::new())
                }
            }
            syn::Expr::Macro(inner) => self.of_macro(&inner.mac),
            _ => self.of_parts(expression),
        }
    }

    /// The type of an expression that combines others.
    fn of_parts(&mut self, expression: &syn::Expr) -> Ty {
        match expression {
            syn::Expr::Tuple(inner) => {
                Ty::Tuple(inner.elems.iter().map(|part| self.ty(part)).collect())
            }
            syn::Expr::Array(inner) => {
                let parts: Vec<Ty> = inner.elems.iter().map(|part| self.ty(part)).collect();
                Ty::of("Vec", parts.into_iter().next().unwrap_or(Ty::Unknown))
            }
            syn::Expr::Repeat(inner) => {
                self.ty(&inner.len);
                Ty::of("Vec", self.ty(&inner.expr))
            }
            syn::Expr::Range(inner) => {
                let ends = [&inner.start, &inner.end];
                let ends = ends.into_iter().flatten().map(|end| self.ty(end));
                let one = ends.collect::<Vec<_>>().pop().unwrap_or(Ty::Unknown);
                Ty::of("Range", one)
            }
            syn::Expr::Assign(inner) => {
                self.ty(&inner.right);
                self.ty(&inner.left);
                Ty::Unknown
            }
            syn::Expr::Block(inner) => self.block(&inner.block.stmts),
            syn::Expr::Unsafe(inner) => self.block(&inner.block.stmts),
            syn::Expr::Const(inner) => self.block(&inner.block.stmts),
            syn::Expr::Async(inner) => Ty::of("Future", self.block(&inner.block.stmts)),
            _ => self.of_branches(expression),
        }
    }

    /// The type of an expression that controls the flow.
    fn of_branches(&mut self, expression: &syn::Expr) -> Ty {
        let before = self.variables.len();
        match expression {
            syn::Expr::If(inner) => return self.condition(inner),
            syn::Expr::Match(inner) => return self.choice(inner),
            syn::Expr::Let(inner) => {
                // Its variables live as long as the expression whose condition it is.
                let given = self.ty(&inner.expr);
                self.bind(&inner.pat, &given);
                return Ty::Unknown;
            }
            syn::Expr::ForLoop(inner) => {
                let over = self.ty(&inner.expr);
                let one = self.definitions.element(&over);
                self.bind(&inner.pat, &one);
                self.block(&inner.body.stmts);
            }
            syn::Expr::While(inner) => {
                self.ty(&inner.cond);
                self.block(&inner.body.stmts);
            }
            syn::Expr::Loop(inner) => {
                self.block(&inner.body.stmts);
            }
            syn::Expr::Return(inner) => self.optional(inner.expr.as_deref()),
            syn::Expr::Break(inner) => self.optional(inner.expr.as_deref()),
            _ => {}
        }
        self.variables.truncate(before);
        Ty::Unknown
    }

    fn indexed(&mut self, inner: &syn::ExprIndex) -> Ty {
        self.ty(&inner.index);
        let of = self.ty(&inner.expr);
        match &of {
            Ty::Foreign(name, _) if name == "BTreeMap" => of.argument(1),
            Ty::Foreign(..) if is_range(&inner.index) => of,
            _ => foreign::element(&of),
        }
    }

    fn optional(&mut self, expression: Option<&syn::Expr>) {
        if let Some(expression) = expression {
            self.ty(expression);
        }
    }

    fn condition(&mut self, inner: &syn::ExprIf) -> Ty {
        let before = self.variables.len();
        self.ty(&inner.cond);
        let then = self.block(&inner.then_branch.stmts);
        self.variables.truncate(before);
        let Some((_, otherwise)) = &inner.else_branch else {
            return then;
        };
        let otherwise = self.ty(otherwise);
        either(then, otherwise)
    }

    fn choice(&mut self, inner: &syn::ExprMatch) -> Ty {
        let given = self.ty(&inner.expr);
        let mut result = Ty::Unknown;
        for arm in &inner.arms {
            let before = self.variables.len();
            self.bind(&arm.pat, &given);
            if let Some((_, guard)) = &arm.guard {
                self.ty(guard);
            }
            let ty = self.ty(&arm.body);
            result = either(result, ty);
            self.variables.truncate(before);
        }
        result
    }

    fn literal(&mut self, inner: &syn::ExprStruct) -> Ty {
        for field in &inner.fields {
            self.ty(&field.expr);
        }
        if let Some(rest) = &inner.rest {
            self.ty(rest);
        }
        match self
            .definitions
            .find(self.scope, &names(&inner.path), Kind::Space)
        {
            Some(Item::Type(path) | Item::Variant(path, _)) => match &self.scope.self_ty {
                Some(Ty::Ours(own, arguments)) if *own == path => Ty::Ours(path, arguments.clone()),
                _ => Ty::Ours(path, Vec::new()),
            },
            Some(Item::Alias(path)) => self.definitions.aliases[&path].1.clone(),
            _ => Ty::Unknown,
        }
    }

    /// The result of a closure with the arguments `given`.
    fn closure(&mut self, closure: &syn::ExprClosure, given: &[Ty]) -> Ty {
        self.calls.holds = true;
        let before = self.variables.len();
        for (index, pattern) in closure.inputs.iter().enumerate() {
            let ty = given.get(index).cloned().unwrap_or(Ty::Unknown);
            self.bind(pattern, &ty);
        }
        let body = self.ty(&closure.body);
        self.variables.truncate(before);
        match &closure.output {
            syn::ReturnType::Default => body,
            output @ syn::ReturnType::Type(..) => self.definitions.returned(self.scope, output),
        }
    }

    fn variable(&self, name: &str) -> Option<Ty> {
        let found = self.variables.iter().rev().find(|(local, _)| local == name);
        found.map(|(_, ty)| ty.clone())
    }

    fn path(&mut self, path: &syn::ExprPath) -> Ty {
        if let Some(name) = path.path.get_ident()
            && let Some(ty) = self.variable(&name.to_string())
        {
            return ty;
        }
        match self.item(path) {
            Some(Item::Function(index) | Item::Method(index, _)) => {
                self.calls.known.push(index);
                self.calls.holds = true;
                Ty::of(
                    "Closure",
                    self.definitions.functions[index].output.with(&[]),
                )
            }
            Some(Item::Constant(path)) => {
                let (ty, index) = &self.definitions.constants[&path];
                self.calls.constants.push(*index);
                ty.clone()
            }
            Some(Item::Type(path) | Item::Variant(path, _)) => Ty::Ours(path, Vec::new()),
            _ => Ty::Unknown,
        }
    }

    fn item(&self, path: &syn::ExprPath) -> Option<Item> {
        let all = names(&path.path);
        let Some(qualified) = &path.qself else {
            return self.definitions.find(self.scope, &all, Kind::Value);
        };
        let ty = self.definitions.convert(self.scope, &qualified.ty);
        let name = all.last()?;
        let own = self.definitions.member(&ty, name);
        own.or_else(|| self.definitions.find(self.scope, &all, Kind::Value))
    }

    fn call(&mut self, call: &syn::ExprCall) -> Ty {
        let syn::Expr::Path(path) = &*call.func else {
            let called = self.ty(&call.func);
            self.arguments(&call.args, &[]);
            return called.argument(0);
        };
        if let Some(name) = path.path.get_ident()
            && let Some(ty) = self.variable(&name.to_string())
        {
            self.arguments(&call.args, &[]);
            return ty.argument(0);
        }
        let item = self.item(path);
        let given = self.arguments(&call.args, &[]);
        match item {
            Some(Item::Function(index)) => {
                self.calls.known.push(index);
                self.definitions.output(index, &Ty::Unknown, &given)
            }
            Some(Item::Method(index, ty)) => {
                self.calls.known.push(index);
                self.definitions.output(index, &ty, &given)
            }
            Some(Item::Type(path) | Item::Variant(path, _)) => Ty::Ours(path, Vec::new()),
            Some(Item::Alias(path)) => self.definitions.aliases[&path].1.clone(),
            _ => foreign::call(&names(&path.path), given),
        }
    }

    /// The types of arguments; closures among them get `given`.
    fn arguments(&mut self, all: &Punctuated<syn::Expr, syn::Token![,]>, given: &[Ty]) -> Vec<Ty> {
        let of = |argument: &syn::Expr| match argument {
            syn::Expr::Closure(closure) => Ty::of("Closure", self.closure(closure, given)),
            argument => self.ty(argument),
        };
        all.iter().map(of).collect()
    }

    fn field(&mut self, field: &syn::ExprField) -> Ty {
        let base = self.ty(&field.base);
        let name = match &field.member {
            syn::Member::Named(name) => name.to_string(),
            syn::Member::Unnamed(index) => index.index.to_string(),
        };
        self.definitions.field_of(&base, &name)
    }

    fn awaited(&mut self, ty: &Ty) -> Ty {
        if let Ty::Foreign(name, _) = ty
            && name == "Future"
        {
            return ty.argument(0);
        }
        let (Ty::Ours(..), Some(head)) = (ty, ty.head()) else {
            return Ty::Unknown;
        };
        if let Some(&index) = self
            .definitions
            .methods
            .get(&(head.clone(), "poll".to_owned()))
        {
            self.calls.known.push(index);
        }
        let output = self
            .definitions
            .associated
            .get(&(head, "Output".to_owned()));
        output.cloned().unwrap_or(Ty::Unknown)
    }

    fn method_call(&mut self, call: &syn::ExprMethodCall) -> Ty {
        let receiver = self.ty(&call.receiver);
        let name = call.method.to_string();
        if let Some((index, on)) = self.method(&receiver, &name) {
            let given = self.arguments(&call.args, &[]);
            self.calls.known.push(index);
            return self.definitions.output(index, &on, &given);
        }
        if matches!(receiver, Ty::Ours(..)) && matches!(name.as_str(), "unwrap" | "expect") {
            // In this model a lock returns its guard directly, and not a result that may be
            // poisoned.
            return receiver;
        }
        let target = self.definitions.acts_as(&receiver);
        let given = foreign::closure_parameters(&target, &name);
        let types = self.arguments(&call.args, &given);
        let is_closure = |ty: &&Ty| matches!(ty, Ty::Foreign(name, _) if name == "Closure");
        let closure = types.iter().rfind(is_closure).map(|ty| ty.argument(0));
        if name == "collect"
            && let Some(turbofish) = &call.turbofish
            && let Some(syn::GenericArgument::Type(ty)) = turbofish.args.first()
        {
            let collected = self.definitions.convert(self.scope, ty);
            return match collected.argument(0) {
                Ty::Unknown => foreign::method(&target, &name, None),
                _ => collected,
            };
        }
        foreign::method(&target, &name, closure.as_ref())
    }

    /// Method `name` of `ty` and the type that it was found in.
    fn method(&mut self, ty: &Ty, name: &str) -> Option<(usize, Ty)> {
        match self.definitions.method_in(self.scope, ty, name) {
            Found::One(index, on) => Some((index, on)),
            Found::None => None,
            Found::Several => {
                self.calls.unknown.push(name.to_owned());
                None
            }
        }
    }

    fn of_macro(&mut self, call: &syn::Macro) -> Ty {
        let list = Punctuated::<syn::Expr, syn::Token![,]>::parse_terminated;
        let name = names(&call.path).pop().unwrap_or_default();
        if let Ok(all) = list.parse2(call.tokens.clone()) {
            let types: Vec<Ty> = all.iter().map(|part| self.ty(part)).collect();
            return match (name.as_str(), types.into_iter().next()) {
                ("vec", Some(one)) => Ty::of("Vec", one),
                _ => Ty::Unknown,
            };
        }
        let matching = |input: syn::parse::ParseStream<'_>| {
            let given = syn::Expr::parse(input)?;
            let _: syn::Token![,] = input.parse()?;
            let pattern = syn::Pat::parse_multi_with_leading_vert(input)?;
            let guard = match input.parse::<Option<syn::Token![if]>>()? {
                Some(_) => Some(syn::Expr::parse(input)?),
                None => None,
            };
            let _: Option<syn::Token![,]> = input.parse()?;
            Ok((given, pattern, guard))
        };
        let before = self.variables.len();
        if let Ok((given, pattern, guard)) = matching.parse2(call.tokens.clone()) {
            let given = self.ty(&given);
            self.bind(&pattern, &given);
            if let Some(guard) = guard {
                self.ty(&guard);
            }
        } else if let Ok(statements) = syn::Block::parse_within.parse2(call.tokens.clone()) {
            self.block(&statements);
        }
        self.variables.truncate(before);
        Ty::Unknown
    }
}

fn either(one: Ty, other: Ty) -> Ty {
    match one {
        Ty::Unknown => other,
        Ty::Tuple(parts) if parts.is_empty() => other,
        one => one,
    }
}

fn is_arithmetic(operator: syn::BinOp) -> bool {
    use syn::BinOp::{Add, Div, Mul, Rem, Sub};
    matches!(operator, Add(_) | Sub(_) | Mul(_) | Div(_) | Rem(_))
}

fn is_range(index: &syn::Expr) -> bool {
    matches!(index, syn::Expr::Range(_))
}

//! The expressions that mutants change, and the text that goes around each so that all of its
//! mutants are in one text.

use super::list::{Genre, Mutant, Place};
use proc_macro2::Span;
use std::collections::BTreeMap;
use std::ops::Range;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

/// A piece of text in place of another.
#[derive(Debug)]
pub(super) struct Edit {
    /// The bytes that it replaces.
    pub(super) range: Range<usize>,
    /// Its place among the edits of one byte: what closes inner expressions, what closes outer
    /// ones, then what opens outer ones, then inner ones.
    pub(super) order: (u8, isize),
    /// The text, with the mutant that each piece is.
    pub(super) pieces: Vec<(String, Option<usize>)>,
    /// The expression to which it belongs.
    pub(super) site: usize,
    /// The mutants of that expression.
    pub(super) of: Vec<usize>,
    /// No other edit of that expression follows.
    pub(super) is_last: bool,
}

type Wanted<'a> = BTreeMap<Place, Vec<(usize, &'a Mutant)>>;

/// A function that returns `value` at once in mutant `number`.
pub(super) fn early_return(at: usize, number: usize, value: &str) -> Edit {
    let text = format!("if {} {{ return {value}; }} ", is(number));
    Edit {
        range: at..at,
        order: (1, number as isize),
        pieces: vec![(text, Some(number))],
        // The expressions count from 0.
        site: usize::MAX - number,
        of: vec![number],
        is_last: true,
    }
}

/// The edits for those of `wanted` that are found in `file`, whose text is `text`.
pub(super) fn find(file: &syn::File, text: &str, wanted: &Wanted<'_>) -> Vec<Edit> {
    let mut finder = Finder {
        text,
        wanted,
        sites: 0,
        edits: Vec::new(),
    };
    finder.visit_file(file);
    finder.edits
}

fn is(number: usize) -> String {
    format!("crate::mutant_is({number})")
}

/// Parts of the text around an expression: its beginning, what replaces its middle, its end.
type Pieces = Vec<(String, Option<usize>)>;

struct Finder<'a> {
    text: &'a str,
    wanted: &'a Wanted<'a>,
    sites: usize,
    edits: Vec<Edit>,
}

impl<'a> Finder<'a> {
    fn wanted(&self, at: Span, genre: Genre) -> Vec<(usize, &'a Mutant)> {
        let start = at.start();
        let (line, column) = (start.line, start.column + 1);
        let here = self.wanted.get(&Place { line, column });
        let here = here.into_iter().flatten().copied();
        here.filter(|(_, mutant)| mutant.genre == genre).collect()
    }

    /// Adds the edits of one expression, from its beginning to its end.
    fn put(&mut self, of: &[(usize, &Mutant)], edits: Vec<(Range<usize>, Pieces)>) {
        let of: Vec<usize> = of.iter().map(|&(number, _)| number).collect();
        let site = self.sites;
        self.sites += 1;
        let last = edits.len() - 1;
        for (index, (range, pieces)) in edits.into_iter().enumerate() {
            let depth = site as isize;
            let closes = index == last && last > 0;
            let order = if closes { (0, -depth) } else { (2, depth) };
            let is_last = index == last;
            let of = of.clone();
            self.edits.push(Edit {
                range,
                order,
                pieces,
                site,
                of,
                is_last,
            });
        }
    }

    /// `if mutant_is(1) { CHANGED } else { AS IT IS } })`, with an operator between two values.
    fn choice(of: &[(usize, &Mutant)], value: &str, operator: &str, other: &str) -> Pieces {
        let mut pieces = Vec::new();
        for (number, mutant) in of {
            let changed = format!("{value} {} {other}", mutant.replacement.trim());
            pieces.push((format!("if {} {{ ", is(*number)), None));
            pieces.push((changed, Some(*number)));
            pieces.push((" } else ".to_owned(), None));
        }
        pieces.push((format!("{{ {value} {operator} {other} }} }})"), None));
        pieces
    }

    fn binary(&mut self, expr: &syn::ExprBinary, of: &[(usize, &Mutant)]) {
        use syn::BinOp::{And, Eq, Ge, Gt, Le, Lt, Ne, Or};
        let (left, right) = (
            expr.left.span().byte_range(),
            expr.right.span().byte_range(),
        );
        let operator = self.text[expr.op.span().byte_range()].to_owned();
        if matches!(expr.op, And(_) | Or(_)) {
            if has_let(&expr.left) || has_let(&expr.right) {
                return;
            }
            // `a && b` ends early if `a` is false, and the mutant `a || b` if it is true.
            let equal = if matches!(expr.op, And(_)) {
                "=="
            } else {
                "!="
            };
            let middle = format!(
                ") {{ __l => if __l {equal} {} {{ __l }} else {{",
                is(of[0].0)
            );
            let edits = vec![
                (left.start..left.start, vec![("(match (".to_owned(), None)]),
                (expr.op.span().byte_range(), vec![(middle, None)]),
                (right.end..right.end, vec![(" } })".to_owned(), None)]),
            ];
            return self.put(&of[..1], edits);
        }
        let is_comparison = matches!(expr.op, Eq(_) | Ne(_) | Lt(_) | Le(_) | Gt(_) | Ge(_));
        let (open, middle, value, other) = if is_comparison {
            ("(match (&(", "),&(", "*__l", "*__r")
        } else if operator.ends_with('=') {
            ("(match (&mut (", "),(", "*__l", "__r")
        } else {
            ("(match ((", "),(", "__l", "__r")
        };
        let mut close = vec![(")) { (__l, __r) => ".to_owned(), None)];
        close.extend(Self::choice(of, value, &operator, other));
        let edits = vec![
            (left.start..left.start, vec![(open.to_owned(), None)]),
            (expr.op.span().byte_range(), vec![(middle.to_owned(), None)]),
            (right.end..right.end, close),
        ];
        self.put(of, edits);
    }
}

/// Whether it is a condition with `let` in it, which is no expression.
fn has_let(expr: &syn::Expr) -> bool {
    match expr {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(of) => has_let(&of.left) || has_let(&of.right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_expr_binary(&mut self, expr: &'ast syn::ExprBinary) {
        let of = self.wanted(expr.op.span(), Genre::BinaryOperator);
        if !of.is_empty() {
            self.binary(expr, &of);
        }
        visit::visit_expr_binary(self, expr);
    }

    fn visit_expr_unary(&mut self, expr: &'ast syn::ExprUnary) {
        let of = self.wanted(expr.op.span(), Genre::UnaryOperator);
        if let Some((number, _)) = of.first() {
            let (operator, end) = (
                expr.op.span().byte_range(),
                expr.expr.span().byte_range().end,
            );
            let sign = self.text[operator.clone()].to_owned();
            let close = vec![
                (format!(") {{ __l => if {} {{ ", is(*number)), None),
                ("__l".to_owned(), Some(*number)),
                (format!(" }} else {{ {sign}__l }} }})"), None),
            ];
            let open = vec![("(match (".to_owned(), None)];
            self.put(&of, vec![(operator, open), (end..end, close)]);
        }
        visit::visit_expr_unary(self, expr);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        let of = self.wanted(arm.span(), Genre::MatchArm);
        if let (Some((number, _)), None) = (of.first(), &arm.guard) {
            let end = arm.pat.span().byte_range().end;
            let guard = vec![(format!(" if !{}", is(*number)), Some(*number))];
            self.put(&of, vec![(end..end, guard)]);
        }
        if let Some((_, guard)) = &arm.guard {
            let of = self.wanted(guard.span(), Genre::MatchArmGuard);
            if !of.is_empty() {
                let range = guard.span().byte_range();
                let chosen = of.iter().map(|(number, mutant)| {
                    let whether = is(*number);
                    match mutant.replacement.trim() {
                        "true" => format!("{whether} || "),
                        _ => format!("!{whether} && "),
                    }
                });
                let open = format!("({}(", chosen.collect::<String>());
                let close = vec![("))".to_owned(), None)];
                let edits = vec![
                    (range.start..range.start, vec![(open, None)]),
                    (range.end..range.end, close),
                ];
                self.put(&of, edits);
            }
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, expr: &'ast syn::ExprStruct) {
        for field in &expr.fields {
            let of = self.wanted(field.span(), Genre::StructField);
            let (syn::Member::Named(name), Some(base)) = (&field.member, &expr.rest) else {
                continue;
            };
            if let (Some((number, _)), Some(_)) = (of.first(), field.colon_token) {
                let range = field.expr.span().byte_range();
                let base = &self.text[base.span().byte_range()];
                let open = vec![
                    (format!("if {} {{ ", is(*number)), None),
                    (format!("({base}).{name}"), Some(*number)),
                    (" } else { ".to_owned(), None),
                ];
                let edits = vec![
                    (range.start..range.start, open),
                    (range.end..range.end, vec![(" }".to_owned(), None)]),
                ];
                self.put(&of, edits);
            }
        }
        visit::visit_expr_struct(self, expr);
    }
}

//! Mutants as branches of one program, built at once: each mutated place checks at runtime if its mutant is enabled.

use std::collections::HashMap;
use std::ops::Range;

use anyhow::{Context, Result};
use proc_macro2::LineColumn;
use serde::Deserialize;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

pub(super) const SWITCH: &str = r#"
pub(crate) fn __mutant(number: usize) -> bool {
    use std::io::Write as _;
    use std::sync::{LazyLock, Mutex};
    static ON: LazyLock<Option<usize>> = LazyLock::new(|| std::env::var("MUTANT").ok()?.parse().ok());
    static REACHED: LazyLock<Option<Mutex<(std::fs::File, std::collections::HashSet<usize>)>>> =
        LazyLock::new(|| {
            let file = std::env::var_os("MUTANTS_REACHED")?;
            let file = std::fs::OpenOptions::new().create(true).append(true).open(file).ok()?;
            Some(Mutex::new((file, Default::default())))
        });
    if let Some(reached) = &*REACHED {
        let mut reached = reached.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if reached.1.insert(number) {
            let _ = reached.0.write_all(format!("{number}\n").as_bytes());
        }
    }
    *ON == Some(number)
}
"#;

pub(super) const ON: &str = "MUTANT";

/// Environment variable of a file in which a test records the reached mutants.
pub(super) const REACHED: &str = "MUTANTS_REACHED";

#[derive(Clone, Deserialize)]
pub(super) struct Mutant {
    pub(super) name: String,
    pub(super) file: String,
    genre: Genre,
    replacement: String,
    span: Place,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
enum Genre {
    FnValue,
    BinaryOperator,
    UnaryOperator,
    MatchArm,
    MatchArmGuard,
    StructField,
}

#[derive(Clone, Copy, Deserialize)]
struct Place {
    start: Position,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
struct Position {
    line: usize,
    column: usize,
}

pub(super) struct Switched {
    pub(super) source: String,
    branches: Vec<Branch>,
}

/// Location of a mutant in the new source: the inserted text, and the whole branch.
struct Branch {
    number: usize,
    inserted: Range<usize>,
    whole: Range<usize>,
}

impl Switched {
    /// Adds a branch for each of these mutants, which are all in this source.
    pub(super) fn new(source: &str, mutants: &[(usize, &Mutant)]) -> Result<Self> {
        let file = syn::parse_file(source).context("this is no Rust")?;
        let mut places: HashMap<_, Vec<_>> = HashMap::new();
        for &(number, mutant) in mutants {
            let place = (mutant.genre, mutant.span.start);
            places.entry(place).or_default().push((number, mutant.replacement.as_str()));
        }
        let mut branches = Branches { source, lines: line_starts(source), places, edits: Vec::new() };
        branches.visit_file(&file);
        Ok(branches.apply())
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = usize> {
        self.branches.iter().map(|branch| branch.number)
    }

    /// Returns the mutants to blame for compiler errors there: those whose text is there, else of the smallest branch.
    pub(super) fn blamed(&self, places: &[Range<usize>]) -> Vec<usize> {
        let contains = |range: &Range<usize>, place: &Range<usize>| {
            range.start <= place.start && place.end <= range.end && !range.is_empty()
        };
        let branches_at = |range: fn(&Branch) -> &Range<usize>| {
            self.branches
                .iter()
                .filter(move |branch| places.iter().any(|place| contains(range(branch), place)))
        };
        let inserted: Vec<_> = branches_at(|branch| &branch.inserted).map(|branch| branch.number).collect();
        if !inserted.is_empty() {
            return inserted;
        }
        let smallest = branches_at(|branch| &branch.whole).map(|branch| branch.whole.len()).min();
        let around =
            branches_at(|branch| &branch.whole).filter(|branch| Some(branch.whole.len()) == smallest);
        around.map(|branch| branch.number).collect()
    }
}

struct Branches<'a> {
    source: &'a str,
    lines: Vec<usize>,
    places: HashMap<(Genre, Position), Vec<(usize, &'a str)>>,
    edits: Vec<Edit>,
}

/// Inserted text. At one position, ends come before starts, then in order of discovery.
struct Edit {
    at: usize,
    starts: bool,
    parts: Vec<(Option<usize>, String)>,
    whole: Range<usize>,
}

impl<'a> Branches<'a> {
    fn at(&mut self, genre: Genre, LineColumn { line, column }: LineColumn) -> Vec<(usize, &'a str)> {
        self.places.remove(&(genre, Position { line, column: column + 1 })).unwrap_or_default()
    }

    fn offset(&self, LineColumn { line, column }: LineColumn) -> usize {
        let start = self.lines[line - 1];
        self.source[start..].char_indices().nth(column).map_or(self.source.len(), |(index, _)| start + index)
    }

    fn range(&self, of: &impl Spanned) -> Range<usize> {
        let span = of.span();
        self.offset(span.start())..self.offset(span.end())
    }

    /// Inserts `(if on { other } else { original })` around a range.
    fn either(&mut self, range: Range<usize>, name: &str, others: Vec<(usize, String)>) {
        if others.is_empty() {
            return;
        }
        let mut parts = vec![(None, format!("{name}("))];
        for (number, other) in others {
            parts.push((Some(number), format!("if crate::__mutant({number}) {{ {other} }} else ")));
        }
        parts.push((None, "{ ".to_owned()));
        self.insert(range.start, true, parts, &range);
        self.insert(range.end, false, vec![(None, " })".to_owned())], &range);
    }

    fn insert(&mut self, at: usize, starts: bool, parts: Vec<(Option<usize>, String)>, whole: &Range<usize>) {
        self.edits.push(Edit { at, starts, parts, whole: whole.clone() });
    }

    fn binary(&mut self, binary: &syn::ExprBinary) {
        let mutants = self.at(Genre::BinaryOperator, binary.op.span().start());
        // A `let` condition must not be in parentheses.
        if mutants.is_empty() || has_pattern(&binary.left) || has_pattern(&binary.right) {
            return;
        }
        let (whole, operator) = (self.range(binary), self.range(&binary.op));
        let (left, right) = (
            self.source[whole.start..operator.start].to_owned(),
            self.source[operator.end..whole.end].to_owned(),
        );
        let others =
            mutants.iter().map(|(number, other)| (*number, format!("{left}{other}{right}"))).collect();
        self.either(whole, "", others);
    }

    fn unary(&mut self, unary: &syn::ExprUnary) {
        let mutants = self.at(Genre::UnaryOperator, unary.op.span().start());
        let operand = self.source[self.range(&*unary.expr)].to_owned();
        let others = mutants.iter().map(|(number, _)| (*number, operand.clone())).collect();
        self.either(self.range(unary), "", others);
    }

    /// A deleted arm never matches; the last arm takes its values.
    fn arm(&mut self, arm: &syn::Arm) {
        let deleted = self.at(Genre::MatchArm, arm.span().start());
        let guard = arm.guard.as_ref().map(|(_, guard)| guard);
        let replaced =
            guard.map(|guard| self.at(Genre::MatchArmGuard, guard.span().start())).unwrap_or_default();
        if (deleted.is_empty() && replaced.is_empty()) || guard.is_some_and(|guard| has_pattern(guard)) {
            return;
        }
        let whole = self.range(arm);
        let never = deleted.iter().map(|(number, _)| number);
        let never =
            never.chain(replaced.iter().filter(|(_, other)| *other == "false").map(|(number, _)| number));
        let mut parts: Vec<_> =
            never.map(|number| (Some(*number), format!("!crate::__mutant({number}) && "))).collect();
        match guard {
            None => {
                parts.insert(0, (None, " if ".to_owned()));
                parts.push((None, "true".to_owned()));
                let end = self.range(&arm.pat).end;
                self.insert(end, false, parts, &whole);
            }
            Some(guard) => {
                parts.push((None, "(".to_owned()));
                for (number, _) in replaced.iter().filter(|(_, other)| *other == "true") {
                    parts.push((Some(*number), format!("crate::__mutant({number}) || ")));
                }
                parts.push((None, "(".to_owned()));
                let range = self.range(guard);
                self.insert(range.start, true, parts, &whole);
                self.insert(range.end, false, vec![(None, "))".to_owned())], &whole);
            }
        }
    }

    /// A deleted field has the value of the base.
    fn fields(&mut self, literal: &syn::ExprStruct) {
        let Some(base) = &literal.rest else { return };
        let base_text = self.source[self.range(&**base)].to_owned();
        let path = self.source[self.range(&literal.path)].to_owned();
        for field in &literal.fields {
            let mutants = self.at(Genre::StructField, field.span().start());
            let member = self.source[self.range(&field.member)].to_owned();
            let other = match &**base {
                syn::Expr::Path(_) => format!("{base_text}.{member}"),
                // The type of a call such as `Default::default()` is known from the literal only.
                _ => format!("{{ let base: {path} = {base_text}; base.{member} }}"),
            };
            let others = mutants.iter().map(|(number, _)| (*number, other.clone())).collect();
            let name = if field.colon_token.is_none() { format!("{member}: ") } else { String::new() };
            self.either(self.range(&field.expr), &name, others);
        }
    }

    /// Splits off the ends among the edits after the first `count`, to insert them after inner ends.
    fn ends(&mut self, count: usize) -> Vec<Edit> {
        let (starts, ends) = self.edits.split_off(count).into_iter().partition(|edit| edit.starts);
        self.edits.extend::<Vec<_>>(starts);
        ends
    }

    fn apply(mut self) -> Switched {
        self.edits.sort_by_key(|edit| (edit.at, edit.starts));
        let (mut source, mut branches, mut from) = (String::new(), Vec::new(), 0);
        let mut moved: Vec<(usize, usize)> = Vec::new();
        for edit in &self.edits {
            source.push_str(&self.source[from..edit.at]);
            from = edit.at;
            for (number, text) in &edit.parts {
                let start = source.len();
                source.push_str(text);
                let whole = edit.whole.clone();
                branches.extend(number.map(|number| Branch { number, inserted: start..source.len(), whole }));
            }
            moved.push((edit.at, source.len() - edit.at));
        }
        source.push_str(&self.source[from..]);
        let new = |old: usize| {
            let shifts = moved.partition_point(|(at, _)| *at <= old);
            old + shifts.checked_sub(1).map_or(0, |index| moved[index].1)
        };
        for branch in &mut branches {
            branch.whole = branch.inserted.start.min(new(branch.whole.start))..new(branch.whole.end);
        }
        Switched { source, branches }
    }
}

impl<'ast> Visit<'ast> for Branches<'_> {
    fn visit_block(&mut self, block: &'ast syn::Block) {
        if let Some(first) = block.stmts.first() {
            let start = first.span().start();
            let parts: Vec<_> = self
                .at(Genre::FnValue, start)
                .into_iter()
                .map(|(number, value)| {
                    (Some(number), format!("if crate::__mutant({number}) {{ return {value}; }} "))
                })
                .collect();
            if !parts.is_empty() {
                let (at, whole) = (self.offset(start), self.range(block));
                self.insert(at, true, parts, &whole);
            }
        }
        visit::visit_block(self, block);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        let found = self.edits.len();
        self.arm(arm);
        let ends = self.ends(found);
        visit::visit_arm(self, arm);
        self.edits.extend(ends);
    }

    fn visit_expr(&mut self, expr: &'ast syn::Expr) {
        let found = self.edits.len();
        match expr {
            syn::Expr::Binary(binary) => self.binary(binary),
            syn::Expr::Unary(unary) => self.unary(unary),
            syn::Expr::Struct(literal) => self.fields(literal),
            _ => {}
        }
        let ends = self.ends(found);
        visit::visit_expr(self, expr);
        self.edits.extend(ends);
    }
}

/// Returns true if a condition contains `let` outside of parentheses and blocks.
fn has_pattern(expr: &syn::Expr) -> bool {
    match expr {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => has_pattern(&binary.left) || has_pattern(&binary.right),
        _ => false,
    }
}

fn line_starts(source: &str) -> Vec<usize> {
    let after_line = source.match_indices('\n').map(|(index, _)| index + 1);
    std::iter::once(0).chain(after_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(genre: Genre, line: usize, column: usize, replacement: &str) -> Mutant {
        Mutant {
            name: String::new(),
            file: String::new(),
            genre,
            replacement: replacement.to_owned(),
            span: Place { start: Position { line, column } },
        }
    }

    #[expect(clippy::expect_used, reason = "a test that cannot go on says so by panicking")]
    fn switched(source: &str, mutants: &[Mutant]) -> Switched {
        Switched::new(source, &mutants.iter().enumerate().collect::<Vec<_>>()).expect("it is Rust")
    }

    #[test]
    fn replaced_bodies_and_operators_at_one_position_are_nested_branches() {
        let mutants = [
            mutant(Genre::FnValue, 1, 27, "0"),
            mutant(Genre::BinaryOperator, 1, 29, "-"),
            mutant(Genre::BinaryOperator, 1, 29, "*"),
            mutant(Genre::BinaryOperator, 1, 33, "-"),
        ];
        assert_eq!(
            switched("fn f(a: u8, b: u8) -> u8 {a + b + 1}", &mutants).source,
            "fn f(a: u8, b: u8) -> u8 {if crate::__mutant(0) { return 0; } \
             (if crate::__mutant(3) { a + b - 1 } else { \
             (if crate::__mutant(1) { a - b } else if crate::__mutant(2) { a * b } else { a + b }) + 1 })}"
        );
    }

    #[test]
    fn an_arm_that_is_deleted_and_its_guard_are_one_guard() {
        let mutants = [
            mutant(Genre::MatchArm, 1, 20, ""),
            mutant(Genre::MatchArmGuard, 1, 25, "true"),
            mutant(Genre::MatchArmGuard, 1, 25, "false"),
            mutant(Genre::BinaryOperator, 1, 27, "<"),
            mutant(Genre::MatchArm, 1, 39, ""),
        ];
        assert_eq!(
            switched("fn f() { match a { 1 if b > c => (), 2 => (), _ => () } }", &mutants).numbers().count(),
            4,
            "nothing is at column 39"
        );
        assert_eq!(
            switched("fn f() { match a { 1 if b > c => (), 2 => (), _ => () } }", &mutants).source,
            "fn f() { match a { 1 if !crate::__mutant(0) && !crate::__mutant(2) && (crate::__mutant(1) || (\
             (if crate::__mutant(3) { b < c } else { b > c }))) => (), 2 => (), _ => () } }"
        );
    }

    #[test]
    fn deleting_fields_and_operators_leaves_the_base_and_the_operand() {
        let mutants = [mutant(Genre::StructField, 1, 21, ""), mutant(Genre::UnaryOperator, 1, 24, "")];
        assert_eq!(
            switched("fn f() { let b = A {a: !c, ..d}; let e = A {a, ..F::new()}; }", &mutants).source,
            "fn f() { let b = A {a: (if crate::__mutant(0) { d.a } else { \
             (if crate::__mutant(1) { c } else { !c }) }), ..d}; let e = A {a, ..F::new()}; }"
        );
        let mutants = [mutant(Genre::StructField, 1, 45, "")];
        assert_eq!(
            switched("fn f() { let b = A {a: !c, ..d}; let e = A {a, ..F::new()}; }", &mutants).source,
            "fn f() { let b = A {a: !c, ..d}; let e = A {\
             a: (if crate::__mutant(0) { { let base: A = F::new(); base.a } } else { a }), ..F::new()}; }"
        );
    }

    #[test]
    fn an_error_names_the_branch_of_its_text_or_the_smallest_around_it() {
        let mutants = [mutant(Genre::FnValue, 1, 9, "x"), mutant(Genre::BinaryOperator, 1, 11, "-")];
        let switched = switched("fn f() {a + b; c}", &mutants);
        let at = |text| switched.source.find(text).map_or(0..0, |start| start..start + 1);
        assert_eq!(switched.blamed(&[at("c}")]), [0]);
        assert_eq!(switched.blamed(&[at("x;")]), [0]);
        assert_eq!(switched.blamed(&[at("- b")]), [1]);
        assert_eq!(switched.blamed(&[at("+ b")]), [1]);
    }
}

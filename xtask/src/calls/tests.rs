//! The resolver and the graph on small made-up sources.

use super::code::Code;
use super::graph::journey;
use crate::source::Source;

const MANIFEST: (&str, &str) = ("one/Cargo.toml", "[package]\nname = \"one\"\n");

fn code(files: &[(&str, &str)]) -> Code {
    let all = [MANIFEST].into_iter().chain(files.iter().copied());
    let sources: Vec<Source> = all.map(|(path, text)| Source::new(path, text)).collect();
    Code::read(&sources).unwrap()
}

/// The calls of a crate of one file, as `caller -> callee`.
fn calls_in(text: &str) -> Vec<String> {
    calls(&code(&[("one/src/lib.rs", text)]))
}

fn calls(code: &Code) -> Vec<String> {
    let name = |index: usize| &code.definitions.functions[index].name;
    let all = code.calls.iter().enumerate().flat_map(|(caller, calls)| {
        let called = calls.known.iter();
        called.map(move |&callee| format!("{} -> {}", name(caller), name(callee)))
    });
    let mut all: Vec<String> = all.collect();
    // Files are read in the order of their modules; within one the order is that of the text.
    all.sort_by_key(|call| call.split(" -> ").next().unwrap_or_default().to_owned());
    all
}

/// What `go` calls when its body is `body`, with `items` around it.
fn called(items: &str, body: &str) -> Vec<String> {
    let found = calls_in(&format!("{items}\nfn go() {{ {body} }}"));
    let own = found
        .iter()
        .filter_map(|call| call.strip_prefix("one::go -> "));
    own.map(str::to_owned).collect()
}

#[test]
fn paths_are_followed_through_modules_and_use() {
    let files = [
        (
            "one/src/lib.rs",
            "mod deep; mod top; pub use deep::inner::far;",
        ),
        (
            "one/src/deep/mod.rs",
            "pub mod inner; pub fn near() {} pub fn up() { super::top::go() }",
        ),
        (
            "one/src/deep/inner.rs",
            "pub fn far() { super::near() } pub fn farther() {}",
        ),
        (
            "one/src/top.rs",
            "use crate::deep::{self, inner::*, near as close};
            pub fn go() { deep::near(); close(); farther(); crate::far(); self::stay(); }
            fn stay() { let far = || (); far(); }",
        ),
    ];
    assert_eq!(
        calls(&code(&files)),
        [
            "deep::up -> top::go",
            "inner::far -> deep::near",
            "top::go -> deep::near",
            "top::go -> deep::near",
            "top::go -> inner::farther",
            "top::go -> inner::far",
            "top::go -> top::stay",
        ]
    );
}

const TWO_PUSHES: &str = "
    struct Left { value: u32 } struct Right { left: Left }
    impl Left { fn new() -> Left { Left { value: 0 } } fn push(&self) -> Right { panic!() } }
    impl Right { fn push(&self) {} fn left(&self) -> &Left { &self.left } }
    impl Iterator for Right { type Item = Left; fn next(&mut self) -> Option<Left> { None } }";

#[test]
fn a_method_of_a_common_name_needs_a_type() {
    for (body, expected) in [
        (
            "let a = Left::new(); a.push();",
            &["Left::new", "Left::push"][..],
        ),
        ("let a: Right = make(); a.push();", &["Right::push"]),
        (
            "let a = Left { value: 1 }; a.push().push();",
            &["Left::push", "Right::push"],
        ),
        (
            "let a: Vec<Left> = make(); a[0].push(); a.push(1);",
            &["Left::push"],
        ),
        (
            "let a: &[Arc<Left>] = make(); for one in a { one.push(); }",
            &["Left::push"],
        ),
        ("let a: Vec<_> = make(); a.push(1);", &[]),
        ("let Some(a) = make::<u8>() else { return }; a.push();", &[]),
        (
            "let a: Option<Right> = make(); if let Some(a) = a { a.push() }",
            &["Right::push"],
        ),
        (
            "let a: Mutex<Right> = make(); a.lock().unwrap().push();",
            &["Right::push"],
        ),
        (
            "let a: Vec<Left> = make(); a.iter().filter(|a| a.push()).count();",
            &["Left::push"],
        ),
        (
            "let a: Vec<Left> = make(); a.iter().map(|a| a).for_each(Left::push);",
            &["Left::push"],
        ),
        (
            "let a: Right = make(); for left in a { left.push(); }",
            &["Left::push"],
        ),
        (
            "let a: (u8, Left) = make(); let (_, b) = a; b.push();",
            &["Left::push"],
        ),
        (
            "let a: Right = make(); let Right { left } = a; left.push();",
            &["Left::push"],
        ),
        (
            "let a: Right = make(); a.left.push(); a.left().push();",
            &["Left::push", "Right::left", "Left::push"],
        ),
        ("unknown.push();", &[]),
        ("String::new().push('a');", &[]),
    ] {
        assert_eq!(called(TWO_PUSHES, body), expected, "{body}");
    }
}

#[test]
fn a_rare_name_needs_none_if_one_type_has_it() {
    let one = "struct A; impl A { fn rotate_reclaimable(&self) {} }";
    assert_eq!(
        called(one, "x().rotate_reclaimable();"),
        ["A::rotate_reclaimable"]
    );
    let two = format!("{one} struct B; impl B {{ fn rotate_reclaimable(&self) {{}} }}");
    assert_eq!(called(&two, "x().rotate_reclaimable();"), [""; 0]);
    let source = format!("{two} fn go() {{ x().rotate_reclaimable(); }}");
    let code = code(&[("one/src/lib.rs", &source)]);
    assert_eq!(
        code.unresolved("one"),
        "one: 0 calls followed, 1 not\n  rotate_reclaimable 1\n"
    );
    let by_macro = format!("{one} made! {{ fn rotate_reclaimable(&self) {{}} }}");
    assert_eq!(called(&by_macro, "x().rotate_reclaimable();"), [""; 0]);
}

#[test]
fn methods_of_traits_are_the_traits_unless_the_type_is_known() {
    let items = "trait Store { fn submit(&self); fn twice(&self) { self.submit(); } }
        struct File; impl Store for File { fn submit(&self) {} }
        struct Outer<S> { store: S }
        impl<S: Store> Outer<S> { fn outer(&self) { self.store.submit() } }
        fn any(a: &dyn Store, b: impl Store) { a.submit(); b.submit(); }
        fn bound<T>(a: T) where T: Store { a.submit(); T::submit(&a); }
        fn known(a: Outer<File>) {
            a.store.submit(); a.store.twice(); <File as Store>::submit(&a) }";
    assert_eq!(
        calls_in(items),
        [
            "Outer::outer -> Store::submit",
            "Store::twice -> Store::submit",
            "one::any -> Store::submit",
            "one::any -> Store::submit",
            "one::bound -> Store::submit",
            "one::bound -> Store::submit",
            "one::known -> File::submit",
            "one::known -> Store::twice",
            "one::known -> File::submit",
        ]
    );
}

#[test]
fn types_are_known_through_what_leads_to_them() {
    let items = "struct Inner; impl Inner { fn run(&self) {} }
        struct Outer { inner: Inner }
        impl Deref for Outer { type Target = Inner; fn deref(&self) -> &Inner { &self.inner } }
        struct Soon; impl Future for Soon { type Output = Inner; fn poll(self) -> u8 { 0 } }
        struct List<T> { all: Vec<T> } impl<T> List<T> { fn first(&self) -> Option<&T> { None } }
        type Named = List<Inner>;
        enum Choice { One(Inner), Two { two: Inner } }
        async fn later() -> Result<Inner, u8> { panic!() }";
    for (body, expected) in [
        ("let a: Outer = x(); a.run();", &["Inner::run"][..]),
        (
            "let a: Soon = x(); a.await.run();",
            &["Soon::poll", "Inner::run"],
        ),
        ("later().await?.run();", &["one::later", "Inner::run"]),
        (
            "let a: Named = x(); a.first()?.run();",
            &["List::first", "Inner::run"],
        ),
        (
            "let a: List<Inner> = x(); a.all.iter().any(|a| a.run());",
            &["Inner::run"],
        ),
        (
            "match x() { Choice::One(a) => a.run(), Choice::Two { two } => two.run() }",
            &["Inner::run", "Inner::run"],
        ),
        ("let a = move || Inner; a().run();", &["Inner::run"]),
        (
            "let a: Box<dyn Fn(u8) -> Inner> = x(); a(1).run();",
            &["Inner::run"],
        ),
        (
            "let a = Arc::new(Inner); Arc::clone(&a).run();",
            &["Inner::run"],
        ),
        (
            "let a: Weak<Inner> = x(); a.upgrade().map(|a| a.run());",
            &["Inner::run"],
        ),
    ] {
        assert_eq!(called(items, body), expected, "{body}");
    }
}

#[test]
fn arguments_of_macros_are_read() {
    let items = "fn a() -> u8 { 0 } fn b() -> bool { true }";
    for (body, expected) in [
        (
            "assert_eq!(a(), 1, \"{}\", a());",
            &["one::a", "one::a"][..],
        ),
        ("matches!(a(), 1 | 2 if b());", &["one::a", "one::b"]),
        ("let _ = vec![a(); 3];", &[]),
        ("println!(\"{x}\", x = a());", &["one::a"]),
    ] {
        let found = called(items, body);
        if body.contains("vec") {
            assert!(found.len() <= 1, "{found:?}");
        } else {
            assert_eq!(found, expected, "{body}");
        }
    }
}

#[test]
fn a_table_of_functions_calls_them_and_is_called() {
    let items = "fn a() {} const TABLE: &[fn()] = &[a]; static ALL: &[&[fn()]] = &[TABLE];
        const SIZE: u64 = size(); const fn size() -> u64 { 1 }
        fn go() { for rule in ALL { rule[0](); } let _ = SIZE; }";
    assert_eq!(
        calls_in(items),
        [
            "one::ALL -> one::TABLE",
            "one::SIZE -> one::size",
            "one::TABLE -> one::a",
            "one::go -> one::ALL",
        ]
    );
}

#[test]
fn tests_are_left_out() {
    let text = "fn a() {} #[cfg(test)] mod tests { fn b() { super::a() } }
        #[cfg(all(test, not(loom)))] #[path = \"lib_tests.rs\"] mod more;
        #[test] fn c() { a() } #[cfg(loom)] fn d() { a() } #[cfg(not(loom))] fn e() { a() }
        #[cfg(not(any(loom, shuttle)))] fn h() { a() } #[cfg(any(loom, shuttle))] fn i() { a() }
        struct S; impl S { #[cfg(test)] fn f(&self) { a() } fn g(&self) { a() } }";
    let called = ["S::g -> one::a", "one::e -> one::a", "one::h -> one::a"];
    assert_eq!(calls_in(text), called);
}

const CIRCLE: [(&str, &str); 5] = [
    ("one/src/lib.rs", "mod a; mod b; mod c; mod d;"),
    (
        "one/src/a.rs",
        "pub fn a() { crate::b::b(); crate::b::b(); }",
    ),
    (
        "one/src/b.rs",
        "pub fn b() { crate::c::c(); crate::c::c(); }",
    ),
    (
        "one/src/c.rs",
        "pub fn c() { crate::a::a(); crate::d::d(); }",
    ),
    ("one/src/d.rs", "pub fn d() {} pub fn alone() { d() }"),
];

#[test]
fn a_circle_and_what_opens_it_are_printed() {
    assert_eq!(
        code(&CIRCLE).circles("one"),
        "one: 1 circles\n
  circle of 3 files, callers first:
    a.rs
    b.rs
    c.rs
  opened by 1 edges of 1 calls:
    c.rs -> a.rs (1)
        c::c -> a::a
  all its edges:
    a.rs -> b.rs (2)
    b.rs -> c.rs (2)
    c.rs -> a.rs (1)\n"
    );
}

#[test]
fn the_order_has_callers_first() {
    assert_eq!(
        code(&CIRCLE).orders("one"),
        "one\n   1  circle: a.rs b.rs c.rs\n   0  lib.rs\n   0  d.rs\n"
    );
}

#[test]
fn a_file_has_callers_and_callees() {
    let code = code(&CIRCLE);
    assert_eq!(
        code.neighbours("b.rs").unwrap(),
        "one/src/b.rs\n  called by\n    a.rs -> b.rs (2)\n        a::a -> b::b x2\n  \
         calls\n    b.rs -> c.rs (2)\n        b::b -> c::c x2\n"
    );
    assert!(code.neighbours("none.rs").is_err());
    assert!(code.neighbours(".rs").is_err());
}

#[test]
fn a_journey_reaches_what_it_calls() {
    let code = code(&CIRCLE);
    let functions = &code.definitions.functions;
    let start = functions.iter().position(|f| f.name == "b::b").unwrap();
    let reached = journey(&code.calls, start, |_| true);
    let names: Vec<&str> = reached
        .iter()
        .map(|&i| functions[i].name.as_str())
        .collect();
    assert_eq!(names, ["a::a", "b::b", "c::c", "d::d"]);
    let text = code.journey("d::alone").unwrap();
    assert!(
        text.starts_with("d::alone reaches 2 functions in 1 files\n"),
        "{text}"
    );
    assert!(code.journey("d::none").is_err());
}

#[test]
fn types_of_other_crates_are_known_and_their_files_are_not_in_the_graph() {
    let code = code(&[
        (
            "one/src/lib.rs",
            "pub struct A; impl A { pub fn push(&self) -> A { A } }",
        ),
        (
            "two/Cargo.toml",
            "[package]\nname = \"two-b\"\n[dependencies]\none.workspace = true\n",
        ),
        ("two/src/main.rs", "mod x; fn main() { x::go(one::A) }"),
        (
            "two/src/x.rs",
            "use one::A; pub fn go(a: A) { a.push().push(); }",
        ),
    ]);
    assert_eq!(
        calls(&code),
        [
            "two_b::main -> x::go",
            "x::go -> A::push",
            "x::go -> A::push"
        ]
    );
    assert_eq!(code.graph("two-b").edges.len(), 1);
    assert_eq!(code.graph("one").edges.len(), 0);
}

use super::*;

fn scan(text: &str) -> RustText {
    RustText::new("crates/a/src/lib.rs", text)
}

#[test]
fn code_and_comments_are_told_apart() {
    let text = scan("let a = 1; // one\n/* two /* deep */ more */ let b;\n");
    assert_eq!(
        text.code.trim_end(),
        format!("let a = 1;{}\n{}let b;", " ".repeat(7), " ".repeat(26))
    );
    assert!(text.comments.contains("// one"));
    assert!(text.comments.contains("/* two /* deep */ more */"));
    assert!(!text.comments.contains("let"));
}

#[test]
fn literals_belong_to_neither() {
    let text = scan(
        "let a = \"x // { \\\" y\"; let b = r#\"z \" {\"#; let c = '{';\n\
         let d = '\\''; let e = br\"{\";",
    );
    assert!(!text.code.contains('{'), "{}", text.code);
    assert!(!text.comments.contains("//"));
    assert!(text.code.contains("let e = b"));
}

#[test]
fn a_lifetime_is_no_character() {
    let text = scan("fn f<'a>(x: &'a str) -> &'a str { x } // end");
    assert!(text.code.contains("fn f<'a>(x: &'a str) -> &'a str { x }"));
    assert!(text.comments.contains("// end"));
}

#[test]
fn a_name_that_ends_in_r_starts_no_raw_string() {
    let text = scan("let for_r = 1; call(for_r, \"a\"); // after");
    assert!(text.code.contains("call(for_r,"));
    assert!(text.comments.contains("// after"));
}

#[test]
fn lines_keep_their_numbers() {
    let text = scan("a\n\"one\ntwo\"\nb");
    assert_eq!(words(&text.code).collect::<Vec<_>>(), [(1, "a"), (4, "b")]);
}

#[test]
fn test_modules_are_found() {
    let text = scan("fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}\n");
    let tests: Vec<bool> = (1..=6).map(|line| text.is_test(line)).collect();
    assert_eq!(tests, [false, true, true, true, true, false]);
}

#[test]
fn what_is_not_for_tests_is_no_test() {
    let text = scan("#[cfg(not(test))]\nfn a() {}\n");
    assert!(!text.is_test(2));
}

#[test]
fn test_folders_and_sibling_files_are_tests() {
    for path in ["crates/a/tests/b.rs", "crates/a/src/b_tests.rs"] {
        assert!(RustText::new(path, "fn a() {}\n").is_test(1), "{path}");
    }
}

#[test]
fn the_end_of_an_item_is_its_brace_or_semicolon() {
    let code = "fn a(x: [u8; 2]) { b(); } mod c;";
    assert_eq!(item_end(code, 0), Some((24, Some(17))));
    assert_eq!(item_end(code, 25), Some((31, None)));
    assert_eq!(item_end("fn a( {", 0), None);
}

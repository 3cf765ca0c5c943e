//! Places in the source where a small fault can be, with the faulty text.
//!
//! Method: the syntax tree of each file is walked. A place is skipped where a switch cannot be:
//! constants, types, patterns, attributes, macros, `const fn`, and tests.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, ExprLit, Lit, Stmt, UnOp};

/// A place with a fault.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// File, relative to the root.
    pub(super) file: PathBuf,
    line: usize,
    column: usize,
    /// Bytes of the expression or statement.
    pub(super) range: Range<usize>,
    /// Text with the fault.
    pub(super) fault: String,
    /// Whether the place is a statement that the fault removes.
    pub(super) is_statement: bool,
    /// Description of the change.
    change: String,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, line, column) = (self.file.display(), self.line, self.column);
        write!(f, "{file}:{line}:{column}: {}", self.change)
    }
}

/// The places in some files, and the texts of these files, by path.
#[derive(Debug, Default)]
pub(super) struct Sources {
    pub(super) sites: Vec<Site>,
    pub(super) texts: BTreeMap<PathBuf, String>,
    /// Modules for tests only, as paths without an ending.
    test_modules: Vec<PathBuf>,
}

impl Sources {
    /// Adds the sources of other files, and then leaves out the modules for tests only.
    fn add(&mut self, other: Self) {
        self.sites.extend(other.sites);
        self.texts.extend(other.texts);
        self.test_modules.extend(other.test_modules);
        let modules = &self.test_modules;
        self.sites.retain(|site| {
            let is_in = |module: &PathBuf| site.file.with_extension("").starts_with(module);
            !modules.iter().any(is_in)
        });
    }
}

/// Finds the places in the parts of a crate.
pub(super) fn find(root: &Path, folder: &Path, parts: &[&str]) -> Result<Sources> {
    let source = folder.join("src");
    let mut files = Vec::new();
    for part in parts {
        let n_before = files.len();
        collect(&source.join(format!("{part}.rs")), &mut files)?;
        collect(&source.join(part), &mut files)?;
        ensure!(
            files.len() > n_before,
            "mutants: the part {part} has no files in {}",
            source.display()
        );
    }
    files.sort();
    let mut sources = Sources::default();
    for file in files {
        let text = fs::read_to_string(&file)?;
        let own = find_in(&text, file.strip_prefix(root).unwrap_or(&file));
        sources.add(own.with_context(|| file.display().to_string())?);
    }
    Ok(sources)
}

/// Finds the places in the text of a file.
pub(super) fn find_in(text: &str, file: &Path) -> syn::Result<Sources> {
    let tree = syn::parse_file(text)?;
    let mut finder = Finder {
        text,
        file: file.to_owned(),
        sites: Vec::new(),
    };
    finder.visit_file(&tree);
    let modules = tree.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if module.content.is_none() && is_test(&module.attrs) => {
            Some(file.with_extension("").join(module.ident.to_string()))
        }
        _ => None,
    });
    Ok(Sources {
        test_modules: modules.collect(),
        sites: finder.sites,
        texts: BTreeMap::from([(file.to_owned(), text.to_owned())]),
    })
}

/// Adds the Rust files at a path, without files and folders of tests.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if path.file_stem().is_some_and(|name| name == "tests") {
        return Ok(());
    }
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            collect(&entry?.path(), files)?;
        }
    } else if path.exists() && path.extension().is_some_and(|ending| ending == "rs") {
        files.push(path.to_owned());
    }
    Ok(())
}

/// Draws places that do not overlap, in the order of files and lines. A place is drawn by a hash of
/// its file and change, so an edit of the sources changes the sample only where the edit is.
pub(super) fn sample(sites: &[Site], n_sites: usize, seed: u64) -> Vec<Site> {
    let mut n_equal: BTreeMap<(&Path, &str), u64> = BTreeMap::new();
    let mut ranked: Vec<(u64, &Site)> = Vec::with_capacity(sites.len());
    for site in sites {
        let (file, change) = (site.file.as_path(), site.change.as_str());
        let occurrence = n_equal.entry((file, change)).or_default();
        *occurrence += 1;
        let bytes = file.as_os_str().as_encoded_bytes().iter();
        let bytes = bytes.chain(&[0]).chain(change.as_bytes());
        let hash = bytes.fold(mixed(seed), |hash, &byte| mixed(hash ^ u64::from(byte)));
        ranked.push((mixed(hash ^ *occurrence), site));
    }
    ranked.sort_by_key(|&(rank, _)| rank);
    let mut drawn: Vec<Site> = Vec::new();
    for (_, site) in ranked {
        let overlaps = |other: &Site| {
            other.file == site.file
                && other.range.start < site.range.end
                && site.range.start < other.range.end
        };
        if drawn.len() < n_sites && !drawn.iter().any(overlaps) {
            drawn.push(site.clone());
        }
    }
    drawn.sort_by(|one, other| (&one.file, one.range.start).cmp(&(&other.file, other.range.start)));
    drawn
}

/// Mixes the bits of a number, as the generator `SplitMix64` (Steele, Lea and Flood 2014).
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Collects the places of a file.
struct Finder<'t> {
    text: &'t str,
    file: PathBuf,
    sites: Vec<Site>,
}

impl Finder<'_> {
    fn text_of(&self, node: &impl syn::spanned::Spanned) -> &str {
        &self.text[node.span().byte_range()]
    }

    /// Returns the text of the line on which a node begins, which is the context of a short node.
    fn line_of(&self, node: &impl syn::spanned::Spanned) -> String {
        let line = node.span().start().line;
        shortened(self.text.lines().nth(line - 1).unwrap_or_default())
    }

    /// Adds a place; `change` describes the fault.
    fn add(&mut self, node: &impl syn::spanned::Spanned, fault: String, change: String) {
        self.push(node, fault, change, false);
    }

    fn push(
        &mut self,
        node: &impl syn::spanned::Spanned,
        fault: String,
        change: String,
        is_statement: bool,
    ) {
        let span = node.span();
        self.sites.push(Site {
            file: self.file.clone(),
            line: span.start().line,
            column: span.start().column + 1,
            range: span.byte_range(),
            fault,
            is_statement,
            change,
        });
    }

    fn binary(&mut self, node: &syn::ExprBinary) {
        let old = self.text_of(&node.op).to_owned();
        let Some(new) = other_operator(&node.op) else {
            return;
        };
        if has_let(&node.left) || has_let(&node.right) {
            return;
        }
        let (left, right) = (self.text_of(&*node.left), self.text_of(&*node.right));
        // The parentheses keep the operands whole where the precedence differs. An assignment has
        // none, because its left side is a place.
        let fault = match new.ends_with('=') && !matches!(new, "==" | "!=" | "<=" | ">=") {
            true => format!("{left} {new} {right}"),
            false => format!("({left}) {new} ({right})"),
        };
        let change = format!("`{}`: `{old}` to `{new}`", shortened(self.text_of(node)));
        self.add(node, fault, change);
    }

    fn literal(&mut self, node: &ExprLit) {
        let old = self.text_of(node).to_owned();
        let new = match &node.lit {
            Lit::Int(_) => format!("{old} + 1"),
            Lit::Float(number) => match number.base10_parse::<f64>() {
                Ok(0.0) => format!("{old} + 1.0"),
                _ => format!("{old} * 1.5"),
            },
            Lit::Bool(value) => (!value.value).to_string(),
            _ => return,
        };
        let change = format!("`{}`: `{old}` to `{new}`", self.line_of(node));
        self.add(node, new, change);
    }

    fn method(&mut self, node: &syn::ExprMethodCall) {
        let old = node.method.to_string();
        let Some(new) = other_method(&old) else {
            return;
        };
        let (whole, name) = (node.span().byte_range(), node.method.span().byte_range());
        let fault = format!(
            "{}{new}{}",
            &self.text[whole.start..name.start],
            &self.text[name.end..whole.end]
        );
        let change = format!("`{}`: `{old}` to `{new}`", shortened(self.text_of(node)));
        self.add(node, fault, change);
    }
}

/// Returns the operator of a fault.
fn other_operator(operator: &BinOp) -> Option<&'static str> {
    Some(match operator {
        BinOp::Add(_) => "-",
        BinOp::Sub(_) => "+",
        BinOp::Mul(_) => "+",
        BinOp::Div(_) => "*",
        BinOp::Rem(_) => "/",
        BinOp::And(_) => "||",
        BinOp::Or(_) => "&&",
        BinOp::BitAnd(_) => "|",
        BinOp::BitOr(_) => "&",
        BinOp::BitXor(_) => "|",
        BinOp::Shl(_) => ">>",
        BinOp::Shr(_) => "<<",
        BinOp::Eq(_) => "!=",
        BinOp::Ne(_) => "==",
        BinOp::Lt(_) => "<=",
        BinOp::Le(_) => "<",
        BinOp::Gt(_) => ">=",
        BinOp::Ge(_) => ">",
        BinOp::AddAssign(_) => "-=",
        BinOp::SubAssign(_) => "+=",
        BinOp::MulAssign(_) => "+=",
        BinOp::DivAssign(_) => "*=",
        BinOp::BitOrAssign(_) => "&=",
        BinOp::BitAndAssign(_) => "|=",
        _ => return None,
    })
}

/// Returns the method of a fault.
fn other_method(name: &str) -> Option<&'static str> {
    Some(match name {
        "min" => "max",
        "max" => "min",
        "any" => "all",
        "all" => "any",
        "is_some" => "is_none",
        "is_none" => "is_some",
        "is_ok" => "is_err",
        "is_err" => "is_ok",
        "first" => "last",
        "last" => "first",
        "floor" => "ceil",
        "ceil" => "floor",
        "ln" => "exp",
        "exp" => "ln",
        "saturating_sub" => "wrapping_sub",
        _ => return None,
    })
}

/// Returns whether an expression contains `let` on the level of its conditions.
fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(node) => has_let(&node.left) || has_let(&node.right),
        Expr::Paren(node) => has_let(&node.expr),
        _ => false,
    }
}

/// Returns a text on one line, cut off if it is long.
fn shortened(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Returns whether attributes mark a test, or code for tests only.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => requires_test(list.tokens.clone()),
        meta => meta.path().is_ident("test"),
    })
}

/// Returns whether a condition of `cfg` contains `test`, except within `not`.
fn requires_test(condition: TokenStream) -> bool {
    let mut is_negated = false;
    condition.into_iter().any(|token| match token {
        TokenTree::Ident(word) => {
            is_negated = word == "not";
            word == "test"
        }
        TokenTree::Group(group) => !is_negated && requires_test(group.stream()),
        _ => false,
    })
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, node: &'ast syn::ItemMod) {
        if !is_test(&node.attrs) {
            visit::visit_item_mod(self, node);
        }
    }

    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        if node.sig.constness.is_none() && !is_test(&node.attrs) {
            visit::visit_item_fn(self, node);
        }
    }

    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        if node.sig.constness.is_none() && !is_test(&node.attrs) {
            visit::visit_impl_item_fn(self, node);
        }
    }

    fn visit_expr_repeat(&mut self, node: &'ast syn::ExprRepeat) {
        self.visit_expr(&node.expr);
    }

    fn visit_arm(&mut self, node: &'ast syn::Arm) {
        if !is_test(&node.attrs) {
            visit::visit_arm(self, node);
        }
    }

    fn visit_field_value(&mut self, node: &'ast syn::FieldValue) {
        if !is_test(&node.attrs) {
            visit::visit_field_value(self, node);
        }
    }

    fn visit_stmt(&mut self, node: &'ast Stmt) {
        // Each kind of expression has its own field of attributes; the text begins with them.
        if self.text_of(node).starts_with("#[cfg(test)]") {
            return;
        }
        if let Stmt::Expr(call @ (Expr::Call(_) | Expr::MethodCall(_)), Some(_)) = node {
            let change = format!("`{}` removed", shortened(self.text_of(call)));
            self.push(node, String::new(), change, true);
        }
        visit::visit_stmt(self, node);
    }

    fn visit_expr(&mut self, node: &'ast Expr) {
        match node {
            Expr::Binary(binary) => self.binary(binary),
            Expr::Lit(literal) => self.literal(literal),
            Expr::MethodCall(call) => self.method(call),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_) | UnOp::Neg(_)) => {
                let inner = self.text_of(&*unary.expr).to_owned();
                let change = format!(
                    "`{}` to `{}`",
                    shortened(self.text_of(unary)),
                    shortened(&inner)
                );
                self.add(unary, inner, change);
            }
            Expr::Continue(next) => {
                let old = self.text_of(next).to_owned();
                let new = old.replacen("continue", "break", 1);
                let change = format!("`{}`: `{old}` to `{new}`", self.line_of(next));
                self.add(next, new, change);
            }
            _ => {}
        }
        visit::visit_expr(self, node);
    }

    // Places where no switch can be.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sites(text: &str) -> Vec<Site> {
        find_in(text, Path::new("a.rs")).unwrap().sites
    }

    #[test]
    fn each_kind_of_place_is_found_with_its_fault() {
        let text =
            "fn f(a: i32) -> i32 {\n  g(a);\n  if a < 3 && !h(a) { a.min(2) } else { -a }\n}";
        let faults: Vec<String> = sites(text).iter().map(|site| site.fault.clone()).collect();
        assert_eq!(
            faults,
            [
                "",
                "(a < 3) || (!h(a))",
                "(a) <= (3)",
                "3 + 1",
                "h(a)",
                "a.max(2)",
                "2 + 1",
                "a"
            ]
        );
        let first = &sites(text)[0];
        assert!(first.is_statement && first.to_string() == "a.rs:2:3: `g(a)` removed");
        let text = "fn f() -> u8 {\n    let a = 1;\n    g(1, 1) + a\n}";
        let [one, other, last] = ["2:13", "3:7", "3:10"].map(|place| {
            let mut sites = sites(text).into_iter().map(|site| site.to_string());
            sites
                .find(|site| site.starts_with(&format!("a.rs:{place}: ")))
                .unwrap()
        });
        assert_eq!(one, "a.rs:2:13: `let a = 1;`: `1` to `1 + 1`");
        assert_eq!(other, "a.rs:3:7: `g(1, 1) + a`: `1` to `1 + 1`");
        assert_ne!(other, last);
    }

    #[test]
    fn places_that_cannot_have_a_switch_are_skipped() {
        let text = "const A: usize = 1 + 2;\nstruct S([u8; 3]);\nconst fn f() -> u8 { 1 + 1 }\n\
            fn g(x: u8) -> [u8; 2] { match x { 1 => [x; 2], _ => [x; 2] } }\n\
            #[cfg(test)]\nmod tests { fn h() -> u8 { 1 } }\n";
        assert!(sites(text).is_empty(), "{:?}", sites(text));
        let text = "fn f(x: u8) -> u8 {\n#[cfg(test)]\nfault::set(1);\n#[cfg(test)]\nlet x = x + 1;\n\
            match x { #[cfg(test)] 1 => !x, _ => x } }\n\
            #[cfg(all(test, unix))]\nmod a { fn h() -> u8 { 1 } }\n";
        assert!(sites(text).is_empty(), "{:?}", sites(text));
        let text = "#[cfg(not(test))]\nfn f(x: u8) -> u8 { !x }\n\
            #[cfg(feature = \"testing\")]\nfn g(x: u8) -> u8 { !x }\n";
        assert_eq!(sites(text).len(), 2, "{:?}", sites(text));
    }

    #[test]
    fn files_and_folders_of_tests_are_skipped() {
        let folder = tool_io::TemporaryFolder::create(&std::env::temp_dir(), "sites").unwrap();
        let source = folder.path().join("src/a");
        fs::create_dir_all(source.join("tests")).unwrap();
        fs::create_dir_all(source.join("b/d")).unwrap();
        for name in ["tests.rs", "tests/c.rs", "b/d.rs", "b/d/e.rs", "b/f.rs"] {
            fs::write(source.join(name), "fn f(a: bool) -> bool { !a }").unwrap();
        }
        let text = "#[cfg(test)]\nmod d;\nmod f;\nfn f(a: bool) -> bool { !a }";
        fs::write(source.join("b.rs"), text).unwrap();
        let missing = find(folder.path(), folder.path(), &["a", "renamed"]);
        assert!(missing.unwrap_err().to_string().contains("renamed"));
        let found = find(folder.path(), folder.path(), &["a"]).unwrap();
        let files: Vec<&Path> = found.sites.iter().map(|site| site.file.as_path()).collect();
        assert_eq!(files, ["src/a/b/f.rs", "src/a/b.rs"].map(Path::new));
        assert_eq!(found.texts[Path::new("src/a/b.rs")], text);
    }

    #[test]
    fn a_sample_is_repeatable_and_does_not_overlap() {
        let text = "fn f(a: i32) -> i32 { a + 1 + 2 + 3 + 4 + 5 }";
        let drawn = |seed| sample(&sites(text), 3, seed);
        let names = |drawn: &[Site]| drawn.iter().map(Site::to_string).collect::<Vec<_>>();
        assert_eq!(names(&drawn(5)), names(&drawn(5)));
        for pair in drawn(5).windows(2) {
            assert!(pair[0].range.end <= pair[1].range.start);
        }
    }

    #[test]
    fn an_edit_changes_the_sample_only_where_it_is() {
        let line = |number: u32| format!("fn f{number}(a: i32) -> i32 {{ a + {number} }}\n");
        let text: String = (0..40).map(line).collect();
        let changes = |text: &str| {
            let drawn = sample(&sites(text), 20, 1).into_iter();
            drawn.map(|site| site.change).collect::<Vec<_>>()
        };
        let (before, after) = (changes(&text), changes(&format!("{}{text}", line(99))));
        let n_kept = before
            .iter()
            .filter(|change| after.contains(change))
            .count();
        assert!(n_kept >= 18, "{n_kept} of {}", before.len());
    }
}

//! The record of a coverage run, in the format of lcov: which lines were run how often.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Nobody reads it, and its authors test what writes it.
const GENERATED: &str = "crates/api/src/generated.rs";

/// What was run of one file, or of many.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// By line, whether it was run, and what stands there.
    lines: BTreeMap<u32, (bool, String)>,
    /// By the line that a function begins on: a generic one is one function.
    functions: BTreeMap<u32, bool>,
    sum: [usize; 4],
}

impl Counts {
    /// How many lines were run, of how many.
    pub(super) fn lines(&self) -> (usize, usize) {
        let run = self.lines.values().filter(|(run, _)| *run).count();
        (self.sum[0] + run, self.sum[1] + self.lines.len())
    }

    /// How many functions were run, of how many.
    pub(super) fn functions(&self) -> (usize, usize) {
        let run = self.functions.values().filter(|run| **run).count();
        (self.sum[2] + run, self.sum[3] + self.functions.len())
    }

    pub(super) fn add(&mut self, other: &Self) {
        let (lines, functions) = (other.lines(), other.functions());
        for (sum, more) in self.sum.iter_mut().zip([lines.0, lines.1, functions.0, functions.1]) {
            *sum += more;
        }
    }

    /// The lines that were not run, with what stands there.
    pub(super) fn missing(&self) -> impl Iterator<Item = (u32, &str)> {
        self.lines.iter().filter(|(_, (run, _))| !run).map(|(line, (_, code))| (*line, code.as_str()))
    }
}

/// The counts of every file of ours that is no test, by its path in the repository.
pub(super) fn read(record: &str, root: &Path) -> Result<BTreeMap<PathBuf, Counts>> {
    let mut files = BTreeMap::new();
    for section in record.split("end_of_record") {
        let Some(path) = section.lines().find_map(|line| line.strip_prefix("SF:")) else { continue };
        let Some(path) = Path::new(path).strip_prefix(root).ok().filter(|path| is_product(path)) else {
            continue;
        };
        let source =
            fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {}", path.display()))?;
        files.insert(path.to_owned(), counts(section, &source));
    }
    Ok(files)
}

fn is_product(path: &Path) -> bool {
    let is_test = |part: &std::ffi::OsStr| part == "tests" || part == "tests.rs" || part == "benches";
    path != Path::new(GENERATED) && !path.iter().any(is_test)
}

/// What one section says of the lines before the tests, which stand at the end of a file.
fn counts(section: &str, source: &str) -> Counts {
    let code: Vec<&str> = source.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).collect();
    let code_at = |line: u32| code.get(line as usize - 1).copied();
    let mut counts = Counts::default();
    let mut names = BTreeMap::new();
    let mut run = BTreeSet::new();
    for entry in section.lines() {
        let Some((kind, values)) = entry.split_once(':') else { continue };
        let Some((first, second)) = values.split_once(',') else { continue };
        match (kind, first.parse::<u32>(), second.parse::<u64>()) {
            ("DA", Ok(line), Ok(count)) => {
                if let Some(code) = code_at(line.max(1)) {
                    counts.lines.insert(line, (count > 0, code.to_owned()));
                }
            }
            ("FN", Ok(line), _) if code_at(line.max(1)).is_some() => drop(names.insert(second, line)),
            ("FNDA", Ok(count), _) if count > 0 => drop(run.insert(second)),
            _ => {}
        }
    }
    for (name, line) in names {
        *counts.functions.entry(line).or_default() |= run.contains(name);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_do_not_count_and_a_generic_function_counts_once() {
        let source = "fn a<T>() {\n    b();\n}\nfn b() {}\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}\n";
        let section = "SF:x\nFN:1,a_u8\nFN:1,a_u16\nFN:4,b\nFN:7,c\nFNDA:0,a_u8\nFNDA:3,a_u16\nFNDA:0,b\nFNDA:1,c\n\
                       DA:1,3\nDA:2,3\nDA:3,3\nDA:4,0\nDA:7,1\n";
        let counts = counts(section, source);
        assert_eq!((counts.lines(), counts.functions()), ((3, 4), (1, 2)));
        assert_eq!(counts.missing().collect::<Vec<_>>(), [(4, "fn b() {}")]);
        let mut sum = Counts::default();
        sum.add(&counts);
        sum.add(&counts);
        assert_eq!((sum.lines(), sum.functions()), ((6, 8), (2, 4)));
    }

    #[test]
    fn only_the_product_is_counted() {
        for (path, is) in [
            ("crates/client/src/call.rs", true),
            ("crates/client/src/upload/tests/trouble.rs", false),
            ("crates/client/src/upload/tests.rs", false),
            ("tests/it/wire.rs", false),
            (GENERATED, false),
        ] {
            assert_eq!(is_product(Path::new(path)), is, "{path}");
        }
    }
}

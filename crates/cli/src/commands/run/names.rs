//! Names of the outputs of a batch: each file has one that no other file has.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::commands::outputs::{harmless, short};
use crate::values::stem_of;

/// A name for each file that no other one has: its stem, else its name, else its path, with a number if need be.
pub(super) fn unique_names(files: &[String]) -> Vec<String> {
    let candidates: Vec<[String; 3]> = files.iter().map(|file| candidates(file)).collect();
    let mut counts: HashMap<(usize, &str), usize> = HashMap::new();
    for candidates in &candidates {
        for (kind, name) in candidates.iter().enumerate() {
            *counts.entry((kind, name)).or_default() += 1;
        }
    }
    let mut used = HashSet::new();
    let unused = |candidates: &[String; 3]| {
        let [_, _, path] = candidates;
        let is_unique = |(kind, name): &(usize, &String)| counts.get(&(*kind, name.as_str())) == Some(&1);
        let name = candidates.iter().enumerate().find(is_unique).map_or(path, |(_, name)| name);
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let unused = std::iter::once(name.clone()).chain(numbered).find(|name| used.insert(name.clone()));
        unused.unwrap_or_else(|| name.clone())
    };
    candidates.iter().map(unused).collect()
}

/// The stem, the name and the path of a file, each as the name of an output.
fn candidates(file: &str) -> [String; 3] {
    let path = file.replace(['/', '\\', '.', ':'], "_");
    let name = Path::new(file).file_name().map_or_else(|| path.clone(), |name| name.to_string_lossy().into());
    let stem = stem_of(file).unwrap_or_else(|| path.clone());
    // Cut before they are told apart: two long names may begin in the same way.
    [stem, name.replace('.', "_"), path].map(|name| short(&harmless(&name)).to_owned())
}

#[cfg(test)]
mod tests {
    use super::unique_names;

    #[test]
    fn every_file_of_a_batch_has_a_name_of_its_own() {
        let files = ["a.png", "b.png", "b.jpg", "x/c.png", "y/c.png"].map(str::to_owned);
        assert_eq!(unique_names(&files), ["a", "b_png", "b_jpg", "x_c_png", "y_c_png"]);
        let files = ["x/y/c.png", "x_y/c.png", "d{e.png", "d_e.jpg"].map(str::to_owned);
        assert_eq!(unique_names(&files), ["x_y_c_png", "x_y_c_png-2", "d_e_png", "d_e_jpg"]);
    }
}

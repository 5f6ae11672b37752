//! Who may call: the requirements of an operation, and the schemes that they name.

use std::collections::{BTreeMap, BTreeSet};

use super::Comparison;
use super::node::{Node, side_by_side};

/// One way to be allowed in: the schemes that are needed together, each with its scopes.
type Way = BTreeMap<String, BTreeSet<String>>;

impl Comparison {
    pub(super) fn security(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let (old_ways, new_ways) = (ways(old), ways(new));
        for way in &old_ways {
            if !new_ways.iter().any(|other| asks_no_more(other, way)) {
                let message = format!("{} is no longer enough: whoever calls with it breaks", told(way));
                self.breaks(&new.place, message);
            }
        }
        for way in &new_ways {
            if !old_ways.iter().any(|other| asks_no_more(other, way)) {
                self.allows(&new.place, format!("{} is enough now; nobody breaks", told(way)));
            }
        }
    }

    pub(super) fn security_schemes(&mut self, old: &Node<'_>, new: &Node<'_>) {
        for (name, was, is) in side_by_side(&old.at("securitySchemes"), &new.at("securitySchemes")) {
            match (was, is) {
                (Some(was), Some(is)) => {
                    let (was, is) = (was.resolved(), is.resolved());
                    self.words(&was, &is, &["description", "bearerFormat"]);
                    self.extensions(&was, &is, &[]);
                    for keyword in ["type", "name", "in", "scheme", "flows", "openIdConnectUrl"] {
                        if was.value.get(keyword) != is.value.get(keyword) {
                            let message =
                                format!("`{keyword}` of {name} differs: every key is sent the wrong way");
                            self.breaks(&is.place.at(keyword), message);
                        }
                    }
                }
                (Some(was), None) => {
                    let message = format!("{name} is gone: whoever uses it to be let in breaks");
                    self.breaks(&was.place, message);
                }
                (None, Some(is)) => self.allows(&is.place, format!("{name} is new; nobody breaks")),
                (None, None) => {}
            }
        }
    }
}

/// No requirement at all is one way: with nothing.
fn ways(requirements: &Node<'_>) -> Vec<Way> {
    let scopes = |way: &Node<'_>, name: &str| way.texts(name).into_iter().map(str::to_owned).collect();
    let ways: Vec<Way> = requirements
        .items()
        .map(|way| way.keys().map(|name| (name.to_owned(), scopes(&way, name))).collect())
        .collect();
    if ways.is_empty() { vec![Way::new()] } else { ways }
}

/// Whoever brings `enough` is let in where `asked` is asked for.
fn asks_no_more(asked: &Way, enough: &Way) -> bool {
    asked.iter().all(|(name, scopes)| enough.get(name).is_some_and(|brought| scopes.is_subset(brought)))
}

fn told(way: &Way) -> String {
    if way.is_empty() {
        return "no authorization".to_owned();
    }
    let scheme = |(name, scopes): (&String, &BTreeSet<String>)| {
        if scopes.is_empty() { name.clone() } else { format!("{name} ({scopes:?})") }
    };
    way.iter().map(scheme).collect::<Vec<_>>().join(" with ")
}

//! Authorization: the requirements of an operation, and the schemes that they name.

use std::collections::{BTreeMap, BTreeSet};

use super::Comparison;
use super::clients::of;
use super::node::{Node, side_by_side};

/// One alternative: the schemes that are needed together, each with its scopes.
type Alternative = BTreeMap<String, BTreeSet<String>>;

impl Comparison {
    pub(super) fn security(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let (old_alternatives, new_alternatives) = (alternatives(old), alternatives(new));
        for alternative in &old_alternatives {
            if !new_alternatives.iter().any(|other| is_no_stricter(other, alternative)) {
                let message = format!(
                    "{} is no longer enough: calls with it are refused",
                    describe_alternative(alternative)
                );
                self.breaks(&new.pointer, message);
            }
        }
        for alternative in &new_alternatives {
            if !old_alternatives.iter().any(|other| is_no_stricter(other, alternative)) {
                self.allows(&new.pointer, format!("{} is enough now", describe_alternative(alternative)));
            }
        }
    }

    /// Compares the authorization of calls that the service makes: a receiver refuses an alternative that is new.
    pub(super) fn callback_security(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let (was, is) = (alternatives(old), alternatives(new));
        for alternative in is.iter().filter(|alternative| !was.contains(alternative)) {
            let message =
                format!("calls may come with {}: receivers refuse them", describe_alternative(alternative));
            self.breaks(&new.pointer, message);
        }
        for alternative in was.iter().filter(|alternative| !is.contains(alternative)) {
            self.allows(
                &new.pointer,
                format!("no call comes with {} any more", describe_alternative(alternative)),
            );
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
                        if is_same(&was, &is, keyword) {
                            if keyword == "name" && was.value[keyword] != is.value[keyword] {
                                let message =
                                    format!("the header of {name} is spelled otherwise: keys are set by it");
                                self.breaks_only(of(&[&["PHP", "Ruby"]]), &is.pointer.at(keyword), message);
                            }
                        } else {
                            let message =
                                format!("`{keyword}` of {name} differs: credentials are sent the wrong way");
                            self.breaks(&is.pointer.at(keyword), message);
                        }
                    }
                }
                (Some(was), None) => {
                    let message = format!("{name} is gone: calls with it are refused");
                    self.breaks(&was.pointer, message);
                }
                (None, Some(is)) => self.allows(&is.pointer, format!("{name} is new")),
                (None, None) => {}
            }
        }
    }
}

/// Names of headers and of HTTP schemes are not case-sensitive.
fn is_same(old: &Node<'_>, new: &Node<'_>, keyword: &str) -> bool {
    let is_header = keyword == "name" && [old, new].iter().all(|scheme| scheme.text("in") == Some("header"));
    match (old.text(keyword), new.text(keyword)) {
        (Some(was), Some(is)) if is_header || keyword == "scheme" => was.eq_ignore_ascii_case(is),
        _ => old.value.get(keyword) == new.value.get(keyword),
    }
}

/// No requirement at all is one alternative: no credentials.
fn alternatives(requirements: &Node<'_>) -> Vec<Alternative> {
    let scopes =
        |alternative: &Node<'_>, name: &str| alternative.texts(name).into_iter().map(str::to_owned).collect();
    let alternatives: Vec<Alternative> = requirements
        .items()
        .map(|alternative| {
            alternative.keys().map(|name| (name.to_owned(), scopes(&alternative, name))).collect()
        })
        .collect();
    if alternatives.is_empty() { vec![Alternative::new()] } else { alternatives }
}

fn is_no_stricter(asked: &Alternative, enough: &Alternative) -> bool {
    asked.iter().all(|(name, scopes)| enough.get(name).is_some_and(|brought| scopes.is_subset(brought)))
}

fn describe_alternative(alternative: &Alternative) -> String {
    if alternative.is_empty() {
        return "no authorization".to_owned();
    }
    let scheme = |(name, scopes): (&String, &BTreeSet<String>)| {
        let list = scopes.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        if scopes.is_empty() { name.clone() } else { format!("{name} ({list})") }
    };
    alternative.iter().map(scheme).collect::<Vec<_>>().join(" with ")
}

#[cfg(test)]
mod tests {
    use super::{Alternative, describe_alternative};

    #[test]
    fn an_alternative_is_described_with_its_scopes() {
        let scopes = ["read", "write"].map(str::to_owned).into();
        let alternative = Alternative::from([("oauth".to_owned(), scopes), ("key".to_owned(), [].into())]);
        assert_eq!(describe_alternative(&alternative), "key with oauth (read, write)");
    }
}

//! Edits of a document, by which the corpus describes its changes.
//!
//! Places are written short: `getBalance/responses/4XX` begins at the operation, `schemas/Balance` and its
//! like at the components, anything else at the root; `JSON` stands for `application/json`, and a slash
//! within a key is `~1`.

use anyhow::{Context, Result, bail, ensure};
use indexmap::IndexMap;
use serde::Deserialize;

use openapi_impact::Tree;

const SECTIONS: [&str; 6] =
    ["schemas", "responses", "parameters", "requestBodies", "headers", "securitySchemes"];

#[derive(Clone, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(super) enum Edit {
    Remove {
        remove: String,
    },
    Set {
        set: String,
        to: Tree,
    },
    Rename {
        rename: String,
        to: String,
    },
    Add {
        add: String,
        item: Tree,
    },
    Drop {
        drop: String,
        item: Tree,
    },
    /// Puts these members, or the items of these indices, first.
    First {
        first: Vec<String>,
        of: String,
    },
    Replace {
        replace: String,
        with: String,
    },
}

impl Edit {
    pub(super) fn apply(&self, document: &mut Tree) -> Result<()> {
        match self {
            Self::Remove { remove } => match parent(document, remove)? {
                (Tree::Map(members), key) => {
                    members.shift_remove(&key).with_context(|| format!("there is no {remove}"))?;
                }
                (Tree::List(items), key) => drop(items.remove(key.parse()?)),
                _ => bail!("{remove} stands in a scalar"),
            },
            Self::Set { set, to } => match parent(document, set)? {
                (Tree::Map(members), key) => drop(members.insert(key, to.clone())),
                (Tree::List(items), key) => items[key.parse::<usize>()?] = to.clone(),
                _ => bail!("{set} stands in a scalar"),
            },
            Self::Rename { rename, to } => {
                let (Tree::Map(members), key) = parent(document, rename)? else {
                    bail!("{rename} has no key")
                };
                ensure!(members.contains_key(&key), "there is no {rename}");
                let renamed = |(name, value)| (if name == key { to.clone() } else { name }, value);
                *members = std::mem::take(members).into_iter().map(renamed).collect();
            }
            Self::Add { add, item } => {
                let (Tree::Map(members), key) = parent(document, add)? else { bail!("{add} has no key") };
                let list = members.entry(key).or_insert_with(|| Tree::List(Vec::new()));
                let Tree::List(items) = list else { bail!("{add} is no list") };
                items.push(item.clone());
            }
            Self::Drop { drop, item } => {
                let Tree::List(items) = find(document, drop)? else { bail!("{drop} is no list") };
                let index = items.iter().position(|other| other == item);
                items.remove(index.with_context(|| format!("the item is not in {drop}"))?);
            }
            Self::First { first, of } => match find(document, of)? {
                Tree::Map(members) => {
                    let mut sorted = IndexMap::new();
                    for key in first {
                        let value = members.shift_remove(key);
                        sorted.insert(key.clone(), value.with_context(|| format!("{of} has no {key}"))?);
                    }
                    sorted.append(members);
                    *members = sorted;
                }
                Tree::List(items) => {
                    let indices =
                        first.iter().map(|index| index.parse()).collect::<Result<Vec<usize>, _>>()?;
                    let others = (0..items.len()).filter(|index| !indices.contains(index));
                    *items =
                        indices.iter().copied().chain(others).map(|index| items[index].clone()).collect();
                }
                Tree::Scalar(_) => bail!("{of} has no order"),
            },
            Self::Replace { replace, with } => {
                let text = serde_json::to_string(document)?;
                ensure!(text.contains(replace), "there is no {replace}");
                *document = serde_json::from_str(&text.replace(replace, with))?;
            }
        }
        Ok(())
    }
}

fn parent<'a>(document: &'a mut Tree, at: &str) -> Result<(&'a mut Tree, String)> {
    let (parent, key) = at.rsplit_once('/').unwrap_or(("", at));
    Ok((find(document, parent)?, spelled(key)))
}

fn find<'a>(document: &'a mut Tree, at: &str) -> Result<&'a mut Tree> {
    let mut keys = at.split('/').filter(|key| !key.is_empty()).map(spelled).peekable();
    let start: Vec<String> = match keys.peek() {
        Some(section) if SECTIONS.contains(&section.as_str()) => vec!["components".to_owned()],
        Some(key) if document.get(key).is_none() => {
            let start = operation(document, key).with_context(|| format!("there is no {key}"))?;
            keys.next();
            start
        }
        _ => Vec::new(),
    };
    start.into_iter().chain(keys).try_fold(document, |value, key| {
        let member = match value {
            Tree::Map(members) => members.get_mut(&key),
            Tree::List(items) => items.get_mut(key.parse::<usize>()?),
            Tree::Scalar(_) => None,
        };
        member.with_context(|| format!("there is no {key} in {at}"))
    })
}

fn spelled(key: &str) -> String {
    if key == "JSON" { "application/json".to_owned() } else { key.replace("~1", "/") }
}

fn operation(document: &Tree, id: &str) -> Option<Vec<String>> {
    document["paths"].members().find_map(|(path, item)| {
        let (method, _) = item.members().find(|(_, operation)| operation["operationId"].is(id))?;
        Some(vec!["paths".to_owned(), path.to_owned(), method.to_owned()])
    })
}

//! Limits: a tighter one refuses requests that were accepted, a looser one lets responses hold what they never held.

use super::clients::{Clients, NEWTYPES, PROGENITOR, SETS, of};
use super::node::{Node, transition};
use super::{Comparison, Direction};

const LOWEST: [&str; 4] = ["minimum", "minLength", "minItems", "minProperties"];
const HIGHEST: [&str; 4] = ["maximum", "maxLength", "maxItems", "maxProperties"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum LimitChange {
    Tighter,
    Looser,
    /// Neither, so worse than both.
    Another,
}

impl Comparison {
    pub(super) fn limits(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        for keyword in LOWEST {
            // A lower limit is the negative of an upper one.
            let change = tighter(bound(old, keyword).map(negative), bound(new, keyword).map(negative));
            self.limit(old, new, keyword, change, direction);
        }
        for keyword in HIGHEST {
            let change = tighter(bound(old, keyword), bound(new, keyword));
            self.limit(old, new, keyword, change, direction);
        }
        let unique = match (old.is_true("uniqueItems"), new.is_true("uniqueItems")) {
            (false, true) => Some(LimitChange::Tighter),
            (true, false) => Some(LimitChange::Looser),
            _ => None,
        };
        self.limit(old, new, "uniqueItems", unique, direction);
        for keyword in ["pattern", "multipleOf"] {
            let change = match (old.value.get(keyword), new.value.get(keyword)) {
                (was, is) if was == is => None,
                (None, _) => Some(LimitChange::Tighter),
                (_, None) => Some(LimitChange::Looser),
                _ => Some(LimitChange::Another),
            };
            self.limit(old, new, keyword, change, direction);
        }
    }

    fn limit(
        &mut self,
        old: &Node<'_>,
        new: &Node<'_>,
        keyword: &str,
        change: Option<LimitChange>,
        direction: Direction,
    ) {
        let Some(change) = change else { return };
        let pointer = &new.pointer.at(keyword);
        let message = transition(&format!("`{keyword}`"), &old.value[keyword], &new.value[keyword]);
        match (change, direction) {
            (LimitChange::Looser, Direction::Request) | (LimitChange::Tighter, Direction::Response) => {
                let clients = with_another_type(old, new, keyword);
                let ends = if clients.is_empty() { "" } else { ": its type differs" };
                self.breaks_only(clients, pointer, format!("{message}{ends}"));
            }
            (LimitChange::Another, Direction::Request) => {
                self.breaks(pointer, format!("{message}: values that were allowed may be refused"));
            }
            (_, Direction::Request) => {
                self.breaks(pointer, format!("{message}: values that were allowed are refused"));
            }
            (_, Direction::Response) => {
                self.breaks(pointer, format!("{message}: code that relies on the limit breaks"));
            }
        }
    }
}

fn with_another_type(old: &Node<'_>, new: &Node<'_>, keyword: &str) -> Clients {
    const OF_STRINGS: [&str; 3] = ["pattern", "minLength", "maxLength"];
    let is_limited = |node: &Node<'_>| OF_STRINGS.iter().any(|keyword| node.has(keyword));
    match keyword {
        "uniqueItems" => of(&[SETS]),
        "minimum" if new.text("type") == Some("integer") => {
            let (was, is) = (old.number("minimum"), new.number("minimum"));
            let is_unsigned = |minimum: Option<f64>| minimum.is_some_and(|minimum| minimum >= 0.0);
            if is_unsigned(was) != is_unsigned(is) {
                of(&[NEWTYPES])
            } else if (was == Some(1.0)) != (is == Some(1.0)) {
                of(&[PROGENITOR])
            } else {
                Clients::new()
            }
        }
        _ if OF_STRINGS.contains(&keyword) && is_limited(old) != is_limited(new) => of(&[NEWTYPES]),
        _ => Clients::new(),
    }
}

/// A limit, and whether it is itself excluded.
type Bound = (f64, bool);

fn bound(schema: &Node<'_>, keyword: &str) -> Option<Bound> {
    let value = schema.number(keyword)?;
    let exclusive = match keyword {
        "minimum" => schema.is_true("exclusiveMinimum"),
        "maximum" => schema.is_true("exclusiveMaximum"),
        "minLength" | "minItems" | "minProperties" if value == 0.0 => return None,
        _ => false,
    };
    Some((value, exclusive))
}

fn negative((value, exclusive): Bound) -> Bound {
    (-value, exclusive)
}

fn tighter(was: Option<Bound>, is: Option<Bound>) -> Option<LimitChange> {
    match (was, is) {
        (None, None) => None,
        (None, Some(_)) => Some(LimitChange::Tighter),
        (Some(_), None) => Some(LimitChange::Looser),
        (Some(was), Some(is)) if was == is => None,
        (Some(was), Some(is)) => {
            let is_tighter = is.0 < was.0 || (is.0 == was.0 && is.1);
            Some(if is_tighter { LimitChange::Tighter } else { LimitChange::Looser })
        }
    }
}

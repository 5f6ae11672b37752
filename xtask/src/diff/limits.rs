//! Limits: a tighter one refuses requests that were accepted, a looser one lets answers hold what they
//! never held.

use serde_json::Value;

use super::node::{Node, shown};
use super::{Comparison, Direction};

const LOWEST: [&str; 4] = ["minimum", "minLength", "minItems", "minProperties"];
const HIGHEST: [&str; 4] = ["maximum", "maxLength", "maxItems", "maxProperties"];

/// What became of a limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Became {
    Tighter,
    Looser,
    /// Neither, so worse than both.
    Another,
}

impl Comparison {
    pub(super) fn limits(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        for keyword in LOWEST {
            // A lower limit is the negative of an upper one.
            let became = tighter(bound(old, keyword).map(negative), bound(new, keyword).map(negative));
            self.limit(old, new, keyword, became, direction);
        }
        for keyword in HIGHEST {
            let became = tighter(bound(old, keyword), bound(new, keyword));
            self.limit(old, new, keyword, became, direction);
        }
        let unique = match (old.is_true("uniqueItems"), new.is_true("uniqueItems")) {
            (false, true) => Some(Became::Tighter),
            (true, false) => Some(Became::Looser),
            _ => None,
        };
        self.limit(old, new, "uniqueItems", unique, direction);
        for keyword in ["pattern", "multipleOf"] {
            let became = match (old.value.get(keyword), new.value.get(keyword)) {
                (was, is) if was == is => None,
                (None, _) => Some(Became::Tighter),
                (_, None) => Some(Became::Looser),
                _ => Some(Became::Another),
            };
            self.limit(old, new, keyword, became, direction);
        }
    }

    fn limit(
        &mut self,
        old: &Node<'_>,
        new: &Node<'_>,
        keyword: &str,
        became: Option<Became>,
        direction: Direction,
    ) {
        let Some(became) = became else { return };
        let place = &new.place.at(keyword);
        let (was, is) = (shown(&old.value[keyword]), shown(&new.value[keyword]));
        let message = format!("`{keyword}` is {is} and no longer {was}");
        match (became, direction) {
            (Became::Looser, Direction::Request) | (Became::Tighter, Direction::Answer) => {
                self.allows(place, format!("{message}; nobody breaks"));
            }
            (_, Direction::Request) => {
                self.breaks(place, format!("{message}: whoever sends what was allowed breaks"));
            }
            (_, Direction::Answer) => {
                self.breaks(place, format!("{message}: whoever counts on the limit breaks"));
            }
        }
    }
}

/// A limit, and whether it is itself excluded.
type Bound = (f64, bool);

fn bound(schema: &Node<'_>, keyword: &str) -> Option<Bound> {
    let value = schema.value.get(keyword).and_then(Value::as_f64)?;
    let exclusive = match keyword {
        "minimum" => schema.is_true("exclusiveMinimum"),
        "maximum" => schema.is_true("exclusiveMaximum"),
        // Nothing is shorter than nothing.
        "minLength" | "minItems" | "minProperties" if value == 0.0 => return None,
        _ => false,
    };
    Some((value, exclusive))
}

fn negative((value, exclusive): Bound) -> Bound {
    (-value, exclusive)
}

/// Compares two upper limits.
fn tighter(was: Option<Bound>, is: Option<Bound>) -> Option<Became> {
    match (was, is) {
        (None, None) => None,
        (None, Some(_)) => Some(Became::Tighter),
        (Some(_), None) => Some(Became::Looser),
        (Some(was), Some(is)) if was == is => None,
        (Some(was), Some(is)) => {
            let is_tighter = is.0 < was.0 || (is.0 == was.0 && is.1);
            Some(if is_tighter { Became::Tighter } else { Became::Looser })
        }
    }
}

//! Sweeps: inputs with several values, such as `angle=10..90:10`.

use std::collections::BTreeMap;

use inferstore::Decimal;
use inferstore::types::{Descriptor, DescriptorType, ModelVersioning};

use crate::failure::{Failure, Result};

const MAX_VALUES: usize = 10_000;

pub(super) type Sweep = (String, Vec<Decimal>);

/// Returns true for a sweep: `10..90:10` is 10, 20 and so on up to 90; the default step is 1.
pub(super) fn is_sweep(text: &str) -> bool {
    bounds(text).is_some()
}

pub(super) fn is_number(input: &Descriptor) -> bool {
    matches!(input.type_, Some(DescriptorType::Int | DescriptorType::Float)) || input.num_config.is_some()
}

fn bounds(text: &str) -> Option<(Decimal, Decimal, Decimal)> {
    let (first, rest) = text.split_once("..")?;
    let (last, step) = rest.split_once(':').unwrap_or((rest, "1"));
    Some((first.parse().ok()?, last.parse().ok()?, step.parse().ok()?))
}

/// The inputs among these texts that are sweeps over a declared number, with their values.
pub(super) fn sweeps(texts: &BTreeMap<String, String>, version: &ModelVersioning) -> Result<Vec<Sweep>> {
    let declared = |name: &String| version.input_format.as_ref().and_then(|inputs| inputs.get(name));
    let given = texts.iter().filter(|(name, _)| declared(name).is_some_and(is_number));
    let sweeps = given.filter_map(|(name, text)| Some((name, text, bounds(text)?)));
    let values = sweeps.map(|(name, text, (first, last, step))| {
        let is_endless = step <= Decimal::default();
        let mut values = Vec::new();
        let mut next = first;
        while next <= last && !is_endless && values.len() <= MAX_VALUES {
            let following = &next + &step;
            values.push(std::mem::replace(&mut next, following));
        }
        if values.is_empty() || values.len() > MAX_VALUES {
            return Err(Failure::usage(format!("{name}={text} is no sweep of 1 to {MAX_VALUES} values"))
                .with_hint(format!("write FIRST..LAST:STEP, such as {name}=10..90:10")));
        }
        Ok((name.clone(), values))
    });
    values.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_is_two_bounds_with_a_step() {
        for text in ["10..90:10", "0.1..0.5:0.1", "-3..3"] {
            assert!(is_sweep(text), "{text}");
        }
        for text in ["..", "a..b", "1..", "../1", "10"] {
            assert!(!is_sweep(text), "{text}");
        }
    }
}

//! Built-in models of a fresh service, one for each kind in the API document, in the format of published models.

use std::collections::BTreeSet;

use inferstore_models::{Limits, built_in, largest_picture};

use super::{ModelSpec, NewModel};
use crate::accounts::Account;
use crate::clock::Moment;
use crate::{Error, Result};

macro_rules! files {
    ($($name:literal)*) => { &[$(include_str!(concat!("models/", $name, ".json"))),*] };
}

const FILES: &[&str] = files! {
    "image-blending"
    "color-harmonization"
    "face-detection"
    "feature-matching"
    "background-replacement"
    "face-mesh"
    "semantic-low-light-enhancement"
    "low-light-enhancement"
    "super-resolution"
    "super-resolution-alt"
    "haze-removal"
    "video-edge-map"
    "background-removal"
    "image-to-anime"
    "color-extraction"
};

/// Returns the built-in models. Those of external nodes declare no largest picture, which only the nodes know.
pub(crate) fn built_in_models(
    operator: &Account,
    limits: &Limits,
    excluded: &BTreeSet<String>,
    now: Moment,
) -> Result<Vec<NewModel>> {
    let runners = built_in();
    let model = |text: &&str| {
        let spec = ModelSpec::from_json(text)?;
        let (mut inputs, outputs) = spec.checked().map_err(|why| Error::new(spec.publishing(), why))?;
        let runner = runners.iter().find(|runner| runner.kind() == spec.id);
        let is_run = !excluded.contains(&spec.id);
        let largest = runner.filter(|_| is_run).and_then(|runner| largest_picture(&**runner, limits));
        inputs.limit_pictures(largest);
        let mut model = spec.with_formats((inputs, outputs), operator, now)?;
        model.is_verified = runner.is_some();
        Ok(model)
    };
    FILES.iter().map(model).collect()
}

#[cfg(test)]
mod tests {
    use inferstore_models::{Input, Inputs};

    use super::*;
    use crate::accounts::{AccountId, AccountState, OPERATOR, Scope};
    use crate::catalog::format::{Descriptor, Format, Kind};
    use crate::catalog::sample_at;

    fn operator() -> Account {
        Account {
            id: AccountId(1),
            username: OPERATOR.to_owned(),
            scope: Scope::Organization,
            wallet_address: String::new(),
            bucket: String::new(),
            state: AccountState::Active,
        }
    }

    fn specs() -> Result<Vec<(ModelSpec, Format, Format)>> {
        let read = |text: &&str| {
            let spec = ModelSpec::from_json(text)?;
            let (inputs, outputs) = spec.checked().map_err(|why| Error::new("checking a model", why))?;
            Ok((spec, inputs, outputs))
        };
        FILES.iter().map(read).collect()
    }

    #[test]
    fn every_built_in_model_can_be_published_and_says_what_it_takes() -> Result<()> {
        let models = built_in_models(&operator(), &Limits::default(), &BTreeSet::new(), Moment(0))?;
        assert_eq!(models.len(), 15);
        assert!(models.iter().all(|model| model.is_official && model.is_public));
        for (spec, inputs, outputs) in specs()? {
            for (name, descriptor) in inputs.parameters() {
                let says = (&descriptor.title, &descriptor.description);
                assert!(says.0.is_some() && says.1.is_some(), "{}: {name}", spec.id);
                assert!(!descriptor.samples.is_empty(), "{}: {name}", spec.id);
                let is_file = descriptor.kind == Kind::File;
                assert_eq!(descriptor.default.is_some(), !is_file, "{}: {name}", spec.id);
                let is_option = descriptor.kind == Kind::Options;
                let labeled = if is_option { descriptor.samples.len() } else { 0 };
                assert_eq!(descriptor.labels.len(), labeled, "{}: {name}", spec.id);
            }
            let is_titled = outputs.parameters().all(|(_, descriptor)| descriptor.title.is_some());
            assert!(is_titled, "{}", spec.id);
        }
        Ok(())
    }

    #[test]
    fn every_built_in_model_runs_on_its_samples() -> Result<()> {
        let runners = built_in();
        for (spec, inputs, _) in specs()? {
            let sample = |descriptor: &Descriptor| {
                let text = descriptor.samples.first()?.text()?;
                match descriptor.kind {
                    Kind::File => {
                        let path = text.strip_prefix("https://storage.inferstore.example")?;
                        Some(Input::File(sample_at(path)?.bytes.to_vec()))
                    }
                    _ => Some(Input::Text(text)),
                }
            };
            let given: Option<Inputs> = inputs
                .parameters()
                .map(|(name, descriptor)| Some((name, sample(descriptor)?)))
                .collect::<Option<Vec<_>>>()
                .map(Inputs::from_iter);
            let runner = runners.iter().find(|runner| runner.kind() == spec.id);
            let ended = runner.zip(given).map(|(runner, inputs)| runner.run(&inputs, &Limits::default()));
            assert!(matches!(ended, Some(Ok(_))), "{}: {ended:?}", spec.id);
        }
        Ok(())
    }

    #[test]
    fn a_kind_that_is_left_to_nodes_declares_no_largest_picture() -> Result<()> {
        let excluded = BTreeSet::from(["haze-removal".to_owned()]);
        for model in built_in_models(&operator(), &Limits::default(), &excluded, Moment(0))? {
            let inputs = Format::kept(&model.version.input_format)?;
            let limits: Vec<_> = inputs
                .parameters()
                .filter(|(_, descriptor)| descriptor.kind == Kind::File)
                .map(|(_, descriptor)| descriptor.max_pixels)
                .collect();
            let is_declared = limits.iter().all(|limit| limit.is_some_and(|limit| limit >= 24_000_000));
            assert_eq!(is_declared, model.id != "haze-removal", "{}: {limits:?}", model.id);
        }
        Ok(())
    }

    #[test]
    fn the_background_that_is_replaced_is_not_the_new_one() -> Result<()> {
        let replacement = specs()?.into_iter().find(|(spec, ..)| spec.id == "background-replacement");
        let described: Vec<String> = replacement
            .iter()
            .flat_map(|(_, inputs, _)| inputs.parameters())
            .map(|(name, descriptor)| format!("{name}: {}", descriptor.title.clone().unwrap_or_default()))
            .collect();
        assert_eq!(described, ["background_path: Original image", "input: New background"]);
        Ok(())
    }
}

//! The declared inputs and outputs of a model, for people.

use inferstore::by_position;
use inferstore::types::{Descriptor, DescriptorType, ModelVersioning};
use inferstore_console::call::quoted;

use crate::table::{Fit, Table};

/// Samples go no further than this.
const SAMPLES: usize = 12;

/// The most MIME types that a cell of a table lists.
const TYPES: usize = 3;

pub(crate) fn table(version: &ModelVersioning) -> Table {
    let mut table = Table::new([
        ("", Fit::Keep),
        ("NAME", Fit::Keep),
        ("TYPE", Fit::Keep),
        ("REQUIRED", Fit::Drop(1)),
        ("SAMPLES", Fit::Shorten),
    ]);
    for (side, (name, descriptor)) in parameters(version) {
        let required = match descriptor.required {
            _ if side == "out" => "",
            Some(true) => "yes",
            _ => "no",
        };
        table.add([side, name.as_str(), &kind(descriptor, TYPES), required, &samples(descriptor)]);
    }
    table
}

/// The inputs and outputs in their order, each beside `in` or `out`.
fn parameters(version: &ModelVersioning) -> impl Iterator<Item = (&'static str, (&String, &Descriptor))> {
    let inputs = by_position(version.input_format.as_ref()).into_iter().map(|parameter| ("in", parameter));
    let outputs = by_position(version.output_format.as_ref()).into_iter().map(|parameter| ("out", parameter));
    inputs.chain(outputs)
}

/// Returns the description of each parameter, in the words of the model: `in` or `out`, and the text.
pub(crate) fn explained(version: &ModelVersioning) -> Vec<(&'static str, String)> {
    parameters(version).map(|(side, (name, descriptor))| (side, words(name, descriptor))).collect()
}

fn words(name: &str, descriptor: &Descriptor) -> String {
    let mut limits = kind(descriptor, usize::MAX);
    if descriptor.type_ == Some(DescriptorType::Options) {
        let choices = descriptor.samples.iter().flatten().map(|word| {
            let label = descriptor.labels.as_ref().and_then(|labels| labels.get(word.as_str()));
            label.map_or_else(|| word.to_string(), |label| format!("{word} = {label}"))
        });
        limits = format!("one of: {}", choices.collect::<Vec<_>>().join("; "));
    }
    if let Some(default) = &descriptor.default {
        limits.push_str(&format!("; the form begins with {default}"));
    }
    let explanation = explanation(descriptor);
    let separator = if explanation.is_empty() { "" } else { ": " };
    format!("{name} ({limits}){separator}{explanation}")
}

/// Returns the title and the description of a parameter as sentences, in the words of the model.
pub(crate) fn explanation(descriptor: &Descriptor) -> String {
    let texts = [&descriptor.title, &descriptor.description].into_iter().flatten();
    texts.map(|text| format!("{}.", text.trim_end_matches('.'))).collect::<Vec<_>>().join(" ")
}

/// A command that runs the model, with a sample for every required input.
pub(crate) fn example(id: &str, version: &ModelVersioning) -> String {
    let inputs = by_position(version.input_format.as_ref());
    let words = inputs.into_iter().filter(|(_, input)| input.required == Some(true)).map(|(name, input)| {
        let sample = input.default.as_ref().or_else(|| input.samples.iter().flatten().next());
        let value = match input.type_ {
            Some(DescriptorType::File) => "@FILE",
            _ => sample.map_or("VALUE", |sample| sample.as_str()),
        };
        format!(" {}", quoted(&format!("{name}={value}")))
    });
    format!("inferstore run {}{}", quoted(id), words.collect::<String>())
}

/// Returns the type and the limits of a parameter. Of more MIME types than `most_types`, the first stands for all.
fn kind(descriptor: &Descriptor, most_types: usize) -> String {
    let mut text = descriptor.type_.as_ref().map_or("any", DescriptorType::as_str).to_owned();
    if let Some(patterns) = &descriptor.mime_type {
        text += &match &patterns[..] {
            [first, ..] if patterns.len() > most_types => format!(" {first}, …"),
            all => format!(" {}", all.join(", ")),
        };
    }
    if let Some(range) = &descriptor.num_config {
        let bounds = [("from", &range.min), ("to", &range.max), ("step", &range.step)].into_iter();
        text.extend(bounds.filter_map(|(word, bound)| Some(format!(" {word} {}", bound.as_ref()?))));
    }
    text + &largest_picture(descriptor)
}

/// Returns the largest size of a picture as the end of a description, if it is declared.
pub(crate) fn largest_picture(descriptor: &Descriptor) -> String {
    let pixels = descriptor.max_pixels.map(|pixels| pixels as f64 / 1e6);
    pixels.map_or_else(String::new, |pixels| format!(", at most {pixels} megapixels"))
}

fn samples(descriptor: &Descriptor) -> String {
    let samples: Vec<&str> = descriptor.samples.iter().flatten().map(|sample| sample.as_str()).collect();
    let shown = samples.iter().take(SAMPLES).copied().collect::<Vec<_>>().join(" | ");
    if samples.len() > SAMPLES { format!("{shown} | …") } else { shown }
}

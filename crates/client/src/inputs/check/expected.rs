//! What a parameter takes, in words.

use inferstore_api::types::{Descriptor, DescriptorType};

use super::super::shown;
use super::number::Range;
use super::{kind_of, samples};

/// What to give for a parameter, as the object of "give …".
pub(super) fn expectation(descriptor: &Descriptor) -> String {
    let kind = kind_of(descriptor);
    match kind {
        DescriptorType::File => match accepted_types(descriptor) {
            Some(types) => format!("a file to upload ({types}), or its URL"),
            None => "a file to upload, or its URL".to_owned(),
        },
        DescriptorType::Int => format!("a whole number{}", bounds(descriptor)),
        DescriptorType::Float => format!("a number{}", bounds(descriptor)),
        DescriptorType::Options if samples(descriptor).is_empty() => "one of its options".to_owned(),
        DescriptorType::Options => {
            let options: Vec<String> = samples(descriptor).iter().map(ToString::to_string).collect();
            format!("one of {}", shown::listed(&options, shown::quoted))
        }
        DescriptorType::String => "a text".to_owned(),
        _ => "a value".to_owned(),
    }
}

fn accepted_types(descriptor: &Descriptor) -> Option<String> {
    let types = descriptor.mime_type.as_deref().filter(|types| !types.is_empty())?;
    Some(shown::listed(types, shown::name))
}

fn bounds(descriptor: &Descriptor) -> String {
    let range = Range::of(descriptor);
    match (range.min, range.max) {
        (Some(min), Some(max)) => format!(" from {min} to {max}"),
        (Some(min), None) => format!(" of {min} or more"),
        (None, Some(max)) => format!(" of {max} or less"),
        (None, None) => String::new(),
    }
}

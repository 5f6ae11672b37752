//! URLs in the inputs and outputs of tasks, after the address of object storage has changed.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::{RawValue, to_raw_value};

use super::Locations;
use crate::Error;
use crate::catalog::{Format, Kind};

/// Rewrites URLs of this service's files to its current address, because a former address is not served.
pub(crate) fn with_current_urls<'a>(
    locations: &Locations,
    format: &str,
    parameters: &'a str,
) -> Result<Cow<'a, str>, Error> {
    let mut current = Cow::Borrowed(parameters);
    if !locations.have_moved() {
        return Ok(current);
    }
    let unreadable = |cause| Error::new("reading the parameters of a task", cause);
    let format = Format::kept(format)?;
    // Raw values, so that no number loses a digit.
    let values: BTreeMap<String, &RawValue> = serde_json::from_str(parameters).map_err(unreadable)?;
    for (name, value) in values {
        if format.get(&name).is_some_and(|descriptor| descriptor.kind == Kind::File)
            && let Ok(url) = serde_json::from_str::<String>(value.get())
            && let Some(url) = locations.current_url(&url)
        {
            let url = to_raw_value(&url).map_err(unreadable)?;
            current = Cow::Owned(current.replace(value.get(), url.get()));
        }
    }
    Ok(current)
}

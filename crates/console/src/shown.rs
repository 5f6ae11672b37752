//! Values of tasks for people: pictures, videos, sounds, colors, text and JSON, each as what it is.

use inferstore::types::Descriptor;
use maud::{Markup, html};
use serde_json::Value;

use crate::form::text_of;
use crate::pages::titled;
use crate::state::App;

/// A longer list of colors is shown as text.
const MAX_COLORS: usize = 64;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Picture,
    Video,
    Sound,
    Other,
}

impl Kind {
    /// By the extension of a name or a URL, else by what the model declares.
    pub(crate) fn of_name(name: &str, declared: Option<&[String]>) -> Self {
        let path = name.split(['?', '#']).next().unwrap_or_default();
        let by_name = mime_guess::from_path(path).first().map(|mime| mime.essence_str().to_owned());
        let mime = by_name.or_else(|| declared?.first().cloned()).unwrap_or_default();
        Self::of_mime(&mime)
    }

    pub(crate) fn of_mime(mime: &str) -> Self {
        match mime.split('/').next() {
            // A browser would run it.
            _ if mime.starts_with("image/svg") => Self::Other,
            Some("image") => Self::Picture,
            Some("video") => Self::Video,
            Some("audio") => Self::Sound,
            _ => Self::Other,
        }
    }
}

/// A file at this address of the console.
pub(crate) fn media(kind: Kind, address: &str, name: &str) -> Markup {
    html! {
        @match kind {
            Kind::Picture => img src=(address) alt=(name) loading="lazy";,
            Kind::Video => video src=(address) controls muted loop playsinline aria-label=(name) {},
            Kind::Sound => audio src=(address) controls aria-label=(name) {},
            Kind::Other => {},
        }
    }
}

/// Whether the text is the URL of a file.
pub(crate) fn is_url(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| text.starts_with("https://") || text.starts_with("http://"))
}

fn kind_of(url: &str, descriptor: Option<&Descriptor>) -> Kind {
    Kind::of_name(url, descriptor.and_then(|descriptor| descriptor.mime_type.as_deref()))
}

/// Whether the value is a picture.
pub(crate) fn picture<'a>(value: &'a Value, descriptor: Option<&Descriptor>) -> Option<&'a str> {
    is_url(value).filter(|url| kind_of(url, descriptor) == Kind::Picture)
}

/// One value with its name.
pub(crate) fn value(app: &App, name: &str, value: &Value, descriptor: Option<&Descriptor>) -> Markup {
    html! {
        figure.value {
            figcaption { (titled(name)) @if let Some(url) = is_url(value) { (save(app, url, name)) } }
            @if let Some(url) = is_url(value) {
                @let kind = kind_of(url, descriptor);
                @if kind == Kind::Other { p.muted { "A file that is not shown here." } }
                (media(kind, &app.link(url, &file_name(url, name)), &titled(name)))
            } @else if let Some(colors) = colors(value) {
                (swatches(&colors))
            } @else if value.is_object() || value.is_array() {
                pre tabindex="0" aria-label=(titled(name)) { (serde_json::to_string_pretty(value).unwrap_or_default()) }
            } @else {
                @let text = text_of(value);
                @if text.lines().count() > 1 || text.len() > 200 { pre tabindex="0" aria-label=(titled(name)) { (text) } } @else { p.text { (text) } }
            }
        }
    }
}

/// The link that downloads a file.
pub(crate) fn save(app: &App, url: &str, name: &str) -> Markup {
    html! { a.save href={ (app.link(url, &file_name(url, name))) "?download" } aria-label={ "Download " (titled(name)) } { "Download" } }
}

/// The name of the field with the extension of the file.
fn file_name(url: &str, field: &str) -> String {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let last = path.rsplit('/').next().unwrap_or_default();
    match last.rsplit_once('.') {
        Some((_, extension)) if extension.len() <= 5 => format!("{field}.{extension}"),
        _ => field.to_owned(),
    }
}

/// The colors, if the value is a list of nothing else: `#2f4e3f, #606499`.
fn colors(value: &Value) -> Option<Vec<&str>> {
    let texts: Vec<&str> = match value {
        Value::String(text) => text.split([',', ' ', '\n', ';']).filter(|word| !word.is_empty()).collect(),
        Value::Array(items) => items.iter().map(Value::as_str).collect::<Option<_>>()?,
        _ => return None,
    };
    let is_color = |text: &&str| {
        let digits = text.strip_prefix('#').unwrap_or_default();
        matches!(digits.len(), 3 | 6 | 8) && digits.chars().all(|c| c.is_ascii_hexdigit())
    };
    (!texts.is_empty() && texts.len() <= MAX_COLORS && texts.iter().all(is_color)).then_some(texts)
}

fn swatches(colors: &[&str]) -> Markup {
    html! {
        ul.swatches {
            @for color in colors {
                li { svg viewBox="0 0 10 10" preserveAspectRatio="none" aria-hidden="true" { rect width="10" height="10" fill=(color) {} } code { (color) } }
            }
        }
    }
}

/// Input beside output. With JavaScript and pictures of one shape, it becomes a slider.
pub(crate) fn compare(before: (&str, &str), after: (&str, &str)) -> Markup {
    html! {
        div.compare {
            figure { figcaption { "Input" } img src=(before.0) alt={ "Input: " (titled(before.1)) }; }
            figure { figcaption { "Output" } img src=(after.0) alt={ "Output: " (titled(after.1)) }; }
            input type="range" min="0" max="100" value="50" aria-label="How much of the input is shown" hidden;
        }
    }
}

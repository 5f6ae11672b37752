//! Rendering of values of tasks: pictures, videos, sounds, colors, text and JSON.

use inferstore::reqwest::Url;
use inferstore::types::{Descriptor, DescriptorType};
use maud::{Markup, html};
use serde_json::Value;

use crate::files::name_of;
use crate::form::title_of;
use crate::state::App;
use crate::text::segment;

const MAX_COLORS: usize = 64;

/// Returns the MIME type of a file: by the extension of its name or URL, else from the declaration.
pub(crate) fn mime_of(name: &str, declared: Option<&Descriptor>) -> String {
    let by_name = mime_guess::from_path(name_of(name)).first().map(|mime| mime.essence_str().to_owned());
    by_name.or_else(|| declared?.mime_type.as_ref()?.first().cloned()).unwrap_or_default()
}

/// Returns true for a picture that runs no code, unlike SVG. Few browsers show TIFF themselves.
pub(crate) fn is_picture(mime: &str) -> bool {
    mime.starts_with("image/") && !mime.starts_with("image/svg")
}

pub(crate) fn media(mime: &str, address: &str, name: &str) -> Markup {
    html! {
        @if is_picture(mime) && mime != "image/tiff" {
            img src=(address) alt=(name) loading="lazy";
        } @else if mime.starts_with("video/") {
            video src=(address) controls muted loop playsinline aria-label=(name) {}
        } @else if mime.starts_with("audio/") {
            audio src=(address) controls aria-label=(name) {}
        } @else {
            p.muted { "A file that is not shown here." }
        }
    }
}

/// Renders a file with a URL; a link if its host is not the service's.
pub(crate) fn file(app: &App, url: &str, descriptor: Option<&Descriptor>, name: &str) -> Markup {
    let address = app.link(url);
    html! {
        @if app.is_own(url) {
            (media(&mime_of(url, descriptor), &address, name))
        } @else {
            p { a href=(address) { "Show the file from " (host_of(url).unwrap_or_default()) } }
        }
    }
}

fn host_of(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let host = url.host_str()?;
    Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

/// Returns the URL of a file, if the value is one; a declared text never is.
pub(crate) fn url_of<'a>(value: &'a Value, descriptor: Option<&Descriptor>) -> Option<&'a str> {
    let is_text = descriptor.is_some_and(|one| one.type_ == Some(DescriptorType::String));
    value
        .as_str()
        .filter(|_| !is_text)
        .filter(|text| text.starts_with("https://") || text.starts_with("http://"))
}

pub(crate) fn picture<'a>(app: &App, value: &'a Value, descriptor: Option<&Descriptor>) -> Option<&'a str> {
    let is_shown = |mime: &str| is_picture(mime) && mime != "image/tiff";
    url_of(value, descriptor).filter(|url| is_shown(&mime_of(url, descriptor)) && app.is_own(url))
}

pub(crate) fn value(
    app: &App,
    name: &str,
    value: &Value,
    descriptor: Option<&Descriptor>,
    file_name: &str,
) -> Markup {
    let pretty = || serde_json::to_string_pretty(value).unwrap_or_default();
    let text = value.as_str().map_or_else(pretty, str::to_owned);
    let url = url_of(value, descriptor);
    let title = title_of(name, descriptor);
    html! {
        figure.value {
            figcaption { (title) @if let Some(url) = url { (save(&app.link(url), file_name)) } }
            @if let Some(url) = url {
                (file(app, url, descriptor, &title))
            } @else if let Some(colors) = colors(&text) {
                ul.swatches {
                    @for color in colors {
                        li {
                            svg viewBox="0 0 10 10" preserveAspectRatio="none" aria-hidden="true" {
                                rect width="10" height="10" fill=(color) {}
                            }
                            code { (color) }
                        }
                    }
                }
            } @else if text.contains('\n') || text.len() > 200 {
                pre tabindex="0" role="group" aria-label=(title) { (text) }
            } @else {
                p.text { (text) }
            }
        }
    }
}

pub(crate) fn save(address: &str, name: &str) -> Markup {
    html! {
        a.save href={ (address) "?download=" (segment(name)) } aria-label={ "Download " (name) } { "Download" }
    }
}

/// Returns the file name of an output: `china-haze-removal.png` for `china.jpg`; one of several has its field, too.
pub(crate) fn output_name(
    input: Option<&str>,
    model: Option<&str>,
    (field, is_one_of_several): (&str, bool),
    url: &str,
) -> String {
    let stem = input.map(|name| name.rsplit_once('.').map_or(name, |(stem, _)| stem));
    let extension = name_of(url).rsplit_once('.').map_or("", |(_, extension)| extension);
    let words: Vec<_> = [stem, model, Some(field).filter(|_| is_one_of_several)]
        .into_iter()
        .flatten()
        .filter(|word| !word.is_empty())
        .collect();
    let base = if words.is_empty() { field.to_owned() } else { words.join("-") };
    if extension.is_empty() { base } else { format!("{base}.{extension}") }
}

fn colors(text: &str) -> Option<Vec<&str>> {
    let words = text.split([',', ';', ' ', '\n', '"', '[', ']']).filter(|word| !word.is_empty());
    let words: Vec<_> = words.collect();
    let is_color = |word: &&str| {
        let digits = word.strip_prefix('#').unwrap_or_default();
        matches!(digits.len(), 3 | 6 | 8) && digits.chars().all(|c| c.is_ascii_hexdigit())
    };
    (!words.is_empty() && words.len() <= MAX_COLORS && words.iter().all(is_color)).then_some(words)
}

/// Renders a picture of the service beside its input. JavaScript adds zoom, and a slider for pictures of equal shape.
pub(crate) fn compare(before: Option<&str>, after: &str, file_name: &str) -> Markup {
    let picture = |label: &str, address: &str| {
        html! { figure { figcaption { (label) } img src=(address) alt=(label) draggable="false"; } }
    };
    html! {
        div.compare {
            div.stage {
                @if let Some(before) = before { (picture("Input", before)) }
                (picture("Output", after))
            }
            @if before.is_some() {
                input type="range" min="0" max="100" value="50" aria-label="Share of the input" hidden;
            }
            p.tools {
                (save(after, file_name))
                a href={ "/?use=" (after.trim_start_matches("/view/")) } { "Use in another run" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{host_of, output_name};

    #[test]
    fn an_output_is_named_after_its_input_and_its_model() {
        let url = "http://127.0.0.1/outputs/output.png?a=b.c";
        for (input, model, name) in [
            (Some("china.jpg"), Some("haze-removal"), "china-haze-removal.png"),
            (None, Some("haze-removal"), "haze-removal.png"),
            (None, None, "output_image.png"),
        ] {
            assert_eq!(output_name(input, model, ("output_image", false), url), name);
        }
        let several = ("output_hue", true);
        assert_eq!(output_name(Some("a.png"), Some("hues"), several, url), "a-hues-output_hue.png");
    }

    #[test]
    fn a_file_is_said_to_be_where_its_request_goes() {
        for (url, host) in [
            ("https://files.example/a.png", Some("files.example")),
            ("https://files.example@tracker.example:8443/a.png", Some("tracker.example:8443")),
            ("https://tracker.example\\@files.example/a.png", Some("tracker.example")),
            ("http://[::1]?a", Some("[::1]")),
            ("https://", None),
        ] {
            assert_eq!(host_of(url).as_deref(), host, "{url}");
        }
    }
}

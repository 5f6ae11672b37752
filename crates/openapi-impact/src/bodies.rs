//! Bodies of requests and of responses, by status and media type; headers of responses.

use super::clients::{OPENAPI_GENERATOR, PROGENITOR, RESPONSE_UNIONS, of};
use super::node::{Node, headers_side_by_side, side_by_side};
use super::parameters::serialization_by_default;
use super::{Comparison, Direction};

impl Comparison {
    pub(super) fn request_body(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        match (old.get("requestBody"), new.get("requestBody")) {
            (Some(old), Some(new)) => {
                self.component_names(&old, &new);
                let (old, new) = (old.resolved(), new.resolved());
                self.words(&old, &new, &["description"]);
                self.extensions(&old, &new, &[]);
                self.required_to_send(&old, &new, "body");
                self.content(&old, &new, direction);
            }
            (Some(old), None) => self.breaks(&old.pointer, "the body is gone: code that uses it breaks"),
            (None, Some(new)) if new.resolved().is_true("required") => {
                self.breaks(&new.pointer, "a body is required now: requests without one are refused");
            }
            (None, _) => {}
        }
    }

    pub(super) fn responses(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        for (status, was, is) in side_by_side(old, new) {
            match (was, is) {
                (Some(was), Some(is)) => self.response(&was, &is, direction),
                (Some(was), None) => self.status_gone(status, &was, old, new, direction),
                (None, Some(is)) => self.status_new(status, &is, old, direction),
                (None, None) => {}
            }
        }
    }

    fn status_gone(
        &mut self,
        status: &str,
        was: &Node<'_>,
        old: &Node<'_>,
        new: &Node<'_>,
        direction: Direction,
    ) {
        let covering = range(new, status).filter(|_| !is_success(status) || new.has("2XX"));
        if let Some(is) = covering {
            self.response(was, &is, direction);
            let range = is.pointer.keys().last().cloned().unwrap_or_default();
            let message =
                format!("{status} is no longer declared; {range} covers it: code that names it breaks");
            let clients = if is_success(status) { of(&[&["orval"]]) } else { of(&[&["Rust", "orval"]]) };
            self.breaks_only(clients, &was.pointer, message);
            return;
        }
        // A success is one of those that are still declared. A failure may be any.
        let is_narrower = |other: &&str| status == "2XX" && other.starts_with('2') && !old.has(other);
        let narrower: Vec<&str> = new.keys().filter(is_narrower).collect();
        if narrower.is_empty() {
            let message = format!("the response {status} is gone: code that reads it by its status breaks");
            self.breaks(&was.pointer, message);
        } else {
            let message =
                format!("of {status} only {} is left: the type of the status differs", narrower.join(", "));
            self.breaks_only(of(&[&["orval"]]), &was.pointer, message);
        }
    }

    fn status_new(&mut self, status: &str, is: &Node<'_>, old: &Node<'_>, direction: Direction) {
        // It came under the range before, and must still be what that promised.
        let was = range(old, status);
        if let Some(was) = &was {
            self.response(was, is, direction);
        }
        if is_success(status) && was.is_none() && old.keys().any(is_success) {
            let message =
                format!("the response {status} is new: code that knows only the other successes breaks");
            self.breaks(&is.pointer, message);
        } else {
            self.allows(&is.pointer, format!("the response {status} is declared now"));
        }
    }

    fn response(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        self.component_names(old, new);
        let (old, new) = (&old.resolved(), &new.resolved());
        self.words(old, new, &["description", "links"]);
        self.extensions(old, new, &[]);
        self.content(old, new, direction);
        for (name, was, is) in headers_side_by_side(&old.at("headers"), &new.at("headers")) {
            match (was, is) {
                (Some(was), Some(is)) => {
                    self.received(&format!("header {name}"), &was.resolved(), &is.resolved());
                }
                (Some(was), None) => {
                    self.breaks(
                        &was.pointer,
                        format!("the header {name} is gone: code that reads it breaks"),
                    );
                }
                (None, Some(is)) => self.allows(&is.pointer, format!("the header {name} is new")),
                (None, None) => {}
            }
        }
    }

    fn encoding(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        for (name, was, is) in side_by_side(&old.at("encoding"), &new.at("encoding")) {
            let (was, is) = (was.unwrap_or_else(|| old.at(name)), is.unwrap_or_else(|| new.at(name)));
            self.extensions(&was, &is, &[]);
            let pointer = is.pointer.clone();
            let same = |keyword: &str| was.value.get(keyword) == is.value.get(keyword);
            let [was, is] = [&was, &is].map(|part| serialization_by_default(part, "form"));
            if !same("contentType") || !same("headers") || was != is {
                let effect = if direction == Direction::Request {
                    "requests mean something else"
                } else {
                    "code that reads it breaks"
                };
                self.breaks(&pointer, format!("the part {name} is written otherwise: {effect}"));
            }
        }
    }

    pub(super) fn content(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        let (old_types, new_types) = (old.at("content"), new.at("content"));
        let is_replaced = old_types.keys().count() > 0 && !old_types.keys().any(|known| new_types.has(known));
        for (media_type, was, is) in side_by_side(&old_types, &new_types) {
            match (was, is) {
                (Some(was), Some(is)) => {
                    self.words(&was, &is, &["example", "examples"]);
                    self.extensions(&was, &is, &[]);
                    self.encoding(&was, &is, direction);
                    self.schema(&was.at("schema"), &is.at("schema"), direction);
                }
                (Some(was), None) if direction == Direction::Request => {
                    self.breaks(
                        &was.pointer,
                        format!("{media_type} is no longer accepted: such requests are refused"),
                    );
                }
                (Some(was), None) => {
                    self.breaks(
                        &was.pointer,
                        format!("{media_type} does not come any more: code that reads it breaks"),
                    );
                }
                (None, Some(is))
                    if direction == Direction::Request && new.at("content").keys().count() > 1 =>
                {
                    let message =
                        format!("{media_type} is accepted too: there is no code for two media types");
                    self.breaks_only(of(&[PROGENITOR]), &is.pointer, message);
                }
                (None, Some(is)) if direction == Direction::Request => {
                    self.allows(&is.pointer, format!("{media_type} is accepted now"));
                }
                (None, Some(is)) if is_replaced => {
                    self.allows(&is.pointer, format!("{media_type} comes now"));
                }
                (None, Some(is)) => {
                    let message = format!(
                        "{media_type} is possible too: the response is of a union type, or a wider one"
                    );
                    self.breaks_only(of(&[RESPONSE_UNIONS]), &is.pointer, message);
                }
                (None, None) => {}
            }
        }
        if direction == Direction::Request {
            self.first_media_type(&old_types, &new_types);
        }
    }

    /// openapi-generator reads only the first media type of a request. One of a form makes its properties
    /// arguments, in place of one body.
    fn first_media_type(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let (Some(was), Some(is)) = (old.keys().next(), new.keys().next()) else { return };
        // One that is gone breaks every client, and is reported as such.
        if was != is && new.has(was) {
            let message = format!("{is} comes first and no longer {was}: methods have other arguments");
            self.breaks_only(of(&[OPENAPI_GENERATOR]), &new.pointer, message);
        }
    }
}

fn is_success(status: &str) -> bool {
    status.starts_with('2')
}

/// The declared range that the status falls under: `4XX` for `404`, else the default.
fn range<'a>(responses: &Node<'a>, status: &str) -> Option<Node<'a>> {
    let range = format!("{}XX", status.get(..1)?);
    let declared = Some(range).filter(|range| range != status).and_then(|range| responses.get(&range));
    declared.or_else(|| responses.get("default").filter(|_| status != "default"))
}

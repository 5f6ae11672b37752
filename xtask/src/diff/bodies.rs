//! What travels in bodies: of requests and of answers, by status and media type; and headers.

use super::node::{Node, side_by_side};
use super::{Comparison, Direction};

impl Comparison {
    pub(super) fn request_body(&mut self, old: &Node<'_>, new: &Node<'_>) {
        match (old.get("requestBody"), new.get("requestBody")) {
            (Some(old), Some(new)) => {
                self.component_names(&old, &new);
                let (old, new) = (old.resolved(), new.resolved());
                self.words(&old, &new, &["description"]);
                self.extensions(&old, &new, &[]);
                self.required_to_send(&old, &new, "body");
                self.content(&old, &new, Direction::Request);
            }
            (Some(old), None) => self.breaks(&old.place, "the body is gone: whoever sends one breaks"),
            (None, Some(new)) if new.resolved().is_true("required") => {
                self.breaks(&new.place, "a body is required now: whoever sends none breaks");
            }
            (None, Some(new)) => self.allows(&new.place, "a body may be sent now; nobody breaks"),
            (None, None) => {}
        }
    }

    pub(super) fn responses(&mut self, old: &Node<'_>, new: &Node<'_>) {
        for (status, was, is) in side_by_side(old, new) {
            match (was, is) {
                (Some(was), Some(is)) => {
                    self.component_names(&was, &is);
                    self.response(&was.resolved(), &is.resolved());
                }
                (Some(was), None) => {
                    let message =
                        format!("the answer {status} is gone: code that reads it by its status breaks");
                    self.breaks(&was.place, message);
                }
                (None, Some(is)) => {
                    // It came under the range before, and must still be what that promised.
                    if let Some(was) = range(old, status) {
                        self.response(&was.resolved(), &is.resolved());
                    }
                    let message = format!("the answer {status} is declared now; nobody breaks");
                    self.allows(&is.place, message);
                }
                (None, None) => {}
            }
        }
    }

    fn response(&mut self, old: &Node<'_>, new: &Node<'_>) {
        self.words(old, new, &["description", "links"]);
        self.extensions(old, new, &[]);
        self.content(old, new, Direction::Answer);
        for (name, was, is) in side_by_side(&old.at("headers"), &new.at("headers")) {
            match (was, is) {
                (Some(was), Some(is)) => self.response_header(name, &was.resolved(), &is.resolved()),
                (Some(was), None) => {
                    let message = format!("the header {name} is gone: whoever reads it breaks");
                    self.breaks(&was.place, message);
                }
                (None, Some(is)) => {
                    self.allows(&is.place, format!("the header {name} is new; nobody breaks"));
                }
                (None, None) => {}
            }
        }
    }

    fn response_header(&mut self, name: &str, old: &Node<'_>, new: &Node<'_>) {
        self.words(old, new, &["description", "example", "examples"]);
        self.deprecation(old, new);
        match (old.is_true("required"), new.is_true("required")) {
            (true, false) => {
                let message = format!("the header {name} may be absent: whoever relies on it breaks");
                self.breaks(&new.place, message);
            }
            (false, true) => {
                self.allows(&new.place, format!("the header {name} is always there now; nobody breaks"));
            }
            _ => {}
        }
        self.schema(&old.at("schema"), &new.at("schema"), Direction::Answer);
    }

    /// The media types of a body.
    pub(super) fn content(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        for (media_type, was, is) in side_by_side(&old.at("content"), &new.at("content")) {
            match (was, is, direction) {
                (Some(was), Some(is), _) => {
                    self.words(&was, &is, &["example", "examples"]);
                    self.extensions(&was, &is, &[]);
                    self.schema(&was.at("schema"), &is.at("schema"), direction);
                }
                (Some(was), None, Direction::Request) => {
                    let message = format!("{media_type} is no longer accepted: whoever sends it breaks");
                    self.breaks(&was.place, message);
                }
                (Some(was), None, Direction::Answer) => {
                    let message = format!("{media_type} is no longer answered: whoever reads it breaks");
                    self.breaks(&was.place, message);
                }
                (None, Some(is), _) => {
                    self.allows(&is.place, format!("{media_type} is possible too now; nobody breaks"));
                }
                (None, None, _) => {}
            }
        }
    }
}

/// The declared range that the status falls under: `4XX` for `404`, else the default.
fn range<'a>(responses: &Node<'a>, status: &str) -> Option<Node<'a>> {
    let range = format!("{}XX", status.get(..1)?);
    responses.get(&range).or_else(|| responses.get("default"))
}
